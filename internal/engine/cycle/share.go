package cycle

import (
	"math"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/order"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// With fair sharing the heads of queues play a tournament (docs/fair-sharing.md, "Who
// goes first"; Kueue's KEP 1714).
// In each cohort the best of its children goes on: whose side of the tree borrows
// nothing of what it asks for, then whose side would have the smaller share with
// it, then the order of workloads, then names. Trees take turns in the order of
// their winners, and queues without a cohort are trees of their own: upstream
// takes them as a map gives them.
//
// Only heads for which something can be done take part, and which flavors they
// take depends on what was admitted before. So the tournament is lazy: a head that
// was not judged yet plays as if it asked for nothing, which is the best that it
// or any behind it can be. When it wins it is judged, and plays again with
// what it asks for, or makes room for the next. A winner that was judged is the
// true one. After a change only the matches on the way up from it are played
// again.
//
// Most heads need not be judged to know how they stand: not a head that surely fits (assumeFits),
// that would lose to others all the same, or that would be refused again (parkIdle).

// tournamentNode is a node of the quota tree in the tournament.
type tournamentNode struct {
	node       *quota.Node
	parent     *tournamentNode
	tournament *tournament
	// rivals are the children that have a winner, the best first.
	rivals order.Heap[*tournamentNode]
	// winner is the head that plays for the subtree, nil if none does; match is how it
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
	// the winner. winner is the one that won, judged; nil if it has to be found.
	queues order.Heap[*queue]
	winner *queue
	// stale are queues whose head or usage changed since the last match.
	stale []*queue
	// pinned are the queues whose heads were judged, if they still are. slack bounds
	// from below what is left for any stable one of them beyond its need; loose says
	// that some are not stable.
	pinned []*queue
	slack  []core.Amount // by pair
	loose  bool
	slot   int // in byShare.tournaments
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

// renew makes a new tournament for the trees as they are now, without heads.
func (sh *byShare) renew() {
	sh.tournaments = order.Heap[*tournament]{}
	clear(sh.wanted)
	nodes := map[*quota.Node]*tournamentNode{}
	for _, q := range sh.sortedQueues() {
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

// outdate notes that matches of a queue have to be played again.
func (sh *byShare) outdate(q *queue) {
	t := q.tournamentNode.tournament
	if !q.stale {
		q.stale = true
		t.stale = append(t.stale, q)
	}
	t.winner = nil
	if t.slot > 0 {
		sh.tournaments.Fix(t)
	}
}

// catchUp plays the matches of all queues that changed.
func (sh *byShare) catchUp(t *tournament) {
	for _, q := range t.stale { // while it is marked stale, nothing puts it on the list again
		if !q.exact && !sh.assumeFits(q) && sh.parkIdle(q) {
			sh.assumeFits(q)
		}
		q.stale = false
		sh.replay(q)
	}
	t.stale = t.stale[:0]
}

// replay plays the matches on the way up from a queue.
func (sh *byShare) replay(q *queue) {
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
			b.match = sh.matchOf(b)
			up.rivals.Push(b)
		default:
			b.match = sh.matchOf(b)
			up.rivals.Fix(b)
		}
		up.winner = nil
		if up.rivals.Len() > 0 {
			up.winner = up.rivals.First().winner
		}
	}
}

// matchOf is how the winner of a subtree stands among its siblings.
func (sh *byShare) matchOf(b *tournamentNode) match {
	c := b.winner
	m := match{key: c.head.Key, name: c.name}
	if !c.exact {
		m.share = b.node.Share(core.Projected)
		if c.tournamentNode != b {
			// One below with a larger share may be earlier: take the foremost key.
			m.key = order.Key{Priority: math.MaxInt64, Time: math.MinInt64}
		}
		return m
	}
	sh.lifted = append(sh.lifted[:0], c.counts...)
	for n := c.node; n != b.node; n = n.Parent() {
		n.Lift(core.Projected, sh.lifted)
	}
	m.borrows = sh.opt.FairSharing.NonBorrowingFirst && b.node.BorrowsOn(core.Projected, c.counts, sh.lifted)
	m.share = b.node.ShareWith(core.Projected, sh.lifted)
	return m
}

// seed lets the first of a queue play with what it asks for, queue.counts.
func (sh *byShare) seed(q *queue, w *workload) {
	if q.exact = true; q.head.Key != w.turn() { // in a queue that goes by past usage it was the best there could be
		q.head.Key = w.turn()
		t := q.tournamentNode.tournament
		t.queues.Fix(q)
		sh.tournaments.Fix(t)
	}
	sh.settleHead(q)
}

// fallsBack lets the judged head of a queue play with what it asks for.
func (sh *byShare) fallsBack(w *workload, v *verdict) bool {
	q := w.group.queue
	if q.exact {
		return false
	}
	a := sh.judge.rank(v)
	q.counts = append(q.counts[:0], a.Uses...)
	q.stable = q.active.First().plan == v.plan && v.plan.single && a.Mode == quota.Fit && sh.judge.roomFor(q) &&
		sh.judge.nodesFor(q)
	sh.seed(q, w)
	sh.outdate(q)
	return sh.next() != q
}

func (sh *byShare) rehead(q *queue) {
	switch {
	case q.hasHead():
		q.standBest()
		sh.enlist(q)
	case q.tournamentNode != nil && q.slot > 0:
		t := q.tournamentNode.tournament
		if t.queues.Len() == 1 {
			sh.tournaments.Remove(t)
		}
		t.queues.Remove(q)
		sh.outdate(q)
	}
}

// enlist puts a queue among the heads, or back in its place there.
func (sh *byShare) enlist(q *queue) {
	if q.tournamentNode == nil {
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
		sh.tournaments.Push(t)
	}
	sh.outdate(q)
}

// resume forgets what was found out about heads that the last Decide left over:
// the world has changed since, and a loaded engine knows nothing of it either.
func (sh *byShare) resume() { reheadAll(sh) }

func (sh *byShare) ready() []*queue {
	sh.readyQueues = sh.readyQueues[:0]
	for _, t := range sh.tournaments.Items() {
		sh.readyQueues = append(sh.readyQueues, t.queues.Items()...)
	}
	return sh.readyQueues
}

func (sh *byShare) next() *queue {
	sh.forest.Changed(func(n *quota.Node) {
		if q := sh.byNode[n.ID]; q.tournamentNode != nil {
			sh.outdate(q)
		}
	})
	for sh.tournaments.Len() > 0 {
		t := sh.tournaments.First()
		if t.winner != nil {
			return t.winner
		}
		sh.catchUp(t)
		if t.slot == 0 || sh.tournaments.First() != t {
			continue // its best are out
		}
		winner := t.root.winner
		if !winner.exact {
			return winner // to be judged
		}
		t.winner = winner
		sh.tournaments.Fix(t)
	}
	return nil
}

// dump has nothing to say of a queue's head: every Decide works out the shares of heads afresh.
func (sh *byShare) dump(*queue) *HeadState { return &HeadState{} }

func (sh *byShare) load(q *queue, _ *HeadState) { sh.rehead(q) }
