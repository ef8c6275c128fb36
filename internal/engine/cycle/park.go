package cycle

import (
	"fmt"
	"math"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/order"
	"github.com/mlbatch/mlbatch/internal/engine/preempt"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// enter puts a waiting workload in front of the queues; arrive sorts it in.
func (e *Engine) enter(w *workload) {
	if !w.inbox {
		w.inbox = true
		e.arrivals = append(e.arrivals, w)
	}
}

// withdraw takes a waiting or reserved workload out of wherever it waits.
func (e *Engine) withdraw(w *workload) {
	w.inbox = false
	if w.timer != nil {
		e.timers.Remove(w.timer)
		w.timer = nil
	}
	if w.reservation != nil {
		e.dropReservation(w.reservation)
	}
	if g := w.group; g != nil {
		e.depart(w, g)
	}
}

// depart takes a workload out of its group.
func (e *Engine) depart(w *workload, g *group) {
	q := g.queue
	g.members.Remove(w)
	e.headReservationsChange(q)
	w.group = nil
	if q.blocker == w {
		q.blocker = nil
	}
	w.unsaid = false
	if g.members.Len() > 0 {
		q.active.Fix(g)
		e.rehead(q)
		return
	}
	q.active.Remove(g)
	e.unlistOnNodes(g)
	e.unlistBlocked(g)
	delete(q.byKey, g.key)
	last := len(q.groups) - 1
	q.groups[g.index] = q.groups[last]
	q.groups[g.index].index = g.index
	q.groups = q.groups[:last]
	e.rehead(q)
}

// rehead puts a queue among the heads with its first workload, or takes it off.
// The level starts at the best; Decide corrects it when its turn comes.
func (e *Engine) rehead(q *queue) {
	if q.active.Len() == 0 || q.closed != nil || q.ahead() != nil {
		e.strike(q)
		return
	}
	q.head, q.exact = order.Head{Key: q.first().turn()}, false
	if q.byUsage { // whoever is behind it may have a higher priority; its turn corrects it
		q.head.Key = order.Key{Priority: math.MaxInt64, Time: math.MinInt64}
	}
	e.enlist(q)
}

// arrive sorts in what is new: under its group, or aside with a reason.
func (e *Engine) arrive() {
	for e.timers.Len() > 0 && !e.timers.First().at.After(e.now) {
		w := e.timers.First().workload
		e.timers.Remove(w.timer)
		w.timer = nil
		e.enter(w)
	}
	aside := e.arrivals[:0]
	for _, w := range e.arrivals {
		switch d := w.obs.rest; {
		case !w.inbox:
		case w.localQueue.closed != nil, d != nil && (d.bars() || d.notBefore.After(e.now)):
			aside = append(aside, w)
		default:
			w.inbox = false
			e.join(w)
		}
	}
	slices.SortFunc(aside, func(a, b *workload) int { return a.Key.Compare(b.Key) })
	for _, w := range aside {
		if w.inbox {
			w.inbox = false
			e.setAside(w)
		}
	}
	e.arrivals = e.arrivals[:0]
}

// setAside keeps a workload out of the queues and says why.
func (e *Engine) setAside(w *workload) {
	switch d := w.obs.details(); {
	case d.held != "":
		e.say(w, &core.Reason{Code: core.OnHold, Queue: w.obs.localQueue, Detail: d.held})
	case d.invalid != "":
		e.say(w, &core.Reason{Code: core.Misconfigured, Cause: core.PodsInvalid, Queue: w.obs.localQueue, Detail: d.invalid})
	case d.gatedBy != "":
		e.say(w, &core.Reason{Code: core.AdmissionGated, Queue: w.obs.localQueue, Detail: d.gatedBy})
	case d.notBefore.After(e.now):
		w.timer = &timer{workload: w, at: d.notBefore}
		e.timers.Push(w.timer)
		e.say(w, &core.Reason{Code: core.OnHold, Cause: core.BackingOff, Queue: w.obs.localQueue})
	default:
		e.say(w, w.localQueue.closed)
	}
}

// join adds a workload to the group of its equivalence class.
func (e *Engine) join(w *workload) {
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
	e.headReservationsChange(q)
	g.fresh = append(g.fresh, w)
	w.unsaid = true
	e.mention(g)
	if b := q.blocker; b != nil && w.Before(b) {
		q.blocker = nil
		b.unsaid = true
		b.group.fresh = append(b.group.fresh, b)
	}
	switch first := g.members.First() == w; {
	case g.parked && first && (len(g.blockedPairs) > 0 || !preempt.Forbids(q.spec.Preemption)):
		e.unpark(g) // being earlier, it may evict whom the others may not, or pass a reservation
	case g.parked:
	case g.slot == 0:
		q.active.Push(g)
	default:
		q.active.Fix(g)
	}
	e.rehead(q)
}

// mention notes that a group has members that were told nothing yet.
func (e *Engine) mention(g *group) {
	if !g.untold {
		g.untold = true
		e.untold = append(e.untold, g)
	}
}

func (e *Engine) mentionAll(q *queue) {
	for _, g := range q.groups {
		e.mention(g)
	}
}

// park keeps a refused workload, and all of its equivalence class, out of the way. In a
// StrictFIFO queue nobody behind it may pass.
func (e *Engine) park(w *workload, v *verdict) {
	g := w.group
	q := g.queue
	why := v.why
	g.why = why
	if v.met.unseen {
		e.recheck[q.node.Root()] = true
	}
	e.noteWait(g, &v.met)
	e.listBlocked(g, &v.met)
	e.listOnReady(g)
	if w.told == nil || !sameFacts(*w.told, *why) {
		e.say(w, why)
	}
	w.unsaid = false
	e.mention(g)
	e.block(w)
}

// repark puts a group back that was woken in vain: somebody else took what had
// come free.
func (e *Engine) repark(w *workload) {
	e.mention(w.group)
	e.listOnNodes(w.group)
	e.block(w)
}

// hopeless reports whether a workload that was refused before cannot do better
// now, for the same reason. It costs next to nothing.
func (e *Engine) hopeless(w *workload) bool {
	g := w.group
	return g.why != nil && w.told != nil && sameNature(w.told, g.why) && e.stuck(g)
}

// stuck reports whether a group that was refused before, for want of quota or
// nodes alone, would be refused again.
func (e *Engine) stuck(g *group) bool {
	if len(g.blockedPairs) > 0 || g.plan == nil || !e.current(g.plan) {
		return false
	}
	switch code := g.why.Code; {
	case g.lacksNodes:
		return (code == core.TopologyPlacementFailed || code == core.WaitingForQuota) && !e.worthNodes(g)
	default:
		return code == core.WaitingForQuota && !e.worthQuota(g)
	}
}

// idle reports whether a group is stuck and all its members know.
func (e *Engine) idle(g *group) bool {
	return len(g.fresh) == 0 && g.told != nil && g.why != nil && e.stuck(g) && sameNature(g.told, g.why)
}

// dismiss parks the first groups of a queue again, all at once, while they can do
// no better than when they were refused, and all their members know. They need not
// come to the top one by one for that. It reports whether there were any.
func (e *Engine) dismiss(q *queue) bool {
	if q.slot == 0 || q.strict() {
		return false
	}
	some := false
	for q.active.Len() > 0 {
		g := q.active.First()
		if !e.idle(g) {
			break
		}
		g.parked, some = true, true
		e.listOnNodes(g)
		q.active.Remove(g)
	}
	if some {
		e.rehead(q)
	}
	return some
}

// block keeps a refused workload's group, or in a StrictFIFO queue everybody
// behind it, from being judged.
func (e *Engine) block(w *workload) {
	g := w.group
	q := g.queue
	if q.strict() {
		q.blocker = w
		e.mentionAll(q)
	} else {
		g.parked = true
		q.active.Remove(g)
	}
	e.rehead(q)
}

// noteWait records what a group waits for: pairs that were short, or nodes.
func (e *Engine) noteWait(g *group, met *obstacles) {
	g.shorts, g.bound = g.shorts[:0], g.plan
	p := e.least(g)
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
	e.listOnNodes(g)
}

// listOnNodes lists a group among those to be looked at when nodes come free, if it
// is nodes that it lacks.
func (e *Engine) listOnNodes(g *group) {
	if g.onNodes == 0 && g.lacksNodes {
		e.onNodes = append(e.onNodes, g)
		g.onNodes = len(e.onNodes)
	}
}

// nodesShort reports whether some flavor's nodes do not hold some pod set now.
func (e *Engine) nodesShort(g *group) bool {
	for i := range g.plan.Requests {
		for o := range g.plan.Requests[i].Options {
			if mode, _ := e.scene.nodes(g, g.plan, i, o); mode != quota.Fit {
				return true
			}
		}
	}
	return false
}

func (e *Engine) unlistOnNodes(g *group) {
	if g.onNodes == 0 {
		return
	}
	last := len(e.onNodes) - 1
	moved := e.onNodes[last]
	e.onNodes[g.onNodes-1] = moved
	moved.onNodes = g.onNodes
	e.onNodes = e.onNodes[:last]
	g.onNodes = 0
}

// unpark lets a group be judged again.
func (e *Engine) unpark(g *group) {
	e.recall(g)
	e.rehead(g.queue)
}

// recall is unpark without a look at the queue's head: rehead has to follow.
func (e *Engine) recall(g *group) {
	q := g.queue
	e.unlistOnNodes(g)
	e.unlistBlocked(g)
	if q.blocker != nil && q.blocker.group == g {
		q.blocker = nil
	}
	if g.parked {
		g.parked = false
		q.active.Push(g)
	}
}

// wake looks at parked groups whose blocker changed since the last Decide.
func (e *Engine) wake() {
	for _, root := range e.freed {
		e.wakeTree(root)
	}
	e.freed = e.freed[:0]
	for _, root := range e.lent {
		e.wakeReclaimers(root)
	}
	e.lent = e.lent[:0]
	e.wakeBlocked()
	if e.nodesNew {
		e.nodesNew = false
		for _, q := range e.sortedQueues() {
			e.wakeEvictors(q)
		}
	}
	e.wakeReady()
	if e.nodesFreed {
		e.nodesFreed = false
		for i, v := range slices.Backward(e.onNodes) {
			if i < len(e.onNodes) && e.worthNodes(v) {
				e.unpark(v)
			}
		}
		for _, q := range e.ready() {
			e.rehead(q)
		}
	}
}

// wakeEvictors wakes those of a queue who may evict. Once their flavors have
// nodes, whoever holds any of their quota may be in the way, not only who holds
// what is short.
func (e *Engine) wakeEvictors(q *queue) {
	if q.spec == nil || preempt.Forbids(q.spec.Preemption) {
		return
	}
	e.recallAll(q)
}

func (e *Engine) recallAll(q *queue) {
	for _, g := range q.groups {
		e.recall(g)
	}
	e.rehead(q)
}

// wakeTree wakes what waits for quota anywhere in a tree.
func (e *Engine) wakeTree(n node) {
	for _, c := range n.Children() {
		e.wakeTree(c)
	}
	if !n.Queue || n.ID >= len(e.byNode) {
		return
	}
	q := e.byNode[n.ID]
	if q == nil || len(q.groups) == 0 {
		return
	}
	if b := q.blocker; b != nil && b.group != nil && e.worthQuota(b.group) {
		e.recall(b.group)
	}
	for _, g := range q.groups {
		if g.parked && e.worthQuota(g) {
			e.recall(g)
		}
	}
	e.rehead(q)
}

// wakeReclaimers wakes those of a tree who may take quota back from others: there
// is more to take.
func (e *Engine) wakeReclaimers(n node) {
	for _, c := range n.Children() {
		e.wakeReclaimers(c)
	}
	if !n.Queue || n.ID >= len(e.byNode) {
		return
	}
	q := e.byNode[n.ID]
	if q == nil || q.spec == nil || !preempt.Allows(q.spec.Preemption.Reclaim) || len(q.groups) == 0 {
		return
	}
	for _, g := range q.groups {
		if !g.parked || !e.idle(g) {
			e.recall(g)
		}
	}
	e.rehead(q)
}

// worthQuota is a bound that costs next to nothing: whether what a group found
// short has room now. Groups that could evict somebody are always worth a look,
// since what was freed together with victims may do.
func (e *Engine) worthQuota(g *group) bool {
	n := g.queue.node
	if g.plan == nil || g.bound != g.plan || g.plan.revision != e.revision {
		return true
	}
	for _, s := range g.shorts {
		if s.need <= n.Room(core.Projected, s.pair) {
			return true
		}
	}
	return e.mayEvict(g)
}

// mayEvict is a bound that costs next to nothing: whether there may be somebody whom
// a group could evict. Its plan must be of the current revision.
func (e *Engine) mayEvict(g *group) bool {
	n, policy, priority := g.queue.node, g.queue.spec.Preemption, g.equivalence.priority
	if e.search.Hopeless(n, policy, priority, g.plan.pairs) {
		return false
	}
	fixed := e.least(g).fixed
	return !e.search.Outweighed(n, policy, priority, fixed) && !e.search.Toothless(n, policy, priority, fixed)
}

// worthNodes is the same bound for nodes: whether every pod set has some flavor with
// as many slots as it has pods, now or once those who leave are gone.
func (e *Engine) worthNodes(g *group) bool {
	if g.plan == nil || !e.current(g.plan) || e.mayEvict(g) {
		return true
	}
	p := e.least(g)
	for i := range p.Requests {
		if p.placeless(p.Requests[i].Set) {
			continue
		}
		some := false
		for o := range p.Requests[i].Options {
			mode, _ := e.scene.nodes(g, p, i, o)
			some = some || mode == quota.Fit || mode == quota.Await
		}
		if !some {
			return false
		}
	}
	return true
}
