package job

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// inGroup makes the pods of a Job group g of Sakkara's.
func inGroup(j *batchv1.Job) {
	inQueue(j)
	j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	j.Spec.Template.Labels = map[string]string{sakkara.MemberLabel: "g"}
}

func groupMap(name, size, constraints string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue",
			Name:      name,
			Labels:    map[string]string{sakkara.GroupLabel: ""},
		},
		Data: map[string]string{"name": "g", "size": size, "constraints": constraints},
	}
}

// messages are what events since the last look say, each once.
func (b bench) messages() string {
	seen := map[string]bool{}
	for {
		select {
		case e := <-b.told.Events:
			seen[strings.Join(strings.Fields(e)[1:], " ")] = true
		default:
			var out []string
			for m := range seen {
				out = append(out, m)
			}
			return strings.Join(out, "\n")
		}
	}
}

func (b bench) only(t *testing.T) *kueue.Workload {
	t.Helper()
	all := b.workloads(t)
	if len(all) != 1 {
		t.Fatalf("there are %d Workloads", len(all))
	}
	return &all[0]
}

func (b bench) write(t *testing.T, o client.Object) {
	t.Helper()
	err := b.opts.Client.Create(t.Context(), o)
	if err != nil {
		o.SetResourceVersion("")
		err = b.opts.Client.Update(t.Context(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A job whose pods are of a group waits for its ConfigMap, which it names, and is woken; it is placed as that says, also
// if it is changed as long as it waits, and what its author wrote stays as it is.
func TestJobOfAGroup(t *testing.T) {
	j := aJob(inGroup)
	b := newBench(t, nil, j, func() *corev1.ConfigMap {
		other := groupMap("elsewhere", "2", `{}`)
		other.Namespace = "lab"
		return other
	}())
	b.reconcileAll(t, client.ObjectKeyFromObject(j))
	w := b.only(t)
	const missing = `there is no ConfigMap with label sakkara.group whose key name is "g": create it`
	if got := b.messages(); !strings.Contains(got, "GroupMismatch "+missing) {
		t.Errorf("it says %s", got)
	}
	if got := w.Annotations[kueue.GroupAwaitedAnnotation]; !strings.HasSuffix(got, missing) {
		t.Errorf("it is held because %q", got)
	}
	r, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(j)})
	if err != nil || r.RequeueAfter != groupMissingPause {
		t.Errorf("it is looked at again after %v, %v", r.RequeueAfter, err)
	}
	b.write(t, groupMap("m", "3", `{"rack": {"hard": true}}`))
	b.reconcileAll(t, client.ObjectKeyFromObject(j))
	if got := b.messages(); !strings.Contains(
		got,
		"GroupMismatch ConfigMap m: size: it is 3, and the job has 2 pods",
	) {
		t.Errorf("it says %s", got)
	}
	for constraints, want := range map[string]string{
		`{"rack": {"hard": true}}`: "sakkara.topology.rack", `{"zone": {"hard": true}}`: "sakkara.topology.zone", `{}`: "",
	} {
		b.write(t, groupMap("m", "2", constraints))
		b.reconcileAll(t, client.ObjectKeyFromObject(j))
		w = b.only(t)
		t1 := w.Spec.PodSets[0].TopologyRequest
		if got := ptr.Deref(
			t1.Required,
			"",
		); got != want || *t1.PodIndexLabel == "" ||
			w.Annotations[kueue.GroupAwaitedAnnotation] != "" {
			t.Errorf(
				"%s: it asks for %q, and is held because %q",
				constraints,
				got,
				w.Annotations[kueue.GroupAwaitedAnnotation],
			)
		}
	}
	if r, err = b.Reconcile(
		t.Context(),
		reconcile.Request{NamespacedName: client.ObjectKeyFromObject(j)},
	); err != nil ||
		r.RequeueAfter != groupRefresh {
		t.Errorf("it is looked at again after %v, %v", r.RequeueAfter, err)
	}
	var is batchv1.Job
	if err := b.opts.Client.Get(t.Context(), client.ObjectKeyFromObject(j), &is); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(j.Spec, is.Spec); d != "" {
		t.Errorf("what its author wrote is changed: %s", d)
	}
	if err := b.opts.Client.Delete(t.Context(), groupMap("m", "2", "")); err != nil {
		t.Fatal(err)
	}
	b.reconcileAll(t, client.ObjectKeyFromObject(j))
	if w = b.only(
		t,
	); w.Annotations[kueue.GroupAwaitedAnnotation] == "" ||
		w.Annotations[kueue.SakkaraGroupAnnotation] != "" {
		t.Errorf("its group is gone, and it says %v", w.Annotations)
	}
}

// admit changes the status of the only Workload.
func (b bench) admit(t *testing.T, change ...func(*kueue.Workload)) {
	t.Helper()
	w := b.only(t)
	for _, c := range change {
		c(w)
	}
	if err := b.opts.Client.Status().Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}

// Once a job has quota, its ConfigMap counts no more: neither is it stopped, nor queued anew. When it is evicted, its
// template is as its author wrote it.
func TestGroupOfAnAdmittedJob(t *testing.T) {
	j := aJob(inGroup)
	j.Spec.Template.Annotations = map[string]string{"mine": "yes"}
	b := newBench(
		t,
		nil,
		j,
		groupMap("m", "2", `{"rack": {"type": "spread"}, "node": {"type": "spread", "hard": true}}`),
	)
	name := client.ObjectKeyFromObject(j)
	b.reconcileAll(t, name)
	if got := b.only(t).Spec.PodSets[0].Template.Annotations; got[kueue.MaxPerDomainAnnotation] == "" ||
		got["mine"] != "yes" {
		t.Fatalf("its pods say %v", got)
	}
	b.admit(t, admitted)
	b.reconcileAll(t, name)
	b.write(t, groupMap("m", "7", `{"rack": {"hard": true}}`))
	b.messages()
	is := b.reconcileAll(t, name)
	if got := b.messages(); got != "" || *is.Spec.Suspend {
		t.Errorf("a change after quota counts: %s", got)
	}
	if got := is.Spec.Template.Annotations[kueue.MaxPerDomainAnnotation]; got != "" {
		t.Errorf("constraints are written into the job: %s", got)
	}
	b.admit(t, condition(kueue.WorkloadEvicted, "Preempted"))
	is = b.reconcileAll(t, name)
	if d := cmp.Diff(j.Spec.Template, is.Spec.Template); d != "" || !*is.Spec.Suspend {
		t.Errorf("it is not as its author wrote it: %s", d)
	}
}

// place makes pods of a Workload with ranks, on nodes of two racks.
func (b bench) place(t *testing.T, w string, names ...string) {
	t.Helper()
	for i, name := range names {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "n" + string(
				rune('0'+i),
			),
			Labels: map[string]string{"sakkara.topology.rack": "r" + string(rune('0'+i))},
		}}
		if err := b.opts.Client.Create(t.Context(), n); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
		b.write(t, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "blue", Name: name, Annotations: map[string]string{kueue.WorkloadAnnotation: w},
				Labels: map[string]string{
					sakkara.MemberLabel: "g", sakkara.RankLabel: string(rune('0' + i)), kueue.PodSetLabel: "main",
				},
			},
			Spec: corev1.PodSpec{NodeName: n.Name},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)},
			}},
		})
	}
}

