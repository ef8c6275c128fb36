package cycle_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/inquiry"
)

// TestFollowersKnowTheLine lets an engine follow one that decides, through random
// worlds. Once all decisions have been seen, both give the same answers. Where
// past usage orders the line, the follower knows it as it was observed, not what
// was charged in advance: the same workloads wait then, in whatever order.
func TestFollowersKnowTheLine(t *testing.T) {
	for name, fair := range map[string]*core.FairSharing{"classical": nil, "fair": core.DefaultFairSharing()} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				x := newDuel(t, fair)
				f := cycle.New(x.options)
				tell := func(ev core.Event) {
					switch ev.(type) {
					case core.NodeSet, core.NodeGone:
					default:
						f.Apply(ev)
					}
				}
				for _, ev := range x.log {
					tell(ev)
				}
				x.told = tell
				x.decided = func() { f.Follow(x.now) }
				x.play()
				f.Follow(x.now)
				for q := range x.ref.queues {
					want, got := x.engine.Positions(q), f.Positions(q)
					if x.byUsage {
						slices.SortFunc(want, core.Key.Compare)
						slices.SortFunc(got, core.Key.Compare)
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Fatalf("the line of %s (-decides +follows):\n%s\n%s", q, diff, x.dump())
					}
					here, there := x.engine.Load(q), f.Load(q)
					if diff := cmp.Diff(
						[]any{here.Reserved, here.Used, here.Reserving},
						[]any{there.Reserved, there.Used, there.Reserving},
					); diff != "" {
						t.Fatalf("the usage of %s (-decides +follows):\n%s\n%s", q, diff, x.dump())
					}
				}
				count := map[bool]int{}
				x.engine.EachWaiting(func(_ string, _ core.Key, parked bool) { count[parked]++ })
				for q := range x.ref.queues {
					c := x.engine.Load(q)
					count[false] -= c.Pending
					count[true] -= c.Inadmissible
				}
				if count[false] != 0 || count[true] != 0 {
					t.Fatalf(
						"what waits one by one, less what is counted, active: %d, parked: %d",
						count[false],
						count[true],
					)
				}
			})
		})
	}
}

// TestFollowersExplainAlikeAnywhere lets an engine follow one that decides, through
// random worlds with nodes. Once everything was seen, moves too, both explain alike. What
// was evicted for what is known only to the one that decides: where an eviction was,
// advice may differ, and a victim may seem to be able to evict workloads it has to spare,
// at once or when the first reason is gone.
func TestFollowersExplainAlikeAnywhere(t *testing.T) {
	for name, fair := range map[string]*core.FairSharing{"classical": nil, "fair": core.DefaultFairSharing()} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			rapid.Check(t, func(t *rapid.T) {
				x := newDuel(t, fair)
				follows, evicted := cycle.New(x.options), map[core.Key]bool{}
				for _, ev := range x.log {
					follows.Apply(ev)
				}
				x.told = follows.Apply
				x.decided = func() {
					follows.Follow(x.now)
					for _, d := range x.plan {
						if d, is := d.(core.Evict); is {
							evicted[d.Key] = true
						}
					}
				}
				x.play()
				for _, w := range x.ref.sorted() {
					x.observe(w)
				}
				x.settleDown()
				if x.byUsage {
					return // what was charged in advance is known only to the one that decides
				}
				for _, w := range x.ref.sorted() {
					want, waits, _ := inquiry.Explain(inquiry.At(x.engine.View()), w.Key, x.now, []int64{5})
					got, also, _ := inquiry.Explain(inquiry.At(follows.View()), w.Key, x.now, []int64{5})
					if len(evicted) > 0 {
						want.Advice, got.Advice = nil, nil
					}
					if evicted[w.Key] {
						want.Reason, want.Holders, want.Nodes, want.Next = got.Reason, got.Holders, got.Nodes, got.Next
					}
					if diff := cmp.Diff(want, got); diff != "" || waits != also {
						t.Fatalf("%s waits: %t, %t (-decides +follows)\n%s\n%s", w.Key, waits, also, diff, x.dump())
					}
					asked++
				}
			})
			if asked == 0 {
				t.Error("no workload was asked about")
			}
		})
	}
}

// TestFollowersExplainAlike asks an engine that decides and one that follows why
// workloads wait: for quota, for nodes, and behind the first of a StrictFIFO queue.
func TestFollowersExplainAlike(t *testing.T) {
	now := time.Unix(1000, 0)
	leads, follows := cycle.New(cycle.Options{}), cycle.New(cycle.Options{})
	tell := func(ev core.Event) {
		leads.Apply(ev)
		follows.Apply(ev)
	}
	gpus := func(n core.Amount) []core.ResourceGroup {
		return []core.ResourceGroup{
			{
				Covered: []string{core.GPU},
				Flavors: []core.FlavorQuotas{{Flavor: "f", Quotas: []core.Quota{{Resource: core.GPU, Nominal: n}}}},
			},
		}
	}
	tell(core.FlavorSet{Flavor: core.Flavor{Name: "f"}})
	for name, q := range map[string]core.Queue{
		"quota": {Groups: gpus(8)}, "nodes": {Groups: gpus(100)}, "strict": {Groups: gpus(4), Strategy: core.StrictFIFO},
	} {
		q.Name, q.Namespaces = name, &core.Selector{}
		tell(core.QueueSet{Queue: q})
		tell(core.NamespaceSet{Namespace: core.Namespace{Name: name}})
		tell(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: name, Name: "q", Queue: name}})
	}
	for _, n := range []string{"n-0", "n-1"} {
		tell(
			core.NodeSet{
				Node: core.Node{
					Name:        n,
					State:       core.NodeReady,
					Allocatable: core.MakeResources(map[string]core.Amount{core.GPU: 8, core.Pods: 9}),
				},
			},
		)
	}
	workloads := map[core.Key]core.Workload{}
	for _, j := range []struct {
		queue, name string
		gpus        core.Amount
	}{{"quota", "runs", 8}, {"quota", "waits", 8}, {"nodes", "waits", 8}, {"nodes", "larger", 8}, {"strict", "first", 4}, {"strict", "behind", 1}} {
		w := core.Workload{
			Key:     core.Key{Namespace: j.queue, Name: j.name},
			UID:     j.queue + j.name,
			Queue:   "q",
			Created: now,
			PodSets: []core.PodSet{
				{Name: "main", Count: 1, Requests: core.MakeResources(map[string]core.Amount{core.GPU: j.gpus})},
			},
		}
		workloads[w.Key] = w
		tell(core.WorkloadSet{Workload: w})
		for _, d := range leads.Decide(now) {
			if a, is := d.(core.Admit); is {
				w := workloads[a.Key]
				w.Admission, w.Admitted, w.Reserved = &a.Admission, true, now
				tell(core.WorkloadSet{Workload: w})
			}
		}
	}
	leads.Decide(now)
	follows.Follow(now)
	waiting := 0
	for k := range workloads {
		want, waits, _ := inquiry.Explain(inquiry.At(leads.View()), k, now, []int64{5})
		got, also, _ := inquiry.Explain(inquiry.At(follows.View()), k, now, []int64{5})
		if waits {
			waiting++
		}
		if diff := cmp.Diff(want, got); diff != "" || waits != also {
			t.Errorf("%s (-decides +follows):\n%s", k, diff)
		}
	}
	if waiting < 3 {
		t.Errorf("%d wait", waiting)
	}
}
