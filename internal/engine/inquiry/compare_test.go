package inquiry_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/inquiry"
)

// TestCompare uses the queues of supposing: blue and red have 8 GPUs each and lend them.
func TestCompare(t *testing.T) {
	now := time.Unix(1e6, 0)
	later := now.Add(time.Minute)
	strict := func(e *cycle.Engine) {
		q := core.Queue{
			Name:       "blue",
			Namespaces: &core.Selector{},
			Strategy:   core.StrictFIFO,
			Groups: []core.ResourceGroup{
				{
					Covered: []string{core.GPU},
					Flavors: []core.FlavorQuotas{{Flavor: "h100", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 16}}}},
				},
			},
		}
		e.Apply(core.QueueSet{Queue: q})
		e.Decide(later)
	}
	stopped := func(e *cycle.Engine) {
		e.Apply(
			core.LocalQueueSet{
				LocalQueue: core.LocalQueue{Namespace: "blue", Name: "q", Queue: "blue", Stop: core.Hold},
			},
		)
		e.Decide(later)
	}
	key := func(namespace, name string) core.Key { return core.Key{Namespace: namespace, Name: name} }
	tests := map[string]struct {
		why     string
		there   []core.Workload
		edit    func(*cycle.Engine)
		a, b    core.Key
		stage   core.Stage
		first   bool
		order   core.OrderRule
		spared  core.SpareRule
		policy  core.PreemptionPolicy
		cohort  string
		starts  bool
		instead int32
		after   core.Code
	}{
		"earlier in one queue": {
			"the same priority may not be evicted; were it gone, the other would start",
			[]core.Workload{asks("blue", "b", 2, 0, now), asks("blue", "a", 1, 0, later)},
			nil, key("blue", "a"), key("blue", "b"),
			core.StageRunning, true, core.ByTime, core.SparedByPriority, core.PreemptLowerPriority, "", true, 0, "",
		},
		"of a higher priority": {
			"priority comes before time",
			[]core.Workload{asks("blue", "b", 2, 5, later), asks("blue", "a", 1, 0, now)},
			nil,
			key("blue", "a"),
			key("blue", "b"),
			core.StageRunning,
			true,
			core.ByPriority,
			core.SparedByPriority,
			core.PreemptLowerPriority,
			"",
			true,
			0,
			"",
		},
		"another team within its quota": {
			"what is red's own is not taken back, and both nodes are used",
			[]core.Workload{asks("red", "b", 1, 0, now), asks("blue", "c", 1, 0, now), asks("blue", "a", 1, 0, later)},
			nil, key("blue", "a"), key("red", "b"),
			core.StageRunning, false, "", core.SparedWithinNominal, core.PreemptAny, "all", true, 0, "",
		},
		"one that would not make enough room": {
			"two nodes are wanted and one would come free",
			[]core.Workload{
				asks("blue", "b", 1, 0, now),
				asks("blue", "c", 1, 0, now),
				asks("blue", "a", 2, 0, later),
			},
			nil,
			key("blue", "a"),
			key("blue", "b"),
			core.StageRunning,
			true,
			core.ByTime,
			core.SparedByPriority,
			core.PreemptLowerPriority,
			"",
			false,
			0,
			core.WaitingForQuota,
		},
		"another would go instead": {
			"what comes free goes to the one that is ahead",
			[]core.Workload{
				asks("blue", "b", 2, 9, now),
				asks("blue", "ahead", 2, 5, now),
				asks("blue", "a", 1, 0, later),
			},
			nil,
			key("blue", "a"),
			key("blue", "b"),
			core.StageRunning,
			true,
			core.ByPriority,
			core.SparedByPriority,
			core.PreemptLowerPriority,
			"",
			false,
			1,
			core.WaitingForQuota,
		},
		"behind a strict first": {
			"b waits itself, and a would start without it",
			[]core.Workload{asks("blue", "b", 2, 0, now), asks("blue", "a", 1, 0, later)},
			func(e *cycle.Engine) {
				e.Apply(core.WorkloadGone{Key: key("blue", "b")})
				e.Apply(core.WorkloadGone{Key: key("blue", "a")})
				strict(e)
				e.Apply(core.WorkloadSet{Workload: asks("blue", "b", 2, 0, now)})
				e.Apply(core.WorkloadSet{Workload: asks("blue", "run", 1, 9, now)})
				e.Apply(core.WorkloadSet{Workload: asks("blue", "a", 1, 0, later)})
				e.Decide(later)
			},
			key("blue", "a"), key("blue", "b"),
			core.StageWaiting, true, core.ByTime, core.SparedNotRunning, "", "", true, 0, "",
		},
		"a stopped queue": {
			"b is not in the way of what is held",
			[]core.Workload{asks("red", "b", 1, 0, now), asks("blue", "c", 1, 0, now), asks("blue", "a", 1, 0, later)},
			stopped, key("blue", "a"), key("red", "b"),
			core.StageRunning, false, "", "", "", "", false, 0, core.Suspended,
		},
		"more than nominal": {
			"who asks for more than the queue's own and may not evict while it borrows evicts nobody, not even a less important one of its own queue",
			[]core.Workload{asks("blue", "b", 1, 0, now), asks("red", "c", 1, 0, now), asks("blue", "a", 2, 5, later)},
			nil,
			key("blue", "a"),
			key("blue", "b"),
			core.StageRunning,
			false,
			core.ByPriority,
			core.SparedByBorrowing,
			core.PreemptLowerPriority,
			"",
			false,
			0,
			core.WaitingForQuota,
		},
		"nobody knows it": {
			"one that the engine has not heard of",
			[]core.Workload{asks("blue", "c", 2, 0, now), asks("blue", "a", 1, 0, later)},
			nil, key("blue", "a"), key("red", "nobody"),
			"", false, "", "", "", "", false, 0, "",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := supposing(t, now, tc.there...)
			if tc.edit != nil {
				tc.edit(e)
			}
			before := picture(t, e)
			x, waits, _ := inquiry.Compare(inquiry.At(e.View()), tc.a, tc.b, later)
			if !waits {
				t.Fatalf("%s: it does not wait", tc.why)
			}
			got := fmt.Sprint(
				x.Other.Stage,
				x.OtherFirst,
				x.Order,
				x.Spared,
				x.Policy,
				x.Cohort,
				x.Gone.Starts,
				x.Gone.Instead,
				x.Gone.Why.Code,
			)
			want := fmt.Sprint(
				tc.stage,
				tc.first,
				tc.order,
				tc.spared,
				tc.policy,
				tc.cohort,
				tc.starts,
				tc.instead,
				tc.after,
			)
			if got != want {
				t.Errorf("%s:\n got %s\nwant %s\n%+v", tc.why, got, want, x)
			}
			if diff := cmp.Diff(before, picture(t, e)); diff != "" {
				t.Errorf("a question changed the engine:\n%s", diff)
			}
		})
	}
}

