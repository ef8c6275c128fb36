package cycle_test

import (
	"cmp"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
)

// TestFairAgainstReference is TestAgainstReference with fair sharing: weights,
// zero among them, strategies and rules at random.
func TestFairAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fair := core.DefaultFairSharing()
		fair.Strategies = pick(t, "strategies", fair.Strategies, fair.Strategies[:1], fair.Strategies[1:])
		fair.NonBorrowingFirst = pick(t, "non-borrowing first", true, true, false)
		fair.ReclaimNominal = pick(t, "reclaim nominal", true, true, false)
		newDuel(t, fair).play()
	})
}

// weight is a random one; none without fair sharing.
func (x *duel) weight() *core.Weight {
	if x.ref.fair == nil {
		return nil
	}
	return pick(x.t, "weight", nil, nil, new(core.WeightOne/2), new(2*core.WeightOne), new(core.Weight(0)))
}

// refShare is a dominant resource share.
type refShare struct {
	ratio    *big.Rat // borrowed of lendable, not weighted
	share    *big.Rat // weighted, if finite
	infinite bool
}

func (s refShare) zero() bool { return s.ratio.Sign() == 0 }

func (s refShare) compare(o refShare) int {
	switch {
	case s.infinite && o.infinite:
		return s.ratio.Cmp(o.ratio)
	case s.infinite:
		return 1
	case o.infinite:
		return -1
	}
	return s.share.Cmp(o.share)
}

// knownTo lists what quota there is in the tree of n.
func (r *reference) knownTo(n refNode) map[string][]fr {
	for p, ok := r.parent(n); ok; p, ok = r.parent(n) {
		n = p
	}
	set := map[fr]bool{}
	var walk func(n refNode)
	walk = func(n refNode) {
		groups := r.cohorts[n.name].Groups
		if n.queue {
			groups = r.queues[n.name].Groups
		}
		for _, g := range groups {
			for _, f := range g.Flavors {
				for _, q := range f.Quotas {
					set[fr{Flavor: f.Flavor, Resource: q.Resource}] = true
				}
			}
		}
		for _, c := range r.children(n) {
			walk(c)
		}
	}
	walk(n)
	out := map[string][]fr{}
	for x := range set {
		out[x.Resource] = append(out[x.Resource], x)
	}
	return out
}

// share is the share of docs/fair-sharing.md, "Shares".
func (r *reference) share(n refNode, g gone) refShare { return r.shareBy(core.Projected, n, g) }

func (r *reference) shareBy(l core.Account, n refNode, g gone) refShare {
	s := refShare{ratio: new(big.Rat), share: new(big.Rat)}
	p, ok := r.parent(n)
	if !ok {
		return s
	}
	for _, frs := range r.knownTo(n) {
		borrowed, lendable := core.Amount(0), core.Amount(0)
		for _, x := range frs {
			borrowed += max(0, r.usage(n, x, l, g)-r.subtree(n, x))
			lendable += r.limit(p, x)
		}
		if lendable <= 0 {
			continue
		}
		if ratio := big.NewRat(int64(borrowed), int64(lendable)); ratio.Cmp(s.ratio) > 0 {
			s.ratio = ratio
		}
	}
	w := r.cohorts[n.name].Weight
	if n.queue {
		w = r.queues[n.name].Weight
	}
	switch weight := core.WeightOr(w); {
	case s.zero():
	case weight == 0:
		s.infinite = true
	default:
		s.share = new(big.Rat).Quo(s.ratio, big.NewRat(int64(weight), int64(core.WeightOne)))
	}
	return s
}

// with computes something as if a queue used more.
func (r *reference) with(queue string, uses map[fr]core.Amount, do func()) {
	r.extraQueue, r.extra = queue, uses
	do()
	r.extraQueue, r.extra = "", nil
}

