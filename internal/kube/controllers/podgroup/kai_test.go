package podgroup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// kaiPodGroup is the kind of PodGroups of KAI Scheduler.
var kaiPodGroup = schema.GroupVersionKind{Group: podmeta.KAIGroup, Version: "v2alpha2", Kind: "PodGroup"}

// ofKAI is PodGroup g of KAI Scheduler in a namespace.
func ofKAI(t *testing.T, namespace, spec string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte("{metadata: {name: g}, spec: "+spec+"}"), &o.Object); err != nil {
		t.Fatal(err)
	}
	o.SetGroupVersionKind(kaiPodGroup)
	o.SetNamespace(namespace)
	return o
}

// within makes a pod one of a group within PodGroup g of KAI Scheduler.
func within(group string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		ofPodGroup(podmeta.KAIGroup)(p)
		p.Labels[podmeta.SubGroupLabel] = group
		p.Annotations[kueue.RoleHashAnnotation] = group + "-1"
	}
}

// Pods of groups within a PodGroup start once all groups have theirs; those on top go to the domains of their group. What
// the PodGroup says may be mended as long as they wait, and one of another namespace says nothing.
func TestGroupsWithinAPodGroup(t *testing.T) {
	const prefill = "{name: prefill, parent: all, minMember: 1, topologyConstraint: {requiredTopologyLevel: rack}}"
	spec := func(level string) string {
		return "{subGroups: [" + prefill + ", {name: decode, parent: all, minMember: 2}, {name: all, topologyConstraint: {requiredTopologyLevel: " +
			level + "}}]}"
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   "n",
		Labels: map[string]string{"rack": "r1", "topology.example.com/block": "b1"},
	}}
	levels := &kueue.Topology{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	levels.Spec.Levels = []kueue.TopologyLevel{{NodeLabel: "topology.example.com/block"}, {NodeLabel: "rack"}}
	b := newBench(
		t,
		levels,
		node,
		managed("a", within("prefill")),
		managed("b", within("decode")),
		managed("c", within("decode")),
	)
	if err := b.Client.Create(t.Context(), ofKAI(t, "lab", spec("block"))); err != nil {
		t.Fatal(err)
	}
	b.settle("g")
	if got := b.reasons(); b.workload("g") != nil || !slices.Equal(got, []string{eventMismatch}) {
		t.Fatalf("another namespace has one, it says %v", got)
	}
	wrong := ofKAI(t, "blue", spec(`"no label"`))
	if err := b.Client.Create(t.Context(), wrong); err != nil {
		t.Fatal(err)
	}
	b.settle("g")
	told := strings.Join(b.messages(), "; ")
	if b.workload("g") != nil ||
		!strings.Contains(told, "spec.subGroups[all].topologyConstraint.requiredTopologyLevel") {
		t.Fatalf("it waits for %q", told)
	}
	mended := ofKAI(t, "blue", spec("block"))
	if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(wrong), wrong); err != nil {
		t.Fatal(err)
	}
	mended.SetResourceVersion(wrong.GetResourceVersion())
	if err := b.Client.Update(t.Context(), mended); err != nil {
		t.Fatal(err)
	}
	b.settle("g")
	w := b.workload("g")
	if w == nil || len(w.Spec.PodSets) != 2 {
		t.Fatalf("its Workload is %v", w)
	}
	ps := w.Spec.PodSets[slices.IndexFunc(w.Spec.PodSets, func(ps kueue.PodSet) bool { return ps.Name == "prefill-1" })]
	if *ps.TopologyRequest.Required != "rack" ||
		ps.Template.Annotations[kueue.TopologyGroupsAnnotation] != "topology.example.com/block=subgroup-all" {
		t.Errorf("prefill asks for %v in %q", ps.TopologyRequest, ps.Template.Annotations)
	}
	if r, err := b.Reconcile(
		t.Context(),
		reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: "g"}},
	); r.RequeueAfter == 0 || err != nil {
		t.Errorf("nothing tells when the PodGroup changes, and it is not looked at again: %v, %v", r, err)
	}
	another := func(p *corev1.Pod) { p.Annotations[kueue.RoleHashAnnotation] = "decode-2" }
	for _, p := range []*corev1.Pod{managed("d", within("prefill")), managed("e", within("decode"), another)} {
		if err := b.Client.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	b.admit("g")
	b.place("g", "n")
	b.settle("g")
	b.expect("all groups start, each with so many", "a started+, b started+, c started+, d held+, e held+")
	pods := b.pods()
	if s := pods[3].Spec.NodeSelector; podmeta.Group(&pods[3]) != "" || s["rack"] != "r1" ||
		s["topology.example.com/block"] != "b1" {
		t.Errorf("one more of prefill is to go to %v", s)
	}
	if s := pods[4].Spec.NodeSelector; podmeta.Group(&pods[4]) != "" || s["rack"] != "" ||
		s["topology.example.com/block"] != "b1" {
		t.Errorf("one of decode that is unlike the others is to go to %v", s)
	}
}

// kaiStatusIs is what PodGroup g of KAI Scheduler is told, in words.
func (b *bench) kaiStatusIs() string {
	b.t.Helper()
	o := ofKAI(b.t, "blue", "{}")
	if err := b.Client.Get(b.t.Context(), types.NamespacedName{Namespace: "blue", Name: "g"}, o); err != nil {
		b.t.Fatal(err)
	}
	status, _, _ := unstructured.NestedMap(o.Object, "status")
	out := fmt.Sprintf(
		"%v/%v/%v/%v",
		status["pending"],
		status["running"],
		status["succeeded"],
		status["failed"],
	)
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "schedulingConditions")
	for _, c := range all {
		m, _ := c.(map[string]any)
		out += fmt.Sprintf(" %v@%v=%v", m["type"], m["nodePool"], m["status"])
		if m["nodePool"] == "default" {
			out += fmt.Sprintf("(%v) #%v %v", m["message"], m["transitionID"], m["lastTransitionTime"])
		}
	}
	return out
}

