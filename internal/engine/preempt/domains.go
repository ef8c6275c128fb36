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

// byPlace lets victims that were looked for by place stand in place of those picked, if they cost less or the request
// does not fit without those, and reports whether it fits then. candidates are where all searches begin; search picks
// victims among candidates that may be looked at, and reports whether the request fits. The trial has taken nothing off.
func (s *Searcher) byPlace(candidates [][]cursor, fits bool, search func() bool) bool {
	if len(s.req.Sets) == 0 || !fits && !s.lacksNodes {
		return fits
	}
	set := s.largestSet()
	scopes := s.promising(set, candidates)
	if len(scopes) < 2 && fits {
		return true
	}
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
		if !among(func(c *Candidate) bool { return holdsAny(c, inDomain) }) {
			s.onNodes(candidates, s.Ledger.Nodes.RoomIn(set, d), inDomain, among)
		}
	}
	if !fits && !set.OfDomain() {
		s.onNodes(candidates, s.Ledger.Nodes.Room(set), func(*place.Node) bool { return true }, among)
	}
	s.picked = append(s.picked[:0], best...)
	return fits
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
// none if its pods need not share one.
func (s *Searcher) promising(set place.Set, candidates [][]cursor) []place.Domain {
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
				prices[d] = prices[d].with(cand, own, s.req.Now)
			}
		}
	}
	domains = slices.DeleteFunc(domains, func(d place.Domain) bool { return prices[d].victims == 0 })
	slices.SortStableFunc(domains, func(a, b place.Domain) int { return prices[a].compare(prices[b]) })
	return domains[:min(len(domains), mostDomains)]
}

// clearance is what it costs to evict all candidates that hold a node, how much they use of what is short, and how many
// pods have room on it then that have none now.
type clearance struct {
	node  *place.Node
	gain  int64
	price price
	uses  core.Amount
}

// mostSelections is how many selections of nodes are tried in each order of these.
const mostSelections = 4

// onNodes looks for victims on the nodes that are cleared at the least cost for each pod that has room then, as many as
// do beside the room that there is. In the order of candidates all may be taken that a queue has borrowed before one
// node is free. That may be true of these nodes as well: then on those where candidates use the least, and on others.
func (s *Searcher) onNodes(
	candidates [][]cursor,
	room int64,
	within func(*place.Node) bool,
	among func(only func(*Candidate) bool) bool,
) {
	nodes, each := s.clearances(candidates, within), s.largestSet().Packed()
	want := int64(0)
	for _, set := range s.req.Sets {
		want += (int64(set.Count)*set.Packed() + each - 1) / each
	}
	for _, order := range [...]func(a, b clearance) int{byPrice, byUse} {
		slices.SortStableFunc(nodes, order)
		for skipped := range min(mostSelections, len(nodes)) {
			picked := selection(nodes[skipped:], want-room)
			if picked == nil {
				break
			}
			isPicked := func(n *place.Node) bool {
				return slices.ContainsFunc(picked, func(c clearance) bool { return c.node == n })
			}
			if among(func(c *Candidate) bool { return holdsAny(c, isPicked) }) {
				return
			}
		}
	}
}

// selection takes nodes until so many pods more have room, and leaves out those that it does not need; nil if all are
// not enough.
func selection(nodes []clearance, want int64) []clearance {
	gain, n := int64(0), 0
	for ; n < len(nodes) && gain < want; n++ {
		gain += nodes[n].gain
	}
	if gain < want {
		return nil
	}
	picked := slices.Clone(nodes[:n])
	for i := n - 2; i >= 0; i-- {
		if gain-picked[i].gain >= want {
			gain -= picked[i].gain
			picked = slices.Delete(picked, i, i+1)
		}
	}
	return picked
}

func byPrice(a, b clearance) int {
	a.price.work, b.price.work = a.price.work/a.gain, b.price.work/b.gain
	return cmp.Or(a.price.compare(b.price), core.CompareNames(a.node.Name(), b.node.Name()))
}

func byUse(a, b clearance) int {
	return cmp.Or(cmp.Compare(int64(a.uses)/a.gain, int64(b.uses)/b.gain), byPrice(a, b))
}

// clearances are the nodes that pods have more room on if all candidates are gone.
func (s *Searcher) clearances(candidates [][]cursor, within func(*place.Node) bool) []clearance {
	set, at := s.largestSet(), map[*place.Node]int{}
	var out []clearance
	for cand, own := range s.all(candidates) {
		for _, h := range cand.Holds {
			if !within(h.Node) {
				continue
			}
			i, known := at[h.Node]
			if !known {
				i = len(out)
				at[h.Node] = i
				out = append(out, clearance{node: h.Node, gain: -s.Ledger.Nodes.RoomOn(set, h.Node)})
			}
			out[i].price = out[i].price.with(cand, own, s.req.Now)
			for _, u := range cand.Uses {
				if slices.Contains(s.req.Short, u.Pair) {
					out[i].uses = out[i].uses.Add(u.Amount)
				}
			}
		}
	}
	for cand := range s.all(candidates) {
		s.trial.Without(&cand.Allocation)
	}
	for i := range out {
		out[i].gain += s.Ledger.Nodes.RoomOn(set, out[i].node)
	}
	s.trial.Restore()
	return slices.DeleteFunc(out, func(c clearance) bool { return c.gain <= 0 })
}
