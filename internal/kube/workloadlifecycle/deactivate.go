package workloadlifecycle

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// A workload that a rule takes out of its queue goes through three writes: the
// condition DeactivationTarget says why, spec.active becomes false, and then it
// is evicted with a reason that names the cause. Each leads to the next by
// itself, so that it may be interrupted anywhere.

// target is the first of the three.
func target(f Facts, reason, message string, told Event) Write {
	next := f.Workload.Status.DeepCopy()
	NewConditions(
		f.Workload,
		next,
		f.Now,
	).Set(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, reason, message)
	return Write{Status: next, Events: []Event{told}}
}

// deactivating is the second.
func deactivating(f Facts) (Write, bool) {
	return Write{Deactivate: true}, isTrue(f.Workload, kueue.WorkloadDeactivationTarget)
}

// deactivated is the third, and all there is to do for a workload that its user
// deactivated. Nothing else concerns a workload while it is inactive, but that its
// pods are told and save what they have done, that it gives back its quota, and that
// it is deleted in the end.
func deactivated(f Facts) (Write, bool) {
	w := f.Workload
	if ptr.Deref(w.Spec.Active, true) {
		return Write{}, false
	}
	leaving, acts := release(f)
	if acts {
		return leaving, true
	}
	next := w.Status.DeepCopy()
	next.RequeueState = nil
	apimeta.RemoveStatusCondition(&next.Conditions, kueue.WorkloadDeactivationTarget)
	var told []Event
	if c := condition(
		w,
		kueue.WorkloadEvicted,
	); c == nil || c.Status != metav1.ConditionTrue ||
		!strings.HasPrefix(c.Reason, kueue.ReasonDeactivated) {
		e := Eviction{Reason: kueue.ReasonDeactivated, Message: "The workload is deactivated: spec.active is false"}
		if t := condition(w, kueue.WorkloadDeactivationTarget); t != nil && t.Status == metav1.ConditionTrue {
			e.Reason = kueue.ReasonDeactivatedDueTo + t.Reason
			e.Message = "The workload is deactivated: " + t.Message
		}
		told = leaveInactive(f, next, e)
	}
	if !equality.Semantic.DeepEqual(w.Status, *next) {
		return Write{Status: next, Events: told}, true
	}
	if step, acts := saved(f); acts {
		return step, true
	}
	running, acts := noticed(f)
	if acts {
		return running, true
	}
	step := retainDeactivated(f)
	step.Again = sooner(step.Again, sooner(running.Again, leaving.Again))
	return step, true
}

// leaveInactive writes the eviction. One that holds nothing loses nothing: it is
// not told and not counted, and has to wait from now on.
func leaveInactive(f Facts, next *kueue.WorkloadStatus, e Eviction) []Event {
	w := f.Workload
	stats := next.SchedulingStats.DeepCopy()
	told := Evict(w, next, f.Now, e)
	if w.Status.Admission != nil {
		return []Event{told}
	}
	next.SchedulingStats = stats
	NewConditions(w, next, f.Now).Set(kueue.WorkloadRequeued, metav1.ConditionFalse, e.Reason, e.Message)
	return nil
}

// executionTime is the rule of spec.maximumExecutionTimeSeconds.
func executionTime(f Facts) (Write, bool) {
	w := f.Workload
	limit := w.Spec.MaximumExecutionTimeSeconds
	if limit == nil || !isTrue(w, kueue.WorkloadAdmitted) || isTrue(w, kueue.WorkloadEvicted) {
		return Write{}, false
	}
	left := time.Duration(*limit-ptr.Deref(w.Status.AccumulatedPastExecutionTimeSeconds, 0)) * time.Second
	end := condition(w, kueue.WorkloadAdmitted).LastTransitionTime.Add(left)
	if end.After(f.Now) {
		return Write{Again: end}, false
	}
	message := "it exceeded the maximum execution time of " + (time.Duration(*limit) * time.Second).String()
	step := target(f, kueue.ReasonMaximumExecutionTimeExceeded, message, Event{
		Reason:  kueue.ReasonMaximumExecutionTimeExceeded,
		Warning: true,
		Message: "Deactivating the workload: " + message,
	})
	step.Status.AccumulatedPastExecutionTimeSeconds = nil
	return step, true
}

// retain deletes what ended, some time after a condition became True.
func retain(f Facts, w *kueue.Workload, since string, keep *time.Duration, what Deletion) Write {
	if keep == nil {
		return Write{}
	}
	end := condition(w, since).LastTransitionTime.Add(*keep)
	if end.After(f.Now) {
		return Write{Again: end}
	}
	deleted := Event{
		Reason:  kueue.EventDeleted,
		Message: "Deleted: " + since + " for " + keep.String() + ", which is as long as it is kept",
	}
	return Write{Delete: what, Events: []Event{deleted}}
}

// retainDeactivated deletes what a rule deactivated, and its job.
func retainDeactivated(f Facts) Write {
	w := f.Workload
	if w.Status.Admission != nil ||
		!strings.HasPrefix(condition(w, kueue.WorkloadEvicted).Reason, kueue.ReasonDeactivatedDueTo) {
		return Write{}
	}
	what := DeleteWorkload
	if f.Owned {
		what = DeleteJob
	}
	return retain(f, w, kueue.WorkloadEvicted, f.Config.Retention.AfterDeactivated, what)
}
