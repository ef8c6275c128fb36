package preempt

import (
	"cmp"
	"iter"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/place"
)

// Where a gang must be in one domain of nodes, a rack say, there is a choice among domains which has nothing to do
// with the order of victims: the newest workloads may be scattered over many racks, and before they make room in one of
// these all may be taken that a queue has borrowed. So victims are looked for in each of the most promising domains,
// too, and those stand that lose the least work.

// mostDomains bounds in how many domains victims are looked for.
const mostDomains = 8

// price is what it costs to evict some workloads. Of two, the one is less whose first number that differs is.
type price struct {
	// own says that the request's own queue loses a workload: those of others that have borrowed go first.
	own bool
	// priority is the highest of a victim.
	priority int64
	// counted is what counts as lost where the policy says so.
	counted loss
	// work is what has been computed in vain: the packed resource that is held, times seconds; pods is the same for pods
	// that have none of it.
	work, pods int64
	// victims is how many there are, running how many of them are not interrupted.
	victims, running int
}

func (p price) compare(o price) int {
	own := 0
	if p.own != o.own {
		if own = -1; p.own {
			own = 1
		}
	}
	return cmp.Or(
		own, cmp.Compare(p.priority, o.priority), p.counted.compare(o.counted),
		cmp.Compare(p.work, o.work), cmp.Compare(p.pods, o.pods), cmp.Compare(p.victims, o.victims),
	)
}

// with is the price with one more victim.
func (p price) with(c *Candidate, own bool, by counting) price {
	if c.Interrupted {
		p.victims++
		return p
	}
	if p.running == 0 || c.Priority > p.priority {
		p.priority = c.Priority
	}
	p.own = p.own || own
	p.victims++
	p.running++
	p.counted = p.counted.plus(by.of(c))
	for _, h := range c.Holds {
		if packed := h.Packed(); packed > 0 {
			p.work += packed * max(0, by.now-c.Reserved)
		} else {
			p.pods += int64(h.Count) * max(0, by.now-c.Reserved)
		}
	}
	return p
}

func (s *Searcher) priceOf(victims []Victim) (p price) {
	for _, v := range victims {
		p = p.with(v.Candidate, v.Reason == core.InClusterQueue, s.counting())
	}
	return p
}

// byPlace lets victims that were looked for by place stand in place of those picked, if they cost less or the request
// does not fit without those, and reports whether it fits then. candidates are where all searches begin; search picks
// victims among candidates that may be looked at, and reports whether the request fits. The trial has taken nothing off.
func (s *Searcher) byPlace( //nolint:revive // a fact
	candidates [][]cursor,
	fits bool,
	search func() bool,
) bool {
	if len(s.req.Sets) == 0 || !fits && !s.lacksNodes {
		return fits
	}
	set := s.largestSet()
	if fits && !set.OfDomain() && !s.wasteful() {
		return true
	}
	scopes := s.promising(set, candidates, fits)
	best := slices.Clone(s.picked)
	least := s.priceOf(best)
	among := func(only func(*Candidate) bool) bool {
		s.only = only
		defer func() { s.only = nil }()
		defer s.trial.Restore()
		if !search() {
			return false
		}
		if is := s.priceOf(s.picked); !fits || is.compare(least) < 0 {
			best, least, fits = append(best[:0], s.picked...), is, true
		}
		return true
	}
	for _, d := range scopes {
		inDomain := func(n *place.Node) bool {
			at, in := s.Ledger.Nodes.DomainOf(set, n)
			return in && at == d
		}
		if !among(func(c *Candidate) bool { return holdsAny(c, inDomain) }) || len(s.picked) > 1 {
			s.onNodes(set, candidates, s.Ledger.Nodes.RoomIn(set, d), fits, inDomain, among)
		}
	}
	if !set.OfDomain() {
		s.onNodes(set, candidates, s.Ledger.Nodes.Room(set), fits, func(*place.Node) bool { return true }, among)
	}
	s.picked = append(s.picked[:0], best...)
	return fits
}

// wasteful reports whether several victims hold more of the packed resource than the request needs: else their nodes
// are not cleared in vain.
func (s *Searcher) wasteful() bool {
	if len(s.picked) < 2 {
		return false
	}
	more := int64(0)
	for _, v := range s.picked {
		for _, h := range v.Holds {
			more += h.Packed()
		}
	}
	for _, set := range s.req.Sets {
		more -= int64(set.Count) * set.Packed()
	}
	return more > 0
}

// largestSet is the pods of the request of which each is the largest.
func (s *Searcher) largestSet() place.Set {
	return slices.MaxFunc(s.req.Sets, func(a, b place.Set) int {
		return cmp.Or(cmp.Compare(a.Packed(), b.Packed()), cmp.Compare(a.Count, b.Count))
	})
}

// holdsAny reports whether a workload holds one of some nodes.
func holdsAny(c *Candidate, of func(*place.Node) bool) bool {
	return slices.ContainsFunc(c.Holds, func(h place.Hold) bool { return of(h.Node) })
}

// all are the candidates of some queues, and whether each is of the request's own.
func (s *Searcher) all(candidates [][]cursor) iter.Seq2[*Candidate, bool] {
	return func(yield func(*Candidate, bool) bool) {
		skipped := s.skipped
		defer func() { s.skipped = skipped }()
		for _, list := range candidates {
			for _, c := range list { // a copy, which is walked to its end
				for more := true; more; more = s.advance(&c) {
					if !yield(c.current(), c.common == nil) {
						return
					}
				}
			}
		}
	}
}

// promising are the domains that could hold the set, those first in which all that may be evicted costs the least;
// none if its pods need not share one. While nothing fits, the time is left out of that, as in onNodes.
func (s *Searcher) promising( //nolint:revive // a fact
	set place.Set,
	candidates [][]cursor,
	fits bool,
) []place.Domain {
	domains := s.Ledger.Nodes.DomainsOf(set)
	if len(domains) == 0 {
		return nil
	}
	prices := map[place.Domain]price{}
	for cand, own := range s.all(candidates) {
		var seen []place.Domain
		for _, h := range cand.Holds {
			if d, in := s.Ledger.Nodes.DomainOf(set, h.Node); in && !slices.Contains(seen, d) {
				seen = append(seen, d)
				prices[d] = prices[d].with(cand, own, s.counting())
			}
		}
	}
	domains = slices.DeleteFunc(domains, func(d place.Domain) bool { return prices[d].victims == 0 })
	slices.SortStableFunc(domains, func(a, b place.Domain) int {
		x, y := prices[a], prices[b]
		if !fits {
			x.work, x.pods, y.work, y.pods = 0, 0, 0, 0
			x.counted, y.counted = loss{}, loss{}
		}
		return x.compare(y)
	})
	return domains[:min(len(domains), mostDomains)]
}
