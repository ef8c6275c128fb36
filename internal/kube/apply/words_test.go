package apply

import (
	"fmt"
	"testing"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Why a workload is evicted, in words for its owner; of a reason that is new, at least
// its name.
func TestWordsOfEvictions(t *testing.T) {
	for reason, want := range map[core.EvictReason]string{
		core.InClusterQueue:             "it goes first in the same ClusterQueue",
		core.InCohortReclamation:        "its ClusterQueue takes back quota that this workload borrowed",
		core.InCohortFairSharing:        "its ClusterQueue has a smaller share of the cohort",
		core.InCohortReclaimWhileBorrow: "it has a higher priority and borrows in the same cohort",
		core.Relocated:                  "it needs these nodes, and there are others for this workload",
		"New":                           "New",
	} {
		if got := preemption(reason); got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
	for reason, want := range map[core.EvictReason]string{
		core.ClusterQueueStopped: "The ClusterQueue is stopped",
		core.LocalQueueStopped:   "The LocalQueue is stopped",
		core.NodeFailures:        "Nodes that its pods were planned on take no work any more, and there are no others for them",
		"New":                    "New",
	} {
		if got := withdrawal(core.Evict{Reason: reason}); got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
	for many, want := range map[int]string{
		1: "Nodes that its pods were planned on take no work any more (n-0), and there are no others for them",
		7: "Nodes that its pods were planned on take no work any more (n-0, n-1, n-2, n-3, n-4 and 2 more), " +
			"and there are no others for them",
	} {
		var failed []string
		for i := range many {
			failed = append(failed, fmt.Sprintf("n-%d", i))
		}
		if got := withdrawal(core.Evict{Reason: core.NodeFailures, Failed: failed}); got != want {
			t.Errorf("%d nodes failed: %q, want %q", many, got, want)
		}
	}
}
