package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

func (l *byLevel) renew() { clear(l.borrowers) }

func (l *byLevel) resume() {} // what was found out about heads is dumped, and holds

func (l *byLevel) rehead(q *queue) {
	if !q.hasHead() {
		l.heads.Remove(q)
		return
	}
	q.standBest()
	l.enlist(q)
}

// enlist puts a queue among the heads, or back in its place there.
func (l *byLevel) enlist(q *queue) {
	if q.slot > 0 {
		l.heads.Fix(q)
	} else {
		l.heads.Push(q)
	}
}

func (l *byLevel) next() *queue {
	if l.heads.Len() == 0 {
		return nil
	}
	return l.heads.First()
}

func (l *byLevel) ready() []*queue {
	l.readyQueues = append(l.readyQueues[:0], l.heads.Items()...)
	return l.readyQueues
}

func (l *byLevel) fallsBack(w *workload, v *verdict) bool {
	q := w.group.queue
	a := l.judge.rank(v)
	if a.Level <= q.head.Level && q.head.Key == w.turn() {
		return false
	}
	q.head.Key, q.head.Level = w.turn(), max(a.Level, q.head.Level)
	l.heads.Fix(q)
	l.pin(q, v.plan, a)
	return l.heads.First() != q
}

// pin notes by which quota a head was ranked, so that given can tell whether that
// still holds.
func (l *byLevel) pin(q *queue, p *compiled, a *quota.Assignment) {
	q.counts = append(q.counts[:0], a.Uses...)
	q.stable = q.active.First().plan == p && p.single && a.Mode == quota.Fit && l.judge.roomFor(q)
	root := q.node.Root()
	l.borrowers[root] = append(l.borrowers[root], q)
}

// given resets the rank of heads where it could have become better by w getting its
// quota and nodes: a head that would have borrowed may take another flavor now, or
// evict, or have to leave its turn to the next of its queue.
func (l *byLevel) given(w *workload) {
	root := w.Queue.Root()
	if len(w.Holds) == 0 {
		l.review(root)
		return
	}
	for root := range l.borrowers { // trees are apart, so order does not matter
		l.review(root)
	}
}

// review looks at the heads of a tree that would borrow.
func (l *byLevel) review(root *quota.Node) {
	list := l.borrowers[root]
	kept := list[:0]
	for _, q := range list {
		switch {
		case q.slot == 0 || (q.head.Level == 0 && !q.byUsage):
		case q.stable && l.judge.roomFor(q) && l.judge.nodesFor(q):
			kept = append(kept, q)
		default:
			l.rehead(q)
		}
	}
	if l.borrowers[root] = kept; len(kept) == 0 {
		delete(l.borrowers, root)
	}
}

func (l *byLevel) dump(q *queue) *HeadState {
	s := &HeadState{Level: q.head.Level, Ranked: q.head.Key == q.first().turn()}
	// A head that goes by its own place without borrowing, or by the best that could be
	// behind it, is listed at most since an earlier turn, and that is not looked at.
	if s.Level == 0 && (!q.byUsage || !s.Ranked) {
		return s
	}
	if s.Pinned = slices.Contains(l.borrowers[q.node.Root()], q); s.Pinned {
		s.Firm, s.Counts = q.stable, l.dumpUses(q.counts)
	}
	return s
}

func (l *byLevel) load(q *queue, s *HeadState) {
	l.rehead(q)
	if s.Ranked {
		q.head.Key = q.first().turn()
	}
	q.head.Level = s.Level
	l.enlist(q)
	if s.Pinned {
		q.counts, q.stable = l.loadUses(s.Counts), s.Firm
		root := q.node.Root()
		l.borrowers[root] = append(l.borrowers[root], q)
	}
}
