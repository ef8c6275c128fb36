package view_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
)

// TestEvictionOf has a rule for every reason that the controllers write.
func TestEvictionOf(t *testing.T) {
	for name, tc := range map[string]struct{ why, reason, preempted, cause, rule string }{
		"priority":   {"another of its queue goes first", "Preempted", "InClusterQueue", "InClusterQueue", "spec.preemption.withinClusterQueue of its ClusterQueue"},
		"reclaim":    {"quota is taken back", "Preempted", "InCohortReclamation", "InCohortReclamation", "spec.preemption.reclaimWithinCohort of the other's ClusterQueue"},
		"fair":       {"shares are made even", "Preempted", "InCohortFairSharing", "InCohortFairSharing", "fairSharing.preemptionStrategies of the configuration"},
		"borrowing":  {"a higher priority borrows", "Preempted", "InCohortReclaimWhileBorrowing", "InCohortReclaimWhileBorrowing", "spec.preemption.borrowWithinCohort of the other's ClusterQueue"},
		"not ready":  {"pods did not come up", "PodsReadyTimeout", "", "", "the limit for readiness, waitForPodsReady of the controller's configuration (30 minutes unless it says otherwise)"},
		"check":      {"somebody else said no", "AdmissionCheck", "", "", "an AdmissionCheck of its ClusterQueue"},
		"drained":    {"the queue is emptied", "ClusterQueueStopped", "", "", "spec.stopPolicy of its ClusterQueue"},
		"local":      {"the LocalQueue is", "LocalQueueStopped", "", "", "spec.stopPolicy of its LocalQueue"},
		"node":       {"a node is bad and there is no other", "NodeFailures", "", "", "the health of its nodes"},
		"held":       {"by hand", "Deactivated", "", "", "spec.active of its Workload"},
		"too often":  {"never ready", "DeactivatedDueToRequeuingLimitExceeded", "", "RequeuingLimitExceeded", "waitForPodsReady.requeuingStrategy.backoffLimitCount of the configuration"},
		"too long":   {"its time is up", "DeactivatedDueToMaximumExecutionTimeExceeded", "", "MaximumExecutionTimeExceeded", "spec.maximumExecutionTimeSeconds of its Workload"},
		"unknown":    {"what nobody has heard of is not explained", "Whatever", "", "", ""},
		"old marker": {"a preemption of long ago is not the cause of this", "NodeFailures", "InClusterQueue", "", "the health of its nodes"},
	} {
		w := &kueue.Workload{}
		set := func(kind, reason string, at int64) {
			w.Status.Conditions = append(
				w.Status.Conditions,
				metav1.Condition{
					Type:               kind,
					Status:             metav1.ConditionTrue,
					Reason:             reason,
					Message:            "m",
					LastTransitionTime: metav1.Unix(at, 0),
				},
			)
		}
		if set(kueue.WorkloadEvicted, tc.reason, 100); tc.preempted != "" {
			set(kueue.WorkloadPreempted, tc.preempted, 100)
		}
		got := view.EvictionOf(w)
		if got == nil || got.Reason != tc.reason || got.Cause != tc.cause || got.Rule != tc.rule ||
			got.Message != "m" ||
			!got.At.Equal(time.Unix(100, 0)) {
			t.Errorf("%s: %+v, want %+v", name, got, tc)
		}
	}
	w := &kueue.Workload{
		Status: kueue.WorkloadStatus{
			Conditions: []metav1.Condition{
				{Type: kueue.WorkloadEvicted, Status: metav1.ConditionFalse, Reason: "QuotaReserved"},
			},
		},
	}
	if got := view.EvictionOf(w); got != nil {
		t.Errorf("it runs again: %+v", got)
	}
}

// TestLostBy: what is lost is what ran and was stopped, not what runs.
func TestLostBy(t *testing.T) {
	w := &kueue.Workload{
		Spec: kueue.WorkloadSpec{
			PodSets: []kueue.PodSet{{Name: "main", Count: 4, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{
					{
						Resources: corev1.ResourceRequirements{
							Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")},
						},
					},
				},
			}}}},
		},
	}
	admitted := metav1.Condition{
		Type:               kueue.WorkloadAdmitted,
		Status:             metav1.ConditionTrue,
		LastTransitionTime: metav1.Unix(1000, 0),
	}
	evicted := metav1.Condition{
		Type:               kueue.WorkloadEvicted,
		Status:             metav1.ConditionTrue,
		LastTransitionTime: metav1.Unix(2800, 0),
	}
	w.Status.AccumulatedPastExecutionTimeSeconds = new(int32(1800))
	for name, tc := range map[string]struct {
		why        string
		conditions []metav1.Condition
		want       view.Lost
	}{
		"runs again":     {"what runs is not lost", []metav1.Condition{admitted}, view.Lost{RanSeconds: 1800, GPUHours: 16}},
		"stops":          {"the run that was stopped counts at once", []metav1.Condition{admitted, evicted}, view.Lost{RanSeconds: 3600, GPUHours: 32}},
		"waits":          {"the controller has counted it", []metav1.Condition{evicted}, view.Lost{RanSeconds: 1800, GPUHours: 16}},
		"in its backlog": {"nor is anything else", nil, view.Lost{RanSeconds: 1800, GPUHours: 16}},
	} {
		w.Status.Conditions = tc.conditions
		if got := view.LostBy(w); got != tc.want {
			t.Errorf("%s: %+v, want %+v: %s", name, got, tc.want, tc.why)
		}
	}
}
