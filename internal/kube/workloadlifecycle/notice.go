package workloadlifecycle

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// A workload that asks for it runs on for a while after it was evicted, so that its pods can save what they have done:
// see decision record 60. When that begins is the condition StopNotice, which is set in the write that evicts, by whatever
// decided that: so all kinds of jobs and all reasons have one rule, and nothing is remembered elsewhere. Its time
// is counted from that write, begins once for each admission, and is bounded by what the installation allows, whatever a
// job says. Who stops pods asks RunsOnUntil first.

// StopNotice is what pods are told that are about to be stopped.
type StopNotice struct {
	// At is when they are stopped at the latest, and Reason why.
	At     time.Time
	Reason string
}

// AskedNotice is the time that a job asks for, as far as an installation allows it, in the words of
// StopNoticeAnnotation; "" is none. What makes no sense is refused by the webhook, and asks for nothing here.
func AskedNotice(said string, most time.Duration) string {
	d, err := time.ParseDuration(said)
	if d = min(d, most).Truncate(time.Second); err != nil || d <= 0 {
		return ""
	}
	return d.String()
}

// beginNotice writes, with an eviction, that a workload runs on for a while. One that hangs saves nothing.
func beginNotice(w *kueue.Workload, next *kueue.WorkloadStatus, now time.Time, e Eviction) {
	d := convert.StopNotice(w)
	if isTrue(w, kueue.WorkloadEvicted) { // it has had its time, or has it still
		return
	}
	if d == 0 || e.Reason == kueue.ReasonHang || e.Unbegun || !isTrue(w, kueue.WorkloadAdmitted) ||
		len(next.Conditions) > mostConditions+2 { // conditions that say more come first: the API takes 16
		return
	}
	apimeta.RemoveStatusCondition(&next.Conditions, kueue.WorkloadStopNotice) // its time begins now
	NewConditions(w, next, now).Set(
		kueue.WorkloadStopNotice, metav1.ConditionTrue, kueue.ReasonSaving, convert.NoticeText(now.Add(d)),
	)
}

// clockSkew is how far the clock of who evicted may be ahead.
const clockSkew = time.Minute

// RunsOnUntil is until when an evicted workload may run on, zero if its pods are to be stopped. most is what the
// installation allows. A clock that goes back adds nothing.
func RunsOnUntil(w *kueue.Workload, most time.Duration, now time.Time) time.Time {
	began := convert.NoticeBegan(w)
	if began.IsZero() || began.Sub(now) > clockSkew {
		return time.Time{}
	}
	end := began.Add(min(convert.StopNotice(w), most))
	if !end.After(now) {
		return time.Time{}
	}
	return end
}

// noticed tells the pods of a workload that runs on when it is stopped, and ends that time before it is over if
// nothing has to be saved, or has been.
func noticed(f Facts) (Write, bool) {
	w := f.Workload
	if !isTrue(w, kueue.WorkloadStopNotice) {
		return Write{}, false
	}
	over := func(reason, message string) (Write, bool) {
		next := w.Status.DeepCopy()
		NewConditions(w, next, f.Now).Set(kueue.WorkloadStopNotice, metav1.ConditionFalse, reason, message)
		return Write{Status: next}, true
	}
	end := RunsOnUntil(w, f.Config.MaxStopNotice, f.Now)
	switch {
	case f.Acknowledged:
		return over(kueue.ReasonAcknowledged, "It said that it may be stopped")
	case end.IsZero(), !f.Owned:
		return over(kueue.ReasonNoticeOver, "Its time to save what it has done is over")
	case f.Running == 0:
		return over(kueue.ReasonNothingRuns, "None of its pods runs")
	case condition(w, kueue.WorkloadStopNotice).Message != convert.NoticeText(end):
		// Who evicted does not know what the installation allows, which may be less by now than when the job was queued.
		next := w.Status.DeepCopy()
		NewConditions(w, next, f.Now).Set(
			kueue.WorkloadStopNotice, metav1.ConditionTrue, kueue.ReasonSaving, convert.NoticeText(end),
		)
		return Write{Status: next}, true
	case f.Untold > 0:
		return Write{
			Tell:  &StopNotice{At: end, Reason: condition(w, kueue.WorkloadEvicted).Message},
			Again: end,
		}, true
	}
	return Write{Again: end}, false
}
