package cycle_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

const window = 2 * time.Second

// player carries out what an engine decides and counts whom it evicts. What is evicted has
// gone by the next turn.
type player struct {
	engine    *cycle.Engine
	workloads map[core.Key]core.Workload
	leaving   []core.Key
	evicted   int
	seq       uint64
	told      []string
}

// tell tells the engine of a change.
func (p *player) tell(events ...core.Event) {
	for _, ev := range events {
		if w, ok := ev.(core.WorkloadSet); ok {
			p.show(w.Workload)
			continue
		}
		p.engine.Apply(ev)
	}
}

func (p *player) show(w core.Workload) {
	p.seq++
	w.Seq = 1_000_000 + p.seq
	p.workloads[w.Key] = w
	p.engine.Apply(core.WorkloadSet{Workload: w})
}

// decide lets the engine decide once, and reports whether it did anything.
func (p *player) decide(now time.Time) bool {
	plan := p.engine.Decide(now)
	for _, d := range plan {
		switch d := d.(type) {
		case core.Admit:
			w := p.workloads[d.Key]
			w.Admission, w.Admitted, w.Reserved = &d.Admission, true, now
			p.show(w)
		case core.Replace:
			w := p.workloads[d.Key]
			w.Admission = &d.Admission
			p.show(w)
		case core.Evict:
			p.told = append(p.told, fmt.Sprintf("%s for %s", d.Key, d.For))
			p.evicted++
			w := p.workloads[d.Key]
			w.Evicting = true
			p.show(w)
			p.leaving = append(p.leaving, d.Key)
		case core.Refuse:
		}
	}
	return len(plan) > 0
}

// rest goes on until nothing is decided any more.
func (p *player) rest(t *rapid.T, now time.Time) {
	for range 200 {
		did := p.decide(now)
		for _, k := range p.leaving {
			w := p.workloads[k]
			w.Admission, w.Evicting, w.Admitted, w.Ready, w.Reserved, w.Settled, w.Ended = nil, false, false, false, time.Time{}, nil, nil
			p.show(w)
		}
		did = did || len(p.leaving) > 0
		p.leaving = nil
		switch {
		case p.engine.Stabilizing():
			now = p.engine.NextWake()
		case !did:
			return
		}
	}
	t.Fatal("evictions do not end")
}

// crowd is a made-up world of few queues in which most jobs wait, and most may evict others.
type crowd struct {
	t       *rapid.T
	queues  map[string]core.Queue
	cohorts map[string]core.Cohort
	jobs    []core.Workload
}

func newCrowd(t *rapid.T) *crowd {
	c := &crowd{t: t, queues: map[string]core.Queue{}, cohorts: map[string]core.Cohort{}}
	for _, name := range []string{"left", "right"} {
		c.cohort(name)
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "queues") {
		c.queue(fmt.Sprintf("q%d", i))
	}
	names := sortedKeys(c.queues)
	for i := range rapid.IntRange(3, 12).Draw(t, "jobs") {
		at := time.Unix(1000+int64(i), 0)
		c.jobs = append(c.jobs, core.Workload{
			Key: core.Key{
				Namespace: pick(t, "queue", names...),
				Name:      fmt.Sprintf("j%d", i),
			},
			UID:       fmt.Sprintf("u%02d", i),
			Queue:     "q",
			Priority:  pick[int64](t, "priority", 1, 1, 2),
			Created:   at,
			QueueTime: at,
			PodSets: []core.PodSet{
				{
					Name:  "main",
					Count: 1,
					Requests: core.MakeResources(
						map[string]core.Amount{core.GPU: core.Amount(rapid.IntRange(1, 2).Draw(t, "gpus"))},
					),
				},
			},
		})
	}
	return c
}

func (c *crowd) groups(most int) []core.ResourceGroup {
	return []core.ResourceGroup{{Covered: []string{core.GPU}, Flavors: []core.FlavorQuotas{
		{
			Flavor: "x",
			Quotas: []core.Quota{
				{Resource: core.GPU, Nominal: core.Amount(rapid.IntRange(0, most).Draw(c.t, "quota"))},
			},
		},
	}}}
}

func (c *crowd) cohort(name string) core.Event {
	o := core.Cohort{
		Name:   name,
		Groups: c.groups(2),
		Weight: new(core.WeightOne * core.Weight(rapid.IntRange(1, 3).Draw(c.t, "weight"))),
	}
	if name == "right" && pick(c.t, "below left", false, true) {
		o.Parent = "left"
	}
	c.cohorts[name] = o
	return core.CohortSet{Cohort: o}
}

