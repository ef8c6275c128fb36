package podgroup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/podgroup/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// ofSakkara makes a pod one of a group g of Sakkara's.
func ofSakkara(p *corev1.Pod) {
	p.Labels[kueue.PodGroupNameLabel], p.Labels[sakkara.MemberLabel] = "g", "g"
	p.Annotations[podmeta.PodGroupKindAnnotation] = podmeta.SakkaraGroup
}

func groupMap(name, size, constraints string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue", Name: name, Labels: map[string]string{sakkara.GroupLabel: ""},
		},
		Data: map[string]string{"name": "g", "size": size, "constraints": constraints},
	}
}

// messages are the events since the last look, without their types and reasons.
func (b *bench) messages() []string {
	var out []string
	for {
		select {
		case e := <-b.told.Events:
			out = append(out, strings.Join(strings.Fields(e)[2:], " "))
		default:
			return out
		}
	}
}

func (b *bench) configMap(name string) map[string]string {
	b.t.Helper()
	var m corev1.ConfigMap
	if err := b.Client.Get(b.t.Context(), types.NamespacedName{Namespace: "blue", Name: name}, &m); err != nil {
		b.t.Fatal(err)
	}
	return m.Data
}

// ranked are the pods that were told their ranks.
func (b *bench) ranked() string {
	var out []string
	for _, p := range b.pods() {
		if rank, has := p.Labels[sakkara.RankLabel]; has {
			out = append(out, p.Name+"="+rank)
		}
	}
	return strings.Join(out, " ")
}

// bind gives a pod a node of a rack.
func (b *bench) bind(pod, node, rack string) {
	b.t.Helper()
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"sakkara.topology.rack": rack}},
	}
	if err := b.Client.Create(b.t.Context(), n); client.IgnoreAlreadyExists(err) != nil {
		b.t.Fatal(err)
	}
	p := &corev1.Pod{}
	if err := b.Client.Get(b.t.Context(), types.NamespacedName{Namespace: "blue", Name: pod}, p); err != nil {
		b.t.Fatal(err)
	}
	p.Spec.NodeName = node
	if err := b.Client.Update(b.t.Context(), p); err != nil {
		b.t.Fatal(err)
	}
	change(b, &corev1.Pod{}, pod, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)},
		}
	})
}

