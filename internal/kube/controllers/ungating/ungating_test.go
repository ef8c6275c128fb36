package ungating

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/eviction"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

const podIndex = "workload"

var request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: "w"}}

// work is an admitted Workload of the Job train, with a pod on each of some nodes.
func work(nodes ...string) *kueue.Workload {
	w := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "w", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "j", Controller: new(true)},
		}},
	}
	count := int32(len(nodes))
	w.Spec.PodSets = []kueue.PodSet{{Name: "s", Count: count}}
	w.Status.Conditions = []metav1.Condition{
		{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionTrue},
		{
			Type:               kueue.WorkloadAdmitted,
			Status:             metav1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(admittedAt),
		},
	}
	topology := &kueue.TopologyAssignment{Levels: []string{core.HostnameLabel}}
	for _, n := range nodes {
		topology.Slices = append(topology.Slices, kueue.TopologyAssignmentSlice{
			DomainCount: 1, ValuesPerLevel: []kueue.TopologyAssignmentSliceLevelValues{{Universal: new(n)}},
			PodCounts: kueue.TopologyAssignmentSlicePodCounts{Universal: new(int32(1))},
		})
	}
	w.Status.Admission = &kueue.Admission{
		ClusterQueue:      "q",
		PodSetAssignments: []kueue.PodSetAssignment{{Name: "s", Count: &count, TopologyAssignment: topology}},
	}
	return w
}

// world is a controller, whose cache may be behind.
type world struct {
	*reconciler
	events  *events.FakeRecorder
	clock   *testclock.FakeClock
	patched []string
	evicted []string
	// lists counts what was read.
	lists int
	// stale is what the cache shows of pods; nil shows what there is.
	stale *corev1.PodList
	// refuses are pods that cannot be written.
	refuses map[string]error
}

func newWorld(objects ...client.Object) *world {
	w := &world{
		events:  events.NewFakeRecorder(100),
		clock:   testclock.NewFakeClock(admittedAt.Add(time.Second)),
		refuses: map[string]error{},
	}
	c := fake.NewClientBuilder().
		WithScheme(scheme.New()).
		WithObjects(objects...).
		WithStatusSubresource(&corev1.Pod{}).
		WithIndex(
			&corev1.Pod{},
			podIndex,
			func(o client.Object) []string { return []string{o.GetAnnotations()[kueue.WorkloadAnnotation]} },
		).
		WithIndex(&corev1.Pod{}, Index, IndexWaiting).
		WithInterceptorFuncs(
			interceptor.Funcs{
				List: func(ctx context.Context, in client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if pods, is := list.(*corev1.PodList); is && w.stale != nil {
						w.stale.DeepCopyInto(pods)
						return nil
					}
					w.lists++
					return in.List(ctx, list, opts...)
				},
				Patch: func(ctx context.Context, in client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
					if err := w.refuses[o.GetName()]; err != nil {
						return err
					}
					if p, is := o.(*corev1.Pod); is {
						w.mu.Lock()
						w.patched = append(w.patched, p.Name+"@"+told(p))
						w.mu.Unlock()
					}
					return in.Patch(ctx, o, patch, opts...)
				},
				SubResourceCreate: func(ctx context.Context, in client.Client, sub string, o, what client.Object, opts ...client.SubResourceCreateOption) error {
					w.evicted = append(w.evicted, o.GetName())
					return in.SubResource(sub).Create(ctx, o, what, opts...)
				},
			},
		).
		Build()
	w.reconciler = &reconciler{
		Options: Options{
			Client: c, Clock: w.clock, Schedulers: others(), PodIndex: podIndex,
			Evictor: eviction.Evictor{Client: c, Live: c, Recorder: w.events, Kinds: kinds.All()},
		},
		told: map[types.NamespacedName]map[types.UID]string{},
	}
	return w
}

