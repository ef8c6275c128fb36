package preempt

import (
	"cmp"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/place"
)

// Where a gang must be in one domain of nodes, a rack say, there is a choice among domains which has nothing to do
// with the order of victims: the newest workloads may be scattered over many racks. So victims are looked for in
// each of the most promising domains, too, and those stand that lose the least work.

// mostDomains bounds in how many domains victims are looked for.
const mostDomains = 8

// price is what it costs to evict some workloads. Of two, the one is less whose first number that differs is.
type price struct {
	// own says that the request's own queue loses a workload: those of others that have borrowed go first.
	own bool
	// priority is the highest of a victim.
	priority int64
	// work is what has been computed in vain: the packed resource that is held, times seconds.
	work int64
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
		own, cmp.Compare(p.priority, o.priority), cmp.Compare(p.work, o.work), cmp.Compare(p.victims, o.victims),
	)
}

// with is the price with one more victim.
func (p price) with(c *Candidate, own bool, now int64) price {
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
	held := int64(0)
	for _, h := range c.Holds {
		held += h.Packed()
	}
	p.work += held * max(0, now-c.Reserved)
	return p
}

func (s *Searcher) priceOf(victims []Victim) (p price) {
	for _, v := range victims {
		p = p.with(v.Candidate, v.Reason == core.InClusterQueue, s.req.Now)
	}
	return p
}

// inDomains lets victims in one domain of the level that the request's pods must share stand in place of those
// picked, if they cost less. The trial has taken nothing off.
func (s *Searcher) inDomains(may borrowing) {
	if len(s.req.Sets) != 1 {
		return
	}
	set := s.req.Sets[0]
	promising := s.promising(set)
	if len(promising) == 0 {
		return
	}
	best := slices.Clone(s.picked)
	least := s.priceOf(best)
	for _, d := range promising {
		s.only = func(c *Candidate) bool { return s.holdsIn(c, set, d) }
		s.picked = s.picked[:0]
		if s.take(may) {
			s.giveBack(may)
			if is := s.priceOf(s.picked); is.compare(least) < 0 {
				best, least = append(best[:0], s.picked...), is
			}
		}
		s.trial.Restore()
	}
	s.only = nil
	s.picked = append(s.picked[:0], best...)
}

// holdsIn reports whether a workload holds nodes of a domain.
func (s *Searcher) holdsIn(c *Candidate, set place.Set, d place.Domain) bool {
	return slices.ContainsFunc(c.Holds, func(h place.Hold) bool {
		at, in := s.Ledger.Nodes.DomainOf(set, h.Node)
		return in && at == d
	})
}

// promising are the domains that could hold the set, those first in which all that may be evicted costs the least.
func (s *Searcher) promising(set place.Set) []place.Domain {
	domains := s.Ledger.Nodes.DomainsOf(set)
	if len(domains) < 2 {
		return nil
	}
	skipped := s.skipped
	prices := map[place.Domain]price{}
	for _, list := range [...][]cursor{s.hierarchy, s.priority, s.own} {
		for _, c := range list { // a copy, which is walked to its end
			for more := true; more; more = s.advance(&c) {
				cand := c.current()
				var seen []place.Domain
				for _, h := range cand.Holds {
					if d, in := s.Ledger.Nodes.DomainOf(set, h.Node); in && !slices.Contains(seen, d) {
						seen = append(seen, d)
						prices[d] = prices[d].with(cand, c.common == nil, s.req.Now)
					}
				}
			}
		}
	}
	s.skipped = skipped
	domains = slices.DeleteFunc(domains, func(d place.Domain) bool { return prices[d].victims == 0 })
	slices.SortStableFunc(domains, func(a, b place.Domain) int { return prices[a].compare(prices[b]) })
	return domains[:min(len(domains), mostDomains)]
}
