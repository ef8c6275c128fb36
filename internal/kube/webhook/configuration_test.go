package webhook_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	apiwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// mayAdmit is an authorizer by which only the controller may write the status
// of Workloads.
func mayAdmit(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser().GetName() == "controller" && a.GetVerb() == "update" && a.GetAPIGroup() == "kueue.x-k8s.io" &&
		a.GetResource() == "workloads" && a.GetSubresource() == "status" && a.GetNamespace() == "blue" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionDeny, "", nil
}

// called reports whether the API server calls a webhook about a write, as far
// as its conditions go.
func called(
	t *testing.T,
	h *admissionregistrationv1.ValidatingWebhook,
	write *admission.VersionedAttributes,
) bool {
	t.Helper()
	return matches(t, matcher(h), write)
}

// mutatingNamed is the mutating webhook of a name, as it is installed where mlbatch's scheduler has these names.
func mutatingNamed(t *testing.T, name string, schedulers []string) admissionregistrationv1.MutatingWebhook {
	t.Helper()
	mutating, _ := webhook.Configurations(kinds.All(), webhook.AtURL("https://127.0.0.1:1/", nil), schedulers)
	for _, h := range mutating.Webhooks {
		if h.Name == name {
			return h
		}
	}
	t.Fatalf("there is no webhook %s", name)
	return admissionregistrationv1.MutatingWebhook{}
}

// hookNamed has the conditions of a mutating webhook, as called judges them.
func hookNamed(t *testing.T, name string) *admissionregistrationv1.ValidatingWebhook {
	t.Helper()
	return &admissionregistrationv1.ValidatingWebhook{
		Name: "x", MatchConditions: mutatingNamed(t, name, jobs.SchedulerNames()).MatchConditions,
	}
}

// matcher evaluates the conditions of a webhook.
func matcher(h *admissionregistrationv1.ValidatingWebhook) matchconditions.Matcher {
	compiler := cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	return apiwebhook.NewValidatingWebhookAccessor("", "", h).GetCompiledMatcher(compiler)
}

// matches is called with the matcher at hand, which takes long to make.
func matches(t testing.TB, m matchconditions.Matcher, write *admission.VersionedAttributes) bool {
	t.Helper()
	result := m.Match(t.Context(), write, nil, authorizer.AuthorizerFunc(mayAdmit))
	if result.Error != nil {
		t.Fatalf("a condition that fails would refuse the write: %v", result.Error)
	}
	return result.Matches
}

// written is a write as admission sees it: of an object, or of a part of it, by a
// user who calls itself by some name; was is empty for a new object.
func written(t testing.TB, part, name, by, is, was string) *admission.VersionedAttributes {
	t.Helper()
	parse := func(text string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		return o
	}
	operation := admission.Create
	var options runtime.Object = &metav1.CreateOptions{FieldManager: by}
	object := parse(is)
	var old *unstructured.Unstructured
	gvk := object.GroupVersionKind()
	a := &admission.VersionedAttributes{VersionedObject: admission.NewLazyObject(object), VersionedKind: gvk}
	if was != "" {
		operation, old, options = admission.Update, parse(was), &metav1.UpdateOptions{FieldManager: by}
		a.VersionedOldObject = admission.NewLazyObject(old)
	}
	a.Attributes = admission.NewAttributesRecord(
		object,
		old,
		gvk,
		"blue",
		object.GetName(),
		schema.GroupVersionResource{
			Group:    gvk.Group,
			Version:  gvk.Version,
			Resource: "any",
		},
		part,
		operation,
		options,
		false,
		&user.DefaultInfo{Name: name},
	)
	return a
}