func (b bench) data(t *testing.T, name string) map[string]string {
	t.Helper()
	var m corev1.ConfigMap
	if err := b.opts.Client.Get(
		t.Context(),
		types.NamespacedName{Namespace: "blue", Name: name},
		&m,
	); err != nil {
		t.Fatal(err)
	}
	return m.Data
}

// A ConfigMap is told where the pods are, once all are ready, and when they were stopped. Of two jobs that name one
// group it is told of the first, until that has no quota any more.
func TestOutcomeOfAJob(t *testing.T) {
	first, second := aJob(inGroup), aJob(inGroup)
	second.Name, second.UID = "second", "u2"
	b := newBench(t, nil, first, second, groupMap("m", "2", `{"rack": {"type": "spread", "hard": true}}`))
	for _, j := range []*batchv1.Job{first, second} {
		name := client.ObjectKeyFromObject(j)
		b.reconcileAll(t, name)
		var w *kueue.Workload
		for _, x := range b.workloads(t) {
			if x.Labels[kueue.JobUIDLabel] == string(j.UID) {
				w = &x
			}
		}
		admitted(w)
		if err := b.opts.Client.Status().Update(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		b.reconcileAll(t, name)
		if j == first && b.data(t, "m")["status"] != "" {
			t.Error("it has no pods, and that is told")
		}
		b.place(t, w.Name, j.Name+"-0", j.Name+"-1")
		var is batchv1.Job
		if err := b.opts.Client.Get(t.Context(), name, &is); err != nil {
			t.Fatal(err)
		}
		is.Status.Active, is.Status.Ready = 2, ptr.To[int32](2)
		if err := b.opts.Client.Status().Update(t.Context(), &is); err != nil {
			t.Fatal(err)
		}
		b.reconcileAll(t, name)
	}
	want := map[string]string{
		"placement": `{"root":{"r0":{"n0":{"train-0":{}}},"r1":{"n1":{"train-1":{}}}}}`,
		"rank":      "[(train-0,0) (train-1,1)]", "status": "Bound",
	}
	got := maps.Clone(b.data(t, "m"))
	maps.DeleteFunc(got, func(key, _ string) bool { return want[key] == "" })
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("it is told (-want +got): %s", d)
	}
	for _, w := range b.workloads(t) {
		if w.Labels[kueue.JobUIDLabel] == string(first.UID) {
			condition(kueue.WorkloadEvicted, "Preempted")(&w)
			if err := b.opts.Client.Status().Update(t.Context(), &w); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := b.Reconcile(
		t.Context(),
		reconcile.Request{NamespacedName: client.ObjectKeyFromObject(first)},
	); err != nil {
		t.Fatal(err)
	}
	if got := b.data(t, "m"); got["status"] != "Preempted" || got["placement"] != "" {
		t.Errorf("the first was stopped, and it says %v", got)
	}
	b.reconcileAll(t, client.ObjectKeyFromObject(second))
	if got := b.data(t, "m")["rank"]; got != "[(second-0,0) (second-1,1)]" {
		t.Errorf("the first has no quota, and it says %s", got)
	}
}

// A ConfigMap that a job has as a component counts before it is made, and in place of what is left of an earlier one.
func TestGroupAmongComponents(t *testing.T) {
	raw := func(o any) aw.AppWrapperComponent {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return aw.AppWrapperComponent{Template: runtime.RawExtension{Raw: text}}
	}
	j := aJob(inGroup)
	j.TypeMeta = metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}
	m := groupMap("m", "2", `{"rack": {"hard": true}}`)
	m.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	whole := &aw.AppWrapper{ObjectMeta: metav1.ObjectMeta{
		Namespace: "blue", Name: "whole", UID: "u9", Labels: map[string]string{kueue.QueueNameLabel: "q"},
	}}
	whole.Spec.Suspend = true
	whole.Spec.Components = []aw.AppWrapperComponent{raw(j), raw(m)}
	for name, tc := range map[string]struct {
		why  string
		left []client.Object
		want string
	}{
		"alone":   {"it is not there yet", nil, "sakkara.topology.rack"},
		"earlier": {"it was made for an earlier attempt", []client.Object{groupMap("m", "9", `{}`)}, "sakkara.topology.rack"},
		"another": {"nothing says which", []client.Object{groupMap("l", "2", `{}`)}, ""},
	} {
		b := newBench(t, nil, append(tc.left, whole.DeepCopy())...)
		kind := appwrapper.Kind()
		b.kind, b.adapter = &kind, restoring(&kind)
		for range 3 {
			if _, err := b.Reconcile(
				t.Context(),
				reconcile.Request{NamespacedName: client.ObjectKeyFromObject(whole)},
			); err != nil {
				t.Fatal(err)
			}
		}
		w := b.only(t)
		got := ""
		if r := w.Spec.PodSets[0].TopologyRequest; r != nil {
			got = ptr.Deref(r.Required, "")
			if got != "" && ptr.Deref(r.PodIndexLabel, "") == "" {
				t.Errorf("%s: its pods tell no index", name)
			}
		}
		if got != tc.want ||
			(tc.want == "") != strings.Contains(
				w.Annotations[kueue.GroupAwaitedAnnotation],
				`ConfigMaps l and m have "g"`,
			) {
			t.Errorf(
				"%s: %s: it asks for %q, and is held because %q",
				name,
				tc.why,
				got,
				w.Annotations[kueue.GroupAwaitedAnnotation],
			)
		}
	}
}

// What is wrong is told in a bounded text: it quotes what anybody may write.
func TestAwaitedIsBounded(t *testing.T) {
	g := awaitsGroup(strings.Repeat("ä", longestAwaited))
	if len(g.awaits) > longestAwaited+4 || strings.ToValidUTF8(g.awaits, "") != g.awaits {
		t.Errorf("it has %d bytes", len(g.awaits))
	}
}

// A job that could not start is not queued anew because its Workload says how near its pods are.
func TestGroupOfAJobThatCouldNotStart(t *testing.T) {
	j := aJob(inGroup)
	b := newBench(t, nil, j, groupMap("m", "2", `{"rack": {"type": "spread"}}`))
	name := client.ObjectKeyFromObject(j)
	b.reconcileAll(t, name)
	uid := b.only(t).ResourceVersion
	b.admit(t, func(w *kueue.Workload) {
		apimeta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
			Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue, Reason: kueue.ReasonFailedToStart,
		})
	})
	b.reconcileAll(t, name)
	if got := b.messages(); strings.Contains(got, "DeletedWorkload") {
		t.Errorf("its Workload of %s is deleted: %s", uid, got)
	}
	b.edit(t, j, func(j *batchv1.Job) { j.Spec.Template.Spec.NodeSelector = nil })
	b.reconcileAll(t, name)
	if got := b.messages(); !strings.Contains(got, "DeletedWorkload") {
		t.Errorf("it was mended: %s", got)
	}
}
