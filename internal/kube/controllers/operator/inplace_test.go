package operator

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/foreign"
	jobsetkind "github.com/mlbatch/mlbatch/internal/kube/jobs/jobset"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// rounds is a controller of JobSets with one whose three pods restart in place.
type rounds struct {
	t     *testing.T
	r     *reconciler
	c     client.Client
	clock *clocktesting.FakePassiveClock
	told  *events.FakeRecorder
}

func newRounds(t *testing.T, retries int32) *rounds {
	t.Helper()
	js := &jobset.JobSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "x", UID: "x-uid"},
		Spec: jobset.JobSetSpec{
			FailurePolicy: &jobset.FailurePolicy{MaxRestarts: retries, RestartStrategy: jobset.InPlaceRestart},
			ReplicatedJobs: []jobset.ReplicatedJob{{Name: "w", Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
				Parallelism: new(int32(3)), Completions: new(int32(3)), BackoffLimit: new(int32(math.MaxInt32)),
				PodReplacementPolicy: new(batchv1.Failed),
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
					{
						Name:          "c",
						Image:         "i",
						RestartPolicy: new(corev1.ContainerRestartPolicyNever),
						RestartPolicyRules: []corev1.ContainerRestartRule{
							{Action: corev1.ContainerRestartRuleActionRestartAllContainers},
						},
					},
				}}},
			}}}},
		},
	}
	w := &rounds{
		t: t, clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), told: events.NewFakeRecorder(1000),
	}
	w.c = fake.NewClientBuilder().WithScheme(scheme.For(kinds.All())).
		WithObjects(js, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab"}}).
		WithStatusSubresource(&jobset.JobSet{}, &batchv1.Job{}).
		WithIndex(&corev1.Pod{}, Index, IndexOwned).WithIndex(&corev1.Service{}, Index, IndexOwned).
		WithIndex(&batchv1.Job{}, Index, IndexOwned).
		WithIndex(&kueue.Workload{}, admission.JobIndex, admission.IndexWorkload).
		WithIndex(&corev1.Pod{}, foreign.Index, foreign.IndexImages(nil)).Build()
	w.anew()
	w.run()
	for i := range 3 {
		w.pod(fmt.Sprintf("x-w-0-%d", i), w.job().UID, "0")
	}
	w.run()
	return w
}

// anew has another process take over, which knows nothing.
func (w *rounds) anew() {
	kind := jobsetkind.Kind()
	w.r = &reconciler{kind: &kind, Options: Options{
		Client: w.c, Live: w.c, Clock: w.clock, Recorder: w.told, Managed: func(_, _ string) bool { return false },
	}}
}

func (w *rounds) run() {
	w.t.Helper()
	for range 10 {
		w.step()
	}
}

func (w *rounds) step() {
	w.t.Helper()
	w.clock.SetTime(w.clock.Now().Add(time.Second))
	if _, err := w.r.Reconcile(
		w.t.Context(),
		reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "lab", Name: "x"}},
	); err != nil {
		w.t.Fatal(err)
	}
}

func (w *rounds) job() *batchv1.Job {
	w.t.Helper()
	var all batchv1.JobList
	if err := w.c.List(w.t.Context(), &all); err != nil || len(all.Items) != 1 {
		w.t.Fatalf("there are %d Jobs, %v", len(all.Items), err)
	}
	if j := &all.Items[0]; j.UID == "" {
		j.UID = types.UID("job-" + j.Labels[recovery.AttemptLabel])
		if err := w.c.Update(w.t.Context(), j); err != nil {
			w.t.Fatal(err)
		}
	}
	return &all.Items[0]
}