func TestConditions(t *testing.T) {
	const child = "ownerReferences: [{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, name: w, uid: u, controller: true}], "
	j := func(metadata, spec string) string {
		return "{apiVersion: batch/v1, kind: Job, metadata: {" + metadata + "name: j}, spec: {" + spec + "}}"
	}
	w := func(metadata, spec string) string {
		return "{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {" + metadata + "name: w}, spec: {" + spec + "}}"
	}
	wl := func(metadata, rest string) string {
		return "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {" + metadata + "name: w}, " + rest + "}"
	}
	quota := func(asks, gets string) string {
		return "spec: {podSets: [{name: main, template: {spec: {containers: [{resources: {requests: {cpu: " + asks + "}}}]}}}]}, " +
			"status: {conditions: [{type: QuotaReserved, status: 'True'}], admission: {podSetAssignments: [{name: main, resourceUsage: {cpu: " + gets + "}}]}}"
	}
	const parts = "components: [{template: {kind: Pod}}]"
	cases := map[string]struct {
		why, webhook, user string
		by                 string // who the write says it is by
		part               string // "status", or the object
		is, was            string
		want               bool
	}{
		"UserJob": {
			why:     "a new Job is checked",
			webhook: "vjob.team",
			user:    "alice",
			is:      j("", ""),
			want:    true,
		},
		"ComponentJob": {
			why:     "the Job of an AppWrapper starts with it",
			webhook: "vjob.team",
			user:    "controller",
			is:      j(child, ""),
		},
		"PretendedChild": {
			why:     "a user is not believed",
			webhook: "vjob.team",
			user:    "alice",
			is:      j(child, ""),
			want:    true,
		},
		"StartJob": {
			why:     "the controller's own step costs no call",
			webhook: "vjob.team",
			user:    "controller",
			by:      webhook.FieldOwner,
			is:      j("", "suspend: false"),
			was:     j("", "suspend: true"),
		},
		"AdminChangesJob": {
			why:     "an administrator's apply is checked as anybody's: it would stop a job that runs",
			webhook: "vjob.team",
			user:    "controller",
			by:      "kubectl-client-side-apply",
			is:      j("", "suspend: false"),
			was:     j("", "suspend: true"),
			want:    true,
		},
		"UserStartsJob": {
			why:     "a user's does",
			webhook: "vjob.team",
			user:    "alice",
			is:      j("", "suspend: false"),
			was:     j("", "suspend: true"),
			want:    true,
		},
		"RelabelJob": {
			why:     "a new queue is checked, whichever client writes it",
			webhook: "vjob.queued",
			user:    "controller",
			is:      j("labels: {a: b}, ", ""),
			was:     j("", ""),
			want:    true,
		},

		"NewWrapper": {
			why:     "a new AppWrapper is checked",
			webhook: "vappwrapper",
			user:    "controller",
			is:      w("", parts),
			want:    true,
		},
		"StartWrapper": {
			why:     "the controller's own step costs no call",
			webhook: "vappwrapper",
			user:    "controller",
			by:      webhook.FieldOwner,
			is:      w("", parts),
			was:     w("", "suspend: true, "+parts),
		},
		"UserStarts": {
			why:     "a user's does",
			webhook: "vappwrapper",
			user:    "alice",
			is:      w("", parts),
			was:     w("", "suspend: true, "+parts),
			want:    true,
		},
		"OtherTemplate": {
			why:     "what never changes is checked, whichever client writes it",
			webhook: "vappwrapper",
			user:    "controller",
			is:      w("", "components: [{template: {kind: Job}}]"),
			was:     w("", parts),
			want:    true,
		},
		"DeclaredPodSets": {
			why:     "pod sets never change either",
			webhook: "vappwrapper",
			user:    "controller",
			is:      w("", "components: [{template: {kind: Pod}, podSets: [{path: template}]}]"),
			was:     w("", parts),
			want:    true,
		},
		"PodSetInfos": {
			why:     "the admission may add to pods",
			webhook: "vappwrapper",
			user:    "controller",
			by:      webhook.FieldOwner,
			is:      w("", "components: [{template: {kind: Pod}, podSetInfos: [{labels: {a: b}}]}]"),
			was:     w("", parts),
		},

		"OurWorkload": {
			why:     "we write what is right",
			webhook: "vworkload",
			user:    "controller",
			by:      webhook.FieldOwner,
			is:      wl("", ""),
		},
		"OthersWorkload": {
			why:     "others may not",
			webhook: "vworkload",
			user:    "admin",
			is:      wl("", ""),
			want:    true,
		},
		"OthersSpec": {
			why:     "others may not",
			webhook: "vworkload",
			user:    "admin",
			by:      "kubectl-edit",
			is:      wl("", "spec: {priority: 1}"),
			was:     wl("", ""),
			want:    true,
		},
		"OthersFinalizer": {
			why:     "an end waits for no webhook",
			webhook: "vworkload",
			user:    "admin",
			is:      wl("", "spec: {priority: 1}"),
			was:     wl("finalizers: [a/b], ", "spec: {priority: 1}"),
		},
		"OurStatus": {
			why:     "a plan costs no call",
			webhook: "vworkloadstatus",
			user:    "controller",
			by:      webhook.FieldOwner,
			is:      wl("", "status: {clusterName: a}"),
			was:     wl("", ""),
		},
		"SameWords": {
			why:     "nothing is written anew",
			webhook: "vworkloadkept",
			user:    "admin",
			is:      wl("labels: {a: b}, ", quota("1", "2")),
			was:     wl("", quota("1", "2")),
		},
		"OtherWords": {
			why:     "whether it means the same is asked",
			webhook: "vworkloadkept",
			user:    "admin",
			is:      wl("", quota("1000m", "2")),
			was:     wl("", quota("1", "2")),
			want:    true,
		},
		"OurOtherWords": {
			why:     "whichever client writes",
			webhook: "vworkloadkept",
			part:    "status",
			user:    "controller",
			by:      webhook.FieldOwner,
			is:      wl("", quota("1", "2000m")),
			was:     wl("", quota("1", "2")),
			want:    true,
		},
		"WaitingOtherWords": {
			why:     "nothing was decided on it",
			webhook: "vworkloadkept",
			user:    "admin",
			is:      wl("", strings.Replace(quota("1000m", "2"), "True", "False", 1)),
			was:     wl("", strings.Replace(quota("1", "2"), "True", "False", 1)),
		},
		"OthersCheck": {
			why:     "checks are answered by others",
			webhook: "vworkloadstatus",
			user:    "check",
			is:      wl("", "status: {admissionChecks: [{name: a, state: Ready}]}"),
			was:     wl("", "status: {admissionChecks: [{name: a, state: Pending}]}"),
			want:    true,
		},
		"OthersFirstCheck": {
			why:     "a status begins somewhere",
			webhook: "vworkloadstatus",
			user:    "check",
			is:      wl("", "status: {admissionChecks: [{name: a, state: Ready}]}"),
			was:     wl("", ""),
			want:    true,
		},
		"OthersAdmission": {
			why:     "what it says has to add up",
			webhook: "vworkloadstatus",
			user:    "check",
			is:      wl("", "status: {admission: {clusterQueue: a}}"),
			was:     wl("", ""),
			want:    true,
		},
		"OthersNoAdmission": {
			why:     "so has what is left",
			webhook: "vworkloadstatus",
			user:    "check",
			is:      wl("", ""),
			was:     wl("", "status: {admission: {clusterQueue: a}}"),
			want:    true,
		},
		"OthersCondition": {
			why:     "there is no rule for conditions beyond the schema",
			webhook: "vworkloadstatus",
			user:    "driver",
			is: wl(
				"",
				"status: {admission: {clusterQueue: a}, conditions: [{type: Finished, status: \"True\"}]}",
			),
			was: wl("", "status: {admission: {clusterQueue: a}}"),
		},
		"FinalizerOfQueue": {
			why:     "ends wait for no webhook",
			webhook: "vclusterqueue",
			user:    "admin",
			is:      wl("", ""),
			was:     wl("finalizers: [a/b], ", ""),
		},
		"ChangedClusterQueue": {
			why:     "new quotas are checked, whichever client writes them",
			webhook: "vclusterqueue",
			user:    "controller",
			by:      webhook.FieldOwner,
			is:      wl("", "spec: {}"),
			was:     wl("", ""),
			want:    true,
		},
	}
	_, validating := webhook.Configurations(
		kinds.All(),
		webhook.AtURL("https://127.0.0.1:1/", nil),
		jobs.SchedulerNames(),
	)
	hooks := map[string]*admissionregistrationv1.ValidatingWebhook{}
	for i := range validating.Webhooks {
		hooks[validating.Webhooks[i].Name] = &validating.Webhooks[i]
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := called(
				t,
				hooks[tc.webhook+".mlbatch.dev"],
				written(t, tc.part, tc.user, tc.by, tc.is, tc.was),
			); got != tc.want {
				t.Errorf("%s: called is %v, want %v", tc.why, got, tc.want)
			}
		})
	}
}