// look has the controller look once, and returns what it wrote and when it looks again.
func (w *world) look(t *testing.T) (patched string, again time.Duration) {
	t.Helper()
	w.patched = nil
	r, err := w.Reconcile(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(w.patched)
	return strings.Join(w.patched, " "), r.RequeueAfter
}

// remember has the cache show from now on what there is now.
func (w *world) freeze(t *testing.T) {
	t.Helper()
	list := &corev1.PodList{}
	if err := w.Client.List(t.Context(), list, client.InNamespace("blue")); err != nil {
		t.Fatal(err)
	}
	w.stale = list
}

// All pods of a gang are told their nodes at once, when the last has come, and never again.
func TestGangIsToldItsNodes(t *testing.T) {
	w := newWorld(work("n1", "n2"), a("p-0", "s", held))
	if got, again := w.look(t); got != "" || again == 0 {
		t.Fatalf("one of two pods: told %q, looks again after %s", got, again)
	}
	if err := w.Client.Create(t.Context(), a("p-1", "s", held)); err != nil {
		t.Fatal(err)
	}
	w.freeze(t)
	if got, _ := w.look(t); got != "p-0@n1 p-1@n2" {
		t.Fatalf("told %q", got)
	}
	if got, _ := w.look(t); got != "" { // the cache does not show it yet
		t.Errorf("told again: %q", got)
	}
	w.stale = nil
	if got, _ := w.look(t); got != "" {
		t.Errorf("told again: %q", got)
	}
	if len(w.told) != 0 {
		t.Errorf("it remembers %v, which the cache shows", w.told)
	}
	var p corev1.Pod
	if err := w.Client.Get(t.Context(), types.NamespacedName{Namespace: "blue", Name: "p-1"}, &p); err != nil {
		t.Fatal(err)
	}
	if len(p.Spec.SchedulingGates) != 0 || told(&p) != "n2" {
		t.Errorf("it is held by %v for %q", p.Spec.SchedulingGates, told(&p))
	}
}

// While the cache does not show which places are taken, they are given to nobody else.
func TestPlaceIsGivenOnce(t *testing.T) {
	w := newWorld(work("n1", "n2", "n3"), a("p-1", "s", held), a("p-2", "s", held), a("p-3", "s", held))
	w.freeze(t)
	w.refuses["p-1"] = apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p-1", nil)
	if got, _ := w.look(t); got != "p-2@n2 p-3@n3" {
		t.Fatalf("told %q", got)
	}
	delete(w.refuses, "p-1")
	if got, _ := w.look(t); got != "p-1@n1" {
		t.Errorf("told %q: p-1 alone is to be told, and what is left", got)
	}
}

// A write that fails is tried again.
func TestFailedWriteIsTriedAgain(t *testing.T) {
	w := newWorld(work("n1"), a("p", "s", held))
	w.refuses["p"] = apierrors.NewInternalError(fmt.Errorf("no disk"))
	if _, err := w.Reconcile(t.Context(), request); err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Fatalf("the error is %v", err)
	}
	delete(w.refuses, "p")
	if got, _ := w.look(t); got != "p@n1" {
		t.Errorf("told %q", got)
	}
}

// What a gang waits for is said on its pods when it has waited for longer than it takes to come
// together, and once.
func TestWaitIsExplained(t *testing.T) {
	w := newWorld(work("n1", "n2"), a("p-0", "s", held))
	said := func() string {
		var p corev1.Pod
		if err := w.Client.Get(t.Context(), types.NamespacedName{Namespace: "blue", Name: "p-0"}, &p); err != nil {
			t.Fatal(err)
		}
		if len(p.Status.Conditions) == 0 {
			return ""
		}
		c := p.Status.Conditions[0]
		return fmt.Sprintf("%s %s %s: %s (%s)", c.Type, c.Status, c.Reason, c.Message, p.ResourceVersion)
	}
	_, again := w.look(t)
	if got := said(); got != "" {
		t.Fatalf("it says at once %q", got)
	}
	w.clock.Step(again)
	_, again = w.look(t)
	first := said()
	if !strings.HasPrefix(
		first,
		"PodScheduled False SchedulingGated: Workload blue/w starts as a whole: 1 of 2 pods exist",
	) {
		t.Fatalf("it says %q", first)
	}
	w.clock.Step(again)
	if _, again = w.look(t); again == 0 || said() != first {
		t.Errorf("it says it again: %q, and looks again after %s", said(), again)
	}
}

// A pod that was told a node which its job has lost is evicted, if the job survives that.
func TestPodForALostNodeIsEvicted(t *testing.T) {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "train", UID: "j"},
		Spec:       batchv1.JobSpec{BackoffLimit: new(int32(3))},
	}
	w := newWorld(work("n1", "n3"), job, a("p-0", "s", on("n1")), a("p-1", "s", toldOf("n2")))
	w.look(t)
	if !slices.Equal(w.evicted, []string{"p-1"}) {
		t.Errorf("evicted %v", w.evicted)
	}
	job.Spec.BackoffLimit = new(int32(0))
	w = newWorld(work("n1", "n3"), job, a("p-0", "s", on("n1")), a("p-1", "s", toldOf("n2")))
	w.look(t)
	if len(w.evicted) != 0 {
		t.Errorf("evicted %v, which ends the job", w.evicted)
	}
	if len(w.events.Events) != 1 {
		t.Fatalf("%d events", len(w.events.Events))
	}
	if got := <-w.events.Events; !strings.Contains(got, eviction.NotEvacuated) || !strings.Contains(got, "n2") {
		t.Errorf("it says %q", got)
	}
}