func (c *crowd) queue(name string) core.Event {
	q := core.Queue{
		Name:       name,
		Namespaces: new(core.Selector),
		Groups:     c.groups(4),
		Cohort:     pick(c.t, "cohort", "left", "left", "right", ""),
		Strategy:   pick(c.t, "strategy", core.BestEffortFIFO, core.BestEffortFIFO, core.StrictFIFO),
		Weight:     new(core.WeightOne * core.Weight(rapid.IntRange(1, 3).Draw(c.t, "weight"))),
	}
	*q.Namespaces = core.Selector{}
	q.Preemption.WithinQueue = pick(
		c.t,
		"within",
		core.PreemptLowerPriority,
		core.PreemptLowerPriority,
		core.PreemptLowerOrNewerEqualPrio,
		core.PreemptNever,
	)
	q.Preemption.Reclaim = pick(c.t, "reclaim", core.PreemptAny, core.PreemptLowerPriority, core.PreemptNever)
	q.Preemption.WhileBorrow = core.PreemptNever
	c.queues[name] = q
	return core.QueueSet{Queue: q}
}

// player is an engine in this world, at rest.
func (c *crowd) player(fair *core.FairSharing, now time.Time) *player {
	p := &player{
		engine:    cycle.New(cycle.Options{FairSharing: fair, StabilizationWindow: window}),
		workloads: map[core.Key]core.Workload{},
	}
	p.tell(core.FlavorSet{Flavor: core.Flavor{Name: "x"}})
	for _, name := range sortedKeys(c.cohorts) {
		p.tell(core.CohortSet{Cohort: c.cohorts[name]})
	}
	for _, name := range sortedKeys(c.queues) {
		p.tell(core.NamespaceSet{Namespace: core.Namespace{Name: name}}, core.QueueSet{Queue: c.queues[name]})
		for _, to := range sortedKeys(c.queues) {
			p.tell(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: name, Name: to, Queue: to}})
		}
		p.tell(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: name, Name: "q", Queue: name}})
	}
	for _, w := range c.jobs {
		p.show(w)
	}
	p.rest(c.t, now)
	p.evicted, p.told = 0, nil
	return p
}

// change makes up what is written of one change, each object once: jobs get another
// priority or go to another queue, queues and cohorts get other quotas, weights and places, a
// LocalQueue leads elsewhere.
func (c *crowd) change() (out []func(*player) core.Event) {
	always := func(ev core.Event) { out = append(out, func(*player) core.Event { return ev }) }
	for _, name := range sortedKeys(c.queues) {
		if pick(c.t, "edit queue", false, false, true) {
			always(c.queue(name))
		}
	}
	for _, name := range sortedKeys(c.cohorts) {
		if pick(c.t, "edit cohort", false, false, false, true) {
			always(c.cohort(name))
		}
	}
	queues := sortedKeys(c.queues)
	if pick(c.t, "local queue", false, false, false, true) {
		always(
			core.LocalQueueSet{
				LocalQueue: core.LocalQueue{
					Namespace: pick(c.t, "of", queues...),
					Name:      "q",
					Queue:     pick(c.t, "leads to", queues...),
				},
			},
		)
	}
	what := pick(c.t, "labels", "none", "priority", "priority", "priority", "queue")
	priority, to, all := pick[int64](
		c.t,
		"new priority",
		0,
		1,
		2,
		3,
	), pick(
		c.t,
		"to",
		queues...), pick(
		c.t,
		"all",
		true,
		false,
	)
	for _, w := range c.jobs {
		if what == "none" || !all && pick(c.t, "spare "+w.Key.String(), true, false) {
			continue
		}
		out = append(out, func(p *player) core.Event {
			o := p.workloads[w.Key]
			if o.Priority = priority; what == "queue" {
				o.Priority, o.Queue = w.Priority, to
			}
			return core.WorkloadSet{Workload: o}
		})
	}
	return out
}

// A change that people make at once is written one object after the other, in any order and
// with decisions in between. It evicts no more than if it were written at once.
func TestChangeInPartsEvictsNoMore(t *testing.T) {
	const enough = 100 // of so few changes as under the race detector none may evict anyone
	evicted, tried := 0, 0
	for name, fair := range map[string]*core.FairSharing{"classical": nil, "fair": core.DefaultFairSharing()} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c, now := newCrowd(t), time.Unix(2000, 0)
				whole, parts := c.player(fair, now), c.player(fair, now)
				now = now.Add(time.Minute)
				changes := c.change()
				if len(changes) == 0 {
					return
				}
				for i, x := range rapid.Permutation(changes).Draw(t, "order") {
					if i > 0 && pick(t, "decision in between", true, true, false) {
						now = now.Add(window / 64)
						parts.decide(now)
					}
					parts.tell(x(parts))
				}
				for _, x := range changes {
					whole.tell(x(whole))
				}
				whole.rest(t, now)
				parts.rest(t, now)
				if parts.evicted > whole.evicted {
					t.Fatalf("in parts the change evicts %q, at once %q", parts.told, whole.told)
				}
				evicted += whole.evicted
				tried++
			})
		})
	}
	if tried >= enough && evicted == 0 {
		t.Error("no change evicts anyone: the test shows nothing")
	}
}