func (w *rounds) pod(name string, owner types.UID, round string) {
	w.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "lab", Name: name, UID: types.UID(name), Labels: map[string]string{jobset.JobSetNameKey: "x"},
			Annotations:       map[string]string{jobset.InPlaceRestartAttemptKey: round},
			CreationTimestamp: metav1.NewTime(w.clock.Now()),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "batch/v1", Kind: "Job", Name: "x-w-0", UID: owner, Controller: new(true),
			}},
		},
		Spec:   corev1.PodSpec{NodeName: "node-" + name, Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, o := range []client.Object{p, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.Spec.NodeName}}} {
		if err := w.c.Create(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
}

// says has the agent of a pod say a round.
func (w *rounds) says(pod int, round string) {
	w.t.Helper()
	var p corev1.Pod
	name := types.NamespacedName{Namespace: "lab", Name: fmt.Sprintf("x-w-0-%d", pod)}
	if err := w.c.Get(w.t.Context(), name, &p); err != nil {
		w.t.Fatal(err)
	}
	p.Annotations = map[string]string{jobset.InPlaceRestartAttemptKey: round}
	if err := w.c.Update(w.t.Context(), &p); err != nil {
		w.t.Fatal(err)
	}
}

// get is a pod as it is stored.
func (w *rounds) get(pod int) *corev1.Pod {
	w.t.Helper()
	var p corev1.Pod
	name := types.NamespacedName{Namespace: "lab", Name: fmt.Sprintf("x-w-0-%d", pod)}
	if err := w.c.Get(w.t.Context(), name, &p); err != nil {
		w.t.Fatal(err)
	}
	return &p
}

// exits has the container of a pod fail.
func (w *rounds) exits(p *corev1.Pod) {
	exited(139)(p)
	is := &p.Status.ContainerStatuses[0]
	is.Name, is.State.Terminated.FinishedAt = "c", metav1.NewTime(w.clock.Now())
}

// remove deletes a pod.
func (w *rounds) remove(p *corev1.Pod) {
	w.t.Helper()
	if err := w.c.Delete(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
}

// sees has the process see a pod change; nil is that it is not there. It reports whether the JobSet is looked at.
func (w *rounds) sees(was, is *corev1.Pod) bool {
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](),
	)
	defer queue.ShutDown()
	h := w.r.inRounds(w.r.kind.Running.Operator.Rounds)
	switch {
	case was == nil:
		h.Create(w.t.Context(), event.CreateEvent{Object: is}, queue)
	case is == nil:
		h.Delete(w.t.Context(), event.DeleteEvent{Object: was}, queue)
	default:
		h.Update(w.t.Context(), event.UpdateEvent{ObjectOld: was, ObjectNew: is}, queue)
	}
	return queue.Len() == 1
}

// status is what agents read, the current attempt and the previous one, and how often Jobs were made anew.
func (w *rounds) status() string {
	w.t.Helper()
	var js jobset.JobSet
	if err := w.c.Get(w.t.Context(), types.NamespacedName{Namespace: "lab", Name: "x"}, &js); err != nil {
		w.t.Fatal(err)
	}
	of := func(n *int32) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	return fmt.Sprintf("%s %s %d %s", of(js.Status.CurrentInPlaceRestartAttempt),
		of(js.Status.PreviousInPlaceRestartAttempt), js.Status.Restarts, js.Status.TerminalState)
}

func (w *rounds) recovery() *recovery.Recovery {
	w.t.Helper()
	var r recovery.JobRecovery
	if err := w.c.Get(w.t.Context(), types.NamespacedName{Namespace: "lab", Name: "x-uid"}, &r); err != nil {
		w.t.Fatal(err)
	}
	return &r.Recovery
}

func (w *rounds) events() string {
	var all []string
	for {
		select {
		case e := <-w.told.Events:
			all = append(all, e)
		default:
			return strings.Join(all, "\n")
		}
	}
}

// TestPodsRestartInPlace: one fault is one restart and one entry in the record, which says which pod failed, how, and
// that all restarted in place, whichever process looks when; no pod and no Job is made or deleted for it.
func TestPodsRestartInPlace(t *testing.T) {
	for _, killed := range []bool{false, true} {
		w := newRounds(t, 3)
		expect(t, "together", w.status(), "0 - 0 ")
		before := w.job().ResourceVersion
		failed := &corev1.Pod{}
		if err := w.c.Get(
			t.Context(),
			types.NamespacedName{Namespace: "lab", Name: "x-w-0-1"},
			failed,
		); err != nil {
			t.Fatal(err)
		}
		was := failed.DeepCopy()
		w.exits(failed)
		was.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: 1}}
		if err := w.c.Status().Update(t.Context(), was.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		if !w.sees(was, failed) {
			t.Error("its JobSet is not looked at")
		}
		w.says(1, "1")
		if killed { // once what is to be remembered is written, and before the status is
			w.step()
			w.anew()
		}
		w.run()
		expect(t, "one restarts", w.status(), "0 0 0 ")
		w.says(0, "1")
		w.run()
		w.says(2, "1")
		w.run()
		expect(t, "all did", w.status(), "1 0 0 ")
		r := w.recovery()
		if len(r.Attempts.Attempts) != 1 || r.InPlace.Failures != 1 || r.Failures != 0 {
			t.Fatalf("it remembers %+v, %+v", r.Attempts, r.InPlace)
		}
		a := r.Attempts.Attempts[0]
		if a.Pod != "x-w-0-1" || *a.ExitCode != 139 || a.Category != "Crash" || a.RestartedPods != 3 ||
			a.NodeCount != 3 ||
			a.ReplacedPods != 0 ||
			!strings.Contains(a.Message, "3 pods restart in place: no Job failed") {
			t.Errorf("its record says %+v", a)
		}
		if said := w.events(); strings.Count(said, restartedInPlace) != 1 ||
			!strings.Contains(
				said,
				"3 pods restart in place, attempt 1: pod x-w-0-1 failed: container c exited with code 139",
			) {
			t.Errorf("it says %s", said)
		}
		if w.job().ResourceVersion != before {
			t.Error("the Job was changed")
		}
	}
}

