package webhook_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

func TestValidateQueueing(t *testing.T) {
	create := func(version, kind, spec string) ask {
		return ask{
			path: "/validate-kueue-x-k8s-io-v1beta2-" + strings.ToLower(kind),
			new: strings.NewReplacer("VERSION", version, "KIND", kind, "SPEC", spec).Replace(
				"{apiVersion: kueue.x-k8s.io/VERSION, kind: KIND, metadata: {name: a}, spec: {SPEC}}"),
		}
	}
	quota := func(rest string) string {
		return "resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, " + rest + "}]}]}]"
	}
	const at = "spec.resourceGroups[0].flavors[0].resources[0]."
	reviews{
		"Good": {
			why: "in the older version",
			ask: create("v1beta1", "ClusterQueue", "cohort: c, "+quota("nominalQuota: 1")),
		},
		"NegativeQuota": {
			why:    "less than nothing",
			ask:    create("v1beta1", "ClusterQueue", quota("nominalQuota: -1")),
			refuse: []string{at + "nominalQuota", "use 0 or more"},
		},
		"Lending": {
			why:    "lends what it has not",
			ask:    create("v1beta2", "ClusterQueue", "cohortName: c, "+quota("nominalQuota: 1, lendingLimit: 2")),
			refuse: []string{at + "lendingLimit", "at most 1"},
		},
		"OldWords": {
			why:    "a user of v1beta1 has never heard of cohortName",
			ask:    create("v1beta1", "ClusterQueue", quota("nominalQuota: 1, lendingLimit: 1")),
			refuse: []string{"set spec.cohort or remove lendingLimit"},
		},
		"Cycle": {
			why:    "b is below a already",
			ask:    create("v1beta1", "Cohort", "parentName: b"),
			refuse: []string{"spec.parentName", "a -> b -> a"},
		},
		"Chain":      {why: "c is below no one", ask: create("v1beta2", "Cohort", "parentName: c")},
		"LocalQueue": {why: "it leads somewhere", ask: create("v1beta2", "LocalQueue", "clusterQueue: cq")},
		"Flavor": {
			why:    "no label looks like that",
			ask:    create("v1beta2", "ResourceFlavor", "nodeLabels: {a b: c}"),
			refuse: []string{"spec.nodeLabels"},
		},
		"Workload": {
			why: "a hand-made one is checked like any", ask: create(
				"v1beta1",
				"Workload",
				"podSets: [{name: main, count: 1, template: {spec: {containers: [{name: c, resources: {requests: {cpu: -1}}}]}}}]",
			),
			refuse: []string{"spec.podSets[0].template.spec.containers[0].resources.requests[cpu]"},
		},
	}.run(t, &v1beta2.Cohort{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1beta2.CohortSpec{ParentName: "a"}})
}

// TestLimitsOfTheSlackQueueDoNotStay: whoever sets them is told that they follow the nodes, and the
// controller that does so is not.
func TestLimitsOfTheSlackQueueDoNotStay(t *testing.T) {
	queue := func(name, limit string) string {
		return "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: " + name + "}, spec: {cohortName: c, resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 8" + limit + "}]}]}]}}"
	}
	handlers := serveWith(t, webhook.Options{SlackQueue: "slack"}, nil, nil)
	for name, tc := range map[string]struct {
		why      string
		old, new string
		manager  string
		told     bool
	}{
		"set":        {"it is put back", queue("slack", ""), queue("slack", ", lendingLimit: 4"), "", true},
		"other":      {"it is put back", queue("slack", ", lendingLimit: 2"), queue("slack", ", lendingLimit: 4"), "", true},
		"taken out":  {"a manifest has none, and nodes are missing", queue("slack", ", lendingLimit: 4"), queue("slack", ""), "kubectl", true},
		"new":        {"one that is made with it", "", queue("slack", ", lendingLimit: 4"), "", true},
		"respelled":  {"it is the same", queue("slack", ", lendingLimit: 4"), queue("slack", ", lendingLimit: 4000m"), "", false},
		"unchanged":  {"nothing is put back", queue("slack", ""), queue("slack", ""), "", false},
		"controller": {"it is the one who does so", queue("slack", ""), queue("slack", ", lendingLimit: 4"), "mlbatch-slack", false},
		"of a team":  {"limits of other queues stay", queue("blue", ""), queue("blue", ", lendingLimit: 4"), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := send(
				t,
				handlers,
				ask{path: "/validate-kueue-x-k8s-io-v1beta2-clusterqueue", old: tc.old, new: tc.new, manager: tc.manager},
			)
			if told := strings.Contains(
				strings.Join(got.Warnings, ""),
				"do not stay",
			); !got.Allowed ||
				told != tc.told {
				t.Errorf("allowed %v, warnings %q: %s", got.Allowed, got.Warnings, tc.why)
			}
		})
	}
}

func TestMovedQueue(t *testing.T) {
	queue := func(to string) string {
		return "{apiVersion: kueue.x-k8s.io/v1beta1, kind: LocalQueue, metadata: {name: q, namespace: blue}, spec: {clusterQueue: " + to + "}}"
	}
	reviews{
		"Moved": {
			why:    "its workloads hold quota of the old one",
			ask:    ask{path: "/validate-kueue-x-k8s-io-v1beta2-localqueue", old: queue("a"), new: queue("b")},
			refuse: []string{"spec.clusterQueue", `from "a"`},
		},
	}.run(t)
}

func TestConvert(t *testing.T) {
	old := `{apiVersion: kueue.x-k8s.io/v1beta1, kind: ClusterQueue, metadata: {name: q, uid: u}, spec: {cohort: c}}`
	review := &apiextensionsv1.ConversionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "ConversionReview"},
		Request: &apiextensionsv1.ConversionRequest{
			UID: "r", DesiredAPIVersion: "kueue.x-k8s.io/v1beta2",
			Objects: []runtime.RawExtension{{Raw: jsonOf(t, old)}},
		},
	}
	post(t, serve(t, nil)["/convert"], review)
	if r := review.Response; r.Result.Status != metav1.StatusSuccess || len(r.ConvertedObjects) != 1 {
		t.Fatalf("conversion failed: %+v", r)
	}
	got, want := &v1beta2.ClusterQueue{}, &v1beta2.ClusterQueue{
		TypeMeta:   metav1.TypeMeta{APIVersion: "kueue.x-k8s.io/v1beta2", Kind: "ClusterQueue"},
		ObjectMeta: metav1.ObjectMeta{Name: "q", UID: "u"}, Spec: v1beta2.ClusterQueueSpec{CohortName: "c"},
	}
	if err := json.Unmarshal(review.Response.ConvertedObjects[0].Raw, got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
