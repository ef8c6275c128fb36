package cycle

import (
	"testing"

	"github.com/mlbatch/mlbatch/internal/core"
)

// What waits for others to stop, or behind a head reservation, counts as looked at: nothing
// has to change first.
func TestWhatWaitsForOthersCountsAsLookedAt(t *testing.T) {
	gone := &queue{}
	queue := func(s core.Strategy) *queue { return &queue{spec: &core.Queue{Strategy: s}} }
	for name, tc := range map[string]struct {
		group *group
		want  bool
	}{
		"in the queue":            {&group{queue: queue(core.BestEffortFIFO)}, true},
		"short of quota":          {&group{queue: queue(core.BestEffortFIFO), parked: true, why: &core.Reason{Code: core.WaitingForQuota, Cause: core.QuotaShort}}, false},
		"nothing known":           {&group{queue: queue(core.BestEffortFIFO), parked: true}, false},
		"victims have to stop":    {&group{queue: queue(core.BestEffortFIFO), parked: true, why: &core.Reason{Code: core.WaitingForPreempted}}, true},
		"another has reserved it": {&group{queue: queue(core.BestEffortFIFO), parked: true, why: &core.Reason{Code: core.WaitingForQuota, Cause: core.QuotaClaimed}}, true},
		"first of a StrictFIFO":   {&group{queue: queue(core.StrictFIFO), parked: true, why: &core.Reason{Code: core.WaitingForQuota}}, true},
		"of a queue that went":    {&group{queue: gone, parked: true}, false},
	} {
		if got := tc.group.considered(); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
