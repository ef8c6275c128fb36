package explain

import (
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/core"
)

func TestSentence(t *testing.T) {
	key := core.Key{Namespace: "blue", Name: "job"}
	short := core.Reason{
		Code: core.WaitingForQuota, Cause: core.QuotaShort, Queue: "blue", Tree: "all", PodSet: "main",
		Flavor: "f", Resource: core.CPU, Need: 5000, Have: 3000, Limit: 9000,
	}
	waits := short
	waits.Code, waits.Victims = core.WaitingForPreempted, 2
	tests := map[string]struct {
		why  string
		r    core.Reason
		want string
	}{
		"quota": {
			"the message that Kueue's users know",
			short,
			"couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, 2 more needed",
		},
		"victims": {
			"and how many must go first",
			waits,
			"couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, 2 more needed. Pending the preemption of 2 workload(s)",
		},
		"never": {
			"more than there will ever be",
			core.Reason{
				Code:     core.ExceedsMaxQuota,
				PodSet:   "main",
				Flavor:   "f",
				Resource: core.Memory,
				Need:     3 << 30,
				Limit:    1536 << 20,
			},
			"couldn't assign flavors to pod set main: insufficient quota for memory in flavor f, request 3Gi > maximum capacity (1536Mi)",
		},
		"taint": {
			"which taint",
			core.Reason{
				Code:   core.NoMatchingFlavor,
				Cause:  core.UntoleratedTaint,
				PodSet: "main",
				Flavor: "f",
				Detail: "spot=yes:NoSchedule",
			},
			"couldn't assign flavors to pod set main: untolerated taint {spot=yes:NoSchedule} in flavor f",
		},
		"affinity": {
			"which flavor",
			core.Reason{Code: core.NoMatchingFlavor, Cause: core.AffinityMismatch, PodSet: "main", Flavor: "f"},
			"couldn't assign flavors to pod set main: flavor f doesn't match node affinity",
		},
		"uncovered": {
			"which resource",
			core.Reason{Code: core.Misconfigured, Cause: core.ResourceUncovered, PodSet: "main", Resource: "x.io/y"},
			"couldn't assign flavors to pod set main: resource x.io/y unavailable in ClusterQueue",
		},
		"rejected pods": {
			"what to change",
			core.Reason{
				Code:   core.Misconfigured,
				Cause:  core.PodsInvalid,
				Detail: "container c of pod set main requests more cpu than its limit",
			},
			"it would be rejected: container c of pod set main requests more cpu than its limit",
		},
		"gang": {
			"how many pods fit, and that nodes are down",
			core.Reason{
				Code:       core.TopologyPlacementFailed,
				Cause:      core.NodesShort,
				PodSet:     "main",
				Flavor:     "f",
				PodsFit:    3,
				PodsWanted: 4,
				Nodes:      5,
				NodesDown:  1,
			},
			"couldn't assign flavors to pod set main: nodes of flavor f have room for only 3 out of 4 pod(s). Total nodes: 5; out of service: 1",
		},
		"a limit in the way": {
			"what keeps nodes with room from taking pods",
			core.Reason{
				Code:       core.TopologyPlacementFailed,
				Cause:      core.NodesShort,
				PodSet:     "main",
				PodsFit:    1,
				PodsWanted: 2,
				Nodes:      5,
				Detail:     "host port 80/TCP",
			},
			"couldn't assign flavors to pod set main: nodes have room for only 1 out of 2 pod(s). Total nodes: 5; in the way: host port 80/TCP",
		},
		"a volume out of reach": {
			"where it is",
			core.Reason{
				Code:   core.TopologyPlacementFailed,
				Cause:  core.NoSuchNode,
				PodSet: "main",
				Detail: "the volume of claim data, which is on zone=a",
			},
			"couldn't assign flavors to pod set main: no node satisfies the node selector, affinity and tolerations and reaches the volume of claim data, which is on zone=a",
		},
		"some nodes refused": {
			"their answer",
			core.Reason{
				Code:         core.TopologyPlacementFailed,
				Cause:        core.NodesShort,
				PodSet:       "main",
				PodsFit:      1,
				PodsWanted:   2,
				Nodes:        5,
				NodesRefused: 2,
				Detail:       "no such volume",
			},
			"couldn't assign flavors to pod set main: nodes have room for only 1 out of 2 pod(s). Total nodes: 5; refused its pods: 2 (no such volume)",
		},
		"too few nodes by a limit": {
			"which one",
			core.Reason{
				Code:       core.TopologyPlacementFailed,
				Cause:      core.GangTooLarge,
				PodSet:     "main",
				PodsFit:    3,
				PodsWanted: 4,
				Nodes:      3,
				Detail:     "host port 80/TCP",
			},
			"couldn't assign flavors to pod set main: all 3 node(s) together hold only 3 out of 4 pod(s), even if empty, because of host port 80/TCP",
		},
		"all nodes refused": {
			"their answer, and what they would take",
			core.Reason{
				Code:         core.TopologyPlacementFailed,
				Cause:        core.NodesRefused,
				PodSet:       "main",
				PodsFit:      1,
				PodsWanted:   2,
				NodesRefused: 3,
				Detail:       "no such volume",
			},
			"couldn't assign flavors to pod set main: 3 node(s) refused its pods (no such volume), and nodes take only 1 out of 2 pod(s)",
		},
		"empty flavor": {
			"which labels no node has",
			core.Reason{
				Code:   core.TopologyPlacementFailed,
				Cause:  core.FlavorEmpty,
				PodSet: "main",
				Flavor: "f",
				Detail: "gpu=h100",
			},
			"couldn't assign flavors to pod set main: no node has the labels of flavor f (gpu=h100)",
		},
		"behind": {
			"which workload is ahead, if known",
			core.Reason{Code: core.WaitingForQuota, Cause: core.BehindStrict, Queue: "q", Ahead: key},
			"workload blue/job is ahead in StrictFIFO queue q and waits",
		},
		"admission gate": {
			"who must agree",
			core.Reason{Code: core.AdmissionGated, Detail: "example.com/quota"},
			"the workload is held back by the admission gate example.com/quota",
		},
		"preemption gate": {
			"what could be done if it were open",
			core.Reason{
				Code:     core.AdmissionGated,
				Cause:    core.PreemptionGated,
				PodSet:   "main",
				Flavor:   "f",
				Resource: core.CPU,
				Need:     5000,
				Have:     3000,
				Victims:  1,
				Detail:   "g",
			},
			"couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, 2 more needed. Preempting 1 workload(s) would do, and the preemption gate g is closed",
		},
		"pods": {
			"whose, if known",
			core.Reason{Code: core.WaitingForPodsReady, Ahead: key},
			"waiting for all admitted workloads to have their pods ready; those of blue/job are not",
		},
		"lost": {
			"that something went wrong",
			core.Reason{Code: core.PendingEvaluation, Cause: core.AdmissionLost, Queue: "q"},
			"an admission to ClusterQueue q was decided and never took effect; it was taken back",
		},
		"claimed": {
			"whose it is",
			core.Reason{
				Code:     core.WaitingForQuota,
				Cause:    core.QuotaClaimed,
				PodSet:   "main",
				Flavor:   "f",
				Resource: core.CPU,
				Ahead:    key,
			},
			"couldn't assign flavors to pod set main: the unused quota for cpu in flavor f would have to be borrowed, and its owner keeps it for workload blue/job",
		},
		"cycle": {
			"which cohort",
			core.Reason{Code: core.Misconfigured, Cause: core.CohortCycle, Queue: "q", Tree: "c"},
			"ClusterQueue q is inactive: the cohorts above it (c) form a cycle",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Sentence(tc.r); got != tc.want {
				t.Errorf("%s:\n got %s\nwant %s", tc.why, got, tc.want)
			}
		})
	}
}

