package cycle

import (
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// A judged head of the tournament keeps its standing while what it was judged by
// still holds: it is stable if it fits now with the only flavors it could take, so
// that room in its quota and on its nodes is all it needs. Looking at every stable
// head after every admission would cost as much as there are queues. Instead each
// tree keeps a slack: an admission takes no more room from others than it uses
// itself, so as long as the slack lasts none has to be looked at. What nodes are
// left is counted by kind of pod.

// assumeFits lets a head play with what it asks for although it was not judged, if
// it surely can be admitted: most heads lose, and need never be judged. It reports
// whether that is so.
func (sh *byShare) assumeFits(q *queue) bool {
	if q.slot == 0 || sh.unready > 0 {
		return false
	}
	p := q.active.First().plan
	if p == nil || !p.sure || !sh.judge.current(p) {
		return false
	}
	q.counts = append(q.counts[:0], p.fixed...)
	if !sh.judge.roomFor(q) || !sh.judge.nodesFor(q) {
		return false
	}
	q.stable = true
	sh.seed(q, q.first())
	return true
}

// settleHead notes a head that plays with what it asks for.
func (sh *byShare) settleHead(q *queue) {
	t := q.tournamentNode.tournament
	if !q.headSettled {
		q.headSettled = true
		t.pinned = append(t.pinned, q)
	}
	if !q.stable {
		t.loose = true
		return
	}
	sh.tighten(t, q)
	g := q.active.First()
	for i := range g.plan.Requests {
		if c := g.plan.classes[i][0]; c != nil {
			sh.wanted[c] = max(sh.wanted[c], g.equivalence.podSets[g.plan.Requests[i].Set].Count)
		}
	}
}

// tighten takes a stable head into account.
func (sh *byShare) tighten(t *tournament, q *queue) {
	for _, u := range q.counts {
		for len(t.slack) <= int(u.Pair) {
			t.slack = append(t.slack, core.Unlimited)
		}
		t.slack[u.Pair] = min(t.slack[u.Pair], sh.judge.leftFor(q, u))
	}
}

// given lets heads be judged again whose standing w may have changed by getting
// its quota and nodes.
func (sh *byShare) given(w *workload) {
	own := sh.byNode[w.Queue.ID].tournamentNode
	if own == nil {
		return
	}
	tight := len(w.Holds) > 0 && sh.nodesTight()
	if !spend(own.tournament.slack, w.Uses) || own.tournament.loose || tight {
		sh.review(own.tournament)
	}
	if len(w.Holds) == 0 {
		return
	}
	sh.loosened = sh.loosened[:0]
	for _, t := range sh.tournaments.Items() {
		if t != own.tournament && (t.loose || tight) {
			sh.loosened = append(sh.loosened, t)
		}
	}
	for _, t := range sh.loosened { // apart, because it moves trees
		sh.review(t)
	}
}

// spend takes uses off the slack; false if it does not suffice.
func spend(slack []core.Amount, uses []quota.Use) bool {
	ok := true
	for _, u := range uses {
		if int(u.Pair) < len(slack) {
			slack[u.Pair] = slack[u.Pair].Sub(u.Amount)
			ok = ok && slack[u.Pair] >= 0
		}
	}
	return ok
}

// nodesTight reports whether some kind of pod has fewer places left than some
// head counts on. What was counted on is then counted anew.
func (sh *byShare) nodesTight() bool {
	for c, n := range sh.wanted { // any will do, so order does not matter
		if !sh.nodes.Can(place.Set{Class: c, Count: n}, place.Free) {
			clear(sh.wanted)
			return true
		}
	}
	return false
}

// review looks at every judged head of a tree.
func (sh *byShare) review(t *tournament) {
	list := t.pinned
	t.pinned, t.loose = list[:0], false // whose head is settled again takes the place of one that was looked at
	for i := range t.slack {
		t.slack[i] = core.Unlimited
	}
	for _, q := range list {
		q.headSettled = false
		switch {
		case q.slot == 0 || !q.exact:
		case q.stable && sh.judge.roomFor(q) && sh.judge.nodesFor(q):
			sh.settleHead(q)
		default:
			sh.rehead(q)
		}
	}
}
