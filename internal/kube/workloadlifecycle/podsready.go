package workloadlifecycle

import (
	"fmt"
	"hash/fnv"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

const (
	notAllReady = "Not all pods are ready or succeeded"
	allAreReady = "All pods are ready or succeeded since the workload was admitted"
	readyAgain  = "All pods are ready or succeeded again"
	failedAgain = "At least one pod has failed, waiting for recovery"
)

// awaitPods starts the wait for the pods of a workload that is being admitted.
// It is part of that write, so that waiting costs none of its own.
func (c Config) awaitPods(set Conditions) {
	if c.PodsReady != nil {
		set.Set(kueue.WorkloadPodsReady, metav1.ConditionFalse, kueue.ReasonWaitForStart, notAllReady)
	}
}

// ObservePods returns the status of an admitted workload whose pods are all
// ready, or not; nil if it says so already or they are not waited for.
func ObservePods(w *kueue.Workload, ready bool, c Config, now time.Time) *kueue.WorkloadStatus {
	if c.PodsReady == nil || !isTrue(w, kueue.WorkloadAdmitted) {
		return nil
	}
	was := condition(w, kueue.WorkloadPodsReady)
	var status metav1.ConditionStatus
	var reason, message string
	switch {
	case was != nil && ready == (was.Status == metav1.ConditionTrue):
		return nil
	case ready && was != nil && was.Reason == kueue.ReasonWaitForRecovery:
		status, reason, message = metav1.ConditionTrue, kueue.ReasonRecovered, readyAgain
	case ready:
		status, reason, message = metav1.ConditionTrue, kueue.ReasonStarted, allAreReady
	case was == nil:
		status, reason, message = metav1.ConditionFalse, kueue.ReasonWaitForStart, notAllReady
	default:
		status, reason, message = metav1.ConditionFalse, kueue.ReasonWaitForRecovery, failedAgain
	}
	next := w.Status.DeepCopy()
	NewConditions(w, next, now).Set(kueue.WorkloadPodsReady, status, reason, message)
	return next
}

// AwaitsPods reports whether it matters what keeps the pods of a workload from being ready.
func (c Config) AwaitsPods(w *kueue.Workload) bool {
	return c.PodsReady != nil && isTrue(w, kueue.WorkloadAdmitted) && !isTrue(w, kueue.WorkloadEvicted) &&
		!isTrue(w, kueue.WorkloadPodsReady)
}

// troubled ends a message about pods that are not ready with what keeps one from it: nobody can ask
// them any more once they are gone.
func (f *Facts) troubled() string {
	if f.Trouble == "" {
		return ""
	}
	return ": " + f.Trouble
}

// readyPause is how long it may take until it is written that the pods of a workload have become
// ready. What ends before says both in one write: of jobs that last moments, writes are most of what
// they cost. The Job controller of Kubernetes counts pods that end within the same second together.
const readyPause = time.Second

// ReadinessDue is ObservePods for pods that are ready since some time, once it is due. Before that it
// returns how long to wait.
func ReadinessDue(
	w *kueue.Workload,
	ready bool,
	c Config,
	since, now time.Time,
) (next *kueue.WorkloadStatus, wait time.Duration) {
	next = ObservePods(w, ready, c, since)
	if next == nil || c.PodsReady.Awaited ||
		!apimeta.IsStatusConditionTrue(next.Conditions, kueue.WorkloadPodsReady) {
		return next, 0
	}
	started, admitted := condition(w, kueue.WorkloadPodsReady), condition(w, kueue.WorkloadAdmitted)
	if started == nil || started.Reason != kueue.ReasonWaitForStart {
		return next, 0
	}
	// What became ready in time is not to be evicted because that is not written yet.
	due := since.Add(readyPause)
	if last := admitted.LastTransitionTime.Add(c.PodsReady.Timeout - 2*readyPause); due.After(last) {
		due = last
	}
	if wait = due.Sub(now); wait > 0 {
		return nil, wait
	}
	return next, 0
}

// lookPause is how long a controller that has just begun looks at pods before it gives up on those that had
// time to become ready before it began. They may be ready, and nobody was there to write it: after an
// upgrade, an outage, or in a cluster on a laptop that was stopped. Another controller writes what it sees of
// them, while this one would evict.
const lookPause = time.Minute

// podsTimeout is the rule of waitForPodsReady: what was admitted and does not
// run in time makes room for others, and is deactivated if that goes on.
func podsTimeout(f Facts) (Write, bool) {
	w, c := f.Workload, f.Config.PodsReady
	if !f.Config.AwaitsPods(w) {
		return Write{}, false
	}
	cause, since, limit := kueue.ReasonWaitForStart, condition(
		w,
		kueue.WorkloadAdmitted,
	).LastTransitionTime, c.Timeout
	if p := condition(w, kueue.WorkloadPodsReady); p != nil && p.Reason == kueue.ReasonWaitForRecovery {
		if c.RecoveryTimeout == 0 {
			return Write{}, false
		}
		cause, since, limit = kueue.ReasonWaitForRecovery, p.LastTransitionTime, c.RecoveryTimeout
	}
	end := since.Add(limit)
	if seen := f.Watched.Add(lookPause); since.Time.Before(f.Watched) && end.Before(seen) {
		end = seen
	}
	if end.After(f.Now) {
		return Write{Again: end}, false
	}
	n := int32(1)
	if r := w.Status.RequeueState; r != nil {
		n += ptr.Deref(r.Count, 0)
	}
	if c.BackoffLimit != nil && n > *c.BackoffLimit {
		message := fmt.Sprintf(
			"its pods were not ready in time, after %d returns to the queue",
			*c.BackoffLimit,
		) + f.troubled()
		return target(f, kueue.ReasonRequeuingLimitExceeded, message, Event{
			Reason:  kueue.ReasonRequeuingLimitExceeded,
			Warning: true,
			Message: "Deactivating the workload: " + message,
		}), true
	}
	next := w.Status.DeepCopy()
	next.RequeueState = &kueue.RequeueState{Count: &n, RequeueAt: new(wholeSecond(f.Now.Add(c.pause(w, n))))}
	e := Eviction{
		Reason:  kueue.ReasonPodsReadyTimeout,
		Cause:   cause,
		Message: fmt.Sprintf("Exceeded the PodsReady timeout of %s", limit) + f.troubled(),
	}
	return Write{Status: next, Events: []Event{Evict(w, next, f.Now, e)}}, true
}

// pause is how long a workload stays away the n-th time: base doubled n-1
// times, at most max, and up to 0.01 % more, so that those evicted together do
// not come back together. What is added follows from the workload alone.
func (c *PodsReady) pause(w *kueue.Workload, n int32) time.Duration {
	d := c.BackoffBase
	for i := int32(1); i < n && d < c.BackoffMax; i++ {
		d *= 2
	}
	d = min(d, c.BackoffMax)
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%d", w.UID, n)
	return d + time.Duration(int64(d)/10_000*int64(h.Sum32()%1000)/1000)
}

// wholeSecond is the first moment from t on that the API can store.
func wholeSecond(t time.Time) metav1.Time {
	return metav1.NewTime(t.Add(time.Second - 1).Truncate(time.Second))
}
