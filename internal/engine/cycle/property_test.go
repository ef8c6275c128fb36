package cycle_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// TestAgainstReference drives random worlds through the engine and through the
// reference, step by step: the same admissions, places and evictions, in the
// same order. On the way it checks the engine's own invariants and P2-P5.
func TestAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { newDuel(t, nil).play() })
}

// play makes things happen and compares the decisions.
func (x *duel) play() {
	if x.counting && x.told == nil &&
		x.decided == nil { // loaded engines tell of workloads that are alike in another order
		x.crowd()
	}
	steps := rapid.IntRange(1, 25).Draw(x.t, "steps")
	for range steps {
		for range rapid.IntRange(1, 4).Draw(x.t, "events") {
			x.event()
		}
		x.extra()
		x.save()
		x.decide()
	}
	x.settleDown()
}

// duel is an engine and the reference in the same world.
type duel struct {
	t       *rapid.T
	engine  *cycle.Engine
	ref     *reference
	now     time.Time
	serial  int
	seq     uint64     // of the last state of any object
	pending []core.Key // admissions and evictions that were not observed yet
	log     []core.Event
	plan    core.Plan // the last one
	// claiming worlds have mostly StrictFIFO queues that lend and cannot reclaim.
	claiming bool
	// deep worlds have a tree of cohorts three high, most with quota of their own that
	// they lend in part.
	deep bool
	// protecting worlds have queues and workloads with a minimum runtime.
	protecting bool
	// counting worlds have workloads that tell of checkpoints, and queues that choose victims by them.
	counting bool
	// byUsage worlds have queues with two local queues that go by past usage.
	byUsage bool
	options cycle.Options
	// told and decided are called, if set, with what the engine is told and after
	// it decided.
	told    func(core.Event)
	others  func(core.Event) // those beside the engine, if any
	decided func()
}

func newDuel(t *rapid.T, fair *core.FairSharing) *duel {
	options := cycle.Options{
		IgnoreUndeclared: pick(t, "undeclared", false, false, true), FairSharing: fair,
		BlockAdmission:       pick(t, "block admission", false, false, false, true),
		AdmissionFairSharing: core.AdmissionFairSharing{HalfLife: refHalfLife, Sampling: refSampling},
	}
	x := &duel{t: t, options: options, engine: cycle.New(options), now: time.Unix(1000, 0)}
	x.ref = &reference{
		fair: fair, ignoreUndeclared: options.IgnoreUndeclared, block: options.BlockAdmission,
		flavors: map[string]core.Flavor{}, queues: map[string]core.Queue{}, cohorts: map[string]core.Cohort{},
		nodes: map[string]core.Node{}, workloads: map[core.Key]*refWorkload{},
	}
	x.ref.localQueues = map[string]*refLocalQueue{}
	x.byUsage = pick(t, "by usage", false, false, true)
	x.protecting = pick(t, "protecting", false, false, true)
	x.counting = pick(t, "counting", false, false, true)
	x.claiming = pick(t, "claiming", false, false, true)
	x.deep = pick(t, "deep", false, false, true)
	for _, f := range []core.Flavor{
		{Name: "x", NodeLabels: map[string]string{"kind": "x"}},
		{Name: "y", NodeLabels: map[string]string{"kind": "y"}, Taints: []core.Taint{{Key: "y", Effect: core.NoSchedule}}},
		{Name: "c"},
	} {
		x.ref.flavors[f.Name] = f
		x.apply(core.FlavorSet{Flavor: f})
	}
	for _, c := range []string{"left", "right", "top"} {
		x.cohort(c)
	}
	if x.deep {
		x.cohort("low")
	}
	most := 4
	if x.deep {
		most = 6
	}
	for i := range rapid.IntRange(1, most).Draw(t, "queues") {
		x.queue(fmt.Sprintf("q%d", i))
	}
	most = 4
	if x.claiming || x.counting {
		most = pick(t, "most nodes", 0, 0, 4)
	}
	for i := range rapid.IntRange(0, most).Draw(t, "nodes") {
		x.node(fmt.Sprintf("n-%d", i))
	}
	return x
}

func (x *duel) apply(ev core.Event) {
	x.log = append(x.log, ev)
	x.engine.Apply(ev)
	if x.told != nil {
		x.told(ev)
	}
}

