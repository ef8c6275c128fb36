package workloadlifecycle

import (
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// Eviction is why a workload loses what it has.
type Eviction struct {
	// Reason of the condition Evicted, Cause a finer one within it, or "".
	Reason, Cause string
	Message       string
	// Nodes are those that are the cause; Pod and its Rank, if one is.
	Nodes []string
	Pod   string
	Rank  *int32
	// Unbegun: no pod of it has run, so that no attempt ends.
	Unbegun bool
}

// Reserve writes the first phase of admission: quota and places are the
// workload's, its checks are asked, and if none applies it is admitted in the
// same write.
func Reserve(
	w *kueue.Workload,
	next *kueue.WorkloadStatus,
	a *kueue.Admission,
	q *kueue.ClusterQueue,
	c Config,
	now time.Time,
) {
	next.Admission, next.NextAdmission = a, nil
	queue := string(a.ClusterQueue)
	set := NewConditions(w, next, now)
	set.Set(
		kueue.WorkloadQuotaReserved,
		metav1.ConditionTrue,
		kueue.ReasonQuotaReserved,
		"Quota reserved in ClusterQueue "+queue,
	)
	next.AdmissionChecks = listed(next.AdmissionChecks, Checks(q, a), now)
	if allReady(next.AdmissionChecks) {
		set.Set(kueue.WorkloadAdmitted, metav1.ConditionTrue, kueue.ReasonAdmitted, "The workload is admitted")
		c.awaitPods(set)
	} else {
		set.Set(
			kueue.WorkloadAdmitted,
			metav1.ConditionFalse,
			kueue.ReasonUnsatisfiedAdmissionChecks,
			unsatisfied(next.AdmissionChecks),
		)
	}
	set.clear(kueue.ReasonQuotaReserved, "Quota reserved again in ClusterQueue "+queue,
		kueue.WorkloadEvicted, kueue.WorkloadPreempted, kueue.WorkloadNodesKept)
	set.Ungated()
	next.UnhealthyNodes = nil
	apimeta.RemoveStatusCondition(&next.Conditions, kueue.WorkloadProgressing) // it begins anew
	apimeta.RemoveStatusCondition(&next.Conditions, kueue.WorkloadStopNotice)
	if next.RequeueState != nil { // its count goes on, should it happen again
		next.RequeueState.RequeueAt = nil
	}
}

// Evict writes that a workload loses what it has, and returns the event to tell.
// Quota stays taken until its pods are gone: see Released.
func Evict(w *kueue.Workload, next *kueue.WorkloadStatus, now time.Time, e Eviction) Event {
	set := NewConditions(w, next, now)
	stopped := convert.Interruption(w) != core.NotInterrupted // already, and loses now what it kept
	if stopped {
		set.clear(e.Reason, e.Message, kueue.WorkloadEvicted)
	}
	set.Set(kueue.WorkloadEvicted, metav1.ConditionTrue, e.Reason, e.Message)
	set.clear(kueue.ReasonGivenBack, e.Message, kueue.WorkloadNodesKept)
	set.Ungated()
	next.AdmissionChecks = resetChecks(next.AdmissionChecks, now)
	next.ClusterName, next.NominatedClusterNames, next.UnhealthyNodes = nil, nil, nil
	next.NextAdmission = nil
	for i := range next.PreemptionGates {
		if g := &next.PreemptionGates[i]; g.Position != kueue.GateClosed {
			g.Position, g.LastTransitionTime = kueue.GateClosed, metav1.NewTime(now)
		}
	}
	reason, cause := statistics(e)
	if !stopped {
		count(next, reason, cause)
		endAttempt(w, next, now, e)
		beginNotice(w, next, now, e)
		if reason == kueue.ReasonNodeFailures ||
			reason == kueue.ReasonHang { // of a hang, that of the rank that was behind
			avoid(w, next, now, e.Nodes)
		}
	}
	name := EventEvictedDueTo + reason
	if cause != "" {
		name += "DueTo" + cause
	}
	return Event{Reason: name, Message: e.Message, Eviction: &e}
}

// statistics splits the reason of a deactivation, which names its cause itself.
func statistics(e Eviction) (reason, cause string) {
	if c, is := strings.CutPrefix(e.Reason, kueue.ReasonDeactivatedDueTo); is {
		return kueue.ReasonDeactivated, c
	}
	return e.Reason, e.Cause
}

// count adds an eviction to the scheduling statistics of the Workload.
func count(next *kueue.WorkloadStatus, reason, cause string) {
	if next.SchedulingStats == nil {
		next.SchedulingStats = &kueue.SchedulingStats{}
	}
	for i := range next.SchedulingStats.Evictions {
		e := &next.SchedulingStats.Evictions[i]
		if e.Reason == reason && string(e.UnderlyingCause) == cause {
			e.Count++
			return
		}
	}
	next.SchedulingStats.Evictions = append(
		next.SchedulingStats.Evictions,
		kueue.WorkloadSchedulingStatsEviction{
			Reason:          reason,
			UnderlyingCause: kueue.EvictionUnderlyingCause(cause),
			Count:           1,
		},
	)
}

// Released returns the status of a workload whose pods are gone after an
// eviction: quota is free, and it waits again unless the eviction says that
// something has to happen first.
func Released(w *kueue.Workload, now time.Time) *kueue.WorkloadStatus {
	next := w.Status.DeepCopy()
	evicted := apimeta.FindStatusCondition(next.Conditions, kueue.WorkloadEvicted)
	unreserve(w, next, now, kueue.ReasonPending, evicted.Message)
	if evicted.Reason == kueue.ReasonDeactivatedDueTo+kueue.ReasonMaximumExecutionTimeExceeded {
		next.AccumulatedPastExecutionTimeSeconds = nil // it starts from zero if it is activated again
	}
	again := metav1.ConditionTrue
	if hasToWait(evicted.Reason, next.RequeueState) {
		again = metav1.ConditionFalse
	}
	NewConditions(w, next, now).Set(kueue.WorkloadRequeued, again, evicted.Reason, evicted.Message)
	return next
}

// hasToWait reports whether a workload evicted for a reason may be queued again
// only when requeue says so.
func hasToWait(reason string, r *kueue.RequeueState) bool {
	switch reason {
	case kueue.ReasonNodesRefused:
		return r != nil && r.RequeueAt != nil
	case kueue.ReasonPodsReadyTimeout,
		kueue.ReasonAdmissionCheck,
		kueue.ReasonClusterQueueStopped,
		kueue.ReasonLocalQueueStopped:
		return true
	}
	return strings.HasPrefix(reason, kueue.ReasonDeactivated)
}

// unreserve takes the reservation away.
func unreserve(w *kueue.Workload, next *kueue.WorkloadStatus, now time.Time, reason, message string) {
	leaveAdmitted(w, next, now)
	next.Admission, next.UnhealthyNodes = nil, nil
	apimeta.RemoveStatusCondition(&next.Conditions, kueue.WorkloadProgressing)
	apimeta.RemoveStatusCondition(&next.Conditions, kueue.WorkloadStopNotice)
	set := NewConditions(w, next, now)
	set.Set(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, reason, message)
	set.Unreserved()
	set.clear(kueue.ReasonWaitForStart, notAllReady, kueue.WorkloadPodsReady)
	set.clear(kueue.ReasonGivenBack, message, kueue.WorkloadNodesKept)
}

// Ended returns the status of a workload that finished for good.
func Ended(w *kueue.Workload, reason, message string, now time.Time) *kueue.WorkloadStatus {
	next := w.Status.DeepCopy()
	NewConditions(w, next, now).Set(kueue.WorkloadFinished, metav1.ConditionTrue, reason, message)
	return next
}

// requeue lets an evicted workload wait again when what its eviction asked for
// has happened.
func requeue(f Facts) (Write, bool) {
	w := f.Workload
	evicted, requeued := condition(w, kueue.WorkloadEvicted), condition(w, kueue.WorkloadRequeued)
	if w.Status.Admission != nil || evicted == nil || evicted.Status != metav1.ConditionTrue ||
		requeued == nil ||
		requeued.Status != metav1.ConditionFalse {
		return Write{}, false
	}
	var reason, message string
	switch evicted.Reason {
	case kueue.ReasonPodsReadyTimeout, kueue.ReasonAdmissionCheck, kueue.ReasonNodesRefused:
		if r := w.Status.RequeueState; r != nil && r.RequeueAt != nil && r.RequeueAt.After(f.Now) {
			return Write{Again: r.RequeueAt.Time}, false
		}
		reason, message = kueue.ReasonBackoffFinished, "The workload may be admitted again: the pause after its eviction is over"
	case kueue.ReasonClusterQueueStopped:
		if f.ClusterQueue == nil || !open(f.ClusterQueue.Spec.StopPolicy) {
			return Write{}, false
		}
		reason, message = kueue.ReasonClusterQueueRestarted, "The ClusterQueue was restarted after being stopped"
	case kueue.ReasonLocalQueueStopped:
		if f.LocalQueue == nil || !open(f.LocalQueue.Spec.StopPolicy) {
			return Write{}, false
		}
		reason, message = kueue.ReasonLocalQueueRestarted, "The LocalQueue was restarted after being stopped"
	default: // a deactivated one, which is active again: see deactivated
		reason, message = kueue.ReasonReactivated, "The workload was activated again"
	}
	next := w.Status.DeepCopy()
	NewConditions(w, next, f.Now).Set(kueue.WorkloadRequeued, metav1.ConditionTrue, reason, message)
	if next.RequeueState != nil {
		next.RequeueState.RequeueAt = nil
	}
	return Write{Status: next, Events: []Event{{Reason: reason, Message: message}}}, true
}

// leaveAdmitted adds the time a workload was admitted to what it has used of its execution time,
// which is told where there is no limit to it, too: it is what was lost, and what histories count.
func leaveAdmitted(w *kueue.Workload, next *kueue.WorkloadStatus, now time.Time) {
	if !isTrue(w, kueue.WorkloadAdmitted) {
		return
	}
	since := condition(w, kueue.WorkloadAdmitted).LastTransitionTime.Time
	used := int64(ptr.Deref(w.Status.AccumulatedPastExecutionTimeSeconds, 0)) + int64(now.Sub(since)/time.Second)
	next.AccumulatedPastExecutionTimeSeconds = new(int32(min(max(used, 0), 1<<31-1)))
}