// TestCompareSharesInNumbers has fair sharing: three queues without quota of their own share 24
// GPUs of their cohort, and green weighs twice as much.
func TestCompareSharesInNumbers(t *testing.T) {
	now := time.Unix(1e6, 0)
	e := cycle.New(cycle.Options{FairSharing: core.DefaultFairSharing()})
	e.Apply(core.FlavorSet{Flavor: core.Flavor{Name: "h100"}})
	quota := func(n core.Amount) []core.ResourceGroup {
		return []core.ResourceGroup{
			{
				Covered: []string{core.GPU},
				Flavors: []core.FlavorQuotas{{Flavor: "h100", Quotas: []core.Quota{{Resource: core.GPU, Nominal: n}}}},
			},
		}
	}
	e.Apply(core.CohortSet{Cohort: core.Cohort{Name: "all", Groups: quota(24)}})
	for name, weight := range map[string]core.Weight{"blue": core.WeightOne, "green": 2 * core.WeightOne} {
		e.Apply(core.QueueSet{Queue: core.Queue{
			Name:       name,
			Cohort:     "all",
			Namespaces: &core.Selector{},
			Groups:     quota(0),
			Weight:     &weight,
			Preemption: core.Preemption{Reclaim: core.PreemptAny},
		}})
		e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: name, Name: "q", Queue: name}})
	}
	e.Decide(now)
	start := func(w core.Workload) {
		e.Apply(core.WorkloadSet{Workload: w})
		for _, d := range e.Decide(now) {
			if a, is := d.(core.Admit); is {
				w.Admission, w.Admitted, w.Reserved, w.Seq = &a.Admission, true, now, 1
				e.Apply(core.WorkloadSet{Workload: w})
			}
		}
	}
	start(asks("green", "g", 2, 0, now))
	start(asks("blue", "b", 1, 0, now))
	start(asks("blue", "a", 1, 0, now.Add(time.Second)))
	x, waits, _ := inquiry.Compare(
		inquiry.At(e.View()),
		core.Key{Namespace: "blue", Name: "a"},
		core.Key{Namespace: "green", Name: "g"},
		now,
	)
	if !waits {
		t.Fatal("it does not wait")
	}
	// Blue borrows 8 of 24, and would 16; green 16 of 24, and by its weight half as much counts.
	want := []core.SideShare{
		{Name: "blue", Weight: core.WeightOne, Now: 334, Then: 667},
		{Name: "green", Weight: 2 * core.WeightOne, Now: 334, Then: 0},
	}
	if diff := cmp.Diff(want, x.Shares); diff != "" || x.Spared != core.SparedByShare || x.Cohort != "all" {
		t.Errorf("%s %s (-want +got):\n%s", x.Spared, x.Cohort, diff)
	}
	if want := []core.FlavorAmount{
		{FlavorResource: core.FlavorResource{Flavor: "h100", Resource: core.GPU}, Amount: 16},
	}; cmp.Diff(
		want,
		x.Other.Uses,
	) != "" {
		t.Errorf("it holds %v", x.Other.Uses)
	}
	if x.Gone.Tried != true || !x.Gone.Starts {
		t.Errorf("without it: %+v", x.Gone)
	}
}