// A group of Sakkara's waits for its ConfigMap, starts as that says, each pod with its rank, and tells the ConfigMap
// where it is.
func TestGroupOfSakkara(t *testing.T) {
	b := newBench(t, managed("w-1", ofSakkara), managed("master-0", ofSakkara))
	b.settle("g")
	if got := b.messages(); b.workload("g") != nil || len(got) != 1 ||
		!strings.Contains(got[0], `label sakkara.group whose key name is "g": create it`) {
		t.Fatalf("without a ConfigMap it says %q", got)
	}
	if r, err := b.Reconcile(
		t.Context(),
		reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: "g"}},
	); r.RequeueAfter == 0 ||
		err != nil {
		t.Fatalf("nothing wakes it when there is one: %v, %v", r, err)
	}
	m := groupMap("any-name", "3", `{"rack": {"hard": true}}`)
	if err := b.Client.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	b.settle("g")
	if got := b.reasons(); b.workload("g") != nil || !slices.Equal(got, []string{eventIncomplete}) {
		t.Fatalf("one is missing, it says %v", got)
	}
	if err := b.Client.Create(t.Context(), managed("w-0", ofSakkara)); err != nil {
		t.Fatal(err)
	}
	b.settle("g")
	w := b.workload("g")
	if w == nil || w.Spec.PodSets[0].Count != 3 ||
		*w.Spec.PodSets[0].TopologyRequest.Required != "sakkara.topology.rack" {
		t.Fatalf("its Workload is %+v", w)
	}
	b.admit("g")
	b.settle("g")
	if got := b.ranked(); got != "master-0=0 w-0=1 w-1=2" {
		t.Fatalf("ranks are %s", got)
	}
	b.bind("master-0", "n1", "r1")
	b.bind("w-0", "n1", "r1")
	b.settle("g")
	if got := b.configMap("any-name")["status"]; got != "" {
		t.Fatalf("one has no node, and it says %s", got)
	}
	b.bind("w-1", "n2", "r1")
	b.settle("g")
	want := map[string]string{
		"name": "g", "size": "3", "constraints": `{"rack": {"hard": true}}`, "status": "Bound",
		"placement": `{"root":{"r1":{"n1":{"master-0":{},"w-0":{}},"n2":{"w-1":{}}}}}`,
		"rank":      "[(master-0,0) (w-0,1) (w-1,2)]", "schedTotalTimeMilli": "0",
		"schedBeginTime": "2026-03-01T12:00:00Z", "schedEndTime": "2026-03-01T12:00:00Z",
	}
	got := b.configMap("any-name")
	for _, key := range []string{"schedBeginTime", "schedTotalTimeMilli"} { // the fake API knows no time of creation
		got[key] = want[key]
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("it was told (-want +got):\n%s", d)
	}
	if err := b.Client.Create(t.Context(), func() *corev1.ConfigMap {
		h := groupMap("h", "3", `{}`)
		h.Data["name"] = "h"
		return h
	}()); err != nil {
		t.Fatal(err)
	}
	for _, p := range b.pods() {
		p.Labels[sakkara.MemberLabel] = "h"
		if err := b.Client.Update(t.Context(), &p); err != nil {
			t.Fatal(err)
		}
	}
	b.reported.Clear()
	b.settle("g")
	if got := b.configMap("h")["status"]; got != "" {
		t.Errorf("pods say that they are of another group, and that is told %s", got)
	}
	for _, p := range b.pods() {
		p.Labels[sakkara.MemberLabel] = "g"
		if err := b.Client.Update(t.Context(), &p); err != nil {
			t.Fatal(err)
		}
	}
	b.evict("g")
	b.settle("g")
	if got := b.configMap("any-name"); got["status"] != "Preempted" || got["placement"] != "" {
		t.Errorf("it was stopped, and the ConfigMap says %v", got)
	}
}

// A group that was learnt from a PodGroup, and whose ConfigMap comes later, is that of the ConfigMap. Sakkara panics.
func TestConfigMapAfterPodGroup(t *testing.T) {
	both := func(p *corev1.Pod) {
		ofSakkara(p)
		p.Labels[api.PodGroupLabel] = "g"
	}
	b := newBench(t, managed("a", both), managed("b", both), &api.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "g"}, Spec: api.PodGroupSpec{MinMember: 2},
	})
	b.settle("g")
	if b.workload("g") != nil {
		t.Fatal("it does not wait for its ConfigMap")
	}
	if err := b.Client.Create(t.Context(), groupMap("m", "1", `{}`)); err != nil {
		t.Fatal(err)
	}
	b.settle("g")
	b.admit("g")
	b.settle("g")
	b.expect("one is the group, and the other is queued by itself", "a started+, b held+")
	for _, p := range b.pods() {
		if p.Name == "b" &&
			(p.Labels[sakkara.MemberLabel]+p.Labels[api.PodGroupLabel] != "" || podmeta.Group(&p) != "") {
			t.Errorf("it is of a group still: %v", p.Labels)
		}
	}
}

// Constraints that are changed while a group waits count.
func TestConstraintsOfAWaitingGroup(t *testing.T) {
	b := newBench(t, managed("a", ofSakkara), groupMap("m", "1", `{"rack": {"hard": true}}`))
	b.settle("g")
	if r, err := b.Reconcile(
		t.Context(),
		reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: "g"}},
	); r.RequeueAfter == 0 ||
		err != nil {
		t.Fatalf("the ConfigMap is not looked at again: %v, %v", r, err)
	}
	for constraints, want := range map[string]string{`{"zone": {"hard": true}}`: "sakkara.topology.zone", `{}`: ""} {
		m := groupMap("m", "1", constraints)
		if err := b.Client.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		b.settle("g")
		r := b.workload("g").Spec.PodSets[0].TopologyRequest
		if got := ptr.Deref(r.Required, ""); got != want {
			t.Errorf("%s asks for %q", constraints, got)
		}
	}
}