// tournament picks the next head: the winner of every tree, then the first of
// the winners (docs/fair-sharing.md, "Who goes first").
func (r *reference) tournament(heads map[string]*refWorkload) (best *refWorkload) {
	roots := map[refNode]bool{}
	for q := range heads {
		roots[r.root(q)] = true
	}
	for n := range roots {
		if w := r.winner(n, heads); best == nil || refOrder(w, best) < 0 {
			best = w
		}
	}
	return best
}

// winner is the best head below n.
func (r *reference) winner(n refNode, heads map[string]*refWorkload) (best *refWorkload) {
	if n.queue {
		return heads[n.name]
	}
	type standing struct {
		borrows bool
		share   refShare
	}
	var first standing
	for _, c := range r.children(n) {
		w := r.winner(c, heads)
		if w == nil {
			continue
		}
		var s standing
		r.with(w.queue, w.counts, func() {
			s.share = r.share(c, nil)
			for x, v := range w.counts {
				if r.fair.NonBorrowingFirst && v > 0 && r.usage(c, x, core.Projected, nil) > r.subtree(c, x) {
					s.borrows = true
				}
			}
		})
		less := best == nil
		if best != nil {
			by := s.share.compare(first.share)
			less = by < 0 || by == 0 && refOrder(w, best) < 0
			if s.borrows != first.borrows {
				less = first.borrows
			}
		}
		if less {
			best, first = w, s
		}
	}
	return best
}

// fairSearch is docs/fair-sharing.md, "Who is evicted", on copies.
type fairSearch struct {
	*reference
	w          *refWorkload
	me         refNode
	short      map[fr]bool
	g          gone
	candidates map[string][]*refWorkload // by queue, in order
	retry      map[string][]*refWorkload
	taken      []*refWorkload
}

func (r *reference) fairSearch(
	w *refWorkload,
	uses map[fr]core.Amount,
	short map[fr]bool,
	sets []refSet,
) (victims []*refWorkload) {
	s := &fairSearch{reference: r, w: w, me: refNode{w.queue, true}, short: short, g: gone{}}
	fits := func() bool {
		for x, v := range uses {
			if v > r.room(w.queue, x, core.Projected, s.g) {
				return false
			}
		}
		_, ok := r.place(sets, []core.Account{core.Projected}, s.g)
		return ok
	}
	fitsWithout := func() bool {
		queue, extra := r.extraQueue, r.extra
		r.extraQueue = ""
		defer func() { r.extraQueue, r.extra = queue, extra }()
		return fits()
	}
	found := false
	r.with(w.queue, uses, func() {
		s.collect()
		found = s.first(fitsWithout) || len(r.fair.Strategies) > 1 && s.second(fitsWithout)
	})
	if !found {
		return nil
	}
	for i := len(s.taken) - 2; i >= 0; i-- {
		delete(s.g, s.taken[i].Key)
		if fits() {
			s.taken[i] = s.taken[len(s.taken)-1]
			s.taken = s.taken[:len(s.taken)-1]
		} else {
			s.g[s.taken[i].Key] = true
		}
	}
	return s.taken
}

func (s *fairSearch) within(n refNode) bool {
	for x := range s.short {
		if s.subtree(n, x) < s.usage(n, x, s.ledger(n), s.g) {
			return false
		}
	}
	return true
}

// ledger is what counts of a node: of the own side everything, of others what was
// seen.
func (s *fairSearch) ledger(n refNode) core.Account {
	if s.onPath(n) {
		return core.Projected
	}
	return seenLedger
}

func (s *fairSearch) standing(n refNode) refShare { return s.shareBy(s.ledger(n), n, s.g) }

func (s *fairSearch) nominal() bool { return s.fair.ReclaimNominal && s.within(s.me) }

