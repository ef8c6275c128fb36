package job

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

var errKilled = errors.New("killed")

// life is a Job and its reconciler, which is killed at one of its writes: before
// the write took effect, or after.
type life struct {
	bench
	t      *testing.T
	job    client.ObjectKey
	server client.Client
	writes []string
	dies   int
	effect bool
	// rival is told of each write before it is done; nil is none.
	rival func(what string)
}

func newLife(t *testing.T, dies int, effect bool) *life {
	t.Helper()
	j := aJob(inQueue)
	l := &life{t: t, job: client.ObjectKeyFromObject(j), dies: dies, effect: effect}
	l.bench = newBench(t, nil, j)
	l.server = l.opts.Client
	watched, ok := l.opts.Client.(client.WithWatch)
	if !ok {
		t.Fatal("the fake client does not watch")
	}
	l.opts.Client = interceptor.NewClient(watched, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return l.write("create", func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return l.write("update", func() error { return c.Update(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return l.write("delete", func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return l.write("patch", func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return l.write("status", func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return l.write("status", func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
	return l
}

func (l *life) write(what string, do func() error) error {
	l.writes = append(l.writes, what)
	if l.rival != nil {
		l.rival(what)
	}
	killed := len(l.writes) == l.dies
	if killed && !l.effect {
		return errKilled
	}
	if err := do(); err != nil {
		return err
	}
	if killed {
		return errKilled
	}
	return nil
}

// reconcileAll reconciles until nothing is written; deaths are survived.
func (l *life) reconcileAll() {
	l.t.Helper()
	for range 20 {
		before := len(l.writes)
		_, err := l.Reconcile(l.t.Context(), reconcile.Request{NamespacedName: l.job})
		if err != nil && !errors.Is(err, errKilled) {
			l.t.Fatal(err)
		}
		if err == nil && len(l.writes) == before && !l.record() {
			return
		}
	}
	l.t.Fatalf("it never comes to rest: %v", l.writes)
}

// record does what package history does with Workloads that are being deleted, and reports
// whether there was one.
func (l *life) record() (done bool) {
	l.t.Helper()
	for _, w := range l.workloads(l.t) {
		if is := w.DeepCopy(); w.DeletionTimestamp != nil && controllerutil.RemoveFinalizer(is, history.Finalizer) {
			if err := l.server.Patch(l.t.Context(), is, client.MergeFrom(&w)); err != nil {
				l.t.Fatal(err)
			}
			done = true
		}
	}
	return done
}

func (l *life) workload() *kueue.Workload {
	l.t.Helper()
	ws := l.workloads(l.t)
	if len(ws) != 1 {
		l.t.Fatalf("%d workloads", len(ws))
	}
	return &ws[0]
}

// rule writes the status of the Workload, as other controllers do that rule over it.
func (l *life) rule(change func(*kueue.Workload)) {
	l.t.Helper()
	w := l.workload()
	change(w)
	if err := l.server.Status().Update(l.t.Context(), w); err != nil {
		l.t.Fatal(err)
	}
}

// play is what the Job's own kind writes of it, and its pods.
func (l *life) play(change func(*batchv1.Job)) {
	l.t.Helper()
	var j batchv1.Job
	if err := l.server.Get(l.t.Context(), l.job, &j); err != nil {
		l.t.Fatal(err)
	}
	change(&j)
	if err := l.server.Status().Update(l.t.Context(), &j); err != nil {
		l.t.Fatal(err)
	}
}

func (l *life) pod(phase corev1.PodPhase) *corev1.Pod {
	l.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   l.job.Namespace,
			Name:        "p",
			Annotations: map[string]string{kueue.WorkloadAnnotation: l.workload().Name},
		},
	}
	p.Spec.NodeName, p.Status.Phase = "n", phase
	if err := l.server.Create(l.t.Context(), p); err != nil {
		l.t.Fatal(err)
	}
	return p
}

func (l *life) running() bool {
	l.t.Helper()
	var j batchv1.Job
	if err := l.server.Get(l.t.Context(), l.job, &j); err != nil {
		l.t.Fatal(err)
	}
	return !*j.Spec.Suspend
}

// live is everything that happens to a Job: it is admitted, evicted with a pod
// that takes its time, loses its Workload, and runs to its end.
func (l *life) live() {
	l.t.Helper()
	admit := func(w *kueue.Workload) {
		admitted(w)
		next := w.Status.DeepCopy()
		workloadlifecycle.NewConditions(w, next, now).
			Set(kueue.WorkloadEvicted, metav1.ConditionFalse, kueue.ReasonQuotaReserved, "")
		w.Status = *next
	}
	starts := func() {
		l.rule(admit)
		if l.reconcileAll(); !l.running() {
			l.t.Fatalf("admitted, it does not run; writes %v", l.writes)
		}
		l.play(func(j *batchv1.Job) { j.Status.StartTime, j.Status.Active = &metav1.Time{Time: now}, 1 })
	}
	stops := func(pod *corev1.Pod, holds func() bool) {
		l.reconcileAll()
		l.play(func(j *batchv1.Job) {
			j.Status.Active = 0
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}
		})
		if l.reconcileAll(); l.running() || !holds() {
			l.t.Fatalf("a pod still runs: the Job runs %v, and its quota is held %v", l.running(), holds())
		}
		if err := l.server.Delete(l.t.Context(), pod); err != nil {
			l.t.Fatal(err)
		}
		l.reconcileAll()
	}
	reserved := func() bool { return l.workload().Status.Admission != nil }

	l.reconcileAll()
	starts()
	pod := l.pod(corev1.PodRunning)
	l.rule(func(w *kueue.Workload) {
		next := w.Status.DeepCopy()
		workloadlifecycle.Evict(
			w,
			next,
			now,
			workloadlifecycle.Eviction{Reason: kueue.ReasonPreempted, Message: "for another"},
		)
		w.Status = *next
	})
	stops(pod, reserved)
	if reserved() {
		l.t.Fatal("its pods are gone, and it keeps its quota")
	}
	starts()
	pod = l.pod(corev1.PodRunning)
	if err := l.server.Delete(l.t.Context(), l.workload()); err != nil {
		l.t.Fatal(err)
	}
	stops(pod, reserved)
	starts()
	l.play(func(j *batchv1.Job) {
		j.Status.Active, j.Status.Succeeded = 0, 2
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	})
	l.reconcileAll()
}

// picture is what matters in the end.
func (l *life) picture() string {
	l.t.Helper()
	var j batchv1.Job
	if err := l.server.Get(l.t.Context(), l.job, &j); err != nil && !apierrors.IsNotFound(err) {
		l.t.Fatal(err)
	}
	w := l.workload()
	c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadFinished)
	return fmt.Sprintf(
		"job suspended %v, selector %v, labels %v; workload %s, finalizers %v, finished %v",
		*j.Spec.Suspend,
		j.Spec.Template.Spec.NodeSelector,
		j.Spec.Template.Labels,
		w.Name,
		w.Finalizers,
		c != nil && c.Status == metav1.ConditionTrue,
	)
}

// Another client writes the Workload whenever its status is about to be written, and
// is not overwritten: the controller looks again, and the end is the same.
func TestRivalIsNotOverwritten(t *testing.T) {
	alone := newLife(t, 0, false)
	alone.live()
	l := newLife(t, 0, false)
	var said []string // of the Workload that there is
	meets := 0
	l.rival = func(what string) {
		switch {
		case what == "create":
			said = nil
		case what != "status":
		case meets%2 == 0: // it is not always faster
			word := fmt.Sprintf("Word%d", meets)
			said = append(said, word)
			l.rule(func(w *kueue.Workload) {
				w.Status.Conditions = append(
					w.Status.Conditions,
					metav1.Condition{Type: word, Status: metav1.ConditionTrue, Reason: "Said"},
				)
			})
			fallthrough
		default:
			meets++
		}
	}
	l.live()
	if got, want := l.picture(), alone.picture(); got != want {
		t.Errorf("with a rival: %s\nalone: %s", got, want)
	}
	w := l.workload()
	if meets < 4 || len(said) == 0 {
		t.Fatalf("the two met %d times, and %v is said of the last Workload", meets, said)
	}
	for _, word := range said {
		if !apimeta.IsStatusConditionTrue(w.Status.Conditions, word) {
			t.Errorf("%s is lost: %v", word, w.Status.Conditions)
		}
	}
}

// The controller is killed at every single write of a life, once before the write
// took effect and once after, and the end is the same.
func TestEndIsTheSameAfterACrashAtAnyWrite(t *testing.T) {
	whole := newLife(t, 0, false)
	whole.live()
	want := whole.picture()
	if len(whole.writes) < 10 {
		t.Errorf("only %d writes in a life: %v", len(whole.writes), whole.writes)
	}
	for k := 1; k <= len(whole.writes); k++ {
		for _, effect := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d %s effect %v", k, whole.writes[k-1], effect), func(t *testing.T) {
				l := newLife(t, k, effect)
				l.live()
				if diff := cmp.Diff(want, l.picture()); diff != "" {
					t.Errorf("another end than without the crash (-want +got)\n%s", diff)
				}
			})
		}
	}
}