func pick[T any](t *rapid.T, name string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, name)
}

func (x *duel) quotas(name string, cohort bool) core.Quota { //nolint:revive // limits are for members only
	q := core.Quota{Resource: name, Nominal: core.Amount(rapid.IntRange(0, 6).Draw(x.t, "nominal"))}
	if cohort && pick(x.t, "limits borrowing", false, false, true) {
		q.Borrowing = new(core.Amount(rapid.IntRange(0, 4).Draw(x.t, "borrowing")))
	}
	if cohort && pick(x.t, "limits lending", false, x.deep, true) {
		q.Lending = new(core.Amount(rapid.IntRange(0, int(q.Nominal)+1).Draw(x.t, "lending")))
	}
	return q
}

func (x *duel) groups(cohort bool) []core.ResourceGroup {
	g := core.ResourceGroup{Covered: []string{core.GPU}}
	for _, f := range pick(x.t, "flavors", []string{"x"}, []string{"x", "y"}, []string{"y", "x"}) {
		g.Flavors = append(
			g.Flavors,
			core.FlavorQuotas{Flavor: f, Quotas: []core.Quota{x.quotas(core.GPU, cohort)}},
		)
	}
	out := []core.ResourceGroup{g}
	if pick(x.t, "cpu group", true, false) {
		q := x.quotas(core.CPU, cohort)
		q.Nominal *= 2
		out = append(out, core.ResourceGroup{
			Covered: []string{core.CPU}, Flavors: []core.FlavorQuotas{{Flavor: "c", Quotas: []core.Quota{q}}},
		})
	}
	return out
}

func (x *duel) cohort(name string) {
	c := core.Cohort{Name: name}
	switch {
	case name == "low":
		c.Parent = pick(x.t, "parent of low", "left", "left", "right")
	case name != "top" && (x.deep || pick(x.t, "parent", true, false)):
		c.Parent = "top"
	}
	if pick(x.t, "cohort has quota", false, x.deep, true) {
		c.Groups = x.groups(c.Parent != "")
	}
	c.Weight = x.weight()
	x.ref.cohorts[name] = c
	x.apply(core.CohortSet{Cohort: c})
}

func (x *duel) queue(name string) {
	all := core.Selector{}
	q := core.Queue{Name: name, Namespaces: &all}
	if x.deep {
		q.Cohort = pick(x.t, "cohort", "low", "low", "left", "right")
	} else {
		q.Cohort = pick(x.t, "cohort", "", "left", "right", "left", "top")
	}
	q.Groups = x.groups(q.Cohort != "")
	q.Weight = x.weight()
	q.Strategy = pick(x.t, "strategy", core.BestEffortFIFO, core.BestEffortFIFO, core.StrictFIFO)
	if x.claiming {
		q.Strategy = pick(x.t, "strategy again", core.StrictFIFO, core.StrictFIFO, core.BestEffortFIFO)
	}
	p := &q.Preemption
	p.WithinQueue = pick(
		x.t,
		"within",
		core.PreemptNever,
		core.PreemptLowerPriority,
		core.PreemptLowerOrNewerEqualPrio,
	)
	p.Reclaim = pick(x.t, "reclaim", core.PreemptNever, core.PreemptLowerPriority, core.PreemptAny)
	if x.claiming {
		p.Reclaim = pick(x.t, "reclaim again", core.PreemptNever, core.PreemptNever, core.PreemptLowerPriority)
	}
	if p.Reclaim != core.PreemptNever {
		p.WhileBorrow = pick(x.t, "while borrowing", core.PreemptNever, core.PreemptLowerPriority)
		if pick(x.t, "threshold", false, true) {
			p.MaxPriority = new(int32(1))
		}
	}
	f := &q.Fungibility
	f.PreemptTriesNext = pick(x.t, "preempt tries next", true, true, false)
	f.BorrowTriesNext = pick(x.t, "borrow tries next", false, true)
	f.PreferPreemption = f.PreemptTriesNext && f.BorrowTriesNext && pick(x.t, "prefer", false, true)
	if _, known := x.ref.queues[name]; !known {
		x.localQueue(name, "q")
		if x.byUsage {
			x.localQueue(name, "p")
		}
	}
	if x.protecting {
		q.MinimumRuntime = pick(x.t, "minimum runtime", 0, time.Second, 3*time.Second)
	}
	if x.counting {
		p.LeastLost = pick(x.t, "least lost", 0, 5*time.Second, time.Hour, time.Hour)
		p.WithinQueue = pick(x.t, "within again", core.PreemptLowerPriority, core.PreemptLowerOrNewerEqualPrio)
		p.Reclaim = pick(x.t, "reclaim again", core.PreemptAny, core.PreemptAny, core.PreemptLowerPriority)
	}
	q.UsageBased = x.byUsage && pick(x.t, "usage based", true, true, false)
	x.ref.queues[name] = q
	x.apply(core.QueueSet{Queue: q})
}

