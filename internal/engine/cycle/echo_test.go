package cycle_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// small is one queue of 4 cpu that may evict lower priorities, without nodes.
func small() *cycle.Engine {
	e := cycle.New(cycle.Options{})
	for _, ev := range smallWorld() {
		e.Apply(ev)
	}
	return e
}

func smallWorld() []core.Event {
	all := core.Selector{}
	return []core.Event{
		core.FlavorSet{Flavor: core.Flavor{Name: "f"}},
		core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "a", Name: "q", Queue: "a"}},
		core.QueueSet{Queue: core.Queue{
			Name: "a", Namespaces: &all, Preemption: core.Preemption{WithinQueue: core.PreemptLowerPriority},
			Groups: []core.ResourceGroup{{
				Covered: []string{core.CPU},
				Flavors: []core.FlavorQuotas{{Flavor: "f", Quotas: []core.Quota{{Resource: core.CPU, Nominal: 4000}}}},
			}},
		}},
	}
}

func cpuJob(name string, priority int64, cpus core.Amount) core.Workload {
	at := time.Unix(100, 0)
	return core.Workload{
		Key: core.Key{
			Namespace: "a",
			Name:      name,
		},
		UID:       name,
		Queue:     "q",
		Priority:  priority,
		Created:   at,
		QueueTime: at,
		PodSets: []core.PodSet{
			{Name: "main", Count: 1, Requests: core.MakeResources(map[string]core.Amount{core.CPU: cpus * 1000})},
		},
	}
}

// steps prints what an engine decides.
func steps(t *testing.T, e *cycle.Engine, second int64) []string {
	t.Helper()
	var out []string
	for _, d := range e.Decide(time.Unix(second, 0)) {
		switch d := d.(type) {
		case core.Admit:
			out = append(out, "admit "+d.Key.Name)
		case core.Evict:
			out = append(out, "evict "+d.Key.Name+" for "+d.For.Name)
		case core.Replace:
			out = append(out, "replace "+d.Key.Name)
		case core.Refuse:
			out = append(out, "refuse "+d.Key.Name)
		}
	}
	if err := e.Check(); err != nil {
		t.Fatal(err)
	}
	return out
}

func expect(t *testing.T, why string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: decided %q, want %q", why, got, want)
	}
}

// admitted is w as the API shows it after its admission was written.
func admitted(t *testing.T, e *cycle.Engine, w core.Workload) core.Workload {
	t.Helper()
	a, ok := e.Holding(w.Key)
	if !ok {
		t.Fatalf("%s holds nothing", w.Key)
	}
	w.Admission, w.Reserved = &a, time.Unix(200, 0)
	return w
}

func TestLateEchoes(t *testing.T) {
	e := small()
	one, two := cpuJob("one", 0, 4), cpuJob("two", 0, 4)
	e.Apply(core.WorkloadSet{Workload: one})
	expect(t, "it fits", steps(t, e, 200), "admit one")

	e.Apply(core.WorkloadSet{Workload: one})
	e.Apply(core.WorkloadSet{Workload: two})
	expect(t, "a state from before the admission takes nothing back", steps(t, e, 201), "refuse two")

	seen := admitted(t, e, one)
	e.Apply(core.WorkloadSet{Workload: seen})
	expect(t, "the admission is confirmed", steps(t, e, 202))

	e.Apply(core.WorkloadSet{Workload: one})
	expect(t, "after confirmation, no admission means that it was released", steps(t, e, 203), "admit one")
}

func TestRefusedWrites(t *testing.T) {
	e := small()
	low, high := cpuJob("low", 0, 4), cpuJob("high", 5, 4)
	e.Apply(core.WorkloadSet{Workload: low})
	expect(t, "it fits", steps(t, e, 200), "admit low")
	e.Apply(core.Refused{Key: low.Key})
	expect(t, "a refused admission is decided again", steps(t, e, 201), "admit low")

	e.Apply(core.WorkloadSet{Workload: high})
	expect(t, "no workload is evicted before its admission was seen", steps(t, e, 202), "refuse high")
	seen := admitted(t, e, low)
	e.Apply(core.WorkloadSet{Workload: seen})
	expect(t, "now it may be", steps(t, e, 203), "evict low for high", "refuse high")
	e.Apply(core.Refused{Key: low.Key})
	expect(t, "a refused eviction ends the pledge, and is decided again", steps(t, e, 204), "evict low for high")
	seen.Evicting = true
	e.Apply(core.WorkloadSet{Workload: seen})
	expect(t, "an eviction that is seen changes nothing", steps(t, e, 205))
	for queue, l := range map[string]core.Load{"ClusterQueue": e.Load("a"), "LocalQueue": e.LocalLoad("a", "q")} {
		if l.Reserving != 1 || l.Evicting != 1 || l.Waiting() != 1 {
			t.Errorf(
				"%s: %d hold quota, %d of them are on their way out, %d wait",
				queue,
				l.Reserving,
				l.Evicting,
				l.Waiting(),
			)
		}
	}
	e.Apply(core.WorkloadSet{Workload: low})
	expect(t, "quota moves when the victim is gone", steps(t, e, 206), "admit high", "refuse low")
	if l := e.Load("a"); l.Evicting != 0 {
		t.Errorf("%d are on their way out, and the only one is gone", l.Evicting)
	}
}

