package view

import (
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Eviction is why a job was stopped that is to run again, or was deactivated.
type Eviction struct {
	// Reason is its code, Cause a finer one or "", Message a sentence.
	Reason  string `json:"reason"`
	Cause   string `json:"cause,omitempty"`
	Message string `json:"message,omitempty"`
	// Rule is the field that lets it happen, and whose; "" if that is not known.
	Rule string    `json:"rule,omitempty"`
	At   time.Time `json:"at"`
	// Lost is what all of its runs took that did not end by themselves.
	Lost
}

// Lost is what a job had run for when it was stopped. How much of that it had saved is known to
// the job alone.
type Lost struct {
	// RanSeconds is how long it was admitted, GPUHours what its GPUs come to in that time.
	RanSeconds int64   `json:"ranSeconds"`
	GPUHours   float64 `json:"gpuHours"`
}

// EvictionOf is the last eviction of a job that was not admitted again since; nil for none.
func EvictionOf(w *kueue.Workload) *Eviction {
	c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadEvicted)
	if !isTrue(c) {
		return nil
	}
	out := &Eviction{Reason: c.Reason, Message: c.Message, At: c.LastTransitionTime.Time, Lost: LostBy(w)}
	if p := apimeta.FindStatusCondition(
		w.Status.Conditions,
		kueue.WorkloadPreempted,
	); isTrue(p) &&
		c.Reason == kueue.ReasonPreempted {
		out.Cause = p.Reason
	}
	if cause, is := strings.CutPrefix(c.Reason, kueue.ReasonDeactivatedDueTo); is {
		out.Cause = cause
	}
	out.Rule = ruleOf(out.Reason, out.Cause)
	return out
}

// LostBy is what a job ran for that was stopped, in all runs before that under way.
func LostBy(w *kueue.Workload) Lost {
	out := Lost{RanSeconds: int64(ptr.Deref(w.Status.AccumulatedPastExecutionTimeSeconds, 0))}
	evicted := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadEvicted)
	admitted := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadAdmitted)
	if isTrue(evicted) && isTrue(admitted) { // its pods still end
		out.RanSeconds += max(
			0,
			int64(evicted.LastTransitionTime.Sub(admitted.LastTransitionTime.Time)/time.Second),
		)
	}
	_, gpus := Size(w)
	out.GPUHours = float64(gpus) * (time.Duration(out.RanSeconds) * time.Second).Hours()
	return out
}

// ruleOf names the field by which a job is stopped for a reason.
func ruleOf(reason, cause string) string {
	rules := map[string]string{
		kueue.ReasonInClusterQueue:                "spec.preemption.withinClusterQueue of its ClusterQueue",
		kueue.ReasonInCohortReclamation:           "spec.preemption.reclaimWithinCohort of the other's ClusterQueue",
		kueue.ReasonInCohortFairSharing:           "fairSharing.preemptionStrategies of the configuration",
		kueue.ReasonInCohortReclaimWhileBorrowing: "spec.preemption.borrowWithinCohort of the other's ClusterQueue",
		kueue.ReasonRelocated:                     kueue.RelocationsPerHourAnnotation + " of its ClusterQueue",
		kueue.ReasonPodsReadyTimeout:              "the limit for readiness, waitForPodsReady of the controller's configuration (30 minutes unless it says otherwise)",
		kueue.ReasonAdmissionCheck:                "an AdmissionCheck of its ClusterQueue",
		kueue.ReasonClusterQueueStopped:           "spec.stopPolicy of its ClusterQueue",
		kueue.ReasonLocalQueueStopped:             "spec.stopPolicy of its LocalQueue",
		kueue.ReasonNodeFailures:                  "the health of its nodes",
		kueue.ReasonNodesRefused:                  "what the scheduler checks of nodes",
		kueue.ReasonHang:                          kueue.OnHangAnnotation + " of the job",
		kueue.ReasonDeactivated:                   "spec.active of its Workload",
		kueue.ReasonRequeuingLimitExceeded:        "waitForPodsReady.requeuingStrategy.backoffLimitCount of the configuration",
		kueue.ReasonMaximumExecutionTimeExceeded:  "spec.maximumExecutionTimeSeconds of its Workload",
	}
	if rule, known := rules[cause]; known {
		return rule
	}
	return rules[reason]
}
