package operator

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/memo"
	"github.com/mlbatch/mlbatch/test/toy"
)

// anew has another process take over, which knows nothing.
func (b *bench) anew() {
	b.r.awaited, b.r.counted, b.r.kept = awaited{}, memo.Table[time.Time]{}, memo.Table[kept]{}
}

// forget deletes what is remembered.
func (b *bench) forget(namespace string) {
	b.t.Helper()
	o := &recovery.JobRecovery{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x-uid"}}
	if err := b.r.Client.Delete(b.t.Context(), o); err != nil {
		b.t.Fatal(err)
	}
}

// TestWritesOfALife: what is remembered is written when it changes and only then, each time before the
// status that follows from it, and both before anything is done.
func TestWritesOfALife(t *testing.T) {
	b := newBench(t, aToy("lab", func(x *toy.Toy) { x.Spec.Pods = 1 }))
	var wrote []string
	b.before = func(verb string, o client.Object) error {
		wrote = append(wrote, fmt.Sprintf("%s %T", verb, o))
		return nil
	}
	took := func(why string, want ...string) {
		t.Helper()
		wrote = nil
		b.run()
		expect(t, why, wrote, want)
	}
	const memory, status, pod, service = " *v1alpha1.JobRecovery", "status *toy.Toy", " *v1.Pod", " *v1.Service"
	took("it begins", "create"+memory, status, "create"+service, "create"+pod)
	took("nothing happens")
	b.anew()
	took("another process takes over")
	b.becomes("x-0", corev1.PodRunning)
	b.clock.SetTime(b.clock.Now().Add(countsPause))
	took("its pod runs", status)
	b.becomes("x-0", corev1.PodFailed)
	b.clock.SetTime(b.clock.Now().Add(countsPause))
	took("its pod fails", "update"+memory, status, "delete"+pod, "create"+pod)
	b.becomes("x-0", corev1.PodSucceeded)
	took("and succeeds", "update"+memory, status)
}

// TestMemoryIsOfOneJob: what is stored under a job's name by others, or for another job, is not believed; a
// job that was made anew under the name of an earlier one begins afresh.
func TestMemoryIsOfOneJob(t *testing.T) {
	stored := func(change func(*recovery.JobRecovery)) *recovery.JobRecovery {
		is := true
		o := &recovery.JobRecovery{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "lab",
				Name:      "x-uid",
				OwnerReferences: []metav1.OwnerReference{
					{APIVersion: "toys.example.com/v1", Kind: "Toy", Name: "x", UID: "x-uid", Controller: &is},
				},
			},
			Recovery: recovery.Recovery{Attempt: 7, Failures: 9, StartTime: &metav1.Time{Time: time.Unix(9, 0)}},
		}
		change(o)
		return o
	}
	for name, tc := range map[string]struct {
		change func(*recovery.JobRecovery)
		want   int32
	}{
		"its own":        {func(*recovery.JobRecovery) {}, 7},
		"of nobody":      {func(o *recovery.JobRecovery) { o.OwnerReferences = nil }, 0},
		"not controlled": {func(o *recovery.JobRecovery) { o.OwnerReferences[0].Controller = nil }, 0},
		"of another":     {func(o *recovery.JobRecovery) { o.OwnerReferences[0].UID = "other" }, 0},
		"of an earlier":  {func(o *recovery.JobRecovery) { o.Name, o.OwnerReferences[0].UID = "earlier", "earlier" }, 0},
		"elsewhere":      {func(o *recovery.JobRecovery) { o.Namespace = "blue" }, 0},
	} {
		b := newBench(t, aToy("lab"), stored(tc.change))
		b.run()
		if r := b.recovery("lab"); r.Attempt != tc.want || r.StartTime == nil {
			t.Errorf("%s: it remembers %+v", name, r)
		}
		for _, p := range b.pods() {
			if got := p.Labels[recovery.AttemptLabel]; got != fmt.Sprint(tc.want) {
				t.Errorf("%s: a pod of attempt %s is made", name, got)
			}
		}
	}
}

