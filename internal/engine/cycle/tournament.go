package cycle

import (
	"math"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/order"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// With fair sharing the heads of queues play a tournament (spec/kueue.md 2.4).
// In each cohort the best of its children goes on: whose side of the tree borrows
// nothing of what it asks for, then whose side would have the smaller share with
// it, then the order of workloads, then names. Trees take turns in the order of
// their winners, and queues without a cohort are trees of their own: upstream
// takes them as a map gives them.
//
// Only heads for which something can be done take part, and which flavors they
// take depends on who was admitted before. So the tournament is lazy: a head that
// was not judged yet plays as if it asked for nothing, which is the best that it
// or anybody behind it can be. When it wins it is judged, and plays again with
// what it asks for, or makes room for the next. The winner who was judged is the
// true one. After a change only the matches on the way up from it are played
// again.
//
// Most heads need not be judged to know how they stand: those that surely fit
// (assumeFits), who would lose to others all the same, and those that would be refused
// again (dismiss).

// node is a node of the quota tree in the tournament.
type tournamentNode struct {
	node       *quota.Node
	parent     *tournamentNode
	tournament *tournament
	// rivals are the children that have a winner, the best first.
	rivals order.Heap[*tournamentNode]
	// winner is who plays for the subtree, nil if nobody does; match is how it
	// stood among its siblings when it was last looked at.
	winner *queue
	match  match
	slot   int // in parent.rivals
}

// match is what siblings are compared by, best first.
type match struct {
	borrows bool
	share   quota.DominantResourceShare
	key     order.Key
	name    string
}

// Before orders siblings.
func (b *tournamentNode) Before(o *tournamentNode) bool {
	m, n := &b.match, &o.match
	if m.borrows != n.borrows {
		return n.borrows
	}
	if by := m.share.Compare(n.share); by != 0 {
		return by < 0
	}
	if by := m.key.Compare(n.key); by != 0 {
		return by < 0
	}
	return m.name < n.name
}

// Slot is the position among the siblings.
func (b *tournamentNode) Slot() *int { return &b.slot }

// tournament is the tournament of one tree.
type tournament struct {
	root *tournamentNode
	// queues are the heads of the tree in their order: the first is a bound for
	// the winner. winner is who won, judged; nil if it has to be found.
	queues order.Heap[*queue]
	winner *queue
	// stale are queues whose head or usage changed since the last match.
	stale []*queue
	// pinned are the queues whose heads were judged, if they still are. slack bounds
	// from below what is left for any firm one of them beyond its need; loose says
	// that some are not firm.
	pinned []*queue
	slack  []core.Amount // by pair
	loose  bool
	slot   int // in engine.tournaments
}

// Before orders trees by their winners.
func (t *tournament) Before(o *tournament) bool { return t.lead().Before(o.lead()) }

// Slot is the position among the trees.
func (t *tournament) Slot() *int { return &t.slot }

func (t *tournament) lead() *queue {
	if t.winner != nil {
		return t.winner
	}
	return t.queues.First()
}

// draw makes a new tournament for the trees as they are now, without heads.
func (e *Engine) draw() {
	if e.opt.FairSharing == nil {
		return
	}
	e.tournaments = order.Heap[*tournament]{}
	clear(e.wanted)
	nodes := map[*quota.Node]*tournamentNode{}
	for _, q := range e.sortedQueues() {
		q.slot, q.exact, q.stale, q.headSettled, q.tournamentNode = 0, false, false, false, nil
		var below *tournamentNode
		for n := q.node; n != nil; n = n.Parent() {
			b, known := nodes[n]
			if !known {
				b = &tournamentNode{node: n}
				nodes[n] = b
			}
			if below != nil {
				below.parent = b
			} else {
				q.tournamentNode = b
			}
			if n.Parent() == nil && b.tournament == nil {
				b.tournament = &tournament{root: b}
			}
			below = b
		}
	}
	for _, b := range nodes { // each alone, so order does not matter
		b.tournament = nodes[b.node.Root()].tournament
	}
}

// enlist puts a queue among the heads, or back in its place there.
func (e *Engine) enlist(q *queue) {
	switch {
	case e.opt.FairSharing == nil && q.slot > 0:
		e.heads.Fix(q)
		return
	case e.opt.FairSharing == nil:
		e.heads.Push(q)
		return
	case q.tournamentNode == nil:
		return // it is not in the tree yet; settle looks at every queue
	}
	t := q.tournamentNode.tournament
	if q.slot > 0 {
		t.queues.Fix(q)
	} else {
		t.queues.Push(q)
	}
	if t.slot == 0 {
		t.winner = nil
		e.tournaments.Push(t)
	}
	e.outdate(q)
}

// strike takes a queue off the heads.
func (e *Engine) strike(q *queue) {
	switch {
	case q.tournamentNode == nil:
		e.heads.Remove(q)
	case q.slot > 0:
		t := q.tournamentNode.tournament
		if t.queues.Len() == 1 {
			e.tournaments.Remove(t)
		}
		t.queues.Remove(q)
		e.outdate(q)
	}
}

// outdate notes that matches of a queue have to be played again.
func (e *Engine) outdate(q *queue) {
	t := q.tournamentNode.tournament
	if !q.stale {
		q.stale = true
		t.stale = append(t.stale, q)
	}
	t.winner = nil
	if t.slot > 0 {
		e.tournaments.Fix(t)
	}
}

// rejudge forgets what was found out about heads that the last Decide left over:
// the world has changed since, and a loaded engine knows nothing of it either.
func (e *Engine) rejudge() {
	if e.opt.FairSharing == nil {
		return
	}
	for _, q := range e.ready() {
		e.rehead(q)
	}
}

// ready returns all heads in no particular order, until the next call.
func (e *Engine) ready() []*queue {
	e.standing = append(e.standing[:0], e.heads.Items()...)
	for _, t := range e.tournaments.Items() {
		e.standing = append(e.standing, t.queues.Items()...)
	}
	return e.standing
}

// turn returns the queue whose first workload is next; nil if there is none.
func (e *Engine) turn() *queue {
	if e.opt.FairSharing == nil {
		if e.heads.Len() == 0 {
			return nil
		}
		return e.heads.First()
	}
	e.forest.Changed(func(n *quota.Node) {
		if q := e.byNode[n.ID]; q.tournamentNode != nil {
			e.outdate(q)
		}
	})
	for e.tournaments.Len() > 0 {
		t := e.tournaments.First()
		if t.winner != nil {
			return t.winner
		}
		e.catchUp(t)
		if t.slot == 0 || e.tournaments.First() != t {
			continue // its best are out
		}
		champion := t.root.winner
		if !champion.exact {
			return champion // to be judged
		}
		t.winner = champion
		e.tournaments.Fix(t)
	}
	return nil
}

// catchUp plays the matches of all queues that changed.
func (e *Engine) catchUp(t *tournament) {
	for _, q := range t.stale { // while it is marked stale, nothing puts it on the list again
		if !q.exact && !e.assumeFits(q) && e.dismiss(q) {
			e.assumeFits(q)
		}
		q.stale = false
		e.replay(q)
	}
	t.stale = t.stale[:0]
}

// replay plays the matches on the way up from a queue.
func (e *Engine) replay(q *queue) {
	b := q.tournamentNode
	b.winner = nil
	if q.slot > 0 {
		b.winner = q
	}
	for ; b.parent != nil; b = b.parent {
		up := b.parent
		switch {
		case b.winner == nil:
			up.rivals.Remove(b)
		case b.slot == 0:
			b.match = e.matchOf(b)
			up.rivals.Push(b)
		default:
			b.match = e.matchOf(b)
			up.rivals.Fix(b)
		}
		up.winner = nil
		if up.rivals.Len() > 0 {
			up.winner = up.rivals.First().winner
		}
	}
}

// matchOf is how the winner of a subtree stands among its siblings.
func (e *Engine) matchOf(b *tournamentNode) match {
	c := b.winner
	m := match{key: c.head.Key, name: c.name}
	if !c.exact {
		m.share = b.node.Share(core.Projected)
		if c.tournamentNode != b {
			// Somebody below with a larger share may be earlier: take the foremost key.
			m.key = order.Key{Priority: math.MaxInt64, Time: math.MinInt64}
		}
		return m
	}
	e.lifted = append(e.lifted[:0], c.counts...)
	for n := c.node; n != b.node; n = n.Parent() {
		n.Lift(core.Projected, e.lifted)
	}
	m.borrows = e.opt.FairSharing.NonBorrowingFirst && b.node.BorrowsOn(core.Projected, c.counts, e.lifted)
	m.share = b.node.ShareWith(core.Projected, e.lifted)
	return m
}

// losesWithRequest lets the judged head of a queue play with what it asks for. It
// reports whether somebody else is next now.
func (e *Engine) losesWithRequest(w *workload, v *verdict) bool {
	q := w.group.queue
	if q.exact {
		return false
	}
	a := e.rank(v)
	q.counts = append(q.counts[:0], a.Uses...)
	q.firm = q.active.First().plan == v.plan && v.plan.single && a.Mode == quota.Fit && e.roomFor(q) && e.nodesFor(q)
	e.seed(q, w)
	e.outdate(q)
	return e.turn() != q
}

// seed lets the first of a queue play with what it asks for, queue.counts.
func (e *Engine) seed(q *queue, w *workload) {
	if q.exact = true; q.head.Key != w.turn() { // in a queue that goes by past usage it was the best there could be
		q.head.Key = w.turn()
		t := q.tournamentNode.tournament
		t.queues.Fix(q)
		e.tournaments.Fix(t)
	}
	e.settleHead(q)
}
