package livetest

import (
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// defaults creates the least object of each kind and compares what is stored.
func (x *cluster) defaults() {
	x.t.Helper()
	const fungible = "flavorFungibility: {whenCanBorrow: %s, whenCanPreempt: TryNextFlavor}, "
	queue := func(borrow string) string {
		return "{queueingStrategy: BestEffortFIFO, stopPolicy: None, " + fmt.Sprintf(fungible, borrow) +
			"preemption: {reclaimWithinCohort: Never, withinClusterQueue: Never, borrowWithinCohort: {policy: Never}}, fairSharing: {weight: 1}}"
	}
	for _, tc := range []struct{ kind, spec, v1beta1, v1beta2 string }{
		{"ClusterQueue", "{fairSharing: {}}", queue("Borrow"), queue("MayStopSearch")},
		{"LocalQueue", "{clusterQueue: a}", "{clusterQueue: a, stopPolicy: None}", "{clusterQueue: a, stopPolicy: None}"},
		{"Cohort", "{fairSharing: {}}", "{fairSharing: {weight: 1}}", "{fairSharing: {weight: 1}}"},
		{"ResourceFlavor", "{}", "{}", "{}"},
		{
			"Workload", "{podSets: [{template: {spec: {containers: []}}}]}",
			"{active: true, podSets: [{name: main, count: 1, template: {metadata: {}, spec: {containers: []}}}]}",
			"{active: true, podSets: [{name: main, count: 1, template: {spec: {containers: []}}}]}",
		},
		{
			"ProvisioningRequestConfig", "{provisioningClassName: a}",
			"{provisioningClassName: a, retryStrategy: {backoffLimitCount: 3, backoffBaseSeconds: 60, backoffMaxSeconds: 1800}}",
			"{provisioningClassName: a, retryStrategy: {backoffLimitCount: 3, backoffBaseSeconds: 60, backoffMaxSeconds: 1800}}",
		},
		{"MultiKueueConfig", "{clusters: [b, a]}", "{clusters: [b, a]}", "{clusters: [b, a]}"},
		{
			"MultiKueueCluster", "{clusterSource: {kubeConfig: {location: s}}}",
			"{kubeConfig: {location: s, locationType: Secret}}", "{clusterSource: {kubeConfig: {location: s, locationType: Secret}}}",
		},
	} {
		made := x.create(
			x.admin,
			"{apiVersion: kueue.x-k8s.io/v1beta2, kind: "+tc.kind+", metadata: {name: least, namespace: blue}, spec: "+tc.spec+"}",
		)
		for version, want := range map[string]string{"v1beta1": tc.v1beta1, "v1beta2": tc.v1beta2} {
			o := x.parse("{apiVersion: kueue.x-k8s.io/" + version + ", kind: " + tc.kind + "}")
			if err := x.admin.Get(x.t.Context(), client.ObjectKeyFromObject(made), o); err != nil {
				x.t.Fatal(err)
			}
			spec, _, _ := unstructured.NestedMap(o.Object, "spec")
			if diff := cmp.Diff(plain(x, want), plain(x, spec)); diff != "" {
				x.t.Errorf("%s %s (-want +got):\n%s", version, tc.kind, diff)
			}
		}
	}
}

// plain spells a value in one way; quantities of 1 come as number or as text.
func plain(x *cluster, v any) string {
	x.t.Helper()
	text, ok := v.(string)
	if !ok {
		data, err := yaml.Marshal(v)
		if err != nil {
			x.t.Fatal(err)
		}
		text = string(data)
	}
	var o map[string]any
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		x.t.Fatal(err)
	}
	data, err := yaml.Marshal(o)
	if err != nil {
		x.t.Fatal(err)
	}
	return strings.ReplaceAll(string(data), `weight: "1"`, "weight: 1")
}