// localQueue makes a LocalQueue.
func (x *duel) localQueue(queue, name string) {
	q := core.LocalQueue{Namespace: queue, Name: name, Queue: queue}
	weight := 1.0
	if x.byUsage {
		weight = pick(x.t, "door's weight", 1.0, 1.0, 2.0, 0.0)
		q.Weight = new(core.Weight(weight * float64(core.WeightOne)))
	}
	x.ref.localQueues[queue+"/"+name] = &refLocalQueue{weight: weight, used: map[string]float64{}}
	x.apply(core.LocalQueueSet{LocalQueue: q})
}

func (x *duel) node(name string) {
	n, known := x.ref.nodes[name]
	if !known {
		n = core.Node{
			Name:   name,
			State:  core.NodeReady,
			Labels: map[string]string{"kind": pick(x.t, "kind", "x", "x", "y")},
		}
		n.Allocatable = core.MakeResources(map[string]core.Amount{
			core.GPU: core.Amount(rapid.IntRange(0, 4).Draw(x.t, "gpus")), core.CPU: 6, core.Pods: 5,
		})
	} else {
		n.State = pick(
			x.t,
			"state",
			core.NodeReady,
			core.NodeReady,
			core.NodeWarned,
			core.NodeClosed,
			core.NodeLost,
		)
	}
	n.ForeignLimits = nil
	if pick(x.t, "crowded", false, false, false, true) {
		n.ForeignLimits = []core.Limit{{Name: "port", Count: 1, Most: 1}, {Name: "apart", Count: 1, Most: 3}}
	}
	n.Foreign = nil
	if pick(x.t, "pods of others", false, false, false, true) {
		n.Foreign = core.MakeResources(
			map[string]core.Amount{
				core.GPU:  core.Amount(rapid.IntRange(0, 2).Draw(x.t, "gpus of others")),
				core.CPU:  2,
				core.Pods: 1,
			},
		)
	}
	x.ref.nodes[name] = n
	x.apply(core.NodeSet{Node: n})
}

