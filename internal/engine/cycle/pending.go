package cycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/preempt"
)

// nodesChanged is what changed about nodes.
type nodesChanged struct {
	// freed says that there may be more room on nodes, other that which nodes there are, or
	// what they are like, is not as it was, lost that pods may fit on none any more.
	freed, other, lost bool
}

func newPending(m *model, d *draft, j *judge) *pending {
	p := &pending{model: m, draft: d, judge: j, rechecks: newRechecks()}
	p.turns = newTurns(m, j, p.parkIdle)
	return p
}

// nextWake is the earliest end of a back-off, or of a minimum runtime that somebody waits for; zero if there is none.
func (pe *pending) nextWake() time.Time {
	first := pe.rechecks.first()
	if pe.timers.Len() > 0 && (first.IsZero() || pe.timers.First().at.Before(first)) {
		return pe.timers.First().at
	}
	return first
}

// enter puts a waiting workload in front of the queues; arrive sorts it in.
func (pe *pending) enter(w *workload) {
	if !w.inbox {
		w.inbox = true
		pe.arrivals = append(pe.arrivals, w)
	}
}

// depart takes a workload out of its group.
func (pe *pending) depart(w *workload, g *group) {
	q := g.queue
	g.members.Remove(w)
	pe.headReservationsChange(q)
	w.group = nil
	if q.blocker == w {
		q.blocker = nil
	}
	w.unreported = false
	if g.members.Len() > 0 {
		q.active.Fix(g)
		pe.turns.rehead(q)
		return
	}
	q.active.Remove(g)
	pe.unlistOnNodes(g)
	pe.unlistBlocked(g)
	delete(q.byKey, g.key)
	last := len(q.groups) - 1
	q.groups[g.index] = q.groups[last]
	q.groups[g.index].index = g.index
	q.groups = q.groups[:last]
	pe.turns.rehead(q)
}

// arrive sorts in what is new: under its group, or aside with a reason.
func (pe *pending) arrive() {
	for pe.timers.Len() > 0 && !pe.timers.First().at.After(pe.now) {
		w := pe.timers.First().workload
		pe.timers.Remove(w.timer)
		w.timer = nil
		pe.enter(w)
	}
	aside := pe.arrivals[:0]
	for _, w := range pe.arrivals {
		switch d := w.obs.rest; {
		case !w.inbox:
		case w.localQueue.closed != nil, d != nil && (d.bars() || d.notBefore.After(pe.now)):
			aside = append(aside, w)
		default:
			w.inbox = false
			pe.join(w)
		}
	}
	slices.SortFunc(aside, func(a, b *workload) int { return a.Key.Compare(b.Key) })
	for _, w := range aside {
		if w.inbox {
			w.inbox = false
			pe.setAside(w)
		}
	}
	pe.arrivals = pe.arrivals[:0]
}

// setAside keeps a workload out of the queues and says why.
func (pe *pending) setAside(w *workload) {
	switch d := w.obs.details(); {
	case d.held != "":
		pe.draft.report(w, &core.Reason{Code: core.OnHold, Queue: w.localQueue.key.name, Detail: d.held})
	case d.invalid != "":
		pe.draft.report(
			w,
			&core.Reason{
				Code:   core.Misconfigured,
				Cause:  core.PodsInvalid,
				Queue:  w.localQueue.key.name,
				Detail: d.invalid,
			},
		)
	case d.gatedBy != "":
		pe.draft.report(w, &core.Reason{Code: core.AdmissionGated, Queue: w.localQueue.key.name, Detail: d.gatedBy})
	case d.notBefore.After(pe.now):
		pe.backOff(w, d.notBefore)
		pe.draft.report(w, &core.Reason{Code: core.OnHold, Cause: core.BackingOff, Queue: w.localQueue.key.name})
	default:
		pe.draft.report(w, w.localQueue.closed)
	}
}

// backOff has a workload sorted in at a later time.
func (pe *pending) backOff(w *workload, until time.Time) {
	w.timer = &timer{workload: w, at: until}
	pe.timers.Push(w.timer)
}

// join adds a workload to the group of its equivalence class.
func (pe *pending) join(w *workload) {
	q := w.localQueue.queue
	if len(w.spare) > 0 && w.spareKey == "" {
		w.spareKey = fmt.Sprint(w.spare)
	}
	key := groupKey{equivalence: w.equivalence, spare: w.spareKey}
	if q.byUsage {
		key.localQueue = w.localQueue
	}
	g := q.byKey[key]
	if g == nil {
		g = &group{queue: q, key: key, equivalence: w.equivalence, index: len(q.groups)}
		q.byKey[key] = g
		q.groups = append(q.groups, g)
	}
	w.group = g
	g.members.Push(w)
	pe.headReservationsChange(q)
	g.newcomers = append(g.newcomers, w)
	w.unreported = true
	pe.mention(g)
	if b := q.blocker; b != nil && w.Before(b) {
		pe.unblock(q)
	}
	switch first := g.members.First() == w; {
	case g.parked && first && (len(g.blockedPairs) > 0 || !preempt.Forbids(q.spec.Preemption)):
		pe.unpark(g) // being earlier, it may evict what the others may not, or pass a reservation
	case g.parked:
	case g.slot == 0:
		q.active.Push(g)
	default:
		q.active.Fix(g)
	}
	pe.turns.rehead(q)
}

