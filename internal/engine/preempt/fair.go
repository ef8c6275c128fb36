package preempt

import (
	"cmp"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Fair sharing chooses victims by shares: the request is
// booked first, and then the queue with the largest share gives, as long as a
// strategy allows it. Where Kueue leaves the order open, cohorts of equal
// share go by name.
//
// What ends: a victim spares its beneficiary and all that this one spares, as in
// classical preemption, unless the request stays within quota that its own queue
// owns. So no circle of evictions goes round twice.

// contender is a node of the tree that victims may come from.
type contender struct {
	node   *quota.Node
	parent *contender
	// path says that it is the request's queue or a cohort above it.
	path  bool
	share quota.DominantResourceShare
	// cursor walks a queue's candidates; retry is the first that the first
	// strategy spared.
	cursor cursor
	retry  *Candidate
	// children that have candidates, as a heap, the largest share first.
	children []*contender
	slot     int // in the parent's heap, plus one
}

// fairSearch is the scratch of a search.
type fairSearch struct {
	pool []*contender
	used int
	root *contender
	// opened are the candidates of each queue, before any was taken.
	opened []cursor
	// nominal says that the request stays within the quota of its own queue.
	nominal bool
	// ledger is what shares of others are counted by: Seen, or Projected where that is the
	// same. What they were promised, or given just now, cannot be taken from them yet,
	// and is no reason to take something else. What may evict is looked at again
	// when it was seen.
	ledger core.Account
	// missing is what the request lacks of each of its uses, less what was taken
	// from others: before that is had, it cannot fit.
	missing []quota.Use
}

func (f *fairSearch) contender(n *quota.Node, parent *contender) *contender {
	if f.used == len(f.pool) {
		f.pool = append(f.pool, &contender{})
	}
	c := f.pool[f.used]
	f.used++
	*c = contender{node: n, parent: parent, children: c.children[:0]}
	return c
}

// findFair searches victims, and where the request's pods must share a domain of nodes, those of one that cost less.
func (s *Searcher) findFair() []Victim {
	search := func() bool { return s.leastLost(s.searchFair, func() bool { return true }) }
	fits := search()
	s.trial.Restore()
	if !s.byPlace([][]cursor{slices.Clone(s.fair.opened)}, fits, search) {
		return nil
	}
	return s.picked
}

// searchFair takes candidates by shares, with the request's usage booked on its queue, until it fits, and gives back
// those that need not go.
func (s *Searcher) searchFair() bool {
	s.picked = s.picked[:0]
	r := &s.req
	s.fair.missing = s.fair.missing[:0]
	for _, u := range r.Uses {
		s.fair.missing = append(
			s.fair.missing,
			quota.Use{Pair: u.Pair, Amount: u.Amount.Sub(r.Queue.Room(core.Projected, u.Pair))},
		)
	}
	s.trial.Ask(r.Queue, r.Uses)
	found := s.byShares()
	s.trial.Unask()
	if found {
		s.giveBack(allowed)
	}
	return found
}

// byShares takes candidates until the request fits.
func (s *Searcher) byShares() bool {
	if !s.openQueues() {
		return false
	}
	if s.firstStrategy(s.Fair.Strategies[0]) {
		return true
	}
	return len(s.Fair.Strategies) > 1 && s.secondStrategy()
}

// openQueues opens the queues with candidates; false if there are none.
func (s *Searcher) openQueues() bool {
	f := &s.fair
	f.ledger = core.Projected
	if s.Ledger.Unsettled() > 0 {
		f.ledger = quota.Seen
	}
	f.used, f.opened = 0, f.opened[:0]
	f.nominal = s.Fair.ReclaimNominal && s.req.Queue.WithinNominal(core.Projected, s.req.Short)
	f.root = f.contender(s.req.Queue.Root(), nil)
	return s.gather(f.root)
}

// gather opens the queues with candidates below c; false if there are none.
func (s *Searcher) gather(c *contender) bool {
	r := &s.req
	c.path = covers(c.node, r.Queue)
	if c.parent != nil && !c.path {
		c.share = c.node.Share(s.fair.ledger)
		if c.share.Zero() {
			return false
		}
	}
	if c.node.Queue {
		c.cursor = cursor{queue: c.node, policy: r.Policy.WithinQueue}
		if !c.path {
			if c.node.WithinPromised(s.fair.ledger, r.Short) {
				return false
			}
			c.cursor.common = c.node.Root()
			c.cursor.policy, c.cursor.advantage = r.Policy.Reclaim, s.fair.nominal
		}
		if !Allows(c.cursor.policy) {
			return false
		}
		c.cursor.order = s.order
		c.cursor.list = inTurn(s.ordered(c.node))
		if !s.seek(&c.cursor) {
			return false
		}
		s.fair.opened = append(s.fair.opened, c.cursor)
		return true
	}
	for _, n := range c.node.Children() {
		mark := s.fair.used
		child := s.fair.contender(n, c)
		if !s.gather(child) {
			s.fair.used = mark // nothing below is kept either
			continue
		}
		if child.path {
			child.share = n.Share(core.Projected)
		}
		c.children = append(c.children, child)
		child.slot = len(c.children)
	}
	for i := len(c.children)/2 - 1; i >= 0; i-- {
		sinkContender(c.children, i)
	}
	return len(c.children) > 0
}

// covers reports whether n is q or above it.
func covers(n, q *quota.Node) bool {
	for ; q != nil; q = q.Parent() {
		if q == n {
			return true
		}
	}
	return false
}

// target is the queue that gives next: down from the root the largest share; nil
// if none is left.
func (f *fairSearch) target() *contender {
	c := f.root
	for !c.node.Queue {
		if len(c.children) == 0 {
			return nil
		}
		c = c.children[0]
	}
	if len(c.cursor.list) == 0 {
		return nil
	}
	return c
}

// firstStrategy takes one candidate after the other from the queue with the
// largest share at that moment.
func (s *Searcher) firstStrategy(rule core.FairStrategy) bool {
	for t := s.fair.target(); t != nil; t = s.fair.target() {
		var took bool
		switch {
		case t.path:
			took = s.pick(t, core.InClusterQueue)
		case s.Fair.ReclaimNominal && s.req.Queue.WithinNominal(core.Projected, s.req.Short):
			took = s.pick(t, core.InCohortReclamation)
		default:
			took = s.pickByShare(t, rule)
		}
		if took && s.fitsBooked() {
			return true
		}
		s.refresh(t)
	}
	return false
}

// pick takes the queue's current candidate.
func (s *Searcher) pick(t *contender, why core.EvictReason) bool {
	c := t.cursor.current()
	s.pickOne(c, why)
	s.pass(t)
	return true
}

func (s *Searcher) pickOne(c *Candidate, why core.EvictReason) {
	s.trial.Without(&c.Allocation)
	s.picked = append(s.picked, Victim{c, why})
	for i := range s.fair.missing {
		m := &s.fair.missing[i]
		for _, u := range c.Uses {
			if u.Pair == m.Pair {
				m.Amount = m.Amount.Sub(u.Amount)
			}
		}
	}
}

// pass moves a queue to its next candidate.
func (s *Searcher) pass(t *contender) {
	if !s.advance(&t.cursor) {
		t.cursor.list = nil
	}
}

// pickByShare takes the queue's first candidate that the rule allows and passes
// over those before.
func (s *Searcher) pickByShare(t *contender, rule core.FairStrategy) bool {
	mine, theirs := s.sides(t)
	share, before := mine.Share(core.Projected), theirs.Share(s.fair.ledger)
	if by := share.Compare(before); by > 0 || (by == 0 && rule == core.LessThanInitialShare) {
		if t.retry == nil {
			t.retry = t.cursor.current()
		}
		t.cursor.list = nil // no rule lets a larger share evict from a smaller one
		return false
	}
	var failed []quota.Use
	for len(t.cursor.list) > 0 {
		c := t.cursor.current()
		if rule == core.LessThanInitialShare {
			return s.pick(t, core.InCohortFairSharing)
		}
		if !slices.Equal(c.Uses, failed) { // what uses the same leaves the same
			if share.Compare(s.shareWithout(s.fair.ledger, theirs, c)) <= 0 {
				return s.pick(t, core.InCohortFairSharing)
			}
			failed = c.Uses
		}
		if t.retry == nil {
			t.retry = c
		}
		s.pass(t)
	}
	return false
}

// shareWithout is a node's share if a candidate of its subtree were gone.
func (s *Searcher) shareWithout(l core.Account, n *quota.Node, c *Candidate) quota.DominantResourceShare {
	if n == c.Queue { // nothing below it keeps any of what is given up
		s.less = s.less[:0]
		for _, u := range c.Uses {
			s.less = append(s.less, quota.Use{Pair: u.Pair, Amount: -u.Amount})
		}
		return n.ShareWith(l, s.less)
	}
	return s.trial.ShareWithout(l, n, &c.Allocation)
}

// secondStrategy gives each queue that was spared one more look, with
// LessThanInitialShare: its first candidate goes, or none.
func (s *Searcher) secondStrategy() bool {
	f := &s.fair
	for _, c := range f.pool[:f.used] {
		c.children, c.slot = c.children[:0], 0
	}
	for _, c := range f.pool[:f.used] {
		if c.node.Queue && c.retry != nil {
			c.cursor.list = append([]*Candidate(nil), c.retry)
			s.refresh(c)
		}
	}
	for t := f.target(); t != nil; t = f.target() {
		mine, theirs := s.sides(t)
		c := t.cursor.current()
		t.cursor.list = nil
		if mine.Share(core.Projected).Compare(theirs.Share(s.fair.ledger)) < 0 {
			s.pickOne(c, core.InCohortFairSharing)
			if s.fitsBooked() {
				return true
			}
		}
		s.refresh(t)
	}
	return false
}

// sides are the children of the lowest cohort above both queues, on the
// request's side and on the target's.
func (s *Searcher) sides(t *contender) (mine, theirs *quota.Node) {
	for !t.parent.path {
		t = t.parent
	}
	mine = s.req.Queue
	for mine.Parent() != t.parent.node {
		mine = mine.Parent()
	}
	return mine, t.node
}

// fitsBooked is fits with the request's own usage taken off for the question.
func (s *Searcher) fitsBooked() bool {
	r := &s.req
	for _, u := range s.fair.missing {
		if u.Amount > 0 {
			return false
		}
	}
	s.trial.Unask()
	ok := s.fits(allowed)
	s.trial.Ask(r.Queue, r.Uses)
	return ok
}

// cutOnly reports whether a queue uses more than its quota of what is short only because that is cut for now.
func (s *Searcher) cutOnly(n *quota.Node) bool {
	cut := func(p quota.FlavorResource) bool { return n.Cut(p) > 0 }
	return slices.ContainsFunc(s.req.Short, cut) && n.WithinPromised(s.fair.ledger, s.req.Short)
}

// refresh brings a queue and all above it to their place after candidates or
// usage changed. A queue without candidates, or one that borrows nothing and is not
// on the request's path, is out: shares only fall. One whose share fell, or that is
// out, was the first of its heap, because it was its turn: in a heap it can only sink.
func (s *Searcher) refresh(t *contender) {
	for c := t; c.parent != nil; c = c.parent {
		left := len(c.children) > 0
		if c.node.Queue {
			left = len(c.cursor.list) > 0 && (c.path || !s.cutOnly(c.node))
		}
		switch {
		case left && c.path:
			c.share = c.node.Share(core.Projected)
		case left:
			c.share = c.node.Share(s.fair.ledger)
		}
		h := &c.parent.children
		switch {
		case !left, c.share.Zero() && !c.path:
			removeContender(h, c)
		case c.slot == 0:
			*h = append(*h, c)
			c.slot = len(*h)
			liftContender(*h, c.slot-1)
		default:
			sinkContender(*h, c.slot-1)
		}
	}
}

// ahead reports whether a gives before b.
func (c *contender) ahead(o *contender) bool {
	if by := c.share.Compare(o.share); by != 0 {
		return by > 0
	}
	switch {
	case c.node.Queue != o.node.Queue:
		return !c.node.Queue
	case c.node.Queue && c.path != o.path:
		return o.path // others before the own queue, as everywhere among candidates
	case c.node.Queue:
		return c.cursor.order.compare(c.cursor.current(), o.cursor.current()) < 0
	}
	return cmp.Less(c.node.Name, o.node.Name)
}

func removeContender(h *[]*contender, c *contender) {
	i := c.slot - 1
	if i < 0 {
		return
	}
	last := len(*h) - 1
	swapContenders(*h, i, last)
	*h = (*h)[:last]
	c.slot = 0
	if i < last {
		sinkContender(*h, i)
	}
}

func liftContender(h []*contender, i int) {
	for i > 0 && h[i].ahead(h[(i-1)/2]) {
		swapContenders(h, i, (i-1)/2)
		i = (i - 1) / 2
	}
}

// sinkContender goes down to a leaf along the first of each two children, and then
// up to where the contender belongs: one that has just given is seldom next again, and so
// each level costs one comparison instead of two.
func sinkContender(h []*contender, top int) {
	c, i := h[top], top
	for child := 2*i + 1; child < len(h); child = 2*i + 1 {
		if child+1 < len(h) && h[child+1].ahead(h[child]) {
			child++
		}
		h[i] = h[child]
		h[i].slot = i + 1
		i = child
	}
	for i > top && c.ahead(h[(i-1)/2]) {
		h[i] = h[(i-1)/2]
		h[i].slot = i + 1
		i = (i - 1) / 2
	}
	h[i] = c
	c.slot = i + 1
}

func swapContenders(h []*contender, i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i+1, j+1
}
