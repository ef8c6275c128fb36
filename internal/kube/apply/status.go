package apply

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// status returns the status of w after the decision. Nil means that w has it
// already; false means that the decision does not suit w any more.
func status(w *kueue.Workload, d core.Decision, now time.Time, sentence func(core.Reason) string) (*kueue.WorkloadStatus, bool) {
	if convert.Finished(w) {
		return nil, false
	}
	next := w.Status.DeepCopy()
	set := NewConditions(w, next, now)
	ok := true
	switch d := d.(type) {
	case core.Admit:
		ok = admit(w, next, set, d)
	case core.Replace:
		ok = replace(w, next, d)
	case core.Evict:
		ok = evict(w, next, set, d, sentence)
	case core.Refuse:
		ok = refuse(w, set, d, sentence)
	}
	if !ok {
		return nil, false
	}
	if equality.Semantic.DeepEqual(w.Status, *next) {
		return nil, true
	}
	return next, true
}

func admit(w *kueue.Workload, next *kueue.WorkloadStatus, set Conditions, d core.Admit) bool {
	want := convert.StatusAdmission(d.Admission)
	if w.Status.Admission != nil {
		return equality.Semantic.DeepEqual(w.Status.Admission, want)
	}
	if w.DeletionTimestamp != nil || !ptr.Deref(w.Spec.Active, true) {
		return false
	}
	next.Admission = want
	next.ResourceRequests = nil // it says what a waiting workload asks for
	gated(w, set, core.Reason{}, "")
	set.Set(kueue.WorkloadQuotaReserved, metav1.ConditionTrue, kueue.ReasonQuotaReserved, "Quota reserved in ClusterQueue "+d.Admission.Queue)
	set.Set(kueue.WorkloadAdmitted, metav1.ConditionTrue, kueue.ReasonAdmitted, "The workload is admitted")
	for _, t := range []string{kueue.WorkloadEvicted, kueue.WorkloadPreempted} {
		if apimeta.IsStatusConditionTrue(w.Status.Conditions, t) {
			set.Set(t, metav1.ConditionFalse, kueue.ReasonQuotaReserved, "Quota reserved again in ClusterQueue "+d.Admission.Queue)
		}
	}
	if next.RequeueState != nil { // its count goes on, should it happen again
		next.RequeueState.RequeueAt = nil
	}
	return true
}

// replace changes the nodes of an admission and nothing else.
func replace(w *kueue.Workload, next *kueue.WorkloadStatus, d core.Replace) bool {
	want := convert.StatusAdmission(d.Admission)
	if w.Status.Admission == nil || convert.Evicted(w) || len(want.PodSetAssignments) != len(w.Status.Admission.PodSetAssignments) {
		return false
	}
	for i := range want.PodSetAssignments {
		next.Admission.PodSetAssignments[i].TopologyAssignment = want.PodSetAssignments[i].TopologyAssignment
	}
	return true
}

func evict(w *kueue.Workload, next *kueue.WorkloadStatus, set Conditions, d core.Evict, sentence func(core.Reason) string) bool {
	if w.Status.Admission == nil {
		return false
	}
	if convert.Evicted(w) {
		return true
	}
	reason, message := string(d.Reason), sentence(d.Why)
	if d.Reason.Preempted() {
		reason = kueue.ReasonPreempted
		message = fmt.Sprintf("Preempted to accommodate the workload %s: %s", d.For, preemption(d.Reason))
		set.Set(kueue.WorkloadPreempted, metav1.ConditionTrue, string(d.Reason), message)
	}
	set.Set(kueue.WorkloadEvicted, metav1.ConditionTrue, reason, message)
	for i := range next.PreemptionGates { // whoever opened one has to agree again
		if g := &next.PreemptionGates[i]; g.Position != kueue.GateClosed {
			g.Position, g.LastTransitionTime = kueue.GateClosed, set.now
		}
	}
	gated(w, set, core.Reason{}, "")
	count(next, reason, string(d.Reason))
	return true
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
	case core.ClusterQueueStopped, core.LocalQueueStopped, core.NodeFailures:
	}
	return string(r)
}