// TestTotal gives every code and cause a sentence, even without facts.
func TestTotal(t *testing.T) {
	codes := []core.Code{
		core.Misconfigured,
		core.Suspended,
		core.OnHold,
		core.NoMatchingFlavor,
		core.ExceedsMaxQuota,
		core.WaitingForQuota,
		core.TopologyPlacementFailed,
		core.WaitingForPreempted,
		core.PendingEvaluation,
		core.AdmissionGated,
		core.WaitingForPodsReady,
		"",
	}
	causes := []core.Cause{
		"",
		core.QueueMissing,
		core.NamespaceMismatch,
		core.ResourceUncovered,
		core.CohortCycle,
		core.FlavorMissing,
		core.PodsInvalid,
		core.QueueStopped,
		core.QueueUnready,
		core.UntoleratedTaint,
		core.LevelMissing,
		core.LevelsReversed,
		core.AffinityMismatch,
		core.QuotaShort,
		core.BehindStrict,
		core.QuotaClaimed,
		core.PreemptionGated,
		core.AdmissionLost,
		core.NodesShort,
		core.PodTooLarge,
		core.NoSuchNode,
		core.FlavorEmpty,
		core.GangTooLarge,
		core.PodSetsTooLarge,
		core.NodesRefused,
		core.BackingOff,
	}
	for _, code := range codes {
		for _, cause := range causes {
			r := core.Reason{Code: code, Cause: cause, Holders: []core.Key{{Namespace: "a", Name: "b"}}}
			if s := Paragraph(r); len(s) < 10 || !strings.HasSuffix(s, ".") {
				t.Errorf("%s/%s: %q", code, cause, s)
			}
		}
	}
}

// What Kubernetes said and we repeat may end as a sentence already.
func TestParagraphEndsOnce(t *testing.T) {
	for detail, want := range map[string]string{
		"no room":  "The workload is on hold: no room.",
		"no room.": "The workload is on hold: no room.",
	} {
		if got := Paragraph(core.Reason{Code: core.OnHold, Detail: detail}); got != want {
			t.Errorf("%q: got %q, want %q", detail, got, want)
		}
	}
}

func TestAmount(t *testing.T) {
	for want, v := range map[string]struct {
		resource string
		a        core.Amount
	}{
		"2":         {core.CPU, 2000},
		"1500m":     {core.CPU, 1500},
		"-2":        {core.CPU, -2000},
		"0":         {core.Memory, 0},
		"2000Gi":    {core.Memory, 2000 << 30},
		"1000":      {core.Memory, 1000},
		"8":         {core.GPU, 8},
		"unlimited": {core.GPU, core.Unlimited},
	} {
		if got := Amount(v.resource, v.a); got != want {
			t.Errorf("%d of %s is %s, want %s", v.a, v.resource, got, want)
		}
	}
}