func TestAppliedTellsOldFromNew(t *testing.T) {
	e := small()
	one := cpuJob("one", 0, 4)
	one.Seq = 7
	e.Apply(core.WorkloadSet{Workload: one})
	expect(t, "it fits", steps(t, e, 200), "admit one")
	e.Apply(core.Applied{Key: one.Key, Seq: 9})
	one.Seq = 8
	e.Apply(core.WorkloadSet{Workload: one})
	expect(t, "an older state is an echo", steps(t, e, 201))
	one.Seq = 12
	e.Apply(core.WorkloadSet{Workload: one})
	expect(
		t,
		"a newer state without admission is a release, even if the admission was never seen",
		steps(t, e, 202),
		"admit one",
	)
}

func TestObservedAdmissionIsFact(t *testing.T) {
	e := small()
	big := cpuJob("big", 0, 9)
	big.Admission = &core.Admission{Queue: "a", PodSets: []core.PodSetAdmission{{
		Name: "main", Count: 1, Flavors: []core.FlavorChoice{{Resource: core.CPU, Flavor: "f"}},
		Usage: core.MakeResources(map[string]core.Amount{core.CPU: 9000}),
	}}}
	e.Apply(core.WorkloadSet{Workload: big})
	e.Apply(core.WorkloadSet{Workload: cpuJob("one", 0, 1)})
	expect(t, "an admission above quota stands, and nothing new fits", steps(t, e, 200), "refuse one")
	if l := e.Load(
		"a",
	); len(l.Reserved) != 1 ||
		l.Reserved[core.FlavorResource{Flavor: "f", Resource: core.CPU}] != 9000 {
		t.Errorf("load %v", l)
	}
	e.Apply(core.WorkloadGone{Key: big.Key})
	expect(t, "it ends", steps(t, e, 201), "admit one")
}

func TestReclaimablePodsGiveBack(t *testing.T) {
	e := small()
	wide := cpuJob("four", 0, 1)
	wide.PodSets[0].Count = 4
	e.Apply(core.WorkloadSet{Workload: wide})
	e.Apply(core.WorkloadSet{Workload: cpuJob("two", 0, 2)})
	expect(t, "four pods fill the queue", steps(t, e, 200), "admit four", "refuse two")
	seen := admitted(t, e, wide)
	seen.PodSets = []core.PodSet{{Name: "main", Count: 2, Requests: wide.PodSets[0].Requests}}
	e.Apply(core.WorkloadSet{Workload: seen})
	expect(t, "two of four pods are done", steps(t, e, 201), "admit two")
}

func TestSameNameAgain(t *testing.T) {
	e := small()
	one := cpuJob("one", 0, 4)
	e.Apply(core.WorkloadSet{Workload: one})
	expect(t, "it fits", steps(t, e, 200), "admit one")
	one.UID = "other"
	e.Apply(core.WorkloadSet{Workload: one})
	expect(t, "deleted and made anew under the same name", steps(t, e, 201), "admit one")
}

func TestBackOff(t *testing.T) {
	e := small()
	one := cpuJob("one", 0, 4)
	one.NotBefore = time.Unix(300, 0)
	e.Apply(core.WorkloadSet{Workload: one})
	expect(t, "too early", steps(t, e, 200), "refuse one")
	if got := e.NextWake(); !got.Equal(one.NotBefore) {
		t.Errorf("wakes at %v", got)
	}
	expect(t, "still too early", steps(t, e, 299))
	expect(t, "now", steps(t, e, 300), "admit one")
	if got, want := e.NextWake(), time.Unix(600, 0); !got.Equal(want) {
		t.Errorf("wakes at %v, the admission must have been seen at %v", got, want)
	}
	one.Admission, _ = holding(e, one.Key)
	e.Apply(core.WorkloadSet{Workload: one})
	if got := e.NextWake(); !got.IsZero() {
		t.Errorf("wakes at %v for nothing", got)
	}
}