// TestExitsAreOfOneFault: who did not lead saw pods fail and not what followed; that is no evidence of a later fault. Nor is
// what is seen again.
func TestExitsAreOfOneFault(t *testing.T) {
	w := newRounds(t, 5)
	old := w.get(1)
	w.exits(old)
	if w.sees(old, old); len(w.r.exits.of(types.NamespacedName{Namespace: "lab", Name: "x"})) > 0 {
		t.Error("what is seen again is noted")
	}
	w.sees(w.get(1), old)
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	blames := func(n int, why string) {
		t.Helper()
		w.says(2, fmt.Sprint(n))
		w.run()
		all := w.recovery().Attempts.Attempts
		if len(all) != n || all[n-1].Pod != "x-w-0-2" || all[n-1].ExitCode != nil {
			t.Errorf("%s: the record says %+v", why, all)
		}
		w.says(0, fmt.Sprint(n))
		w.says(1, fmt.Sprint(n))
		w.run()
	}
	blames(1, "it was long ago")
	old = w.get(1)
	old.Annotations[jobset.InPlaceRestartAttemptKey] = "0"
	was := old.DeepCopy()
	w.exits(old)
	w.sees(was, old)
	blames(2, "it was in an earlier round")
}

// TestWhoBeginsBlamesNobodyForAnEviction: a process that begins when a pod was evicted, and others lost touch with it, finds
// that in the pod as it is then, or was when it was deleted; the job is charged for nothing.
func TestWhoBeginsBlamesNobodyForAnEviction(t *testing.T) {
	for why, begin := range map[string]func(w *rounds, evicted *corev1.Pod){
		"it is there, and nobody was told": func(*rounds, *corev1.Pod) {},
		"it is there": func(w *rounds, evicted *corev1.Pod) {
			w.sees(nil, evicted)
			w.remove(evicted)
		},
		"it was deleted": func(w *rounds, evicted *corev1.Pod) {
			w.sees(evicted, nil)
			w.remove(evicted)
		},
	} {
		t.Run(why, func(t *testing.T) {
			w := newRounds(t, 3)
			evicted := w.get(1)
			evicted.Status.Phase = corev1.PodFailed
			evicted.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler",
				LastTransitionTime: metav1.NewTime(w.clock.Now()),
			}}
			if err := w.c.Status().Update(t.Context(), evicted); err != nil {
				t.Fatal(err)
			}
			w.clock.SetTime(w.clock.Now().Add(5 * time.Second))
			w.anew()
			begin(w, evicted)
			other := w.get(0)
			was := other.DeepCopy()
			w.exits(other)
			w.sees(was, other)
			w.says(0, "1")
			w.run()
			r := w.recovery()
			if len(r.Attempts.Attempts) != 1 || r.Attempts.Attempts[0].Pod != "x-w-0-1" ||
				r.InPlace.Failures != 0 || r.InPlace.FreeFailures != 1 {
				t.Errorf("it remembers %+v, %+v", r.Attempts, r.InPlace)
			}
		})
	}
}

// TestPodsMadeAnewAreTold: they were made after the failure. That containers restart is told late, and says nothing of it.
func TestPodsMadeAnewAreTold(t *testing.T) {
	w := newRounds(t, 3)
	lost := w.get(1)
	was := lost.DeepCopy()
	w.exits(lost)
	w.sees(was, lost)
	w.remove(was)
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.pod("x-w-0-3", w.job().UID, "1")
	w.says(0, "1")
	w.run()
	if said := w.events(); !strings.Contains(
		said,
		"2 pods restart in place, and 1 was made anew, attempt 1: pod x-w-0-1",
	) {
		t.Errorf("it says %s", said)
	}
	if a := w.recovery().Attempts.Attempts; len(a) != 1 || a[0].RestartedPods != 2 {
		t.Errorf("the record says %+v", a)
	}
}

// TestOneCheckpointIsProgressOnce: an attempt in place begins when the one before was lost, and what was saved before that is
// nothing that it saved.
func TestOneCheckpointIsProgressOnce(t *testing.T) {
	w := newRounds(t, 5)
	var js jobset.JobSet
	if err := w.c.Get(t.Context(), types.NamespacedName{Namespace: "lab", Name: "x"}, &js); err != nil {
		t.Fatal(err)
	}
	js.Annotations = map[string]string{
		history.CheckpointAnnotation: w.clock.Now().UTC().Truncate(time.Second).Format(time.RFC3339),
	}
	if err := w.c.Update(t.Context(), &js); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
		for i := range 3 {
			w.says(i, fmt.Sprint(n+1))
			w.run()
		}
	}
	all := w.recovery().Attempts.Attempts
	if len(all) != 2 || all[0].Checkpoint == nil || all[1].Checkpoint != nil || all[1].Start.Before(all[0].End) {
		t.Errorf("the record says %+v", all)
	}
}

