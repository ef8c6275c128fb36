package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/preempt"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// wake looks at parked groups whose blocker changed since the last Decide.
func (pe *pending) wake() {
	for _, root := range pe.freed {
		pe.wakeTree(root)
	}
	pe.freed = pe.freed[:0]
	for _, root := range pe.lent {
		pe.wakeReclaimers(root)
	}
	pe.lent = pe.lent[:0]
	for _, root := range pe.rechecks.due(pe.now) {
		pe.wakeTree(root)
	}
	pe.wakes++
	pe.wakeBlocked()
	if pe.nodesChanged.other {
		pe.nodesChanged.other = false
		for _, q := range pe.sortedQueues() {
			pe.wakeEvictors(q)
		}
	}
	if pe.nodesChanged.lost {
		pe.nodesChanged.lost = false
		pe.wakeHopeful()
	}
	pe.wakeReady()
	if pe.nodesChanged.freed {
		pe.nodesChanged.freed = false
		for i, v := range slices.Backward(pe.onNodes) {
			if i < len(pe.onNodes) && pe.judge.worthNodes(v) {
				pe.unpark(v)
			}
		}
		for _, q := range pe.turns.ready() {
			pe.turns.rehead(q)
		}
	}
}

// wakeEvictors wakes those of a queue that may evict. Once their flavors have
// nodes, what holds any of their quota may be in the way, not only what holds
// what is short.
func (pe *pending) wakeEvictors(q *queue) {
	if q.spec == nil || preempt.Forbids(q.spec.Preemption) {
		return
	}
	pe.recallAll(q)
}

// wakeHopeful wakes what waits for something that may come. If nodes were lost that would
// have held it, it waits in vain, and is to be told so.
func (pe *pending) wakeHopeful() {
	for _, q := range pe.sortedQueues() {
		for _, g := range q.groups {
			if g.why != nil && !quota.Permanent(*g.why) {
				pe.recall(g)
			}
		}
		pe.turns.rehead(q)
	}
}

func (pe *pending) recallAll(q *queue) {
	for _, g := range q.groups {
		pe.recall(g)
	}
	pe.turns.rehead(q)
}

// lookAgain wakes everything that is parked, after an edit. Trees may be others than
// before, so what was noted of them is forgotten: whoever has to be looked at again
// notes it when it is judged.
func (pe *pending) lookAgain() {
	pe.rechecks.clear()
	for _, q := range pe.sortedQueues() {
		pe.recallAll(q)
	}
}

// wakeTree wakes what waits for quota anywhere in a tree.
func (pe *pending) wakeTree(n node) {
	for _, c := range n.Children() {
		pe.wakeTree(c)
	}
	if !n.Queue || n.ID >= len(pe.byNode) {
		return
	}
	q := pe.byNode[n.ID]
	if q == nil || len(q.groups) == 0 {
		return
	}
	if b := q.blocker; b != nil && b.group != nil && pe.judge.worthQuota(b.group) {
		pe.recall(b.group)
	}
	for _, g := range q.groups {
		if g.parked && pe.judge.worthQuota(g) {
			pe.recall(g)
		}
	}
	pe.turns.rehead(q)
}

// wakeReclaimers wakes those of a tree that may take quota back from others: there
// is more to take.
func (pe *pending) wakeReclaimers(n node) {
	for _, c := range n.Children() {
		pe.wakeReclaimers(c)
	}
	if !n.Queue || n.ID >= len(pe.byNode) {
		return
	}
	q := pe.byNode[n.ID]
	if q == nil || !q.reclaims() || len(q.groups) == 0 {
		return
	}
	for _, g := range q.groups {
		if !g.parked || !pe.idle(g) {
			pe.recall(g)
		}
	}
	pe.turns.rehead(q)
}

// lookBehind looks again at what a queue has parked behind a workload whose turn is over,
// if a queue of its tree borrows more since the last wake: it was not its turn yet, and
// when it is, there may be more to take. What is before had its turn without that, and
// is woken next time.
func (pe *pending) lookBehind(w *workload, q *queue) {
	if len(pe.lent) == 0 || q.lookedBehind == pe.wakes || q.strict() || !q.reclaims() ||
		!slices.Contains(pe.lent, q.node.Root()) {
		return
	}
	q.lookedBehind = pe.wakes // none behind is parked again before its turn
	for _, g := range q.groups {
		if g.parked && w.Before(g.members.First()) {
			pe.recall(g)
		}
	}
	pe.turns.rehead(q)
}