func (x *duel) job() {
	x.serial++
	names := sortedKeys(x.ref.queues)
	q := pick(x.t, "queue", names...)
	w := core.Workload{
		Key: core.Key{
			Namespace: q,
			Name:      fmt.Sprintf("j%d", x.serial),
		},
		UID:       fmt.Sprintf("u%02d", x.serial),
		Queue:     "q",
		Priority:  pick[int64](x.t, "priority", 0, 0, 1, 2),
		Created:   x.now,
		QueueTime: x.now,
		Seq:       x.next(),
	}
	if pick(x.t, "gated", false, false, false, false, true) {
		w.PreemptionGate = "g"
	}
	if x.byUsage {
		w.Queue = pick(x.t, "door", "q", "p")
	}
	if x.protecting {
		w.MinimumRuntime = pick(x.t, "minimum runtime", nil, nil, new(time.Duration(0)), new(2*time.Second))
	}
	for i := range pick(x.t, "pod sets", 1, 1, 2) {
		p := core.PodSet{
			Name:  fmt.Sprintf("s%d", i),
			Count: int32(rapid.IntRange(1, pick(x.t, "most pods", 3, 3, 3, 6)).Draw(x.t, "count")),
		}
		p.Requests = core.MakeResources(map[string]core.Amount{
			core.GPU: core.Amount(rapid.IntRange(0, 3).Draw(x.t, "gpu")),
		})
		if pick(x.t, "asks cpu", true, false) {
			p.Requests = p.Requests.With(core.CPU, core.Amount(rapid.IntRange(0, 3).Draw(x.t, "cpu")))
		}
		switch pick(x.t, "counts", "its requests", "its requests", "something else", "nothing") {
		case "something else":
			p.Quota = core.MakeResources(
				map[string]core.Amount{core.GPU: core.Amount(rapid.IntRange(0, 3).Draw(x.t, "counted gpu"))},
			)
		case "nothing":
			p.Quota = core.Resources{}
		}
		if pick(x.t, "tolerates", true, false) {
			p.Filter.Tolerations = []core.Toleration{{Key: "y"}}
		}
		switch pick(
			x.t,
			"shares nodes",
			"freely",
			"freely",
			"freely",
			"freely",
			"port",
			"apart",
			"spread",
			"refused",
		) {
		case "port":
			p.Limits = []core.Limit{{Name: "port", Count: 1, Most: 1}}
		case "apart":
			p.Limits = []core.Limit{{Name: "apart", Count: pick[int32](x.t, "takes", 1, 3), Most: 3}}
		case "spread":
			p.Limits = []core.Limit{{Name: "spread", Own: true, Count: 1, Most: 1}}
		case "refused":
			p.Filter.Refused = []core.NodeRefusal{{Node: "n-0"}, {Node: "n-2", Most: 1}}
		}
		if i == 0 && p.Count > 1 && pick(x.t, "partial", false, false, true) {
			p.MinCount = int32(rapid.IntRange(1, int(p.Count)).Draw(x.t, "least"))
		}
		w.PodSets = append(w.PodSets, p)
	}
	x.ref.workloads[w.Key] = &refWorkload{Workload: w, queue: q}
	x.apply(core.WorkloadSet{Workload: w})
}

// event makes something happen.
func (x *duel) event() {
	x.now = x.now.Add(time.Duration(rapid.IntRange(0, 2).Draw(x.t, "seconds")) * time.Second)
	what := pick(
		x.t,
		"event",
		"job",
		"job",
		"job",
		"finish",
		"release",
		"release",
		"node",
		"queue",
		"cohort",
		"settle",
		"stop",
		"node gone",
		"ready",
		"open",
	)
	workloads := x.ref.sorted()
	switch what {
	case "job":
		x.job()
	case "node":
		if len(x.ref.nodes) == 0 && x.claiming {
			return // quota alone decides there
		}
		x.node(fmt.Sprintf("n-%d", rapid.IntRange(0, 4).Draw(x.t, "node")))
	case "node gone":
		name := fmt.Sprintf("n-%d", rapid.IntRange(0, 4).Draw(x.t, "node"))
		if _, ok := x.ref.nodes[name]; ok && pick(x.t, "really", false, true) {
			delete(x.ref.nodes, name)
			x.apply(core.NodeGone{Name: name})
		}
	case "queue":
		if pick(x.t, "edit", false, true) {
			x.queue(pick(x.t, "name", sortedKeys(x.ref.queues)...))
		}
	case "cohort":
		if pick(x.t, "edit", false, true) {
			x.cohort(pick(x.t, "name", sortedKeys(x.ref.cohorts)...))
		}
	case "stop":
		name := pick(x.t, "name", sortedKeys(x.ref.queues)...)
		q := x.ref.queues[name]
		q.Stop = pick(x.t, "stop", core.StopNone, core.StopNone, core.Hold, core.HoldAndDrain)
		x.ref.queues[name] = q
		x.apply(core.QueueSet{Queue: q})
	default:
		if len(workloads) > 0 {
			x.happen(what, pick(x.t, "work", workloads...))
		}
	}
}

// happen makes something happen to a workload.
func (x *duel) happen(what string, w *refWorkload) {
	switch {
	case what == "finish":
		if w.phase == refReserved {
			x.ref.unreserve(w)
		}
		delete(x.ref.workloads, w.Key)
		x.apply(core.WorkloadGone{Key: w.Key})
	case what == "release" && w.phase == refLeaving:
		x.observe(w) // the eviction is seen before the release
		w.phase, w.adm, w.unseen, w.Settled, w.Ready = refWaiting, nil, false, nil, false
		for _, p := range x.ref.reservations {
			delete(p.deps, w.Key)
		}
		x.observe(w)
	case what == "ready" && w.phase == refRunning:
		w.Ready = true
		x.observe(w)
	case what == "open":
		if w.phase == refReserved && w.PreemptionGate != "" {
			x.ref.drop(w) // it changed, so it is judged anew
		}
		w.PreemptionGate = ""
		x.observe(w)
	case what == "settle" && w.phase == refRunning:
		w.Settled = nil
		for _, p := range w.adm.PodSets {
			w.Settled = append(w.Settled, core.PodSetPlaces{Name: p.Name, Places: p.Places})
		}
		x.observe(w)
	}
}