// TestWereGoneIsWhatHappens draws crowds: what is said of a world without one workload is what
// the engine does when that one goes.
func TestWereGoneIsWhatHappens(t *testing.T) {
	at := time.Unix(1e6, 0)
	starts, waits := 0, 0
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		var jobs []core.Workload
		for i := range 8 {
			jobs = append(
				jobs,
				asks(
					[]string{"blue", "red"}[r.IntN(2)],
					fmt.Sprint("j", i),
					int32(1+r.IntN(2)),
					int64(r.IntN(3)),
					at.Add(time.Duration(i)*time.Second),
				),
			)
		}
		for i := range len(jobs) * len(jobs) {
			a, b := jobs[i/len(jobs)].Key, jobs[i%len(jobs)].Key
			e := supposing(t, at, jobs...)
			x, is, _ := inquiry.Compare(inquiry.At(e.View()), a, b, at)
			if !is || a == b || !x.Gone.Tried || x.Gone.Preempts > 0 {
				continue
			}
			if x.Gone.Starts {
				starts++
			} else {
				waits++
			}
			e.Apply(core.WorkloadGone{Key: b})
			if said, is := x.Gone.Starts && !x.Gone.Awaits, getsIn(e, a, at); said != is && !x.Gone.Anyway {
				t.Errorf("seed %d: without %s it was said that %s starts: %v, and it is so: %v", seed, b, a, said, is)
			}
		}
	}
	if starts == 0 || waits == 0 {
		t.Errorf("%d start and %d wait", starts, waits)
	}
}