// wakeBlocked looks again at groups that were blocked by reservations.
func (pe *pending) wakeBlocked() {
	if pe.blockedGroupsAt == pe.changes {
		return
	}
	pe.blockedGroupsAt = pe.changes
	for i, g := range slices.Backward(pe.blockedGroups) {
		if i < len(pe.blockedGroups) && pe.judge.mayPassReservations(g) {
			pe.unpark(g)
		}
	}
}

// listBlocked notes what a refusal was for. Such groups are listed apart,
// because reservations end in ways that free nothing.
func (pe *pending) listBlocked(g *group, met *obstacles) {
	g.blockedPairs = append(g.blockedPairs[:0], met.blockedPairs...)
	if len(g.blockedPairs) > 0 && g.blockedByReservation == 0 {
		pe.blockedGroups = append(pe.blockedGroups, g)
		g.blockedByReservation = len(pe.blockedGroups)
	}
}

// unlistBlocked takes a group off the list. What it was refused for stays on
// record until it is judged again.
func (pe *pending) unlistBlocked(g *group) {
	pe.blockedGroups = unlist(pe.blockedGroups, g, func(g *group) *int { return &g.blockedByReservation })
}

// unlist takes a group off a list, if it is there. at is its position plus one, 0 if it is
// not; the last group takes its place.
func unlist(groups []*group, g *group, at func(*group) *int) []*group {
	i := *at(g)
	if i == 0 {
		return groups
	}
	last := len(groups) - 1
	groups[i-1] = groups[last]
	*at(groups[last]), *at(g) = i, 0
	return groups[:last]
}

// wakeReady looks again at what waits for pods: when none is missing any more, and
// whenever usage or nodes changed. What was free for them may be taken then, and they can
// be reserved something that needs no pods of others.
func (pe *pending) wakeReady() {
	if pe.unready > 0 && pe.onReadyAt == pe.changes {
		return
	}
	pe.onReadyAt = pe.changes
	for _, g := range pe.onReady {
		g.onReady = false
		if g.members.Len() > 0 && g.why.Code == core.WaitingForPodsReady {
			pe.unpark(g)
		}
	}
	pe.onReady = pe.onReady[:0]
}

func (pe *pending) listOnReady(g *group) {
	if g.why.Code == core.WaitingForPodsReady && !g.onReady {
		g.onReady = true
		pe.onReady = append(pe.onReady, g)
	}
}

// listOnNodes lists a group among those to be looked at when nodes come free, if it
// is nodes that it lacks.
func (pe *pending) listOnNodes(g *group) {
	if g.onNodes == 0 && g.lacksNodes {
		pe.onNodes = append(pe.onNodes, g)
		g.onNodes = len(pe.onNodes)
	}
}

func (pe *pending) unlistOnNodes(g *group) {
	pe.onNodes = unlist(pe.onNodes, g, func(g *group) *int { return &g.onNodes })
}

// change notes that something changed that could end a head reservation or make room
// beside it.
func (pe *pending) change() { pe.changes++ }

// nodesChange notes that a node changed.
func (pe *pending) nodesChange(c nodesChanged) {
	pe.change()
	was := &pe.nodesChanged
	was.freed, was.other, was.lost = was.freed || c.freed, was.other || c.other, was.lost || c.lost
}

// lend notes that a queue of a tree borrows more.
func (pe *pending) lend(n *quota.Node) { pe.lent = withRoot(pe.lent, n) }

// seen notes that an admission in a tree was.
func (pe *pending) seen(n *quota.Node) {
	if root := n.Root(); pe.rechecks.seen[root] {
		delete(pe.rechecks.seen, root)
		pe.free(n, false)
	}
}

// forget drops what a decision would look at again, or tell.
func (pe *pending) forget() {
	for _, g := range pe.unreported {
		for _, w := range g.newcomers {
			w.unreported = false
		}
		g.newcomers, g.unreported = nil, false
	}
	pe.unreported = pe.unreported[:0]
	pe.freed, pe.lent, pe.nodesChanged = nil, nil, nodesChanged{}
	pe.rechecks.clear()
}

// free notes that quota of a tree, and perhaps nodes, came free.
func (pe *pending) free(n *quota.Node, nodes bool) {
	pe.freed = withRoot(pe.freed, n)
	pe.nodesChanged.freed = pe.nodesChanged.freed || nodes
}

func withRoot(list []*quota.Node, n *quota.Node) []*quota.Node {
	if slices.Contains(list, n.Root()) {
		return list
	}
	return append(list, n.Root())
}
