package cycle

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// A trial is what becomes of a workload when an advice is followed: the change is told
// to a copy of the engine as events, as it would be told to the engine itself, and the
// copy decides. What is not seen to help there is not offered.
//
// Only what matters is copied: of many that wait and are alike the first few. If the
// copy runs out of those, it could have gone otherwise, and the trial shows nothing.

// Bounds of what trials cost.
const (
	// fewAlike is how many waiting workloads that are alike are copied. Where all of these got
	// something, manyAlike are.
	fewAlike, manyAlike = 2, 64
	// mostTried bounds what all trials of a question copy: workloads, groups and nodes.
	// A copy takes two or three microseconds for each.
	mostTried = 100_000
	// mostTurns bounds how often the copy decides for one trial.
	mostTurns = 60
)

// excerpt is what is copied for the trials of a question.
type excerpt struct {
	state *State
	// cut are, of each group that was not copied whole, the members that were; own are the copied
	// members of the group of the workload that was asked about.
	cut [][]core.Key
	own []core.Key
}

// size is what a copy costs.
func (x *excerpt) size() int {
	n := len(x.state.Workloads) + len(x.state.Nodes)
	for i := range x.state.Queues {
		n += len(x.state.Queues[i].Groups)
	}
	return n
}

// excerpt copies what matters for a workload, with so many of the workloads that are alike.
func (q *question) excerpt(w *workload, most int) *excerpt {
	x := &excerpt{}
	kept := map[*group][]*workload{}
	var workloads []*workload
	for _, o := range q.byID {
		if o != nil && (o.State() != waiting || o.inbox || o == w || o.timer != nil && !o.timer.at.After(q.at)) {
			workloads = append(workloads, o)
		}
	}
	for _, o := range q.sortedQueues() {
		for _, g := range o.groups {
			some := q.some(x, g.members.Items(), w, most)
			kept[g] = some
			workloads = append(workloads, some...)
		}
	}
	if w.group == nil && w.localQueue.queue != nil { // it may be resumed
		for _, alike := range q.setAside(w.localQueue.queue.localQueues) {
			workloads = append(workloads, q.some(x, alike, w, most)...)
		}
	}
	slices.SortFunc(workloads, func(a, b *workload) int { return a.Key.Compare(b.Key) })
	x.state = q.dump(slices.Compact(workloads), func(g *group) []*workload { return kept[g] })
	for i := range x.state.Queues {
		for k := range x.state.Queues[i].Groups {
			x.state.Queues[i].Groups[k].Fresh = nil // what was told does not matter
		}
	}
	return x
}

// some is the first of the workloads that are alike, and all of them that come before w.
func (q *question) some(x *excerpt, alike []*workload, w *workload, most int) []*workload {
	own := slices.Contains(alike, w)
	if own {
		before := 0
		for _, o := range alike {
			if o.Before(w) {
				before++
			}
		}
		if before < manyAlike { // else it does not start anyway
			most = max(most, before+1)
		}
	}
	if len(alike) <= most {
		return alike
	}
	some := make([]*workload, 0, most+1)
	for _, o := range alike {
		if len(some) == most && !o.Before(some[most-1]) {
			continue
		}
		at := len(some)
		for at > 0 && o.Before(some[at-1]) {
			at--
		}
		if some = slices.Insert(some, at, o); len(some) > most {
			some = some[:most]
		}
	}
	var keys []core.Key
	for _, o := range some {
		if o != w {
			keys = append(keys, o.Key)
		}
	}
	switch {
	case !own:
		x.cut = append(x.cut, keys)
	case !slices.Contains(some, w):
		x.cut = append(x.cut, keys)
		some = append(some, w)
	default:
		x.own = keys
	}
	if g := alike[0].group; g != nil && g.queue.blocker != nil && g.queue.blocker.group == g && !slices.Contains(some, g.queue.blocker) {
		some = append(some, g.queue.blocker)
	}
	return some
}

// shown reports whether a workload is seen to start, or to get a reservation, when an
// advice is followed, and how many others have to go for it. anew is the workload as it
// would be submitted then.
func (a *adviser) shown(offer core.Advice, anew *equivalence) (preempts int32, ok bool) {
	x := a.inquiry.copied
	if a.trials -= x.size(); a.trials < 0 {
		return 0, false
	}
	t := trial{key: a.workload.Key, at: a.at, reserved: a.why.Code == core.WaitingForPreempted}
	var err error
	if t.Engine, err = Load(a.inquiry.opt, x.state); err != nil || !t.heed(offer, anew) {
		return 0, false
	}
	preempts, ok = t.starts()
	if ok && t.ranOut(x, anew) {
		a.inquiry.short = true
		return 0, false
	}
	return preempts, ok
}

// trial is a copy of an engine in which an advice is followed for one workload.
type trial struct {
	*Engine
	key core.Key
	at  time.Time
	// reserved says that the workload has a reservation already: it must start.
	reserved bool
}