// TestScope holds the promise that clusters do not depend on us where we have
// nothing to say.
func TestScope(t *testing.T) {
	team := labels.Set{"kubernetes.io/metadata.name": "blue", "mlbatch-team-namespace": "true"}
	other := labels.Set{"kubernetes.io/metadata.name": "lab"}
	system := labels.Set{"kubernetes.io/metadata.name": "kube-system"}
	queued := labels.Set{"kueue.x-k8s.io/queue-name": "q"}
	cases := map[string]struct {
		why               string
		namespace, object labels.Set
		want              int
	}{
		"TeamJob":         {why: "every Job of a team is ours", namespace: team, want: 1},
		"TeamQueuedJob":   {why: "and is asked about once", namespace: team, object: queued, want: 1},
		"OtherJob":        {why: "others' Jobs do not depend on us", namespace: other},
		"OtherQueuedJob":  {why: "unless they ask for a queue", namespace: other, object: queued, want: 1},
		"SystemQueuedJob": {why: "the cluster's own never do", namespace: system, object: queued},
	}
	_, validating := webhook.Configurations(
		kinds.All(),
		webhook.AtURL("https://127.0.0.1:1", nil),
		jobs.SchedulerNames(),
	)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := 0
			for _, h := range validating.Webhooks {
				created := slices.Contains(h.Rules[0].Operations, admissionregistrationv1.Create)
				if created && h.Rules[0].Resources[0] == "jobs" && selects(t, h.NamespaceSelector, tc.namespace) &&
					selects(t, h.ObjectSelector, tc.object) {
					got++
				}
			}
			if got != tc.want {
				t.Errorf("%s: %d webhooks are called, want %d", tc.why, got, tc.want)
			}
		})
	}
}

