package sim

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/inquiry"
)

// adviceHelps asks why one waiting workload waits, and does each thing that is
// advised to a copy of the engine: it must start then, or be promised a place (P9).
func (a *Auditor) adviceHelps(e *cycle.Engine, now time.Time, pick int) error {
	var waiting []core.Key
	for _, k := range sortedKeys(a.workloads) {
		if a.workloads[k].held == nil {
			waiting = append(waiting, k)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	key := waiting[pick%len(waiting)]
	state, err := e.Dump()
	if err != nil {
		return nil //nolint:nilerr // edits wait for a decision; another moment will do
	}
	own := a.workloads[key].told.Priority
	why, waits, err := inquiry.Explain(inquiry.At(e.View()), key, now, []int64{own + 1, own + 5, own + 100})
	if !waits || err != nil {
		return fmt.Errorf("P9: %s waits, and the engine cannot say why", key)
	}
	if after, _ := e.Dump(); !reflect.DeepEqual(state, after) {
		return fmt.Errorf("P7: a question about %s changed what the engine knows", key)
	}
	if err := a.nextIsTrue(key, why, now); err != nil {
		return err
	}
	a.count(why, "")
	for _, advice := range why.Advice {
		copied, err := cycle.Load(a.options, state)
		if err != nil {
			return fmt.Errorf("P9: load what was dumped: %w", err)
		}
		for _, ev := range a.heeded(key, advice, now) {
			copied.Apply(ev)
		}
		// A workload with a reservation must start; others may get one.
		at := now
		if advice.Kind == core.AwaitRuntime || advice.Kind == core.AwaitRelocation {
			at = advice.At
		}
		if said := a.notStarted(copied, key, at, why.Reason.Code == core.WaitingForPreempted); said != "" {
			return fmt.Errorf(
				"P9: %s waits because of %+v and is advised %+v; that was done, and it waits: %s",
				key,
				why.Reason,
				advice,
				said,
			)
		}
		a.count(why, advice.Kind)
	}
	return nil
}

// count counts an explanation, or an advice of it that helped.
func (a *Auditor) count(why core.Explanation, kind core.AdviceKind) {
	if a.tally != nil {
		a.tally[Told{why.Reason.Code, why.Reason.Cause, kind}]++
	}
}

// Told is a reason, and a kind of advice that was followed, after which the workload started;
// no kind if it was asked only why it waits.
type Told struct {
	Code  core.Code
	Cause core.Cause
	Kind  core.AdviceKind
}

// Tally counts what was told.
type Tally map[Told]int

// nextIsTrue takes the reason of a workload out of its way, in a world with nobody else
// who waits, and compares what it waits for then with what the engine said that would be.
func (a *Auditor) nextIsTrue(key core.Key, why core.Explanation, now time.Time) error {
	if len(why.Next) == 0 || a.evictions > 0 { // a fresh engine does not know which to spare
		return nil
	}
	b := a.copyFor(key, now)
	said := why.Next[0]
	if !b.cure(why.Reason) {
		return nil // not in a way that is known here
	}
	got, started := b.try()
	// The obstacle has to be the same; whether somebody can be evicted because of it is not said.
	evicts := started && got.Code == core.WaitingForPreempted
	if started && !evicts || !evicts && got.Code != said.Code || got.Cause != said.Cause ||
		got.Flavor != said.Flavor ||
		got.Resource != said.Resource {
		return fmt.Errorf(
			"P9: %s waits because of %+v, and is said to wait for %+v then; that was seen to, and it waits for %+v (started: %t)",
			key,
			why.Reason,
			said,
			got,
			started,
		)
	}
	return nil
}

// notStarted decides and says why a workload still waits, "" if it has its quota or
// had no reservation before and has one now. Admissions are seen as soon as they are
// decided: until then no workload is evicted in place of one.
func (a *Auditor) notStarted( //nolint:revive // a fact
	e *cycle.Engine,
	key core.Key,
	now time.Time,
	promised bool,
) string {
	for range maxCures {
		plan := e.Decide(now)
		if _, ok := e.Holding(key); ok {
			return ""
		}
		if len(plan) == 0 {
			break
		}
		for _, d := range plan {
			if admit, ok := d.(core.Admit); ok {
				e.Apply(core.WorkloadSet{Workload: a.seen(admit, now)})
			}
		}
	}
	why, _ := e.Why(key)
	if why.Code == core.WaitingForPreempted && !promised {
		return ""
	}
	return fmt.Sprintf("%+v", why)
}

// seen is a workload as it is once its admission was written.
func (a *Auditor) seen(d core.Admit, now time.Time) core.Workload {
	w := a.workloads[d.Key].told
	w.Seq++
	w.Admission, w.Admitted, w.Reserved = &d.Admission, true, now
	w.NotBefore, w.Settled, w.Ended = time.Time{}, nil, nil
	w.Evicting, w.Interruption = false, core.NotInterrupted
	return w
}

// heeded is what happens when an advice is followed.
func (a *Auditor) heeded(key core.Key, v core.Advice, now time.Time) []core.Event {
	w := a.workloads[key].told
	var out []core.Event
	switch v.Kind {
	case core.WaitFor:
		for _, k := range v.Keys {
			out = append(out, core.WorkloadGone{Key: k})
		}
	case core.AwaitLeaving:
		return a.allReleased()
	case core.Uncordon, core.RepairNode:
		for _, name := range v.Nodes {
			n := a.nodes[name]
			n.State, n.Why = core.NodeReady, ""
			out = append(out, core.NodeSet{Node: n})
		}
	case core.RemovePods:
		for _, name := range v.Nodes {
			n := a.nodes[name]
			n.Foreign = nil
			out = append(out, core.NodeSet{Node: n})
		}
	case core.ResumeQueue:
		q := a.queues[v.Queue]
		q.Stop = core.StopNone
		out = append(out, core.QueueSet{Queue: q})
	case core.PreemptBorrowing:
		q := a.queues[v.Queue]
		q.Preemption.WhileBorrow = core.PreemptLowerPriority
		out = append(out, core.QueueSet{Queue: q})
	case core.ResumeLocal:
		d := a.localQueues[key.Namespace+"/"+v.Queue]
		d.Stop = core.StopNone
		out = append(out, core.LocalQueueSet{LocalQueue: d})
	case core.OpenGate:
		if w.GatedBy != "" {
			w.GatedBy = ""
		} else {
			w.PreemptionGate = ""
		}
		out = append(out, core.WorkloadSet{Workload: w})
	case core.Release:
		w.Held = ""
		out = append(out, core.WorkloadSet{Workload: w})
	case core.AllowRelocation:
		q := a.queues[v.Queue]
		q.RelocationsPerHour = 1
		out = append(out, core.QueueSet{Queue: q})
	case core.AwaitRuntime, core.AwaitRelocation: // it is asked again then
	case core.AwaitBackOff:
		w.NotBefore = now
		out = append(out, core.WorkloadSet{Workload: w})
	case core.FewerPods, core.SmallerPods, core.Tolerate, core.DropSelector, core.RaisePriority, core.OtherQueue,
		core.RequireLevel, core.PreferLevel:
		for _, k := range v.Keys {
			out = append(out, core.WorkloadGone{Key: k})
		}
		out = append(out, core.WorkloadGone{Key: key}, core.WorkloadSet{Workload: again(w, v, a.taints(), now)})
	}
	return out
}

// allReleased is what happens when all that are being stopped are gone: they wait
// again.
func (a *Auditor) allReleased() []core.Event {
	var out []core.Event
	for _, k := range sortedKeys(a.workloads) {
		if w := a.workloads[k]; w.held != nil && w.leaving {
			o := w.told
			o.Admission, o.Evicting, o.Admitted, o.Ready, o.Reserved, o.Settled, o.Ended = nil, false, false, false, time.Time{}, nil, nil
			out = append(out, core.WorkloadSet{Workload: o})
		}
	}
	return out
}

// taints are all that flavors and nodes have.
func (a *Auditor) taints() []core.Taint {
	var out []core.Taint
	for _, name := range sortedNames(a.flavors) {
		out = append(out, a.flavors[name].Taints...)
	}
	for _, name := range sortedNames(a.nodes) {
		out = append(out, a.nodes[name].Taints...)
	}
	return slices.Compact(out)
}

// again is a workload that is submitted again as advised.
func again(w core.Workload, v core.Advice, taints []core.Taint, now time.Time) core.Workload {
	w.UID, w.Created, w.QueueTime, w.Seq = w.UID+"-again", now, now, 0
	if v.Kind == core.RaisePriority {
		w.Priority = v.Priority
		return w
	}
	if v.Kind == core.OtherQueue {
		w.Queue = v.Queue
		return w
	}
	if v.Level != "" {
		w.PodSets = core.Loosen(w.PodSets, v.PodSet, v)
		return w
	}
	w.PodSets = slices.Clone(w.PodSets)
	for i := range w.PodSets {
		p := &w.PodSets[i]
		if p.Name != v.PodSet {
			continue
		}
		switch v.Kind {
		case core.FewerPods:
			p.Count, p.MinCount = v.Count, min(p.MinCount, v.Count)
		case core.SmallerPods:
			p.Requests = p.Requests.With(v.Resource, v.Amount)
			if p.Quota != nil {
				p.Quota = p.Quota.With(v.Resource, v.Amount)
			}
		case core.Tolerate:
			p.Filter.Tolerations = slices.Clone(p.Filter.Tolerations)
			for _, t := range taints {
				if slices.Contains(v.Detail, t.String()) {
					p.Filter.Tolerations = append(
						p.Filter.Tolerations,
						core.Toleration{Key: t.Key, Value: t.Value, Effect: t.Effect},
					)
				}
			}
		case core.DropSelector:
			p.Filter.Must = slices.DeleteFunc(
				slices.Clone(p.Filter.Must),
				func(r core.Requirement) bool { return slices.Contains(v.Detail, r.String()) },
			)
			if slices.Contains(v.Detail, p.Filter.TermsText()) {
				p.Filter.Terms = nil
			}
		default:
		}
	}
	return w
}
