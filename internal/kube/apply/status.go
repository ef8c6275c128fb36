package apply

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Decided returns the status of w after a decision of the engine, taken now, as
// an Applier would write it: nil if w has it already. False means that the
// decision does not suit w any more. queue is the ClusterQueue of an admission.
func Decided(
	w *kueue.Workload,
	d core.Decision,
	queue *kueue.ClusterQueue,
	c workloadlifecycle.Config,
	now time.Time,
) (*kueue.WorkloadStatus, bool) {
	return status(
		w,
		d,
		scene{now: now, sentence: func(r core.Reason) string { return string(r.Code) }, lifecycle: c, queue: queue},
	)
}

// scene is what a decision is carried out in.
type scene struct {
	now       time.Time
	sentence  func(core.Reason) string
	lifecycle workloadlifecycle.Config
	// queue is the ClusterQueue of an admission.
	queue *kueue.ClusterQueue
}

// status returns the status of w after the decision. Nil means that w has it
// already; false means that the decision does not suit w any more.
func status(w *kueue.Workload, d core.Decision, s scene) (*kueue.WorkloadStatus, bool) {
	if convert.Finished(w) {
		return nil, false
	}
	next := w.Status.DeepCopy()
	ok := true
	switch d := d.(type) {
	case core.Admit:
		ok = admit(w, next, d, s)
	case core.Replace:
		ok = replace(w, next, d, s.now)
	case core.Evict:
		ok = evict(w, next, d, s)
	case core.Refuse:
		ok = refuse(w, next, d, s)
	}
	if !ok {
		return nil, false
	}
	if equality.Semantic.DeepEqual(w.Status, *next) {
		return nil, true
	}
	return next, true
}

// admit reserves quota and places; the workload is admitted with it unless
// admission checks have to agree first.
func admit(w *kueue.Workload, next *kueue.WorkloadStatus, d core.Admit, s scene) bool {
	want := convert.StatusAdmission(d.Admission)
	stopped := convert.Interruption(w) == core.InterruptedStopped
	if w.Status.Admission != nil && !stopped {
		return equality.Semantic.DeepEqual(w.Status.Admission, want)
	}
	if d.Resumes != stopped {
		return false // it gave back what it kept, or is not to lose it
	}
	if w.DeletionTimestamp != nil || !ptr.Deref(w.Spec.Active, true) {
		return false
	}
	next.ResourceRequests = nil // it says what a waiting workload asks for
	workloadlifecycle.Reserve(w, next, want, s.queue, s.lifecycle, s.now)
	return true
}

// replace changes the nodes of an admission and nothing else.
func replace(w *kueue.Workload, next *kueue.WorkloadStatus, d core.Replace, now time.Time) bool {
	want := convert.StatusAdmission(d.Admission)
	if w.Status.Admission == nil || convert.Evicted(w) ||
		len(want.PodSetAssignments) != len(w.Status.Admission.PodSetAssignments) {
		return false
	}
	for i := range want.PodSetAssignments {
		next.Admission.PodSetAssignments[i].TopologyAssignment = want.PodSetAssignments[i].TopologyAssignment
	}
	workloadlifecycle.NodesReplaced(w, next, now)
	return true
}

func evict(w *kueue.Workload, next *kueue.WorkloadStatus, d core.Evict, s scene) bool {
	if w.Status.Admission == nil {
		return false
	}
	interrupted := convert.Interruption(w) != core.NotInterrupted
	if convert.Evicted(w) && (d.Interrupts || !interrupted) {
		return true
	}
	if d.Interrupts && s.lifecycle.KeepNodes > 0 {
		workloadlifecycle.Interrupt(w, next, s.lifecycle, s.now, withdrawal(d), d.Failed)
		return true
	}
	e := workloadlifecycle.Eviction{Reason: string(d.Reason), Message: withdrawal(d), Nodes: d.Failed}
	if d.Reason.Preempted() {
		e = workloadlifecycle.Eviction{
			Reason: kueue.ReasonPreempted,
			Message: fmt.Sprintf(
				"Preempted to accommodate %s: %s%s", beneficiary(d), preemption(d.Reason), lostWork(w, d.Lost),
			),
		}
		workloadlifecycle.NewConditions(w, next, s.now).
			Set(kueue.WorkloadPreempted, metav1.ConditionTrue, string(d.Reason), e.Message)
		if d.Reason == core.Relocated {
			workloadlifecycle.NewConditions(w, next, s.now).
				Set(kueue.WorkloadRelocated, metav1.ConditionTrue, kueue.ReasonRelocated, e.Message)
		}
	}
	workloadlifecycle.Evict(w, next, s.now, e)
	next.NextAdmission = convert.StatusNext(d.Next, w)
	return true
}