// A PodGroup of KAI Scheduler is told how many of its pods run, and what they wait for, once a second at most. What it
// says of other pools of nodes stays, and pods that are not queued say nothing.
func TestKAIPodGroupIsTold(t *testing.T) {
	alone := func(p *corev1.Pod) { ofPodGroup(podmeta.KAIGroup)(p) }
	b := newBench(t, managed("a", alone))
	g := ofKAI(t, "blue", "{minMember: 2}")
	if err := unstructured.SetNestedSlice(g.Object, []any{
		map[string]any{"type": "UnschedulableOnNodePool", "nodePool": "gold", "status": "True"},
	}, "status", "schedulingConditions"); err != nil {
		t.Fatal(err)
	}
	if err := b.Client.Create(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if err := b.Client.Status().Update(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	step := func() { b.time.SetTime(b.time.Now().Add(kaiPause)); b.settle("g") }
	const gold, began = " UnschedulableOnNodePool@gold=True", "2026-03-01T12:00:01Z"
	const waits, runs = " UnschedulableOnNodePool@default=True", " UnschedulableOnNodePool@default=False"
	step()
	if got, want := b.kaiStatusIs(), "1/0/0/0"+gold+waits+"(It waits until all of its 2 pods are created) #0 "+began; got != want {
		t.Errorf("one is missing, and it is told %s, want %s", got, want)
	}
	if err := b.Client.Create(t.Context(), managed("b", alone)); err != nil {
		t.Fatal(err)
	}
	step()
	change(b, &kueue.Workload{}, "g", func(w *kueue.Workload) {
		w.Status.Conditions = append(w.Status.Conditions, metav1.Condition{
			Type:               kueue.WorkloadQuotaReserved,
			Status:             metav1.ConditionFalse,
			Reason:             "NoQuota",
			Message:            "no GPU is left",
			LastTransitionTime: metav1.NewTime(now),
		})
	})
	if r, err := b.Reconcile(t.Context(), reconcile.Request{
		NamespacedName: types.NamespacedName{Namespace: "blue", Name: "g"},
	}); err != nil || r.RequeueAfter > kaiPause {
		t.Errorf("it is told at once, or never: %v, %v", r, err)
	}
	step()
	if got, want := b.kaiStatusIs(), "2/0/0/0"+gold+waits+"(no GPU is left) #0 "+began; got != want {
		t.Errorf("it has no quota, and it is told %s, want %s", got, want)
	}
	b.admit("g")
	step()
	for _, name := range []string{"a", "b"} {
		change(b, &corev1.Pod{}, name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
	}
	step()
	got := b.kaiStatusIs()
	if !strings.HasPrefix(got, "0/2/0/0"+gold+runs+"(<nil>) #1 2026") || strings.HasSuffix(got, began) {
		t.Errorf("its pods run, and it is told %s", got)
	}
	b.toldKAI.Clear() // a restart
	step()
	if again := b.kaiStatusIs(); again != got {
		t.Errorf("after a restart it is told %s, was %s", again, got)
	}

	// Made anew while its pods run it is told the same, though nothing has changed for them.
	if err := b.Client.Delete(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	anew := ofKAI(t, "blue", "{minMember: 2}")
	anew.SetUID("anew")
	if err := b.Client.Create(t.Context(), anew); err != nil {
		t.Fatal(err)
	}
	step()
	r, err := b.Reconcile(t.Context(), reconcile.Request{
		NamespacedName: types.NamespacedName{Namespace: "blue", Name: "g"},
	})
	if err != nil || r.RequeueAfter <= 0 || r.RequeueAfter > kaiLook {
		t.Errorf("it is looked at again after %v, %v, want within %v", r.RequeueAfter, err, kaiLook)
	}
	b.time.SetTime(b.time.Now().Add(kaiLook))
	step()
	if got := b.kaiStatusIs(); !strings.HasPrefix(got, "0/2/0/0") {
		t.Errorf("made anew it is told %s", got)
	}
}

// gets counts how often PodGroups are read.
type gets struct {
	client.Reader
	n int
}

func (g *gets) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if o.GetObjectKind().GroupVersionKind().Group == podmeta.KAIGroup {
		g.n++
	}
	return g.Reader.Get(ctx, key, o, opts...)
}

// A PodGroup is read once in a look, and one that is gone no more often than one that is there.
func TestKAIPodGroupIsReadOnce(t *testing.T) {
	alone := func(p *corev1.Pod) { ofPodGroup(podmeta.KAIGroup)(p) }
	b := newBench(t, managed("a", alone), managed("b", alone))
	g := ofKAI(t, "blue", "{minMember: 2}")
	if err := b.Client.Create(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	live := &gets{Reader: b.Live}
	b.Live = live
	look := func() int {
		t.Helper()
		before := live.n
		if _, err := b.Reconcile(t.Context(), reconcile.Request{
			NamespacedName: types.NamespacedName{Namespace: "blue", Name: "g"},
		}); err != nil {
			t.Fatal(err)
		}
		return live.n - before
	}
	for range 5 {
		b.time.SetTime(b.time.Now().Add(kaiLook))
		if n := look(); n > 1 {
			t.Errorf("it is read %d times in a look", n)
		}
	}
	b.admit("g")
	b.settle("g")
	if err := b.Client.Delete(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	b.time.SetTime(b.time.Now().Add(kaiLook))
	look()
	if n := look(); n > 0 {
		t.Errorf("one that is gone is read %d times more at once", n)
	}
}