// collect lists candidates: of the own queue, and of all that borrow.
func (s *fairSearch) collect() {
	s.candidates, s.retry = map[string][]*refWorkload{}, map[string][]*refWorkload{}
	p := s.queues[s.w.queue].Preemption
	nominal := s.nominal()
	for _, c := range s.sorted() {
		if c.phase != refRunning || s.root(c.adm.Queue) != s.root(s.w.queue) {
			continue
		}
		q, own := c.adm.Queue, c.adm.Queue == s.w.queue
		policy := p.Reclaim
		if own {
			policy = p.WithinQueue
		}
		used := false
		for x, v := range c.uses() {
			used = used || s.short[x] && v > 0
		}
		switch {
		case !used, !allowsPolicy(policy), !s.permits(policy, s.w, c):
		case !own && s.within(refNode{q, true}):
		case s.w.spare[c.Key] && (own || !nominal):
		default:
			s.candidates[q] = append(s.candidates[q], c)
		}
	}
	for name, l := range s.candidates {
		s.candidates[name] = s.seen(s.w, l)
	}
}

func (s *fairSearch) onPath(n refNode) bool {
	for m, ok := s.me, true; ok; m, ok = s.parent(m) {
		if m == n {
			return true
		}
	}
	return false
}

// target goes down to the queue with the largest share that has candidates.
func (s *fairSearch) target(n refNode) (refNode, bool) {
	if n.queue {
		return n, len(s.candidates[n.name]) > 0
	}
	var best, found refNode
	some := false
	for _, c := range s.children(n) {
		share := s.standing(c)
		if share.zero() && !s.onPath(c) {
			continue
		}
		t, ok := s.target(c)
		if !ok {
			continue
		}
		better := !some
		if some {
			by := share.compare(s.standing(best))
			tie := cmp.Compare(c.name, best.name) < 0
			switch {
			case c.queue != best.queue:
				tie = !c.queue
			case c == s.me || best == s.me:
				tie = best == s.me
			case c.queue:
				tie = s.order.victimOrder(s.candidates[c.name][0], s.candidates[best.name][0]) < 0
			}
			better = by > 0 || by == 0 && tie
		}
		if better {
			best, found, some = c, t, true
		}
	}
	return found, some
}

func (s *fairSearch) pop(queue string) *refWorkload {
	c := s.candidates[queue][0]
	s.candidates[queue] = s.candidates[queue][1:]
	return c
}

func (s *fairSearch) take(c *refWorkload) {
	s.g[c.Key] = true
	s.taken = append(s.taken, c)
}

// sides are the children of the lowest common cohort.
func (s *fairSearch) sides(t refNode) (mine, theirs refNode) {
	theirs = t
	for {
		p, _ := s.parent(theirs)
		if s.onPath(p) {
			for mine = s.me; ; {
				up, _ := s.parent(mine)
				if up == p {
					return mine, theirs
				}
				mine = up
			}
		}
		theirs = p
	}
}

func (s *fairSearch) first(fits func() bool) bool {
	rule := s.fair.Strategies[0]
	for {
		t, ok := s.target(s.root(s.w.queue))
		switch {
		case !ok:
			return false
		case t == s.me, s.nominal():
			s.take(s.pop(t.name))
			if fits() {
				return true
			}
			continue
		}
		mine, theirs := s.sides(t)
		share, before := s.standing(mine), s.standing(theirs)
		for len(s.candidates[t.name]) > 0 {
			c := s.pop(t.name)
			s.g[c.Key] = true
			after := s.standing(theirs)
			delete(s.g, c.Key)
			passes := share.compare(after) <= 0
			if rule == core.LessThanInitialShare {
				passes = share.compare(before) < 0
			}
			if passes {
				s.take(c)
				break
			}
			s.retry[t.name] = append(s.retry[t.name], c)
		}
		if len(s.taken) > 0 && fits() {
			return true
		}
	}
}

func (s *fairSearch) second(fits func() bool) bool {
	s.candidates = s.retry
	for {
		t, ok := s.target(s.root(s.w.queue))
		if !ok {
			return false
		}
		mine, theirs := s.sides(t)
		if s.standing(mine).compare(s.standing(theirs)) < 0 {
			s.take(s.pop(t.name))
			if fits() {
				return true
			}
		}
		delete(s.candidates, t.name)
	}
}