// TestLostMemoryIsRebuilt: from the status, and from what is on the pods. Nothing is made anew for it, and
// failures are counted on from where they were.
func TestLostMemoryIsRebuilt(t *testing.T) {
	b := newBench(t, aToy("lab"))
	b.run()
	b.becomes("x-1", corev1.PodFailed)
	b.run()
	b.becomes("x-0", corev1.PodSucceeded)
	b.run()
	was, uids := *b.recovery("lab"), b.picture()
	b.forget("lab")
	b.anew()
	b.run()
	is := b.recovery("lab")
	expect(t, "failures", is.Failures, was.Failures)
	expect(t, "done", is.Done, was.Done)
	if is.StartTime == nil {
		t.Error("it has pods, and nobody remembers that it began")
	}
	for _, p := range b.pods() {
		if !slices.Contains([]string{"x-0", "x-1", "x-2"}, p.Name) || len(uids) == 0 {
			t.Errorf("pod %s", p.Name)
		}
	}
	// While the process runs the loss is noticed with the next write, which is of what is known.
	b.forget("lab")
	b.becomes("x-1", corev1.PodFailed)
	b.run()
	expect(t, "one more", b.recovery("lab").Failures, was.Failures+1)
	// Of a job that has not begun nothing is made up.
	b = newBench(t, aToy("lab", func(x *toy.Toy) { x.Spec.Hold = true }))
	b.run()
	if b.get("lab", &recovery.JobRecovery{}, "x-uid") {
		t.Error("it has not begun, and something is remembered")
	}
}

// TestWhatWasCarriedOverIsCaughtUp: the version before went on until it was stopped, after what it kept had
// been read.
func TestWhatWasCarriedOverIsCaughtUp(t *testing.T) {
	b := newBench(t, aToy("lab", ofJobs))
	b.run()
	b.says("x-1", condition(batchv1.JobFailed, "BackoffLimitExceeded"))
	b.run()
	now := b.recovery("lab")
	expect(t, "attempt", now.Attempt, int32(1))
	o := &recovery.JobRecovery{}
	b.get("lab", o, "x-uid")
	o.Attempt, o.Failures, o.LastFailureTime = 0, 0, nil
	o.Annotations = map[string]string{recovery.CarriedAnnotation: "1"}
	b.update(o)
	b.anew()
	lines := b.jobLines()
	b.run()
	expect(t, "attempt", b.recovery("lab").Attempt, int32(1))
	expect(t, "members", b.jobLines(), lines)
	if b.get("lab", o, "x-uid"); len(o.Annotations) > 0 {
		t.Errorf("it is caught up with again and again: %v", o.Annotations)
	}
}

// TestAnotherProcessWroteMeanwhile: what was read is not written over; it is read again.
func TestAnotherProcessWroteMeanwhile(t *testing.T) {
	b := newBench(t, aToy("lab"))
	b.run()
	o := &recovery.JobRecovery{}
	b.get("lab", o, "x-uid")
	o.Failures = 5
	b.update(o)
	b.becomes("x-1", corev1.PodFailed)
	b.run()
	expect(t, "failures", b.recovery("lab").Failures, int32(6))
}

// TestNothingIsDoneByAnOldStatus: a cache that does not show the status that was written last is waited for.
func TestNothingIsDoneByAnOldStatus(t *testing.T) {
	b := newBench(t, aToy("lab"))
	old := b.toy("lab")
	if _, err := b.step(); err != nil {
		t.Fatal(err)
	}
	live, _ := b.r.Client.(client.WithWatch)
	b.r.Client = interceptor.NewClient(
		live,
		interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if x, is := o.(*toy.Toy); is {
					*x = *old
					return nil
				}
				return c.Get(ctx, key, o, opts...)
			},
		},
	)
	wrote := 0
	b.before = func(string, client.Object) error { wrote++; return nil }
	b.acting = true
	result, err := b.step()
	if err != nil || result.RequeueAfter != conflictPause || wrote > 0 {
		t.Errorf("%d writes, again after %s, %v", wrote, result.RequeueAfter, err)
	}
	b.r.Client, b.before = live, nil
	b.run()
	expect(t, "pods", b.podNames(), three)
}
