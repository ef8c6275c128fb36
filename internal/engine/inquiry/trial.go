package inquiry

import (
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
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

// cost is what a copy costs.
func cost(x *cycle.Excerpt) int {
	workloads, groups, nodes := x.Size()
	return workloads + groups + nodes
}

// shown reports whether a workload is seen to start, or to get a reservation, when an
// advice is followed, and how many others have to go for it. anew is the workload as it
// would be submitted then, nil if it would not.
func (a *adviser) shown(offer core.Advice, anew *cycle.Submission) (preempts int32, ok bool) {
	x := a.copied
	if a.trials -= cost(x); a.trials < 0 {
		return 0, false
	}
	t, err := begin(x, a.key, a.at)
	if err != nil {
		return 0, false
	}
	t.reserved = t.stands(a.key, core.StagePromised)
	if !t.heed(offer, anew) {
		return 0, false
	}
	preempts, ok = t.starts()
	if ok && t.ranOut(x, anew != nil) {
		a.short = true
		return 0, false
	}
	return preempts, ok
}

// trial is a copy of an engine in which an advice is followed for one workload.
type trial struct {
	engine *cycle.Engine
	key    core.Key
	at     time.Time
	// reserved says that the workload has a reservation already: it must start.
	reserved bool
}

func begin(x *cycle.Excerpt, k core.Key, at time.Time) (*trial, error) {
	e, err := x.Engine()
	if err != nil {
		return nil, err
	}
	return &trial{engine: e, key: k, at: at}, nil
}

// told is the workload that the trial is about, as it would be observed next.
func (t *trial) told() core.Workload {
	w, _ := t.engine.View().Told(t.key)
	return w
}

func (t *trial) observe(w core.Workload) { t.engine.Apply(core.WorkloadSet{Workload: w}) }

// stands reports whether a workload is there and stands at a stage.
func (t *trial) stands(k core.Key, at core.Stage) bool { return t.engine.View().Stage(k) == at }

// heed tells the copy what happens when an advice is followed; anew is the workload as it
// would be submitted then.
func (t *trial) heed(v core.Advice, anew *cycle.Submission) bool {
	w := t.told()
	switch v.Kind {
	case core.WaitFor:
		for _, k := range v.Keys {
			t.engine.Apply(core.WorkloadGone{Key: k})
		}
	case core.AwaitLeaving:
		t.leave()
	case core.Uncordon, core.RepairNode:
		t.changeNodes(v.Nodes, func(n *core.Node) { n.State, n.Why = core.NodeReady, "" })
	case core.RemovePods:
		t.changeNodes(v.Nodes, func(n *core.Node) { n.Foreign = nil })
	case core.ResumeQueue:
		t.changeQueue(func(q *core.Queue) { q.Stop = core.StopNone })
	case core.PreemptBorrowing:
		t.changeQueue(func(q *core.Queue) { q.Preemption.WhileBorrow = core.PreemptLowerPriority })
	case core.AllowRelocation:
		if q, is := t.engine.View().Queue(v.Queue); is {
			q.RelocationsPerHour = 1
			t.engine.Apply(core.QueueSet{Queue: q})
		}
	case core.ResumeLocal:
		d, _ := t.engine.View().LocalQueue(w.Key.Namespace, w.Queue)
		d.Stop = core.StopNone
		t.engine.Apply(core.LocalQueueSet{LocalQueue: d})
	case core.OpenGate:
		if w.GatedBy != "" {
			w.GatedBy = ""
		} else {
			w.PreemptionGate = ""
		}
		t.observe(w)
	case core.Release:
		w.Held = ""
		t.observe(w)
	case core.AwaitRuntime, core.AwaitRelocation:
		t.at = v.At
	case core.AwaitBackOff:
		w.NotBefore = t.at
		t.observe(w)
	case core.FewerPods, core.SmallerPods, core.Tolerate, core.DropSelector, core.RaisePriority, core.OtherQueue,
		core.RequireLevel, core.PreferLevel:
		for _, k := range v.Keys {
			t.engine.Apply(core.WorkloadGone{Key: k})
		}
		w.UID, w.Created, w.QueueTime, w.Seq = "\xff", t.at, t.at, 0 // after all that are submitted now
		w.Queue, w.PodSets, w.Priority = anew.LocalQueue, anew.PodSets, anew.Priority
		t.engine.Apply(core.WorkloadGone{Key: t.key})
		t.observe(w)
	default:
		return false
	}
	return true
}

// leave has all that leave be gone: they wait again. Their admissions have been seen by then.
func (t *trial) leave() {
	for _, k := range t.engine.View().Leaving() {
		w, _ := t.engine.View().Told(k)
		t.observe(w)
		w.Seq++
		w.Admission, w.Reserved, w.Admitted, w.Ready, w.Evicting, w.Settled, w.Ended = nil, time.Time{}, false, false, false, nil, nil
		t.observe(w)
	}
}

// changeQueue changes the queue in which the workload waits, if there is one.
func (t *trial) changeQueue(change func(*core.Queue)) {
	w := t.told()
	name, _ := t.engine.QueueOf(w.Key.Namespace, w.Queue)
	if q, is := t.engine.View().Queue(name); is {
		change(&q)
		t.engine.Apply(core.QueueSet{Queue: q})
	}
}

func (t *trial) changeNodes(names []string, change func(*core.Node)) {
	for _, name := range names {
		if n, is := t.engine.View().Node(name); is {
			change(&n)
			t.engine.Apply(core.NodeSet{Node: n})
		}
	}
}

// starts decides and reports whether the workload has its quota then, or has a
// reservation that it did not have before.
func (t *trial) starts() (preempts int32, ok bool) {
	for range mostTurns {
		plan := t.engine.Decide(t.at)
		for _, d := range plan {
			if x, is := d.(core.Evict); is && x.For == t.key {
				preempts++
			}
		}
		if t.stands(t.key, core.StageRunning) || !t.reserved && t.stands(t.key, core.StagePromised) {
			return preempts, true
		}
		if len(plan) == 0 {
			break
		}
		for _, d := range plan {
			if x, is := d.(core.Admit); is {
				t.see(x)
			}
		}
	}
	return 0, false
}

// see lets an admission be seen. That happens as soon as it is decided: until then no workload is
// evicted in place of one.
func (t *trial) see(d core.Admit) {
	w, _ := t.engine.View().Told(d.Key)
	w.Admission, w.Admitted, w.Reserved = &d.Admission, true, t.at
	w.Ready, w.Evicting, w.Settled, w.Ended = false, false, nil, nil
	t.observe(w)
}

// ranOut reports whether all that were copied of some that are alike got something: then
// one that was not copied may have come before the workload. Submitted anew, it comes after the ones
// that it was like as well.
func (t *trial) ranOut(x *cycle.Excerpt, anew bool) bool {
	none := func(keys []core.Key) bool {
		return !slices.ContainsFunc(keys, func(k core.Key) bool { return t.stands(k, core.StageWaiting) })
	}
	return slices.ContainsFunc(x.Cut, none) || anew && x.Alike != nil && none(x.Alike)
}