// What contradicts itself waits, without a Workload, and the key is named.
func TestGroupsThatContradictThemselves(t *testing.T) {
	role := func(p *corev1.Pod) { p.Annotations[kueue.RoleHashAnnotation] = "another" }
	own := func(p *corev1.Pod) { p.Annotations[kueue.BalancedTopologyAnnotation] = "rack" }
	other := func(p *corev1.Pod) { p.Labels[sakkara.MemberLabel] = "h" }
	for name, tc := range map[string]struct {
		why     string
		objects []client.Object
		want    string
	}{
		"parts":   {"they are not equal", []client.Object{managed("a", ofSakkara), groupMap("m", "3", `{"rack": {"partitions": 2}}`)}, "ConfigMap m: constraints.rack.partitions: 3 pods cannot be cut"},
		"text":    {"it is no JSON", []client.Object{managed("a", ofSakkara), groupMap("m", "3", `rack`)}, "ConfigMap m: constraints: "},
		"size":    {"it is no number", []client.Object{managed("a", ofSakkara), groupMap("m", "x", `{}`)}, "ConfigMap m: size: "},
		"two":     {"nothing says which", []client.Object{managed("a", ofSakkara), groupMap("m", "1", `{}`), groupMap("l", "1", `{}`)}, `ConfigMaps l and m have "g" for their key name`},
		"twice":   {"pods and group say it", []client.Object{managed("a", ofSakkara, own), groupMap("m", "1", `{"rack": {}}`)}, "annotation mlbatch.dev/podset-balanced-topology"},
		"unlike":  {"what is counted is alike", []client.Object{managed("a", ofSakkara), managed("b", ofSakkara, role), groupMap("m", "2", `{"node": {"factor": 2}}`)}, "constraints.node.factor counts pods that ask for the same"},
		"renamed": {"the label was changed", []client.Object{managed("a", ofSakkara), managed("b", ofSakkara, other), groupMap("m", "2", `{}`)}, `pod b is of group "h" by its label sakkara.group.name`},
	} {
		b := newBench(t, tc.objects...)
		b.settle("g")
		if got := b.messages(); b.workload("g") != nil || len(got) != 1 || !strings.Contains(got[0], tc.want) {
			t.Errorf("%s: %s: it says %q", name, tc.why, got)
		}
	}
}

// Pods of several roles are one group, all in one rack if that is required.
func TestRolesOfAGroup(t *testing.T) {
	role := func(p *corev1.Pod) { p.Annotations[kueue.RoleHashAnnotation] = "another" }
	b := newBench(t, managed("master", ofSakkara, role), managed("w-0", ofSakkara), managed("w-1", ofSakkara),
		groupMap("m", "3", `{"rack": {"hard": true}}`))
	b.settle("g")
	w := b.workload("g")
	if w == nil || len(w.Spec.PodSets) != 2 ||
		*w.Spec.PodSets[0].TopologyRequest.PodSetGroupName != *w.Spec.PodSets[1].TopologyRequest.PodSetGroupName {
		t.Fatalf("its Workload is %+v", w)
	}
	b.admit("g")
	b.settle("g")
	if got := b.ranked(); got != "master=0 w-0=1 w-1=2" {
		t.Errorf("ranks are %s", got)
	}
}

// A ConfigMap is read and written only when something changed: pods report all the time.
func TestOutcomeIsToldOnce(t *testing.T) {
	b := newBench(t, managed("a", ofSakkara), groupMap("m", "1", `{}`))
	b.settle("g")
	b.admit("g")
	b.settle("g")
	b.bind("a", "n1", "r1")
	b.settle("g")
	if b.configMap("m")["status"] != sakkara.Bound {
		t.Fatal("it is not told")
	}
	b.Live = fake.NewClientBuilder().WithScheme(b.Client.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return fmt.Errorf("it is read again")
		},
	}).Build()
	change(b, &corev1.Pod{}, "a", func(p *corev1.Pod) { p.Status.Message = "well" })
	b.settle("g")
}
