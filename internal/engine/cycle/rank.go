package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// fallsBack corrects the borrowing level in the key of the head that is being
// judged. It reports whether another queue comes first now.
//
// Levels are corrected lazily: a head starts at level 0 and learns its true one
// when it comes to the top. So does the head of a queue that goes by past usage
// with its priority and time: it starts as the best that could be behind it. That
// is exact as long as levels only get worse,
// which unsettle sees to.
func (e *Engine) fallsBack(w *workload, v *verdict) bool {
	if e.opt.FairSharing != nil {
		return e.losesWithRequest(w, v)
	}
	q := w.group.queue
	a := e.rank(v)
	if a.Level <= q.head.Level && q.head.Key == w.turn() {
		return false
	}
	q.head.Key, q.head.Level = w.turn(), max(a.Level, q.head.Level)
	e.heads.Fix(q)
	e.pin(q, v.plan, a)
	return e.heads.First() != q
}

// pin notes by which quota a head was ranked, so that unsettle can tell whether
// that still holds.
func (e *Engine) pin(q *queue, p *compiled, a *quota.Assignment) {
	q.counts = append(q.counts[:0], a.Uses...)
	q.firm = q.active.First().plan == p && p.single && a.Mode == quota.Fit && e.roomFor(q)
	root := q.node.Root()
	e.borrowers[root] = append(e.borrowers[root], q)
}

// rank assigns flavors by quota alone, to see how far a workload would have to
// borrow: which nodes are free changes the order of nobody. With one flavor for
// everything the assignment that was just judged says the same.
func (e *Engine) rank(v *verdict) *quota.Assignment {
	p := v.plan
	if p.single {
		return v.assigned
	}
	e.scene.blind = true
	e.forest.Assign(&p.Plan, nil, &e.scene, &e.ranked)
	e.scene.blind = false
	return &e.ranked
}

// unsettle resets the rank of heads where it could have become better by w
// getting its quota and nodes: a head that would have borrowed may take another
// flavor now, or evict, or have to leave its turn to the next of its queue.
func (e *Engine) unsettle(w *workload) {
	if e.opt.FairSharing != nil {
		e.unpin(w)
		return
	}
	root := w.Queue.Root()
	if len(w.Holds) == 0 {
		e.unsettleTree(root)
		return
	}
	for root := range e.borrowers { // trees are apart, so order does not matter
		e.unsettleTree(root)
	}
}

func (e *Engine) unsettleTree(root *quota.Node) {
	list := e.borrowers[root]
	kept := list[:0]
	for _, q := range list {
		switch {
		case q.slot == 0 || (q.head.Level == 0 && !q.exact && !q.byUsage):
		case q.firm && e.roomFor(q) && e.nodesFor(q):
			kept = append(kept, q)
		default:
			e.rehead(q)
		}
	}
	if e.borrowers[root] = kept; len(kept) == 0 {
		delete(e.borrowers, root)
	}
}

// nodesFor reports whether nodes surely hold the first of a queue still.
func (e *Engine) nodesFor(q *queue) bool {
	g := q.active.First()
	return g.plan != nil && len(g.equivalence.podSets) == 1 && len(g.plan.Requests) > 0 && !e.nodesShort(g)
}

// roomFor reports whether quota surely suffices for the first of a queue still.
func (e *Engine) roomFor(q *queue) bool {
	return !slices.ContainsFunc(q.counts, func(u quota.Use) bool { return e.leftFor(q, u) < 0 })
}

// leftFor is what a queue could use at least of a pair beyond a use, whatever
// others have reserved. An admission makes it smaller by no more than it uses itself.
func (e *Engine) leftFor(q *queue, u quota.Use) core.Amount {
	return min(q.node.Room(core.Current, u.Pair), q.node.Room(core.Projected, u.Pair)).Sub(u.Amount).Sub(e.reservableByHeads(q, u))
}
