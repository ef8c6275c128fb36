package queues

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

func TestQueueActive(t *testing.T) {
	cases := map[string]struct {
		why    string
		change func(*kueue.ClusterQueue)
		around surroundings
		status metav1.ConditionStatus
		reason string
		text   string
	}{
		"ready": {
			why:    "nothing is in the way",
			status: metav1.ConditionTrue, reason: "Ready", text: "Can admit new workloads",
		},
		"flavor without nodes": {
			why:    "a slip in a label is seen where people look first",
			around: surroundings{emptyFlavors: []string{"a", "b"}},
			status: metav1.ConditionTrue, reason: "Ready",
			text: "Can admit new workloads, but not with flavor(s) a,b: no node has the labels (spec.nodeLabels)",
		},
		"stopped": {
			why:    "an admin stopped it, draining or not",
			change: func(q *kueue.ClusterQueue) { q.Spec.StopPolicy = ptr.To(kueue.StopPolicyHold) },
			status: metav1.ConditionFalse, reason: "Stopped", text: "Can't admit new workloads: is stopped.",
		},
		"flavors missing": {
			why:    "all that are missing are named",
			around: surroundings{missingFlavors: []string{"a", "b"}},
			status: metav1.ConditionFalse, reason: "FlavorNotFound",
			text: "Can't admit new workloads: references missing ResourceFlavor(s): a,b.",
		},
		"admission check inactive": {
			why:    "no controller would ever answer it",
			around: surroundings{inactiveChecks: []string{"dws"}},
			status: metav1.ConditionFalse, reason: "AdmissionCheckInactive",
			text: "Can't admit new workloads: references inactive AdmissionCheck(s): dws.",
		},
		"admission check missing": {
			why:    "one that does not exist comes before one that no controller answers",
			around: surroundings{missingChecks: []string{"a", "b"}, inactiveChecks: []string{"c"}},
			status: metav1.ConditionFalse,
			reason: "AdmissionCheckNotFound",
			text:   "Can't admit new workloads: references missing AdmissionCheck(s): a,b, references inactive AdmissionCheck(s): c.",
		},
		"too many checks": {
			why: "a Workload cannot hold so many answers",
			change: func(q *kueue.ClusterQueue) {
				q.Spec.ResourceGroups = []kueue.ResourceGroup{{Flavors: []kueue.FlavorQuotas{{Name: "f"}}}}
				q.Spec.AdmissionChecksStrategy = &kueue.AdmissionChecksStrategy{
					AdmissionChecks: make([]kueue.AdmissionCheckStrategyRule, 9),
				}
			},
			status: metav1.ConditionFalse,
			reason: "TooManyAdmissionChecks",
			text:   "Can't admit new workloads: asks 9 AdmissionChecks of workloads with flavor f, and a Workload can have 8.",
		},
		"two clusters": {
			why: "a workload runs in one place",
			around: surroundings{
				remote: []convert.Fault{
					{Reason: "MultipleMultiKueueAdmissionChecks", Message: "references two"},
				},
				missingTopologies: []string{"t"},
			},
			status: metav1.ConditionFalse,
			reason: "MultipleMultiKueueAdmissionChecks",
			text:   "Can't admit new workloads: references two, there is no Topology: t.",
		},
		"topology missing": {
			why:    "it is not known how its nodes are nested",
			around: surroundings{missingTopologies: []string{"t", "u"}},
			status: metav1.ConditionFalse, reason: "TopologyNotFound",
			text: "Can't admit new workloads: there is no Topology: t,u.",
		},
		"cohort cycle": {
			why:    "the tree has no root to borrow from",
			around: surroundings{cycle: []string{"x", "y", "x"}},
			status: metav1.ConditionFalse, reason: "CohortCycle",
			text: "Can't admit new workloads: cohorts form a cycle: x in y in x.",
		},
		"several": {
			why:    "the first gives the reason, the message tells all",
			change: func(q *kueue.ClusterQueue) { q.Spec.StopPolicy = ptr.To(kueue.StopPolicyHoldAndDrain) },
			around: surroundings{missingFlavors: []string{"a"}},
			status: metav1.ConditionFalse, reason: "Stopped",
			text: "Can't admit new workloads: is stopped, references missing ResourceFlavor(s): a.",
		},
		"terminating": {
			why:    "deletion comes before everything else",
			change: func(q *kueue.ClusterQueue) { q.DeletionTimestamp = &metav1.Time{} },
			around: surroundings{missingFlavors: []string{"a"}},
			status: metav1.ConditionFalse, reason: "Terminating",
			text: "Can't admit new workloads; clusterQueue is terminating",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			q := clusterQueue()
			if c.change != nil {
				c.change(q)
			}
			got := queueActive(q, c.around)
			if got.Status != c.status || got.Reason != c.reason || got.Message != c.text {
				t.Errorf(
					"Active = %s %s %q, want %s %s %q: %s",
					got.Status,
					got.Reason,
					got.Message,
					c.status,
					c.reason,
					c.text,
					c.why,
				)
			}
		})
	}
}

func TestLocalQueueActive(t *testing.T) {
	yes := &metav1.Condition{Status: metav1.ConditionTrue}
	no := &metav1.Condition{Status: metav1.ConditionFalse}
	cases := map[string]struct {
		why    string
		stop   kueue.StopPolicy
		behind *metav1.Condition
		reason string
		text   string
	}{
		"ready": {
			"it is open",
			kueue.StopPolicyNone,
			yes,
			"Ready",
			"Can submit new workloads to localQueue",
		},
		"stopped": {"it is stopped itself", kueue.StopPolicyHold, yes, "Stopped", "LocalQueue is stopped"},
		"no queue": {
			"it leads nowhere",
			"",
			nil,
			"ClusterQueueDoesNotExist",
			"Can't submit new workloads to clusterQueue",
		},
		"queue is down": {
			"it leads to a stopped queue",
			"",
			no,
			"ClusterQueueIsInactive",
			"Can't submit new workloads to clusterQueue",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			q := localQueue()
			if c.stop != "" {
				q.Spec.StopPolicy = &c.stop
			}
			got := localQueueActive(q, c.behind)
			if got.Reason != c.reason || got.Message != c.text ||
				(got.Status == metav1.ConditionTrue) != (c.reason == "Ready") {
				t.Errorf(
					"Active = %s %s %q, want %s %q: %s",
					got.Status,
					got.Reason,
					got.Message,
					c.reason,
					c.text,
					c.why,
				)
			}
		})
	}
}