// shown compares what `kubectl get` prints, and by which names it finds kinds.
func (x *cluster) shown() {
	x.t.Helper()
	cfg := rest.CopyConfig(x.config)
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		x.t.Fatal(err)
	}
	list, err := d.ServerResourcesForGroupVersion("kueue.x-k8s.io/v1beta2")
	if err != nil {
		x.t.Fatal(err)
	}
	short := map[string]string{}
	for _, r := range list.APIResources {
		if !strings.Contains(r.Name, "/") {
			short[r.Name] = strings.Join(r.ShortNames, ",")
		}
	}
	want := map[string]string{
		"admissionchecks": "ac", "clusterqueues": "cq", "cohorts": "co", "localqueues": "queue,queues,lq",
		"multikueueclusters": "mkc", "multikueueconfigs": "mkconf", "provisioningrequestconfigs": "prc",
		"resourceflavors": "flavor,flavors,rf", "topologies": "topo", "workloadpriorityclasses": "wpc",
		"workloads": "wl,kwl,kueueworkload,kueueworkloads",
	}
	if diff := cmp.Diff(want, short); diff != "" {
		x.t.Errorf("short names (-want +got):\n%s", diff)
	}
	for path, want := range map[string][]string{
		"clusterqueues/blue-cluster-queue":          {"NAME COHORT ACTIVE STRATEGY(wide) PENDING WORKLOADS ADMITTED WORKLOADS GPUS", "blue-cluster-queue default-cohort <nil> BestEffortFIFO 0 0 <nil>"},
		"namespaces/blue/localqueues/default-queue": {"NAME CLUSTERQUEUE PENDING WORKLOADS ADMITTED WORKLOADS", "default-queue blue-cluster-queue 0 0"},
		"namespaces/blue/workloads/w":               {"NAME QUEUE RESERVED IN ADMITTED FINISHED", "w default-queue blue-cluster-queue <nil> <nil>"},
		"multikueueclusters/least":                  {"NAME CONNECTED", "least <nil>"},
	} {
		for _, version := range []string{"v1beta1", "v1beta2"} {
			if diff := cmp.Diff(want, x.table(d.RESTClient(), version, path)); diff != "" {
				x.t.Errorf("%s %s (-want +got):\n%s", version, path, diff)
			}
		}
	}
}

// table asks for an object as kubectl does, for columns and cells; ages are left
// out.
func (x *cluster) table(c rest.Interface, version, path string) []string {
	x.t.Helper()
	data, err := c.Get().AbsPath("/apis/kueue.x-k8s.io/"+version+"/"+path).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	table := &metav1.Table{}
	if err := yaml.Unmarshal(data, table); err != nil {
		x.t.Fatal(err)
	}
	var names []string
	for _, c := range table.ColumnDefinitions {
		switch {
		case c.Name == "Age":
			continue
		case c.Priority > 0:
			names = append(names, strings.ToUpper(c.Name)+"(wide)")
		default:
			names = append(names, strings.ToUpper(c.Name))
		}
	}
	lines := []string{strings.Join(names, " ")}
	for _, r := range table.Rows {
		var cells []string
		for i, c := range r.Cells {
			if table.ColumnDefinitions[i].Name != "Age" {
				cells = append(cells, fmt.Sprint(c))
			}
		}
		lines = append(lines, strings.Join(cells, " "))
	}
	return lines
}

// statuses writes the status of a Workload as the controller and as others do.
func (x *cluster) statuses() {
	x.t.Helper()
	w := x.create(x.admin, strings.Replace(workload, "name: w\n", "name: uneven\n", 1))
	status := "{admission: {clusterQueue: blue-cluster-queue, podSetAssignments: [{name: main, count: 2, resourceUsage: {memory: 3}}]}}"
	var o map[string]any
	if err := yaml.Unmarshal([]byte(status), &o); err != nil {
		x.t.Fatal(err)
	}
	w.Object["status"] = o
	x.refused("no pod could have its share", x.admin.Status().Update(x.t.Context(), w.DeepCopy()),
		"status.admission.podSetAssignments[0].resourceUsage[memory]", "multiple of the count of 2")
	if err := x.controller.Status().Update(x.t.Context(), w, client.FieldOwner(webhook.FieldOwner)); err != nil {
		x.t.Errorf("what our controllers write costs no call: %v", err)
	}
	bad := strings.Replace(workload, "name: w\n", "name: negative\n", 1)
	bad = strings.Replace(bad, "image: x", "image: x, resources: {requests: {cpu: -1}}", 1)
	x.refused(
		"requests are amounts, whatever owns the Workload",
		x.admin.Create(x.t.Context(), x.parse(bad)),
		"requests[cpu]",
	)
}