// A gang that mlbatch's scheduler has a part in starts although nobody says that this has come.
func TestGangOfTwoSchedulers(t *testing.T) {
	w := newWorld(work("n1", "n2"), a("p-0", "s", held))
	_, again := w.look(t)
	for range 3 {
		w.clock.Step(again)
		if _, again = w.look(t); again == 0 {
			t.Fatal("nothing wakes it")
		}
	}
	if err := w.Client.Create(t.Context(), a("p-1", "s", by("mlbatch-scheduler"))); err != nil {
		t.Fatal(err)
	}
	if got, _ := w.look(t); got != "p-0@n1" {
		t.Errorf("told %q", got)
	}
}

// A job that mlbatch's scheduler binds costs a look into an empty index.
func TestOthersCostNothing(t *testing.T) {
	w := newWorld(
		work("n1", "n2"),
		a("p-0", "s", by("mlbatch-scheduler")),
		a("p-1", "s", on("n2")),
		a("p-3", "s", held, phase(corev1.PodFailed)),
	)
	if got, again := w.look(t); got != "" || again != 0 || w.lists != 1 {
		t.Errorf("told %q, looks again after %s, read %d lists", got, again, w.lists)
	}
}

// Pods of mlbatch's own scheduler, and of no job, wake nobody.
func TestWhoIsLookedAt(t *testing.T) {
	w := newWorld()
	none := a("p", "s", held)
	none.Annotations = nil
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want int
	}{
		"another's":      {a("p", "s", held), 1},
		"bound":          {a("p", "s", on("n1")), 1}, // its gang may have begun
		"ours":           {a("p", "s", by("mlbatch-scheduler")), 0},
		"ours, held":     {a("p", "s", by("mlbatch-scheduler"), held), 1}, // by its author
		"of no Workload": {none, 0},
	} {
		if got := w.ofPod(t.Context(), tc.pod); len(got) != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	waits := work("n1")
	waits.Status.Conditions, waits.Status.Admission = nil, nil
	for name, tc := range map[string]struct {
		w    *kueue.Workload
		want bool
	}{"admitted": {work("n1"), true}, "waiting": {waits, false}} {
		if got := replanned().Update(event.UpdateEvent{ObjectOld: tc.w, ObjectNew: tc.w}); got != tc.want {
			t.Errorf("%s: looked at is %v", name, got)
		}
	}
}

// A tenant who has a job of one pod make hundreds has them told what they wait for in turns, in between which
// others have theirs; none is let go.
func TestManyAreExplainedInTurns(t *testing.T) {
	objects := []client.Object{work("n1"), a("bound", "s", on("n1"))}
	const many = 2*mostSaid + 10
	for i := range many {
		objects = append(objects, a(fmt.Sprintf("p-%d", i), "s", held))
	}
	w := newWorld(objects...)
	w.clock.Step(time.Minute)
	told := func() (n int) {
		var list corev1.PodList
		if err := w.Client.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			n += len(list.Items[i].Status.Conditions)
		}
		return n
	}
	for i, want := range []int{mostSaid, 2 * mostSaid, many, many} {
		patched, again := w.look(t)
		if patched != "" {
			t.Fatalf("let go: %s", patched)
		}
		pause := betweenSaid
		if want == many {
			pause = patience
		}
		if got := told(); got != want || again != pause {
			t.Errorf("look %d: %d pods were told, want %d; again after %s, want %s", i, got, want, again, pause)
		}
		w.clock.Step(again)
	}
}

// Pods of a group that mlbatch's scheduler binds are let go with their ranks, together, and without a node. Until the
// cache shows which ranks are taken none is given out.
func TestGroupIsToldItsRanks(t *testing.T) {
	w, ours := work("n1", "n2", "n3"), by("sakkara")
	w.Spec.PodSets[0].Template.Labels = map[string]string{"sakkara.group.name": "g"}
	b := newWorld(w, a("p-0", "s", held, ours), a("p-1", "s", held, ours))
	if got, again := b.look(t); got != "" || again == 0 {
		t.Fatalf("two of three pods: let go %q, looks again after %s", got, again)
	}
	if err := b.Client.Create(t.Context(), a("p-2", "s", held, ours)); err != nil {
		t.Fatal(err)
	}
	b.freeze(t)
	b.refuses["p-1"] = apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p-1", nil)
	if got, _ := b.look(t); got != "p-0@ p-2@" {
		t.Fatalf("let go %q", got)
	}
	delete(b.refuses, "p-1")
	if got, again := b.look(t); got != "" || again != unseenPause {
		t.Errorf("let go %q, looks again after %s", got, again)
	}
	b.stale = nil
	if got, _ := b.look(t); got != "p-1@" {
		t.Errorf("let go %q", got)
	}
	for i, want := range []string{"0", "1", "2"} {
		var p corev1.Pod
		if err := b.Client.Get(
			t.Context(),
			types.NamespacedName{Namespace: "blue", Name: fmt.Sprintf("p-%d", i)},
			&p,
		); err != nil {
			t.Fatal(err)
		}
		if got := p.Labels["sakkara.member.rank"]; got != want {
			t.Errorf("p-%d has rank %q", i, got)
		}
	}
}