// crowd fills the queues with small jobs, of which a more important one may evict any.
func (x *duel) crowd() {
	for range 8 {
		x.serial++
		q := pick(x.t, "queue", sortedKeys(x.ref.queues)...)
		w := core.Workload{
			Key:       core.Key{Namespace: q, Name: fmt.Sprintf("j%d", x.serial)},
			UID:       fmt.Sprintf("u%02d", x.serial),
			Queue:     "q",
			Created:   x.now,
			QueueTime: x.now,
			Seq:       x.next(),
			PodSets: []core.PodSet{
				{Name: "s0", Count: pick[int32](x.t, "count", 1, 1, 2), Requests: core.MakeResources(
					map[string]core.Amount{core.GPU: pick[core.Amount](x.t, "gpu", 1, 1, 2)},
				)},
			},
		}
		x.ref.workloads[w.Key] = &refWorkload{Workload: w, queue: q}
		x.apply(core.WorkloadSet{Workload: w})
	}
	x.decide()
	x.now = x.now.Add(10 * time.Second)
}

// save has workloads that run tell of checkpoints.
func (x *duel) save() {
	if !x.counting {
		return
	}
	for _, w := range x.ref.sorted() {
		if w.phase == refRunning && pick(x.t, "saves", true, true, false) {
			w.Saved = x.now.Add(-time.Duration(rapid.IntRange(-1, 5).Draw(x.t, "ago")) * time.Second)
			w.SavesEvery = pick(x.t, "every", 0, time.Second, 3*time.Second, 20*time.Second)
			x.observe(w)
		}
	}
}

// observe shows the engine a workload as the API has it.
func (x *duel) observe(w *refWorkload) {
	o := w.Workload
	o.Seq = x.next()
	if w.adm != nil && w.phase != refReserved {
		x.ref.fold(w)
	}
	if w.adm != nil && w.phase != refReserved {
		o.Admission, o.Reserved, o.Evicting = w.adm, time.Unix(w.reserved, 0), w.phase == refLeaving
		o.Admitted, o.PodSets = true, w.reduced()
		w.unseen, w.moved = false, false
	}
	x.apply(core.WorkloadSet{Workload: o})
}

// differs reports whether those of the decisions differ that begin with a word.
func differs(got, want []string, word string) bool {
	other := func(s string) bool { return !strings.HasPrefix(s, word) }
	return !slices.Equal(
		slices.DeleteFunc(slices.Clone(got), other),
		slices.DeleteFunc(slices.Clone(want), other),
	)
}

// next is the Seq of the next state of an object.
func (x *duel) next() uint64 {
	x.seq++
	return x.seq
}

// accept tells the engine that the API took an admission that was not seen yet.
func (x *duel) accept() {
	for _, k := range x.pending {
		w := x.ref.workloads[k]
		if w == nil || w.phase != refRunning || !w.hidden() || w.moved || !pick(x.t, "accepted", false, true) {
			continue
		}
		w.accepted = true
		x.apply(core.Applied{Key: k, Seq: x.next()})
	}
}

