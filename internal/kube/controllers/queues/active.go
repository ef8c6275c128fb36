package queues

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// ReasonCohortCycle is a reason of the Active condition of a ClusterQueue:
// its cohort is its own ancestor.
const ReasonCohortCycle = "CohortCycle"

// surroundings are what a ClusterQueue refers to and cannot use.
type surroundings struct {
	missingFlavors []string // in the order of the spec
	// missingChecks do not exist, inactiveChecks are not answered; in the
	// order of the spec.
	missingChecks, inactiveChecks []string
	// controllers are the controllers that answer the checks.
	controllers map[string]string
	// remote are the rules it breaks about checks that send workloads elsewhere.
	remote []convert.Fault
	// emptyFlavors have labels that no node has, and their nodes do not come on
	// demand; in the order of the spec.
	emptyFlavors []string
	// short are resources of its flavors of which more is promised than healthy.
	short []shortOf
	// missingTopologies are named by flavors and do not exist.
	missingTopologies []string
	// cohorts are those above the queue, the nearest first.
	cohorts []string
	// cycle is the path of cohorts that leads back to itself; empty if none does.
	cycle []string
}

// queueActive says whether a ClusterQueue can admit. The first fault gives the
// reason; the message names all.
func queueActive(q *kueue.ClusterQueue, s surroundings) metav1.Condition {
	c := metav1.Condition{
		Type: kueue.ClusterQueueActive, Status: metav1.ConditionTrue, Reason: kueue.ReasonReady,
		Message: "Can admit new workloads", ObservedGeneration: q.Generation,
	}
	if q.DeletionTimestamp != nil {
		c.Status, c.Reason = metav1.ConditionFalse, kueue.ReasonTerminating
		c.Message = "Can't admit new workloads; clusterQueue is terminating"
		return c
	}
	if len(s.emptyFlavors) > 0 {
		c.Message += ", but not with flavor(s) " + strings.Join(
			s.emptyFlavors,
			",",
		) + ": no node has the labels (spec.nodeLabels)"
	}
	var faults []string
	fault := func(reason, message string) {
		if len(faults) == 0 {
			c.Status, c.Reason = metav1.ConditionFalse, reason
		}
		faults = append(faults, message)
	}
	if ptr.Deref(q.Spec.StopPolicy, kueue.StopPolicyNone) != kueue.StopPolicyNone {
		fault(kueue.ReasonStopped, "is stopped")
	}
	if len(s.missingFlavors) > 0 {
		fault(
			kueue.ReasonFlavorNotFound,
			"references missing ResourceFlavor(s): "+strings.Join(s.missingFlavors, ","),
		)
	}
	if len(s.missingChecks) > 0 {
		fault(
			kueue.ReasonAdmissionCheckNotFound,
			"references missing AdmissionCheck(s): "+strings.Join(s.missingChecks, ","),
		)
	}
	if len(s.inactiveChecks) > 0 {
		fault(
			kueue.ReasonAdmissionCheckInactive,
			"references inactive AdmissionCheck(s): "+strings.Join(s.inactiveChecks, ","),
		)
	}
	if f := convert.CheckFault(q); f != nil {
		fault(f.Reason, f.Message)
	}
	for _, f := range s.remote {
		fault(f.Reason, f.Message)
	}
	if len(s.missingTopologies) > 0 {
		fault(kueue.ReasonTopologyNotFound, "there is no Topology: "+strings.Join(s.missingTopologies, ","))
	}
	if len(s.cycle) > 0 {
		fault(ReasonCohortCycle, "cohorts form a cycle: "+strings.Join(s.cycle, " in "))
	}
	if len(faults) > 0 {
		c.Message = "Can't admit new workloads: " + strings.Join(faults, ", ") + "."
	}
	return c
}

func admissionChecks(q *kueue.ClusterQueue) []string {
	if q.Spec.AdmissionChecksStrategy == nil {
		return nil
	}
	var names []string
	for _, c := range q.Spec.AdmissionChecksStrategy.AdmissionChecks {
		names = append(names, string(c.Name))
	}
	return names
}

// localQueueActive says whether workloads can be admitted through a LocalQueue.
// behind is the Active condition of its ClusterQueue, nil if there is no such
// ClusterQueue.
func localQueueActive(q *kueue.LocalQueue, behind *metav1.Condition) metav1.Condition {
	c := metav1.Condition{
		Type: kueue.LocalQueueActive, Status: metav1.ConditionFalse, ObservedGeneration: q.Generation,
		Message: "Can't submit new workloads to clusterQueue",
	}
	switch {
	case ptr.Deref(q.Spec.StopPolicy, kueue.StopPolicyNone) != kueue.StopPolicyNone:
		c.Reason, c.Message = kueue.ReasonStopped, "LocalQueue is stopped"
	case behind == nil:
		c.Reason = kueue.ReasonClusterQueueDoesNotExist
	case behind.Status != metav1.ConditionTrue:
		c.Reason = kueue.ReasonClusterQueueIsInactive
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, kueue.ReasonReady, "Can submit new workloads to localQueue"
	}
	return c
}