// TestAnyOrderOfFacts feeds the objects of a world in a random order before the
// first decision, as after a restart: the plan is the same (P6). And the work of
// one call may be spread over many without changing the outcome.
func TestAnyOrderOfFacts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newDuel(t, nil)
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			x.event()
			x.decide()
		}
		for range rapid.IntRange(1, 6).Draw(t, "more") {
			x.event()
		}
		facts := x.facts()
		want := fmt.Sprint(planOf(facts, 0))
		if got := fmt.Sprint(planOf(rapid.Permutation(facts).Draw(t, "order"), 0)); got != want {
			t.Fatalf("in another order (-want +got):\n%s", cmp.Diff(want, got))
		}
		if got := fmt.Sprint(planOf(facts, 1)); got != want {
			t.Fatalf("in small steps (-want +got):\n%s", cmp.Diff(want, got))
		}
	})
}

// facts are the objects of the world as the API has them.
func (x *duel) facts() []core.Event {
	var out []core.Event
	for _, n := range sortedKeys(x.ref.flavors) {
		out = append(out, core.FlavorSet{Flavor: x.ref.flavors[n]})
	}
	for _, n := range sortedKeys(x.ref.cohorts) {
		out = append(out, core.CohortSet{Cohort: x.ref.cohorts[n]})
	}
	for _, n := range sortedKeys(x.ref.queues) {
		out = append(out, core.QueueSet{Queue: x.ref.queues[n]},
			core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: n, Name: "q", Queue: n}})
		if x.byUsage {
			out = append(out, core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: n, Name: "p", Queue: n}})
		}
	}
	for _, n := range sortedKeys(x.ref.nodes) {
		out = append(out, core.NodeSet{Node: x.ref.nodes[n]})
	}
	for _, w := range x.ref.sorted() {
		o := w.Workload
		if w.adm != nil && w.phase != refReserved {
			o.Admission, o.Reserved, o.Evicting = w.adm, time.Unix(w.reserved, 0), w.phase == refLeaving
		}
		out = append(out, core.WorkloadSet{Workload: o})
	}
	return out
}

// planOf is everything a fresh engine decides about some facts, refusals aside:
// they may be told in other calls.
func planOf(facts []core.Event, budget int) (all []string) {
	e := cycle.New(cycle.Options{Budget: budget})
	for _, ev := range facts {
		e.Apply(ev)
	}
	for range 200 {
		for _, d := range e.Decide(time.Unix(5000, 0)) {
			if _, refusal := d.(core.Refuse); !refusal || budget == 0 {
				all = append(all, printDecision(d))
			}
		}
		if err := e.Check(); err != nil {
			all = append(all, err.Error())
		}
	}
	return slices.DeleteFunc(all, func(s string) bool { return s[:3] == "ref" })
}

func holding(e *cycle.Engine, k core.Key) (*core.Admission, bool) {
	a, ok := e.Holding(k)
	return &a, ok
}

// TestLostAdmission takes back an admission that is never seen, and only that.
func TestLostAdmission(t *testing.T) {
	e := small()
	one, two := cpuJob("one", 0, 4), cpuJob("two", 0, 4)
	e.Apply(core.WorkloadSet{Workload: one})
	expect(t, "it fits", steps(t, e, 200), "admit one")
	e.Apply(core.WorkloadSet{Workload: one}) // an echo from before
	expect(t, "in time", steps(t, e, 499))
	expect(t, "lost: said, and decided anew", steps(t, e, 500), "refuse one", "admit one")
	one.Admission, _ = holding(e, one.Key)
	e.Apply(core.WorkloadSet{Workload: one})
	e.Apply(core.WorkloadSet{Workload: two})
	expect(t, "seen this time", steps(t, e, 5000), "refuse two")
	e.Apply(core.WorkloadGone{Key: one.Key})
	expect(t, "now there is room", steps(t, e, 5001), "admit two")
	e.Apply(core.WorkloadGone{Key: two.Key})
	expect(t, "gone before it was seen", steps(t, e, 9000))
}