// mention notes that a group has members of which no reason was reported yet.
func (pe *pending) mention(g *group) {
	if !g.unreported {
		g.unreported = true
		pe.unreported = append(pe.unreported, g)
	}
}

func (pe *pending) mentionAll(q *queue) {
	for _, g := range q.groups {
		pe.mention(g)
	}
}

// park keeps a refused workload, and all of its equivalence class, out of the way. In a
// StrictFIFO queue none behind it may pass.
func (pe *pending) park(w *workload, v *verdict) {
	g := w.group
	q := g.queue
	why := v.why
	g.why = why
	if v.met.skipped.Unseen {
		pe.rechecks.whenSeen(q.node)
	}
	if until := v.met.skipped.Until; until > 0 {
		pe.rechecks.atTime(q.node, until)
	}
	if g.plan != nil && g.plan.spreads() {
		pe.rechecks.atTime(q.node, pe.now.Unix()+spreadRecheck)
	}
	pe.noteWait(g, v.met)
	pe.listBlocked(g, v.met)
	pe.listOnReady(g)
	if w.reported == nil || !sameFacts(*w.reported, *why) {
		pe.draft.report(w, why)
	}
	w.unreported = false
	pe.mention(g)
	pe.block(w)
}

// parkAgain puts a group back that was woken in vain: another took what had
// come free.
func (pe *pending) parkAgain(w *workload) {
	pe.mention(w.group)
	pe.listOnNodes(w.group)
	pe.block(w)
}

// stillRefused reports whether a workload that was refused before cannot do better
// now, for the same reason. It costs next to nothing.
func (pe *pending) stillRefused(w *workload) bool {
	g := w.group
	return g.why != nil && w.reported != nil && sameNature(w.reported, g.why) && pe.judge.stuck(g)
}

// idle reports whether a group is stuck and all its members know.
func (pe *pending) idle(g *group) bool {
	return len(g.newcomers) == 0 && g.reported != nil && g.why != nil && pe.judge.stuck(g) &&
		sameNature(g.reported, g.why)
}

// parkIdle parks the first groups of a queue again, all at once, while they can do
// no better than when they were refused, and all their members know. They need not
// come to the top one by one for that. It reports whether there were any.
func (pe *pending) parkIdle(q *queue) bool {
	if q.slot == 0 || q.strict() {
		return false
	}
	some := false
	for q.active.Len() > 0 {
		g := q.active.First()
		if !pe.idle(g) {
			break
		}
		pe.lookBehind(g.members.First(), q)
		g.parked, some = true, true
		pe.listOnNodes(g)
		q.active.Remove(g)
	}
	if some {
		pe.turns.rehead(q)
	}
	return some
}

// block keeps a refused workload's group, or in a StrictFIFO queue all
// behind it, from being judged.
func (pe *pending) block(w *workload) {
	g := w.group
	q := g.queue
	if q.strict() {
		q.blocker = w
		pe.mentionAll(q)
	} else {
		g.parked = true
		q.active.Remove(g)
	}
	pe.lookBehind(w, q)
	pe.turns.rehead(q)
}

// unblock has the first of a StrictFIFO queue looked at again. Its reason was its own: if it
// waits behind another from now on, it is to be told so, although the others of its group were
// long ago.
func (pe *pending) unblock(q *queue) {
	b := q.blocker
	q.blocker = nil
	if !b.unreported {
		b.unreported = true
		b.group.newcomers = append(b.group.newcomers, b)
		pe.mention(b.group)
	}
}

// noteWait records what a group waits for: pairs that were short, or nodes.
func (pe *pending) noteWait(g *group, met *obstacles) {
	g.shorts, g.bound = g.shorts[:0], g.plan
	p := pe.judge.least(g)
	for i := range p.Requests {
		for _, o := range p.Requests[i].Options {
			for _, u := range o.Uses {
				room := g.queue.node.Room(core.Projected, u.Pair)
				switch {
				case o.Bad != "":
				case u.Amount > room:
					g.shorts = append(g.shorts, short{u.Pair, u.Amount})
				case p.shared: // pod sets together may be short where each alone is not
					g.shorts = append(g.shorts, short{u.Pair, room.Add(1)})
				}
			}
		}
	}
	g.lacksNodes = met.lacksNodes
	pe.listOnNodes(g)
}

// unpark lets a group be judged again.
func (pe *pending) unpark(g *group) {
	pe.recall(g)
	pe.turns.rehead(g.queue)
}

// recall is unpark without a look at the queue's head: rehead has to follow.
func (pe *pending) recall(g *group) {
	q := g.queue
	pe.unlistOnNodes(g)
	pe.unlistBlocked(g)
	if q.blocker != nil && q.blocker.group == g {
		pe.unblock(q)
	}
	if g.parked {
		g.parked = false
		q.active.Push(g)
	}
}

// headReservationsChange notes that a queue may reserve something else from now on.
func (pe *pending) headReservationsChange(q *queue) {
	if q.reservesForHead() {
		pe.changes++
	}
}
