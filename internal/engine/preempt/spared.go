package preempt

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Standoff is how a request stands to one workload that runs.
type Standoff struct {
	// Rule is why the workload is not evicted for the request; "" if it could be, alone or
	// with others. What Rule names is left alone by Find, but that SparedByShare looks at
	// the shares before anybody else was evicted.
	Rule core.SpareRule
	// Policy is what the field says that is about the workload.
	Policy core.PreemptionPolicy
	// Mine and Theirs are the children of the lowest cohort above both, nil if they have
	// the same queue or no cohort.
	Mine, Theirs *quota.Node
	// Before and After are the shares of Mine, with the request in the second, and of
	// Theirs, without the workload in the second. They are set with fair sharing.
	Before, After [2]quota.DominantResourceShare
}

// Against says how a request stands to a workload that runs. It changes nothing.
func (s *Searcher) Against(r Request, c *Candidate) Standoff { return s.against(r, c, s.mustBorrow) }

// against is Against where it may be known whether the request would have to borrow.
func (s *Searcher) against(r Request, c *Candidate, mustBorrow func() bool) Standoff {
	s.req = r
	var out Standoff
	if c.Queue == r.Queue {
		out.Policy = r.Policy.WithinQueue
		out.Rule = s.sparedBy(c, out.Policy, false)
		return out
	}
	if c.Queue.Root() != r.Queue.Root() {
		out.Rule = core.SparedApart
		return out
	}
	out.Policy = r.Policy.Reclaim
	out.Mine, out.Theirs = apart(r.Queue, c.Queue)
	if s.Fair != nil {
		s.withShares(&out, c)
		return out
	}
	advantage := s.hasAdvantage(out.Mine.Parent())
	switch rule := s.sparedBy(c, out.Policy, advantage); {
	case rule != "":
		out.Rule = rule
	case s.keepsWithin(c.Queue, out.Theirs.Parent()):
		out.Rule = core.SparedWithinNominal
	case !advantage && !s.mayBorrow(c) && mustBorrow():
		out.Rule = core.SparedByBorrowing
	}
	return out
}

// sparedBy is why a policy spares a workload. advantage says that what it holds is quota
// that the request's side has lent.
func (s *Searcher) sparedBy(c *Candidate, p core.PreemptionPolicy, advantage bool) core.SpareRule {
	switch {
	case !uses(c, s.req.Short):
		return core.SparedOtherQuota
	case !Allows(p):
		return core.SparedByPolicy
	case !permits(p, &s.req, c):
		return core.SparedByPriority
	case !advantage && slices.Contains(s.req.Spare, c.Key):
		return core.SparedAsBenefactor
	case c.Unseen:
		return core.SparedUnseen
	}
	return ""
}

// apart are the children of the lowest cohort above both queues, on either side.
func apart(a, b *quota.Node) (mine, theirs *quota.Node) {
	for mine = a; !covers(mine.Parent(), b); mine = mine.Parent() {
	}
	for theirs = b; theirs.Parent() != mine.Parent(); theirs = theirs.Parent() {
	}
	return mine, theirs
}

// hasAdvantage reports whether the request stays within quota that the queue, or a cohort
// below the common one, owns.
func (s *Searcher) hasAdvantage(common *quota.Node) bool {
	s.rest = append(s.rest[:0], s.req.Uses...)
	advantage := s.req.Queue.Absorb(core.Projected, s.rest)
	for n := s.req.Queue.Parent(); n != common; n = n.Parent() {
		advantage = n.Absorb(core.Projected, s.rest) || advantage
	}
	return advantage
}

// mustBorrow reports whether the request would have to borrow even if all were gone that it
// may evict in its own queue.
func (s *Searcher) mustBorrow() bool {
	q := s.req.Queue
	for _, u := range s.req.Uses {
		left := q.Usage(core.Projected, u.Pair)
		for _, c := range s.Running(q) {
			if Allows(s.req.Policy.WithinQueue) && permits(s.req.Policy.WithinQueue, &s.req, c) {
				left = left.Sub(amount(c.Uses, u.Pair))
			}
		}
		if max(0, left).Add(u.Amount) > q.Subtree(u.Pair) {
			return true
		}
	}
	return false
}

func amount(uses []quota.Use, p quota.FlavorResource) core.Amount {
	for _, u := range uses {
		if u.Pair == p {
			return u.Amount
		}
	}
	return 0
}

// withShares fills in how a request stands to a workload of another queue with fair sharing.
func (s *Searcher) withShares(out *Standoff, c *Candidate) {
	account := core.Projected
	if s.Ledger.Unsettled() > 0 {
		account = quota.Seen
	}
	s.begin()
	defer s.trial.End()
	out.Before = [2]quota.DominantResourceShare{out.Mine.Share(core.Projected), out.Theirs.Share(account)}
	s.trial.Ask(s.req.Queue, s.req.Uses)
	defer s.trial.Unask()
	out.After = [2]quota.DominantResourceShare{
		out.Mine.Share(core.Projected),
		s.shareWithout(account, out.Theirs, c),
	}
	nominal := s.Fair.ReclaimNominal && s.req.Queue.WithinNominal(core.Projected, s.req.Short)
	switch rule := s.sparedBy(c, out.Policy, nominal); {
	case rule != "":
		out.Rule = rule
	case c.Queue.WithinPromised(account, s.req.Short) || s.borrowsNothing(c.Queue, out.Theirs, account):
		out.Rule = core.SparedWithinNominal
	case !nominal && !s.sharesAllow(out):
		out.Rule = core.SparedByShare
	}
}

// borrowsNothing reports whether a queue, or a cohort from it up to top, has no share.
func (s *Searcher) borrowsNothing(n, top *quota.Node, account core.Account) bool {
	for ; n != top.Parent(); n = n.Parent() {
		if n.Share(account).Zero() {
			return true
		}
	}
	return false
}

// sharesAllow reports whether a strategy lets the request's side take from the other.
func (s *Searcher) sharesAllow(x *Standoff) bool {
	return slices.ContainsFunc(s.Fair.Strategies, func(rule core.FairStrategy) bool {
		if rule == core.LessThanInitialShare {
			return x.After[0].Compare(x.Before[1]) < 0
		}
		// No rule lets a larger share take from a smaller one.
		return x.After[0].Compare(x.Before[1]) <= 0 && x.After[0].Compare(x.After[1]) <= 0
	})
}