// TestPodsThatSucceededMayBeGone: their Job counts them.
func TestPodsThatSucceededMayBeGone(t *testing.T) {
	w := newRounds(t, 5)
	w.remove(w.get(2))
	j := w.job()
	j.Status.Succeeded = 1
	if err := w.c.Status().Update(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	w.says(1, "1")
	w.run()
	expect(t, "all Jobs are made anew", w.status(), "0 - 1 ")
}

// TestLostMemoryOfRounds: the status says in which round pods are, and not what counted: nothing does then. A round that is
// under way does not last for ever.
func TestLostMemoryOfRounds(t *testing.T) {
	w := newRounds(t, 5)
	w.says(1, "1")
	w.run()
	w.says(0, "1")
	w.remove(w.get(2))
	o := &recovery.JobRecovery{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "x-uid"}}
	if err := w.c.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	w.anew()
	w.run()
	if is := w.recovery().InPlace; is == nil || is.Failures != 0 || is.Since == nil || is.Next != 1 {
		t.Fatalf("it remembers %+v", is)
	}
	w.clock.SetTime(w.clock.Now().Add(10 * time.Minute))
	w.run()
	expect(t, "too late", w.status(), "0 0 1 ")
}

// TestExitsAreBounded: whatever labels of failing pods say, and in whatever round they are; of what there is no room for
// the last round counts.
func TestExitsAreBounded(t *testing.T) {
	var e exits
	last := types.NamespacedName{Namespace: "lab", Name: "last"}
	for i := range 2 * mostJobs {
		e.note(types.NamespacedName{Namespace: "lab", Name: fmt.Sprint(i)}, exit{&corev1.Pod{}, 0})
	}
	for i := range 3 * mostExits {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i))}}
		e.note(last, exit{p, int32(i / (2 * mostExits))})
	}
	if n := len(e.pods); n > mostJobs {
		t.Errorf("%d jobs are kept", n)
	}
	all := e.of(last)
	if len(all) != mostExits || slices.ContainsFunc(all, func(x exit) bool { return x.round != 1 }) {
		t.Errorf("of one are kept %+v", all)
	}
}

// TestForgedPodsAreNotHeard: pods of others, whatever their labels say, and numbers that no agent comes to, change nothing.
func TestForgedPodsAreNotHeard(t *testing.T) {
	w := newRounds(t, 3)
	w.pod("x-w-0-9", "somebody", "1")
	for _, said := range []string{"2", "-1", "many", "99999999999", ""} {
		w.says(0, said)
		w.run()
		expect(t, "it says "+said, w.status(), "0 - 0 ")
	}
}

// TestWhatDoesNotComeBackIsMadeAnew: pods that are too late, and pods that had succeeded, have all Jobs made anew, and
// the record says so. The limit counts one failure.
func TestWhatDoesNotComeBackIsMadeAnew(t *testing.T) {
	w := newRounds(t, 1)
	w.says(1, "1")
	w.run()
	w.clock.SetTime(w.clock.Now().Add(10 * time.Minute))
	w.run()
	expect(t, "the limit is 1", w.status(), "0 0 1 ")

	w = newRounds(t, 5)
	w.says(1, "1")
	w.run()
	w.clock.SetTime(w.clock.Now().Add(10 * time.Minute))
	w.run()
	expect(t, "too late", w.status(), "0 0 1 ")
	all := w.recovery().Attempts.Attempts
	if len(all) != 2 || all[1].Reason != lateInPlace || all[1].Category != string(core.CategoryStopped) ||
		!strings.Contains(all[1].Message, "not all pods came back in place within 10m0s") {
		t.Errorf("its record says %+v", all)
	}
	if said := w.events(); !strings.Contains(said, notInPlace) {
		t.Errorf("it says %s", said)
	}

	w = newRounds(t, 5)
	var p corev1.Pod
	if err := w.c.Get(t.Context(), types.NamespacedName{Namespace: "lab", Name: "x-w-0-2"}, &p); err != nil {
		t.Fatal(err)
	}
	p.Status.Phase = corev1.PodSucceeded
	if err := w.c.Status().Update(t.Context(), &p); err != nil {
		t.Fatal(err)
	}
	w.says(1, "1")
	w.run()
	expect(t, "one has succeeded", w.status(), "0 - 1 ")
	if all := w.recovery().Attempts.Attempts; len(all) != 1 ||
		!slices.Contains([]string{podsSucceeded}, all[0].Reason) {
		t.Errorf("its record says %+v", all)
	}
}