// TestTwoPhases counts what waits for admission checks as reserved and not as
// used.
func TestTwoPhases(t *testing.T) {
	e := small()
	one := cpuJob("one", 0, 3)
	e.Apply(core.WorkloadSet{Workload: one})
	expect(t, "quota is reserved", steps(t, e, 200), "admit one")
	one.Admission, _ = holding(e, one.Key)
	for admitted, want := range map[bool]core.Amount{false: 0, true: 3000} {
		one.Admitted = admitted
		e.Apply(core.WorkloadSet{Workload: one})
		q, local := e.Load("a"), e.LocalLoad("a", "q")
		for _, l := range []core.Load{q, local} {
			if of := (core.FlavorResource{Flavor: "f", Resource: core.CPU}); l.Reserved[of] != 3000 ||
				l.Used[of] != want {
				t.Errorf("admitted %t: reserved %v, used %v", admitted, l.Reserved, l.Used)
			}
		}
		if (q.Admitted == 1) != admitted || (local.Admitted == 1) != admitted {
			t.Errorf("admitted %t: counted %d and %d", admitted, q.Admitted, local.Admitted)
		}
	}
}

// TestPastUsageIsRestored goes on with what the API remembers of local queues.
func TestPastUsageIsRestored(t *testing.T) {
	e := cycle.New(cycle.Options{})
	for _, ev := range smallWorld() {
		if q, ok := ev.(core.QueueSet); ok {
			q.Queue.UsageBased = true
			ev = q
		}
		e.Apply(ev)
	}
	at := time.Unix(100, 0)
	used := core.MakeResources(map[string]core.Amount{core.CPU: 5_000_000})
	e.Apply(
		core.LocalQueueSet{
			LocalQueue: core.LocalQueue{Namespace: "a", Name: "busy", Queue: "a", Consumed: used, ConsumedAt: at},
		},
	)
	one, two := cpuJob("one", 9, 4), cpuJob("two", 0, 4)
	one.Queue = "busy"
	e.Apply(core.WorkloadSet{Workload: one})
	e.Apply(core.WorkloadSet{Workload: two})
	expect(t, "the local queue that used nothing goes first", steps(t, e, 200), "admit two", "refuse one")
	if got, when, ok := e.Consumed("a", "busy"); !ok || !when.Equal(at) || cmp.Diff(used, got) != "" {
		t.Errorf("remembers %v of %v, %t", got, when, ok)
	}
	half := at.Add(7 * 24 * time.Hour)
	e.Decide(half)
	if got, when, _ := e.Consumed("a", "busy"); !when.Equal(half) || got.Of(core.CPU) != 2_500_000 {
		t.Errorf("after the half-life, which is never off: %v of %v", got, when)
	}
	if got, want := e.NextWake(), half.Add(5*time.Minute); got.After(want) {
		t.Errorf("wakes at %v, the next sampling is at %v", got, want)
	}
	if _, _, ok := e.Consumed("a", "nobody"); ok {
		t.Error("a local queue that does not exist used something")
	}
}

// TestAcceptedIsAFact: once the API took an admission it may be evicted, and neither
// a deadline nor a refusal of what came after it takes it back.
func TestAcceptedIsAFact(t *testing.T) {
	e := small()
	low, high := cpuJob("low", 0, 4), cpuJob("high", 5, 4)
	low.Seq = 7
	e.Apply(core.WorkloadSet{Workload: low})
	expect(t, "it fits", steps(t, e, 200), "admit low")
	e.Apply(core.WorkloadSet{Workload: high})
	expect(t, "no workload is evicted before its admission is a fact", steps(t, e, 201), "refuse high")
	e.Apply(core.Applied{Key: low.Key, Seq: 7})
	expect(t, "what was seen before is not the answer to it", steps(t, e, 202))
	if e.NextWake().IsZero() {
		t.Error("the engine does not wait for the admission to be seen")
	}
	e.Apply(core.Applied{Key: low.Key, Seq: 9})
	if at := e.NextWake(); !at.IsZero() {
		t.Errorf("wakes at %v although the admission was accepted", at)
	}
	expect(t, "now it is", steps(t, e, 203), "evict low for high", "refuse high")
	e.Apply(core.Refused{Key: low.Key})
	expect(t, "the eviction was refused, not the admission", steps(t, e, 204), "evict low for high")
	if _, ok := holding(e, low.Key); !ok {
		t.Error("the admission is gone")
	}
}