// count adds an eviction to the scheduling statistics of the Workload.
func count(next *kueue.WorkloadStatus, reason, cause string) {
	if cause == reason {
		cause = ""
	}
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
	next.SchedulingStats.Evictions = append(next.SchedulingStats.Evictions,
		kueue.WorkloadSchedulingStatsEviction{Reason: reason, UnderlyingCause: kueue.EvictionUnderlyingCause(cause), Count: 1})
}

func refuse(w *kueue.Workload, set Conditions, d core.Refuse, sentence func(core.Reason) string) bool {
	if w.Status.Admission != nil {
		return false
	}
	set.Set(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, string(d.Why.Code), sentence(d.Why))
	gated(w, set, d.Why, sentence(d.Why))
	return true
}

// gated says whether a closed preemption gate is all that keeps a workload from
// evicting others.
func gated(w *kueue.Workload, set Conditions, why core.Reason, message string) {
	switch {
	case why.Cause == core.PreemptionGated:
		set.Set(kueue.WorkloadBlockedOnPreemptionGates, metav1.ConditionTrue, kueue.ReasonPreemptionGated, message)
	case apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadBlockedOnPreemptionGates):
		set.Set(kueue.WorkloadBlockedOnPreemptionGates, metav1.ConditionFalse, kueue.ReasonPreemptionGated, "No preemption gate holds it back")
	}
}

// Released returns the status of a workload whose pods are gone after an
// eviction: quota is free, and it waits again unless the eviction says that
// something has to be mended first (spec/kueue.md 2.10).
func Released(w *kueue.Workload, now time.Time) *kueue.WorkloadStatus {
	next := w.Status.DeepCopy()
	evicted := apimeta.FindStatusCondition(next.Conditions, kueue.WorkloadEvicted)
	next.Admission = nil
	next.ReclaimablePods = nil
	set := NewConditions(w, next, now)
	set.Set(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, kueue.ReasonPending, evicted.Message)
	set.Set(kueue.WorkloadAdmitted, metav1.ConditionFalse, kueue.ReasonNoReservation, "The workload has no reservation")
	again := metav1.ConditionFalse
	switch evicted.Reason {
	case kueue.ReasonPreempted, kueue.ReasonNodeFailures,
		// The pause before the next turn is in requeueState.
		kueue.ReasonPodsReadyTimeout,
		// A stopped queue holds its workloads itself; nothing has to be undone on
		// them when it starts again.
		kueue.ReasonClusterQueueStopped, kueue.ReasonLocalQueueStopped:
		again = metav1.ConditionTrue
	}
	set.Set(kueue.WorkloadRequeued, again, evicted.Reason, evicted.Message)
	return next
}

// Ended returns the status of a workload that finished for good.
func Ended(w *kueue.Workload, reason, message string, now time.Time) *kueue.WorkloadStatus {
	next := w.Status.DeepCopy()
	NewConditions(w, next, now).Set(kueue.WorkloadFinished, metav1.ConditionTrue, reason, message)
	return next
}

// Conditions changes the conditions of a Workload's status as of one moment.
type Conditions struct {
	list       *[]metav1.Condition
	generation int64
	now        metav1.Time
}

// NewConditions returns the changer of next, a status of w.
func NewConditions(w *kueue.Workload, next *kueue.WorkloadStatus, now time.Time) Conditions {
	return Conditions{&next.Conditions, w.Generation, metav1.NewTime(now)}
}

// Set gives a condition status, reason and message. Its transition time changes
// only with its status.
func (c Conditions) Set(kind string, status metav1.ConditionStatus, reason, message string) {
	const longest = 32 * 1024 // the API's limit for messages
	if len(message) > longest {
		message = message[:longest]
	}
	apimeta.SetStatusCondition(c.list, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message,
		ObservedGeneration: c.generation, LastTransitionTime: c.now,
	})
}
