package cycle_test

import (
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// TestRelocationsOfTheHourCountWhicheverIsKnownFirst: a new process may see a Workload that was relocated before the
// LocalQueue that it names, or after it.
func TestRelocationsOfTheHourCountWhicheverIsKnownFirst(t *testing.T) {
	now := time.Unix(1e6, 0)
	for name, tc := range map[string]struct {
		ago       time.Duration
		last      bool // the LocalQueue
		relocates bool
	}{
		"the LocalQueue first": {ago: time.Minute},
		"the Workload first":   {ago: time.Minute, last: true},
		"another hour":         {ago: 2 * time.Hour, last: true, relocates: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := cycle.New(cycle.Options{})
			e.Apply(core.FlavorSet{Flavor: core.Flavor{
				Name: "f", Topology: core.Topology{Name: "t", Levels: []string{"rack"}},
			}})
			for _, q := range []string{"a", "b"} {
				e.Apply(core.QueueSet{Queue: core.Queue{
					Name: q, Cohort: "c", Namespaces: &core.Selector{}, Groups: gpusOf("f", 100), RelocationsPerHour: 1,
				}})
			}
			for i, rack := range []string{"1", "1", "2", "2"} {
				e.Apply(core.NodeSet{Node: core.Node{
					Name: nodeName(i), State: core.NodeReady, Labels: map[string]string{"rack": rack},
					Allocatable: core.MakeResources(map[string]core.Amount{core.GPU: 8, core.Pods: 9}),
				}})
			}
			known := func() {
				for _, q := range []string{"a", "b"} {
					e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: q, Name: "q", Queue: q}})
				}
			}
			if !tc.last {
				known()
			}
			e.Decide(now)
			was := runningOn("a", 0, now.Add(-tc.ago), 8, []core.Place{{Node: nodeName(0), Count: 1}})
			was.Relocated = now.Add(-tc.ago)
			e.Apply(core.WorkloadSet{Workload: was})
			e.Apply(core.WorkloadSet{
				Workload: runningOn("a", 1, now.Add(-tc.ago), 8, []core.Place{{Node: nodeName(2), Count: 1}}),
			})
			if tc.last {
				known()
			}
			e.Apply(core.WorkloadSet{Workload: gang("b", "gang", 2, 8, "rack")})
			relocates := false
			for _, d := range e.Decide(now) {
				ev, is := d.(core.Evict)
				relocates = relocates || is && ev.Reason == core.Relocated
			}
			if relocates != tc.relocates {
				t.Errorf("relocates: %t", relocates)
			}
		})
	}
}
