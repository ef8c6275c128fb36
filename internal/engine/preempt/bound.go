package preempt

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Bounds that say, at next to no cost, that a search would find no victim. Refused
// workloads are asked again with every change around them, and most of them can
// still evict none.

// Infeasible reports, at next to no cost, that no workload can be evicted that uses
// one of the pairs: none in the own queue is less important, and no other queue has
// borrowed any of them. If it is false there may be victims.
func (s *Searcher) Infeasible(
	q *quota.Node,
	p core.Preemption,
	priority int64,
	pairs []quota.FlavorResource,
) bool {
	if s.mayEvictOwn(q, p, priority) {
		return false
	}
	return !Allows(p.Reclaim) || !slices.ContainsFunc(pairs, q.OthersBorrow)
}

// mayEvictOwn reports whether a workload of the own queue is less important.
func (s *Searcher) mayEvictOwn(q *quota.Node, p core.Preemption, priority int64) bool {
	l := s.Running(q)
	if !Allows(p.WithinQueue) || len(l) == 0 {
		return false
	}
	return reaches(p.WithinQueue, priority, l[len(l)-1].Priority) // the first victim is the least important
}

// Toothless reports, at next to no cost, that without fair sharing a request for
// these uses or more can evict none: no workload of the own queue is less important,
// the request would borrow, which the policy forbids while evicting, and no part of
// the tree below its root owns enough to take it back for the queue.
func (s *Searcher) Toothless(q *quota.Node, p core.Preemption, priority int64, uses []quota.Use) bool {
	if s.Fair != nil || Allows(p.WhileBorrow) || s.mayEvictOwn(q, p, priority) {
		return false
	}
	if !slices.ContainsFunc(
		uses,
		func(u quota.Use) bool { return q.BorrowsWith(core.Projected, u.Pair, u.Amount) },
	) {
		return false
	}
	s.rest = append(s.rest[:0], uses...)
	for n := q; n.Parent() != nil; n = n.Parent() {
		if n.Absorb(core.Projected, s.rest) {
			return false
		}
	}
	return true
}

// weighed is the last answer of weigh about a queue, which is the same for all its
// workloads that ask for the same, until something changes in the tree.
type weighed struct {
	stamp uint64
	uses  []quota.Use
	lost  bool
}

// tied is the one of a cohort's children that has a certain share, and would keep it if
// one of its workloads were evicted.
type tied struct {
	cohort *quota.Node
	stamp  uint64
	share  quota.DominantResourceShare
	count  int
	first  *quota.Node
}

// Outweighed reports, at next to no cost, that with fair sharing a request for
// these uses or more can evict none: no workload of the own queue is less important,
// the request would borrow of everything it asks for, and on every level its own
// side would have a larger share than any other, or the same as some that would
// have less after any eviction.
func (s *Searcher) Outweighed(q *quota.Node, p core.Preemption, priority int64, uses []quota.Use) bool {
	if s.Fair == nil || s.mayEvictOwn(q, p, priority) {
		return false
	}
	for len(s.weighed) <= q.ID {
		s.weighed = append(s.weighed, weighed{})
	}
	w := &s.weighed[q.ID]
	if w.stamp != q.Stamp() || !slices.Equal(w.uses, uses) {
		*w = weighed{q.Stamp(), append(w.uses[:0], uses...), s.weigh(q, uses)}
	}
	return w.lost
}

func (s *Searcher) weigh(q *quota.Node, uses []quota.Use) bool {
	some := false
	for _, u := range uses {
		if u.Amount > 0 && s.Fair.ReclaimNominal && !q.BorrowsWith(core.Projected, u.Pair, u.Amount) {
			return false
		}
		some = some || u.Amount > 0
	}
	if !some {
		return false
	}
	s.rest = append(s.rest[:0], uses...)
	for n := q; n.Parent() != nil; n = n.Parent() {
		mine := n.ShareWith(core.Projected, s.rest)
		if by := mine.Compare(n.RivalShare()); by < 0 || (by == 0 && s.ties(n, mine)) {
			return false
		}
		n.Lift(core.Projected, s.rest)
	}
	return true
}

// ties reports whether some sibling of n has a share and might keep it after an
// eviction, which LessThanOrEqualToFinalShare would allow then.
func (s *Searcher) ties(n *quota.Node, share quota.DominantResourceShare) bool {
	t := &s.tied
	if t.cohort != n.Parent() || t.stamp != n.Stamp() || t.share.Compare(share) != 0 {
		*t = tied{cohort: n.Parent(), stamp: n.Stamp(), share: share}
		for _, c := range n.Parent().Children() {
			if c.Share(core.Projected).Compare(share) == 0 && s.keeps(c, share) {
				if t.count++; t.count == 1 {
					t.first = c
				}
			}
		}
	}
	return t.count > 1 || (t.count == 1 && t.first != n)
}

// keeps reports whether a node might keep a share, or have a larger one, after an
// eviction from it. Cohorts are not looked into.
func (s *Searcher) keeps(n *quota.Node, share quota.DominantResourceShare) bool {
	if !n.Queue {
		return true
	}
	var last []quota.Use
	for _, c := range s.Running(n) {
		if last != nil && slices.Equal(c.Uses, last) {
			continue // what uses the same leaves the same
		}
		last = c.Uses
		if s.shareWithout(core.Projected, n, c).Compare(share) >= 0 {
			return true
		}
	}
	return false
}