// decide lets both decide and compares. Decisions are observed now or later.
func (x *duel) decide() int {
	x.t.Helper()
	x.ref.tied, x.ref.byPlace = false, false
	want := x.ref.decide(x.now)
	if err := x.engine.CheckStuck(); err != nil {
		x.t.Fatalf("%v\n%s", err, x.dump())
	}
	plan := x.engine.Decide(x.now)
	x.plan = plan
	if x.decided != nil {
		x.decided()
	}
	var got []string
	for _, d := range plan {
		switch d := d.(type) {
		case core.Admit:
			got = append(got, "admit "+d.Key.String()+printAdmission(d.Admission))
			x.pending = append(x.pending, d.Key)
		case core.Replace:
			got = append(got, "replace "+d.Key.String()+printAdmission(d.Admission))
		case core.Evict:
			s := "evict " + d.Key.String()
			if d.For != (core.Key{}) {
				s += " for " + d.For.String()
			}
			got = append(got, s)
			x.pending = append(x.pending, d.Key)
		case core.Refuse:
			if d.Why.Code == "" {
				x.t.Fatalf("%s refused without a reason", d.Key)
			}
		}
	}
	if err := x.engine.Check(); err != nil {
		x.t.Fatalf("check: %v", err)
	}
	if !slices.Equal(got, want) {
		if x.ref.tied {
			x.t.Skip("floating point cannot tell which queue used less")
		}
		if x.ref.byPlace && differs(got, want, "evict ") {
			x.t.Skip("victims whose nodes make room are not looked for by the reference: " +
				"scenarios, and place_test.go of preempt against all lists of victims, are about them")
		}
		x.t.Fatalf(
			"the engine decided\n  %s\nthe reference\n  %s\n%s",
			strings.Join(got, "\n  "),
			strings.Join(want, "\n  "),
			x.dump(),
		)
	}
	x.checkWaiting()
	if pick(x.t, "observed at once", true, true, false) {
		for _, k := range x.pending {
			if w := x.ref.workloads[k]; w != nil {
				x.observe(w)
			}
		}
		x.pending = nil
		return len(plan)
	}
	x.accept()
	if len(x.ref.workloads) > 0 {
		// A late echo: the state before any decision that is still under way.
		k := pick(x.t, "echo", x.ref.sorted()...)
		if slices.Contains(x.pending, k.Key) && k.phase == refRunning && k.unseen {
			x.apply(core.WorkloadSet{Workload: k.Workload})
		}
	}
	return len(plan)
}

// checkWaiting verifies that each that waits has a reason (P1), and in what order they
// wait.
func (x *duel) checkWaiting() {
	for name := range x.ref.queues {
		var want []core.Key
		for _, w := range x.ref.inQueue(name) {
			if w.phase == refWaiting || w.phase == refReserved {
				want = append(want, w.Key)
			}
		}
		if got := x.engine.Positions(name); !slices.Equal(got, want) && !x.ref.tied {
			x.t.Fatalf("queue %s goes by %v, by the reference %v\n%s", name, got, want, x.dump())
		}
	}
	for _, w := range x.ref.sorted() {
		r, ok := x.engine.Why(w.Key)
		promised := r.Code == core.WaitingForPreempted ||
			(w.phase == refReserved && r.Code == core.WaitingForPodsReady)
		if ok != (w.phase == refWaiting || w.phase == refReserved) || (ok && r.Code == "") ||
			promised != (w.phase == refReserved) {
			x.t.Fatalf(
				"%s: phase %d, reason %v %v; order %v\n%s",
				w.Key,
				w.phase,
				r,
				ok,
				x.engine.Positions(w.queue),
				x.dump(),
			)
		}
	}
}

// settleDown releases all evicted workloads until nothing happens any more:
// evictions come to an end (P5), and every reservation is carried out or dropped (P4).
func (x *duel) settleDown() {
	for range 60 {
		for _, k := range x.pending {
			if w := x.ref.workloads[k]; w != nil {
				x.observe(w)
			}
		}
		x.pending = nil
		busy := false
		for _, w := range x.ref.sorted() {
			switch {
			case w.phase == refLeaving:
				busy = true
				x.happen("release", w)
			case w.phase == refRunning && !w.Ready && x.ref.block:
				busy = true
				x.happen("ready", w)
			}
		}
		if x.decide() == 0 && !busy && len(x.pending) == 0 {
			for _, w := range x.ref.sorted() {
				if w.phase == refReserved {
					x.t.Fatalf("%s was promised a place and no workload leaves", w.Key)
				}
			}
			return
		}
	}
	x.t.Fatalf("evictions do not end\n%s", x.dump())
}

func (x *duel) dump() string {
	var b strings.Builder
	for _, ev := range x.log {
		fmt.Fprintf(&b, "%T%+v\n", ev, ev)
	}
	for _, d := range x.plan {
		fmt.Fprintln(&b, printDecision(d))
	}
	return b.String()
}