// TestWereGoneIsNotToldOfTooMany: of many that are alike and come before a workload only the
// first are copied. What a copy leaves to it when all of those got something, the others may get:
// then nothing is said of it.
func TestWereGoneIsNotToldOfTooMany(t *testing.T) {
	now := time.Unix(1e6, 0)
	gpus := func(n core.Amount) core.Resources {
		return core.MakeResources(map[string]core.Amount{core.GPU: n})
	}
	job := func(name string, n core.Amount, priority int64) core.Workload {
		w := asks("blue", name, 1, priority, now)
		w.PodSets[0].Requests = gpus(n)
		return w
	}
	for name, c := range map[string]struct {
		why string
		// before is how many come before it that are alike, and ask for one GPU each.
		before int
		// ended holds all that they compete for, or nothing if it is 0, and has just ended;
		// other, which it is compared with, holds so many.
		ended, other core.Amount
		said         core.WereGone
		starts       bool
	}{
		"room for all, few":  {"all were copied", 60, 67, 1, core.WereGone{Tried: true, Anyway: true}, true},
		"room for all, many": {"64 were copied, and 67 start before it", 70, 67, 1, core.WereGone{}, false},
		"other goes, few":    {"all were copied", 60, 0, 67, core.WereGone{Tried: true, Starts: true, Instead: 60}, true},
		"other goes, many":   {"64 were copied, and 67 start before it", 70, 0, 67, core.WereGone{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := cycle.New(cycle.Options{})
			e.Apply(core.FlavorSet{Flavor: core.Flavor{Name: "h100"}})
			e.Apply(core.QueueSet{Queue: core.Queue{
				Name:       "blue",
				Namespaces: &core.Selector{},
				Groups: []core.ResourceGroup{
					{
						Covered: []string{core.GPU},
						Flavors: []core.FlavorQuotas{
							{Flavor: "h100", Quotas: []core.Quota{{Resource: core.GPU, Nominal: c.ended + c.other}}},
						},
					},
				},
			}})
			e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "blue", Name: "q", Queue: "blue"}})
			e.Apply(
				core.NodeSet{
					Node: core.Node{Name: "node-1", State: core.NodeReady, Allocatable: gpus(200).With(core.Pods, 500)},
				},
			)
			start := func(w core.Workload) {
				e.Apply(core.WorkloadSet{Workload: w})
				if !getsIn(e, w.Key, now) {
					t.Fatalf("%s did not start", w.Key)
				}
			}
			other, ended, asked := job("other", c.other, 9), job("ended", c.ended, 9), job("asked", 2, 0)
			start(other)
			if c.ended > 0 {
				start(ended)
			}
			for i := range c.before {
				e.Apply(core.WorkloadSet{Workload: job(fmt.Sprintf("alike-%02d", i), 1, 5)})
			}
			e.Apply(core.WorkloadSet{Workload: asked})
			e.Decide(now) // all wait
			e.Apply(core.WorkloadGone{Key: ended.Key})
			x, waits, _ := inquiry.Compare(inquiry.At(e.View()), asked.Key, other.Key, now)
			if !waits {
				t.Fatal("it does not wait")
			}
			if diff := cmp.Diff(c.said, x.Gone); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
			if c.ended == 0 {
				e.Apply(core.WorkloadGone{Key: other.Key})
			}
			if got := getsIn(e, asked.Key, now); got != c.starts {
				t.Errorf("%s: it starts: %v", c.why, got)
			}
		})
	}
}

// getsIn lets an engine decide all that it can, and reports whether a workload was admitted.
func getsIn(e *cycle.Engine, k core.Key, at time.Time) bool {
	for range 60 {
		plan := e.Decide(at)
		for _, d := range plan {
			if given, is := d.(core.Admit); is {
				e.Apply(core.Applied{Key: given.Key, Seq: 1})
			}
		}
		if len(plan) == 0 {
			break
		}
	}
	_, has := e.Holding(k)
	return has
}