// heed tells the copy what happens when an advice is followed; anew is the workload as it
// would be submitted then.
func (t *trial) heed(v core.Advice, anew *equivalence) bool {
	w := t.workloads[t.key]
	switch v.Kind {
	case core.WaitFor:
		for _, k := range v.Keys {
			t.Apply(core.WorkloadGone{Key: k})
		}
	case core.AwaitLeaving:
		for _, x := range slices.Clone(t.admissions.leaving) { // they wait again
			x.assumed = false // its admission has been seen by then
			t.Apply(core.WorkloadSet{Workload: x.waits()})
		}
	case core.Uncordon, core.RepairNode:
		t.changeNodes(v.Nodes, func(n *core.Node) { n.State, n.Why = core.NodeReady, "" })
	case core.RemovePods:
		t.changeNodes(v.Nodes, func(n *core.Node) { n.Foreign = nil })
	case core.ResumeQueue:
		spec := *w.localQueue.queue.spec
		spec.Stop = core.StopNone
		t.Apply(core.QueueSet{Queue: spec})
	case core.PreemptBorrowing:
		spec := *w.localQueue.queue.spec
		spec.Preemption.WhileBorrow = core.PreemptLowerPriority
		t.Apply(core.QueueSet{Queue: spec})
	case core.ResumeLocal:
		spec := *w.localQueue.spec
		spec.Stop = core.StopNone
		t.Apply(core.LocalQueueSet{LocalQueue: spec})
	case core.OpenGate:
		o := w.waits()
		if o.GatedBy != "" {
			o.GatedBy = ""
		} else {
			o.PreemptionGate = ""
		}
		t.Apply(core.WorkloadSet{Workload: o})
	case core.Release:
		o := w.waits()
		o.Held = ""
		t.Apply(core.WorkloadSet{Workload: o})
	case core.AwaitBackOff:
		o := w.waits()
		o.NotBefore = t.at
		t.Apply(core.WorkloadSet{Workload: o})
	case core.FewerPods, core.SmallerPods, core.Tolerate, core.DropSelector, core.RaisePriority, core.OtherQueue:
		o := w.waits()
		o.UID, o.Created, o.QueueTime, o.Seq = "\xff", t.at, t.at, 0 // after all that are submitted now
		o.PodSets, o.Priority = anew.podSets, anew.priority
		if v.Kind == core.OtherQueue {
			o.Queue = v.Queue
		}
		t.Apply(core.WorkloadGone{Key: t.key})
		t.Apply(core.WorkloadSet{Workload: o})
	default:
		return false
	}
	return true
}

func (t *trial) changeNodes(names []string, change func(*core.Node)) {
	for _, name := range names {
		if n := t.nodes.Get(name); n != nil && n.Spec() != nil {
			spec := *n.Spec()
			change(&spec)
			t.Apply(core.NodeSet{Node: spec})
		}
	}
}

// starts decides and reports whether the workload has its quota then, or has a
// reservation that it did not have before. Admissions are seen as soon as they are decided: until then no workload is evicted
// in place of one.
func (t *trial) starts() (preempts int32, ok bool) {
	for range mostTurns {
		plan := t.Decide(t.at)
		for _, d := range plan {
			if x, is := d.(core.Evict); is && x.For == t.key {
				preempts++
			}
		}
		if w := t.workloads[t.key]; w.State() == running || w.State() == reserved && !t.reserved {
			return preempts, true
		}
		if len(plan) == 0 {
			break
		}
		for _, d := range plan {
			if x, is := d.(core.Admit); is {
				o := t.workloads[x.Key].waits()
				o.Admission, o.Admitted, o.Reserved = &x.Admission, true, t.at
				t.Apply(core.WorkloadSet{Workload: o})
			}
		}
	}
	return 0, false
}

// ranOut reports whether all that were copied of some that are alike got something: then
// one that was not copied may have come before the workload.
func (t *trial) ranOut(x *excerpt, anew *equivalence) bool {
	none := func(keys []core.Key) bool {
		return !slices.ContainsFunc(keys, func(k core.Key) bool { w := t.workloads[k]; return w != nil && w.State() == waiting })
	}
	return slices.ContainsFunc(x.cut, none) || anew != nil && x.own != nil && none(x.own)
}

// setAside are the workloads that are in no group and would be in one if their local queues were
// open, by what they have in common, in no particular order.
func (q *question) setAside(localQueues []*localQueue) [][]*workload {
	alike := map[groupKey][]*workload{}
	for _, d := range localQueues {
		for _, w := range d.workloads {
			if w.State() != waiting || w.group != nil || w.obs.rest != nil && (w.obs.rest.bars() || w.obs.rest.notBefore.After(q.at)) {
				continue
			}
			key := groupKey{equivalence: w.equivalence, localQueue: d}
			if len(w.spare) > 0 {
				key.spare = fmt.Sprint(w.spare)
			}
			alike[key] = append(alike[key], w)
		}
	}
	return slices.Collect(maps.Values(alike))
}

// waits is a workload as it is observed while it waits.
func (w *workload) waits() core.Workload {
	d := w.obs.details()
	return core.Workload{
		Key: w.Key, UID: w.UID, Job: w.obs.job, Endless: w.obs.endless, Queue: w.localQueue.key.name, Priority: w.Priority, QueueTime: time.Unix(0, w.Time), PodSets: w.equivalence.podSets,
		PreemptionGate: w.equivalence.gate, Held: d.held, Invalid: d.invalid, GatedBy: d.gatedBy, NotBefore: d.notBefore, Seq: max(w.seq, w.applied) + 1,
	}
}
