package cycle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// TestWhatWasHeldBeforeIsForTheWorkloadAsItIsNow: a new process reads what the one before held for a workload. It may be
// of yesterday, or written by somebody else: it counts only if it is for all pods as they are, and is there.
func TestWhatWasHeldBeforeIsForTheWorkloadAsItIsNow(t *testing.T) {
	now := time.Unix(1e6, 0)
	for name, tc := range map[string]struct {
		why    string
		change func(*core.Workload)
		lost   bool
	}{
		"as it was": {"its place is kept from one that is more important", func(*core.Workload) {}, false},
		"fewer pods, which will do": {"a gang that may start with fewer may have been given fewer", func(w *core.Workload) {
			w.PodSets[0].Count, w.PodSets[0].MinCount = 2, 1
		}, false},
		"more pods": {"a gang starts as a whole", func(w *core.Workload) { w.PodSets[0].Count = 2 }, true},
		"fewer pods": {"it would hold what it does not use", func(w *core.Workload) {
			w.Next.PodSets[0].Count = 2
		}, true},
		"a larger pod": {"nobody gets what was counted for less", func(w *core.Workload) {
			w.PodSets[0].Requests = core.MakeResources(map[string]core.Amount{core.GPU: 9})
		}, true},
		"another pod set": {"which is not what was placed", func(w *core.Workload) { w.PodSets[0].Name = "other" }, true},
		"one more pod set": {"it has no place", func(w *core.Workload) {
			w.PodSets = append(w.PodSets, w.PodSets[0])
		}, true},
		"another queue": {"quota of a queue is for those in it", func(w *core.Workload) { w.Next.Queue = "b" }, true},
		"held":          {"it would keep others off for nothing", func(w *core.Workload) { w.Held = "Deactivated" }, true},
		"pausing": {"until its pause ends", func(w *core.Workload) {
			w.NotBefore = now.Add(time.Minute)
		}, true},
		"above quota": {"a plan gives no more than there is", func(w *core.Workload) {
			w.Next.PodSets[0].Flavors[0].Flavor = "none"
		}, true},
		"a node that is none": {"nobody can run there", func(w *core.Workload) {
			w.Next.PodSets[0].Places[0].Node = "nowhere"
		}, true},
		"no places": {"pods of this flavor need one", func(w *core.Workload) { w.Next.PodSets[0].Places = nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := cycle.New(cycle.Options{})
			e.Apply(core.FlavorSet{Flavor: core.Flavor{Name: "f"}})
			for _, q := range []string{"a", "b"} {
				e.Apply(core.QueueSet{Queue: core.Queue{
					Name: q, Cohort: "c", Namespaces: &core.Selector{}, Groups: gpusOf("f", 100),
				}})
				e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: q, Name: "q", Queue: q}})
			}
			e.Apply(core.NodeSet{Node: core.Node{
				Name: nodeName(0), State: core.NodeReady,
				Allocatable: core.MakeResources(map[string]core.Amount{core.GPU: 8, core.Pods: 9}),
			}})
			w := runningOn("a", 0, now, 8, []core.Place{{Node: nodeName(0), Count: 1}})
			w.Next, w.Admission, w.Reserved, w.Admitted, w.Ready = w.Admission, nil, time.Time{}, false, false
			tc.change(&w)
			rival := gang("b", "rival", 1, 8, "")
			rival.Priority = 9
			e.Apply(core.WorkloadSet{Workload: w})
			e.Apply(core.WorkloadSet{Workload: rival})
			var got core.Key
			for _, d := range e.Decide(now) {
				if admit, is := d.(core.Admit); is {
					got = admit.Key
				}
			}
			if err := e.Check(); err != nil {
				t.Fatal(err)
			}
			want := w.Key
			if tc.lost {
				want = rival.Key
			}
			if got != want {
				t.Errorf("%s is admitted, want %s: %s", got, want, tc.why)
			}
		})
	}
}

// TestWhatIsHeldIsToldWithTheReason: what is held for a gang that others make room for, and for these, is part of the
// decisions, so that it can be written; a reason that is told later repeats it, and one after it was dropped does not.
func TestWhatIsHeldIsToldWithTheReason(t *testing.T) {
	now := time.Unix(1e6, 0)
	e := cycle.New(cycle.Options{})
	e.Apply(core.FlavorSet{Flavor: core.Flavor{
		Name: "f", Topology: core.Topology{Name: "t", Levels: []string{"rack"}},
	}})
	for _, q := range []string{"a", "b"} {
		e.Apply(core.QueueSet{Queue: core.Queue{
			Name: q, Cohort: "c", Namespaces: &core.Selector{}, Groups: gpusOf("f", 100), RelocationsPerHour: 9,
		}})
		e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: q, Name: "q", Queue: q}})
	}
	node := func(i int, rack string, state core.NodeState) {
		e.Apply(core.NodeSet{Node: core.Node{
			Name: nodeName(i), State: state, Labels: map[string]string{"rack": rack},
			Allocatable: core.MakeResources(map[string]core.Amount{core.GPU: 8, core.Pods: 9}),
		}})
	}
	for i, rack := range []string{"1", "1", "2"} {
		node(i, rack, core.NodeReady)
	}
	e.Apply(core.WorkloadSet{
		Workload: runningOn("a", 0, now.Add(-time.Hour), 8, []core.Place{{Node: nodeName(0), Count: 1}}),
	})
	e.Apply(core.WorkloadSet{Workload: gang("b", "gang", 2, 8, "rack")})
	held := func(a *core.Admission) string {
		if a == nil {
			return "nothing"
		}
		return fmt.Sprint(a.PodSets[0].Places)
	}
	var got []string
	decide := func() {
		for _, d := range e.Decide(now) {
			switch d := d.(type) {
			case core.Evict:
				got = append(got, "moves to "+held(d.Next))
			case core.Refuse:
				got = append(got, d.Key.Name+" waits with "+held(d.Next))
			case core.Admit, core.Replace:
			}
		}
	}
	decide()
	node(1, "1", core.NodeLost)
	decide()
	want := []string{
		"moves to [{node-0002 1}]", "gang waits with [{node-0000 1} {node-0001 1}]",
		"gang waits with nothing",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