// TestElsewhere: objects of kinds that are made here are looked at also where no queue is asked for,
// once, and are written all the same while nobody can look.
func TestElsewhere(t *testing.T) {
	other := labels.Set{"kubernetes.io/metadata.name": "lab"}
	_, validating := webhook.Configurations(
		kinds.All(),
		webhook.AtURL("https://127.0.0.1:1", nil),
		jobs.SchedulerNames(),
	)
	for _, k := range kinds.All() {
		want := 0
		if k.Running.Operated != nil || k.Running.MadeHere || k.Queueing.OnlyQueued {
			want = 1
		}
		got := 0
		for _, h := range validating.Webhooks {
			if h.Rules[0].Resources[0] != k.Naming.Resource || h.Rules[0].APIGroups[0] != k.GVK().Group ||
				!slices.Contains(h.Rules[0].Operations, admissionregistrationv1.Create) ||
				!selects(t, h.NamespaceSelector, other) ||
				!selects(t, h.ObjectSelector, nil) {
				continue
			}
			if got++; !k.Queueing.OnlyQueued && *h.FailurePolicy != admissionregistrationv1.Ignore {
				t.Errorf("%s: the API server waits for us where we have nothing to say", h.Name)
			}
		}
		if got != want {
			t.Errorf("%s: %d webhooks are called, want %d", k.Naming.Resource, got, want)
		}
	}
}

func selects(t *testing.T, s *metav1.LabelSelector, set labels.Set) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return selector.Matches(set)
}

func TestEveryWebhookIsServed(t *testing.T) {
	handlers := serve(t, nil)
	var asked []admissionregistrationv1.WebhookClientConfig
	at := webhook.AtService("mlbatch-system", "webhook", 443, []byte("ca"))
	mutating, validating := webhook.Configurations(kinds.All(), at, jobs.SchedulerNames())
	for _, h := range mutating.Webhooks {
		asked = append(asked, h.ClientConfig)
	}
	for _, h := range validating.Webhooks {
		asked = append(asked, h.ClientConfig)
	}
	for _, c := range append(asked, webhook.Conversion(at)) {
		if handlers[*c.Service.Path] == nil {
			t.Errorf("nothing is served at %s", *c.Service.Path)
		}
	}
}

// Jobs of namespaces that are no team's are asked about to give them a default
// queue, and created without an answer if there is none.
func TestOthersDoNotDependOnDefaults(t *testing.T) {
	mutating, _ := webhook.Configurations(
		kinds.All(),
		webhook.AtURL("https://127.0.0.1:1", nil),
		jobs.SchedulerNames(),
	)
	other := labels.Set{"kubernetes.io/metadata.name": "lab"}
	asked := 0
	for _, h := range mutating.Webhooks {
		created := slices.Contains(h.Rules[0].Operations, admissionregistrationv1.Create)
		if h.Rules[0].Resources[0] != "jobs" || !created || !selects(t, h.NamespaceSelector, other) ||
			!selects(t, h.ObjectSelector, labels.Set{}) {
			continue
		}
		asked++
		if *h.FailurePolicy != admissionregistrationv1.Ignore || *h.TimeoutSeconds > 2 {
			t.Errorf(
				"%s: policy %s after %d s; Jobs of others must not wait for us",
				h.Name,
				*h.FailurePolicy,
				*h.TimeoutSeconds,
			)
		}
	}
	if asked != 1 {
		t.Errorf("%d webhooks are asked, want 1", asked)
	}
}
