package inquiry_test

import (
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/inquiry"
)

// TestNever: what could not start in an empty cluster is told from what only waits, and asking
// changes nothing.
func TestNever(t *testing.T) {
	now := time.Unix(1e6, 0)
	pods := func(count int32, gpus core.Amount) core.Workload {
		w := asks("blue", "new", count, 0, now)
		w.PodSets[0].Requests = core.MakeResources(map[string]core.Amount{core.GPU: gpus})
		return w
	}
	partial := pods(3, 8)
	partial.PodSets[0].MinCount = 2
	elsewhere := pods(1, 8)
	elsewhere.Queue = "nowhere"
	uncovered := pods(1, 8)
	uncovered.PodSets[0].Requests = core.MakeResources(map[string]core.Amount{core.GPU: 1, "example.com/tpu": 1})
	busy := []core.Workload{
		asks("blue", "a", 1, 5, now),
		asks("red", "b", 1, 5, now),
		asks("red", "waits", 1, 5, now),
	}
	held := pods(1, 9)
	held.GatedBy = "example.com/gate"
	for name, tc := range map[string]struct {
		why   string
		there []core.Workload
		asked core.Workload
		code  core.Code // "" if it could start
		cause core.Cause
	}{
		"room":            {"it starts", nil, pods(1, 8), "", ""},
		"busy":            {"it starts once others end", busy, pods(2, 8), "", ""},
		"pod too large":   {"nodes have 8", nil, pods(1, 9), core.TopologyPlacementFailed, core.PodTooLarge},
		"while busy":      {"that others run is not why", busy, pods(1, 9), core.TopologyPlacementFailed, core.PodTooLarge},
		"behind a gate":   {"the gate's opening would not help", nil, held, core.TopologyPlacementFailed, core.PodTooLarge},
		"more than quota": {"both queues have 16", busy, pods(3, 8), core.ExceedsMaxQuota, ""},
		"fewer would do":  {"it starts with two pods", nil, partial, "", ""},
		"gang too large":  {"three pods of 5 on two nodes of 8", nil, pods(3, 5), core.TopologyPlacementFailed, core.GangTooLarge},
		"no quota of it":  {"the queue has none of it", nil, uncovered, core.Misconfigured, core.ResourceUncovered},
		"no queue":        {"it may come; others tell of it", nil, elsewhere, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := supposing(t, now, tc.there...)
			before := picture(t, e)
			why, never, err := inquiry.Never(inquiry.At(e.View()), tc.asked, now)
			if err != nil {
				t.Fatal(err)
			}
			if never != (tc.code != "") || never && (why.Code != tc.code || why.Cause != tc.cause) {
				t.Errorf("%s: never is %v: %+v", tc.why, never, why)
			}
			if picture(t, e) != before {
				t.Error("the question changed the engine")
			}
		})
	}
}

// TestLostNodesAreNotForEver: what could not start while quotas are cut, of its queue or of another from which it would
// borrow, or while nodes are kept for recovery, may start once nodes are back.
func TestLostNodesAreNotForEver(t *testing.T) {
	now := time.Unix(1e6, 0)
	gpus := func(n core.Amount) core.Resources { return core.MakeResources(map[string]core.Amount{core.GPU: n}) }
	quotas := func(name string, nominal, cut core.Amount) core.Event {
		return core.QueueSet{Queue: core.Queue{
			Name: name, Cohort: "all", Namespaces: &core.Selector{}, Groups: []core.ResourceGroup{{
				Covered: []string{core.GPU}, Flavors: []core.FlavorQuotas{{
					Flavor: "h100", Quotas: []core.Quota{{Resource: core.GPU, Nominal: nominal, Cut: cut}},
				}},
			}},
		}}
	}
	kept := core.Node{
		Name: "node-2", State: core.NodeReady, Allocatable: gpus(8).With(core.Pods, 100),
		Labels: map[string]string{core.SpareLabel: "true"},
	}
	for why, c := range map[string]struct {
		pods   int32
		events []core.Event
		never  bool
	}{
		"its own quota is cut":      {2, []core.Event{quotas("blue", 4, 4)}, false},
		"another's quota is cut":    {2, []core.Event{quotas("red", 4, 4)}, false},
		"both queues have too few":  {3, nil, true},
		"another's quota was taken": {2, []core.Event{quotas("red", 4, 0)}, true},
		"a node is kept for recovery": {2, []core.Event{
			core.FlavorSet{Flavor: core.Flavor{Name: "h100", KeepsSpares: true}}, core.NodeSet{Node: kept},
		}, false},
	} {
		e := supposing(t, now)
		for _, ev := range c.events {
			e.Apply(ev)
		}
		e.Decide(now)
		got, never, err := inquiry.Never(inquiry.At(e.View()), asks("blue", "new", c.pods, 0, now), now)
		if err != nil || never != c.never {
			t.Errorf("%s: never is %v, want %v: %+v, %v", why, never, c.never, got, err)
		}
	}
}

// TestNeverNeedsNodes: where no node has joined yet nothing is said.
func TestNeverNeedsNodes(t *testing.T) {
	now := time.Unix(1e6, 0)
	e := supposing(t, now)
	for _, name := range []string{"node-1", "node-2"} {
		e.Apply(core.NodeGone{Name: name})
	}
	e.Decide(now)
	if why, never, err := inquiry.Never(
		inquiry.At(e.View()),
		asks("blue", "new", 1, 0, now),
		now,
	); never ||
		err != nil {
		t.Errorf("%v: %+v", err, why)
	}
}

func BenchmarkNever(b *testing.B) {
	now := time.Unix(1e6, 0)
	e := cycle.New(cycle.Options{})
	gpus := core.MakeResources(map[string]core.Amount{core.GPU: 8}).With(core.Pods, 100)
	e.Apply(core.FlavorSet{Flavor: core.Flavor{Name: "h100"}})
	e.Apply(
		core.QueueSet{Queue: core.Queue{Name: "blue", Namespaces: &core.Selector{}, Groups: []core.ResourceGroup{
			{
				Covered: []string{
					core.GPU,
				},
				Flavors: []core.FlavorQuotas{{Flavor: "h100", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 8000}}}},
			},
		}}},
	)
	e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "blue", Name: "q", Queue: "blue"}})
	for i := range 1000 {
		e.Apply(
			core.NodeSet{
				Node: core.Node{
					Name:        "node-" + string(rune('a'+i/40)) + string(rune('a'+i%40)),
					State:       core.NodeReady,
					Allocatable: gpus,
				},
			},
		)
	}
	e.Decide(now)
	for b.Loop() {
		if _, never, err := inquiry.Never(
			inquiry.At(e.View()),
			asks("blue", "new", 2, 0, now),
			now,
		); never ||
			err != nil {
			b.Fatal(err)
		}
	}
}
