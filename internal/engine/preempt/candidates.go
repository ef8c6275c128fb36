package preempt

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// cursor walks the candidates of one queue in victim order.
type cursor struct {
	list  []*Candidate // reversed; the current candidate is the last
	queue *quota.Node
	// common is the lowest cohort above both this queue and the request's queue; nil if the two
	// are the same.
	common *quota.Node
	// advantage is Kueue's hierarchical advantage: below common, the side of the request owns
	// enough quota for the request, so that the request takes back quota which this side has lent.
	advantage bool
	policy    core.PreemptionPolicy
	// order is that of list, and in which its current candidate goes among those of other queues.
	order ordering
	// passed says that a candidate of this queue was skipped because it is Unseen.
	passed bool
}

func (c *cursor) current() *Candidate { return c.list[len(c.list)-1] }

// advance moves to the next candidate, false if there is none.
func (s *Searcher) advance(c *cursor) bool {
	c.list = c.list[:len(c.list)-1]
	return s.seek(c)
}

// seek moves to the first workload that may be evicted, false if there is none. It skips
// workloads that the policy spares, workloads that use none of the pairs that are short, and workloads whose
// minimum runtime has not ended.
//
// It also skips workloads that are Unseen: their admission is not confirmed by the API server, and
// an eviction could overtake it. Once it has skipped an Unseen workload of a queue, it takes from
// this queue only workloads of lower priority than the request. Otherwise the workloads behind
// would be evicted in place of the Unseen ones, more of them the more admissions are on their way.
func (s *Searcher) seek(c *cursor) bool {
	r := &s.req
	for ; len(c.list) > 0; c.list = c.list[:len(c.list)-1] {
		cand := c.current()
		if !reaches(c.policy, r.Priority, cand.Priority) && cand.Stands == nil {
			return false // all workloads behind it have at least this priority
		}
		if s.idle && !cand.Interrupted || s.only != nil && !s.only(cand) {
			continue
		}
		if !permits(c.policy, r, cand) || (!c.advantage && slices.Contains(r.Spare, cand.Key)) ||
			!uses(cand, r.Short) {
			continue
		}
		if cand.Until > r.Now {
			s.skipped = s.skipped.And(Skipped{Until: cand.Until})
			continue
		}
		if cand.Unseen {
			c.passed, s.skipped.Unseen = true, true
			continue
		}
		if !c.passed || cand.Priority < r.Priority {
			return true
		}
	}
	return false
}

// inTurn returns the running workloads of a queue, which are listed last victim first, in turn. In queues that order by
// past usage, workloads of LocalQueues that used more come nearer to the end; in other queues the
// list is in this order already.
func inTurn(l []*Candidate) []*Candidate {
	if len(l) == 0 || l[0].Stands == nil {
		return l
	}
	l = slices.Clone(l)
	slices.SortStableFunc(l, func(a, b *Candidate) int {
		if a.Stands == b.Stands || a.Stands == nil || b.Stands == nil {
			return 0
		}
		return a.Stands.Compare(*b.Stands)
	})
	return l
}

func uses(c *Candidate, pairs []quota.FlavorResource) bool {
	for _, u := range c.Uses {
		if u.Amount > 0 && slices.Contains(pairs, u.Pair) {
			return true
		}
	}
	return false
}

// collect finds the queues with candidates: the request's own queue, and for reclaiming the queues
// that use more than their quota, in ever larger subtrees around the request's queue.
func (s *Searcher) collect() {
	r := &s.req
	s.own, s.hierarchy, s.priority = s.own[:0], s.hierarchy[:0], s.priority[:0]
	if Allows(r.Policy.WithinQueue) {
		s.own = s.open(s.own, cursor{queue: r.Queue, policy: r.Policy.WithinQueue})
	}
	if r.Queue.Parent() == nil || !Allows(r.Policy.Reclaim) {
		return
	}
	s.rest = append(s.rest[:0], r.Uses...)
	advantage := r.Queue.Absorb(core.Projected, s.rest)
	visited := r.Queue
	for top := r.Queue.Parent(); top != nil; top = top.Parent() {
		list := &s.priority
		if advantage {
			list = &s.hierarchy
		}
		*list = s.below(*list, top, visited, cursor{common: top, advantage: advantage, policy: r.Policy.Reclaim})
		if top.Absorb(core.Projected, s.rest) {
			advantage = true
		}
		visited = top
	}
}

// below adds the queues under n that have candidates, without those under except and those of
// subtrees that use no more than their quota.
func (s *Searcher) below(list []cursor, n, except *quota.Node, proto cursor) []cursor {
	for _, child := range n.Children() {
		if child == except || child.WithinPromised(core.Projected, s.req.Short) {
			continue
		}
		if !child.Queue {
			list = s.below(list, child, except, proto)
			continue
		}
		proto.queue = child
		list = s.open(list, proto)
	}
	return list
}

func (s *Searcher) open(list []cursor, c cursor) []cursor {
	c.order = s.order
	c.list = inTurn(s.ordered(c.queue))
	if s.seek(&c) {
		list = append(list, c)
	}
	return list
}

// The merge heap: cursors by their current candidate.

func before(a, b *cursor) bool { return a.order.compare(a.current(), b.current()) < 0 }

func heapify(h []cursor) {
	for i := len(h)/2 - 1; i >= 0; i-- {
		down(h, i)
	}
}

func sink(h []cursor) { down(h, 0) }

func drop(h []cursor) []cursor {
	last := len(h) - 1
	h[0] = h[last]
	h = h[:last]
	if last > 0 {
		down(h, 0)
	}
	return h
}

func down(h []cursor, i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && before(&h[child+1], &h[child]) {
			child++
		}
		if !before(&h[child], &h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
