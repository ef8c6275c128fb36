package workloadlifecycle

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

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
	apimeta.SetStatusCondition(c.list, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: convert.Cut(message, longest),
		ObservedGeneration: c.generation, LastTransitionTime: c.now,
	})
}

// clear makes conditions that are True False.
func (c Conditions) clear(reason, message string, kinds ...string) {
	for _, kind := range kinds {
		if apimeta.IsStatusConditionTrue(*c.list, kind) {
			c.Set(kind, metav1.ConditionFalse, reason, message)
		}
	}
}

// Unreserved says that a workload without a reservation is not admitted.
func (c Conditions) Unreserved() {
	c.Set(
		kueue.WorkloadAdmitted,
		metav1.ConditionFalse,
		kueue.ReasonNoReservation,
		"The workload has no reservation",
	)
}

// Ungated says that no preemption gate holds the workload back, if one did.
func (c Conditions) Ungated() {
	c.clear(
		kueue.ReasonPreemptionGated,
		"No preemption gate holds it back",
		kueue.WorkloadBlockedOnPreemptionGates,
	)
}

func condition(w *kueue.Workload, kind string) *metav1.Condition {
	return apimeta.FindStatusCondition(w.Status.Conditions, kind)
}

func isTrue(w *kueue.Workload, kind string) bool {
	return apimeta.IsStatusConditionTrue(w.Status.Conditions, kind)
}