// one is an engine with a queue of one GPU for which two jobs ask, of which the first has it.
func one(t *testing.T) *player {
	t.Helper()
	p := &player{
		engine:    cycle.New(cycle.Options{StabilizationWindow: window}),
		workloads: map[core.Key]core.Workload{},
	}
	for _, ev := range smallWorld() {
		p.tell(ev)
	}
	p.show(cpuJob("first", 1, 4))
	p.decide(time.Unix(1000, 0))
	p.show(cpuJob("second", 1, 4))
	p.decide(time.Unix(1001, 0))
	return p
}

// What the slack lends follows the health of nodes, which may change all the time: what waits is judged
// meanwhile, as it is not while people change how much a queue lends.
func TestWhatTheSlackLendsIsActedOnAtOnce(t *testing.T) {
	for slack, waits := range map[string]bool{"a": false, "another": true} {
		p := &player{
			engine:    cycle.New(cycle.Options{StabilizationWindow: window, SlackQueue: slack}),
			workloads: map[core.Key]core.Workload{},
		}
		lends := func(n core.Amount) {
			for _, ev := range smallWorld() {
				if q, is := ev.(core.QueueSet); is {
					q.Queue.Groups[0].Flavors[0].Quotas[0].Lending = &n
					p.tell(q)
				}
			}
		}
		p.tell(smallWorld()...)
		lends(1)
		now := time.Unix(2000, 0)
		p.decide(now)
		p.show(cpuJob("first", 1, 4))
		lends(0)
		p.decide(now.Add(time.Second))
		if got := p.workloads[core.Key{Namespace: "a", Name: "first"}].Admission == nil; got != waits {
			t.Errorf("slack %q: it waits: %t, want %t", slack, got, waits)
		}
	}
}

// What is cut of quotas follows the health of nodes, too: nobody waits for it, be it cut of a queue or of a cohort. Who
// changes what was promised at the same time edits.
func TestCutsAreActedOnAtOnce(t *testing.T) {
	for why, c := range map[string]struct {
		promised core.Amount
		cohort   bool
		waits    bool
	}{
		"of a queue":                       {4000, false, false},
		"of a cohort":                      {4000, true, false},
		"of a queue that is promised more": {5000, false, true},
	} {
		p := &player{
			engine:    cycle.New(cycle.Options{StabilizationWindow: window}),
			workloads: map[core.Key]core.Workload{},
		}
		has := func(promised, cut core.Amount) {
			for _, ev := range smallWorld() {
				q, is := ev.(core.QueueSet)
				if !is {
					continue
				}
				own := &q.Queue.Groups[0].Flavors[0].Quotas[0]
				groups := []core.ResourceGroup{{Covered: q.Queue.Groups[0].Covered, Flavors: []core.FlavorQuotas{
					{Flavor: q.Queue.Groups[0].Flavors[0].Flavor, Quotas: []core.Quota{
						{Resource: own.Resource, Nominal: promised - cut, Cut: cut},
					}},
				}}}
				if q.Queue.Cohort = "all"; c.cohort {
					p.tell(core.CohortSet{Cohort: core.Cohort{Name: "all", Groups: groups}})
				} else {
					q.Queue.Groups = groups
				}
				p.tell(q)
			}
		}
		p.tell(smallWorld()...)
		has(4000, 0)
		now := time.Unix(2000, 0)
		p.decide(now)
		now = now.Add(time.Hour)
		p.decide(now)
		p.show(cpuJob("first", 1, 1))
		has(c.promised, 1000)
		p.decide(now.Add(time.Second))
		if got := p.workloads[core.Key{Namespace: "a", Name: "first"}].Admission == nil; got != c.waits {
			t.Errorf("%s: it waits: %t, want %t", why, got, c.waits)
		}
	}
}

// However long changes go on, what waits is judged at last; and without any event NextWake
// says when.
func TestChangesWithoutEndAreActedOn(t *testing.T) {
	p := one(t)
	began := time.Unix(2000, 0)
	for i := range 1000 {
		now := began.Add(time.Duration(i) * window / 4)
		w := p.workloads[core.Key{Namespace: "a", Name: "second"}]
		w.Priority = int64(2 + i%2)
		p.show(w)
		if p.decide(now); p.evicted == 0 {
			continue
		}
		if took := now.Sub(began); took < window || took > 21*window {
			t.Errorf("it was acted on after %s, with %s to window", took, window)
		}
		return
	}
	t.Error("a job that is changed again and again waits for ever")
}

func TestChangesAreActedOnWithoutAnEvent(t *testing.T) {
	p := one(t)
	now := time.Unix(2000, 0)
	w := p.workloads[core.Key{Namespace: "a", Name: "second"}]
	w.Priority = 2
	p.show(w)
	p.decide(now)
	if wake := p.engine.NextWake(); p.evicted > 0 || !wake.Equal(now.Add(window)) {
		t.Fatalf("%d evicted, awake at %s, want none and %s", p.evicted, wake, now.Add(window))
	}
	p.decide(now.Add(window))
	if p.evicted != 1 || p.engine.Stabilizing() {
		t.Errorf("%d evicted once it is settled, want 1; stabilizing: %t", p.evicted, p.engine.Stabilizing())
	}
}