// withdrawal says why a workload is evicted that makes room for no other.
func withdrawal(d core.Evict) string {
	switch d.Reason {
	case core.ClusterQueueStopped:
		return "The ClusterQueue is stopped"
	case core.LocalQueueStopped:
		return "The LocalQueue is stopped"
	case core.NodeFailures:
		which := ""
		if len(d.Failed) > 0 {
			which = " (" + named(d.Failed) + ")"
		}
		return "Nodes that its pods were planned on take no work any more" + which + ", and there are no others for them"
	case core.InClusterQueue,
		core.InCohortReclamation,
		core.InCohortFairSharing,
		core.InCohortReclaimWhileBorrow,
		core.Relocated:
	}
	return string(d.Reason)
}

// named is a list of nodes, or the first of many.
func named(nodes []string) string {
	const most = 5
	if more := len(nodes) - most; more > 0 {
		return strings.Join(nodes[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(nodes, ", ")
}

// beneficiary names the workload that another one is evicted for, to those who see
// the evicted one: jobs of other namespaces by queue and UID only.
func beneficiary(d core.Evict) string {
	if d.For.Namespace == d.Key.Namespace {
		return "the workload " + d.For.String()
	}
	return fmt.Sprintf("a workload of ClusterQueue %s (UID: %s)", d.Why.Queue, d.ForUID)
}

// preemption says which rule allowed the eviction, in a user's words.
func preemption(r core.EvictReason) string {
	switch r {
	case core.InClusterQueue:
		return "it goes first in the same ClusterQueue"
	case core.InCohortReclamation:
		return "its ClusterQueue takes back quota that this workload borrowed"
	case core.InCohortFairSharing:
		return "its ClusterQueue has a smaller share of the cohort"
	case core.InCohortReclaimWhileBorrow:
		return "it has a higher priority and borrows in the same cohort"
	case core.Relocated:
		return "it needs these nodes, and there are others for this workload"
	case core.ClusterQueueStopped, core.LocalQueueStopped, core.NodeFailures:
	}
	return string(r)
}

// lostWork says what a workload loses that was chosen by that, and what counts of it; "" if it was not.
func lostWork(w *kueue.Workload, l *core.LostWork) string {
	if l == nil {
		return ""
	}
	_, gpus := view.Size(w)
	since := "it got its quota at " + l.Since.UTC().Format(time.RFC3339)
	if l.Saved {
		since = "its checkpoint at " + l.Since.UTC().Format(time.RFC3339)
	}
	lost := fmt.Sprintf(" (victims are chosen by least lost work: this one loses %s since %s", l.For, since)
	if gpus > 0 {
		lost = fmt.Sprintf(
			" (victims are chosen by least lost work: this one loses %.1f GPU hours since %s",
			float64(gpus)*l.For.Hours(), since,
		)
	}
	switch {
	case l.For == 0:
	case l.Counted == 0 && l.Saved && !convert.TellsInterval(w):
		lost += ", and counts as one that has just saved: the time between its checkpoints is not known"
	case l.Counted == 0 && l.Saved:
		lost += ", and counts as one that has just saved: its next report of a checkpoint is overdue"
	case l.Counted == 0:
		lost += ", and counts as one that has just saved: it reported no checkpoint"
	case l.Counted < l.For:
		lost += fmt.Sprintf(", of which %s count", l.Counted)
	}
	return lost + ")"
}

// reason is the word of the API for why a workload waits. What is only on hold
// after an eviction is so for the reason of the eviction: it is deactivated, or it
// will be looked at again.
func reason(w *kueue.Workload, why core.Reason) string {
	requeued := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadRequeued)
	switch {
	case why.Code != core.OnHold || w.DeletionTimestamp != nil:
	case !ptr.Deref(w.Spec.Active, true):
		return kueue.ReasonDeactivated
	case why.Cause == core.BackingOff, requeued != nil && requeued.Status == metav1.ConditionFalse:
		return kueue.ReasonPendingEvaluation
	}
	return string(why.Code)
}

func refuse(w *kueue.Workload, next *kueue.WorkloadStatus, d core.Refuse, s scene) bool {
	if w.Status.Admission != nil {
		return false
	}
	next.NextAdmission = convert.StatusNext(d.Next, w)
	set := workloadlifecycle.NewConditions(w, next, s.now)
	set.Set(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, reason(w, d.Why), s.sentence(d.Why))
	set.Unreserved()
	if d.Why.Cause == core.PreemptionGated {
		set.Set(
			kueue.WorkloadBlockedOnPreemptionGates,
			metav1.ConditionTrue,
			kueue.ReasonPreemptionGated,
			s.sentence(d.Why),
		)
	} else {
		set.Ungated()
	}
	return true
}
