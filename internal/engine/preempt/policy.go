package preempt

import (
	"cmp"

	"github.com/mlbatch/mlbatch/internal/core"
)

// What a policy is to the search: whom it lets a request evict (permits), how far up the
// priorities it reaches at most (reaches), in which order (victimOrder), and with or without
// borrowing (attempts). Another policy is another case of permits and of reaches.

// permits reports whether a policy lets a request evict a workload.
func permits(p core.PreemptionPolicy, r *Request, c *Candidate) bool {
	switch p {
	case core.PreemptAny:
		return true
	case core.PreemptLowerPriority:
		return c.Priority < r.Priority
	case core.PreemptLowerOrNewerEqualPrio:
		return c.Priority < r.Priority || (c.Priority == r.Priority && r.Time < c.Time)
	default:
		return false
	}
}

// reaches reports whether a policy may let a request of a priority evict some workload of another
// one, whatever else is known of that. It is an upper bound of permits: where it is false, permits
// is for all workloads of that priority and of any higher one, so that a search ends there and no
// search begins.
func reaches(p core.PreemptionPolicy, request, running int64) bool {
	switch p {
	case core.PreemptAny:
		return true
	case core.PreemptLowerPriority:
		return running < request
	case core.PreemptLowerOrNewerEqualPrio:
		return running <= request
	default:
		return false
	}
}

// Forbids reports whether the policy lets a queue evict nothing at all.
func Forbids(p core.Preemption) bool {
	return !Allows(p.WithinQueue) && !Allows(p.Reclaim)
}

// Allows reports whether a policy lets any workload be evicted.
func Allows(p core.PreemptionPolicy) bool { return p != core.PreemptNever && p != "" }

// victimOrder is negative if a is evicted before b: lower priority, then what is interrupted, then later
// reservation, then later in the queue, then UID.
func victimOrder(a, b *Candidate) int {
	switch {
	case a.Priority != b.Priority:
		return cmp.Compare(a.Priority, b.Priority)
	case a.Interrupted != b.Interrupted:
		if a.Interrupted {
			return -1
		}
		return 1
	case a.Reserved != b.Reserved:
		return cmp.Compare(b.Reserved, a.Reserved)
	case a.Time != b.Time:
		return cmp.Compare(b.Time, a.Time)
	}
	return cmp.Or(cmp.Compare(a.UID, b.UID), a.Key.Compare(b.Key))
}

// borrowing says whether the request may end up above the nominal quota of its queue. Where it may
// not, workloads of other queues may be evicted that a request which borrows has to spare.
type borrowing uint8

const (
	forbidden borrowing = iota
	allowed
)

// attempts says in which order to search with and without borrowing. The first that finds victims
// counts.
func (s *Searcher) attempts() []borrowing {
	never := !Allows(s.req.Policy.WhileBorrow)
	switch {
	// No other queue can lose anything: whether the request borrows makes no difference to whom it
	// may evict.
	case len(s.hierarchy)+len(s.priority) == 0:
		return []borrowing{allowed}
	// The queue uses all that it owns of a pair that is short: there is nothing to take back for it
	// from queues that borrow.
	case never && !s.req.Queue.UnderNominal(core.Projected, s.req.Short):
		return []borrowing{allowed}
	// A request that borrows has to spare all other queues: within its own quota it may evict there.
	case never && len(s.hierarchy) == 0:
		return []borrowing{forbidden, allowed}
	}
	// Kueue's order.
	return []borrowing{allowed, forbidden}
}

// mayBorrow reports whether a workload may be evicted for a request that borrows.
func (s *Searcher) mayBorrow(c *Candidate) bool {
	p := &s.req.Policy
	return Allows(p.WhileBorrow) && c.Priority < s.req.Priority &&
		(p.MaxPriority == nil || c.Priority <= int64(*p.MaxPriority))
}
