package workload

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Queues change with every job in their status; only what they rule concerns
// Workloads that hold quota.
func TestRulesChanged(t *testing.T) {
	queue := func(stop kueue.StopPolicy, checks ...kueue.AdmissionCheckReference) *kueue.ClusterQueue {
		q := &kueue.ClusterQueue{Spec: kueue.ClusterQueueSpec{StopPolicy: new(stop)}}
		for _, c := range checks {
			if q.Spec.AdmissionChecksStrategy == nil {
				q.Spec.AdmissionChecksStrategy = &kueue.AdmissionChecksStrategy{}
			}
			q.Spec.AdmissionChecksStrategy.AdmissionChecks = append(
				q.Spec.AdmissionChecksStrategy.AdmissionChecks,
				kueue.AdmissionCheckStrategyRule{Name: c},
			)
		}
		return q
	}
	doomed := queue(kueue.StopPolicyNone)
	doomed.DeletionTimestamp = &metav1.Time{}
	busy := queue(kueue.StopPolicyNone)
	busy.Status.PendingWorkloads = 7
	cases := map[string]struct {
		why      string
		old, now client.Object
		want     bool
	}{
		"status": {
			"counts say nothing about which workloads may stay",
			queue(kueue.StopPolicyNone),
			busy,
			false,
		},
		"stopped": {
			"those with a reservation lose it",
			queue(kueue.StopPolicyNone),
			queue(kueue.StopPolicyHold),
			true,
		},
		"deleted": {"those that only have a reservation lose it", queue(kueue.StopPolicyNone), doomed, true},
		"check added": {
			"those with a reservation have to pass it",
			queue(kueue.StopPolicyNone, "a"),
			queue(kueue.StopPolicyNone, "a", "b"),
			true,
		},
		"same checks": {
			"nothing new is asked",
			queue(kueue.StopPolicyNone, "a"),
			queue(kueue.StopPolicyNone, "a"),
			false,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := rulesOf(c.old).same(rulesOf(c.now)); got == c.want {
				t.Errorf("%s: changed is %v, want %v", c.why, !got, c.want)
			}
			if got := changedRules().Update(event.UpdateEvent{ObjectOld: c.old, ObjectNew: c.now}); got != c.want {
				t.Errorf("%s: let through is %v, want %v", c.why, got, c.want)
			}
		})
	}
}
