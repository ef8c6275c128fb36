package workloadlifecycle

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
)

// A workload that hangs and asks to be restarted then goes through two writes, each of which leads to the
// next by itself: the condition Progressing says that it hangs, that what there is to know is kept, and that it is due
// (package controllers/progress), and then it is evicted and queued again at once.

// Progressing returns the status of a workload that says how its steps go; nil if it says so already.
func Progressing(
	w *kueue.Workload,
	status metav1.ConditionStatus,
	reason, message string,
	now time.Time,
) *kueue.WorkloadStatus {
	was := condition(w, kueue.WorkloadProgressing)
	if was != nil && was.Status == status && was.Reason == reason && was.Message == message {
		return nil
	}
	if was == nil && len(w.Status.Conditions) > mostConditions {
		return nil // those that say how it stands come first
	}
	next := w.Status.DeepCopy()
	NewConditions(w, next, now).Set(kueue.WorkloadProgressing, status, reason, message)
	return next
}

// HangRestarts is how often a workload was restarted because it hung.
func HangRestarts(w *kueue.Workload) (n int32) {
	if w.Status.SchedulingStats == nil {
		return 0
	}
	for _, e := range w.Status.SchedulingStats.Evictions {
		if e.Reason == kueue.ReasonHang {
			n += e.Count
		}
	}
	return n
}

// hung evicts what hangs, once that is due.
func hung(f Facts) (Write, bool) {
	w := f.Workload
	c := condition(w, kueue.WorkloadProgressing)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != kueue.ReasonRestartDue ||
		!isTrue(w, kueue.WorkloadAdmitted) || isTrue(w, kueue.WorkloadEvicted) {
		return Write{}, false
	}
	e := Eviction{Reason: kueue.ReasonHang, Message: fmt.Sprintf("It hangs: %s", c.Message)}
	if p, ok := view.ReadProgress(c.Message); ok && p.Slowest != nil {
		e.Pod, e.Rank, e.Nodes = p.Slowest.Pod, new(p.Slowest.Rank), []string{p.Slowest.Node}
	}
	next := w.Status.DeepCopy()
	told := Evict(w, next, f.Now, e)
	told.Warning = true
	return Write{Status: next, Events: []Event{told}}, true
}
