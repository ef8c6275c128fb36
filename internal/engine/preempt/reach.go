package preempt

import (
	"cmp"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/place"
)

const (
	// maxReach bounds how many workloads Reach looks at, maxSpared how many it names the rules of that spare them.
	maxReach  = 1 << 14
	maxSpared = 1 << 10
)

// Reached is what a request may evict, and what that is good for.
type Reached struct {
	// Workloads counts the running workloads of which the policies would let it evict one or another.
	Workloads int
	// InVain says that its pods would have no place even if all of these were gone, so that no victims are enough.
	InVain bool
	// Nearest is the domain that would come nearest then to holding the pods of the set that was asked about; zero if
	// these need not be in one, or would have a place alone.
	Nearest core.NearestDomain
	// Spared are the workloads that hold quota of the tree and may not be evicted, where it may evict none.
	Spared []core.SparedCount
}

// Reach finds out what a request may evict, one of whose sets is asked about. It changes nothing. Of very many it says
// nothing: none, and not in vain.
func (s *Searcher) Reach(r Request, set int) Reached {
	out, few := s.reach(r, set)
	if few && out.InVain && out.Workloads == 0 {
		out.Spared = s.sparing(r)
	}
	return out
}

func (s *Searcher) reach(r Request, set int) (out Reached, few bool) {
	s.req, s.skipped = r, Skipped{}
	s.begin()
	defer s.trial.End()
	var lists [][]cursor
	if s.Fair != nil {
		s.openQueues()
		lists = append(lists, s.fair.opened)
	} else {
		s.collect()
		lists = append(lists, s.hierarchy, s.priority, s.own)
	}
	looks := 0
	for c := range s.all(lists) {
		if looks++; looks > maxReach {
			return Reached{}, false
		}
		if !c.Interrupted {
			out.Workloads++
		}
		s.trial.Without(&c.Allocation)
	}
	nodes := s.Ledger.Nodes
	if out.InVain = !nodes.Fits(place.Request{View: place.After, Sets: r.Sets}); !out.InVain {
		return out, true
	}
	if i := slices.IndexFunc(r.Sets, func(o place.Set) bool { return o.Index == set }); i >= 0 &&
		r.Sets[i].OfDomain() && !nodes.Can(r.Sets[i], place.After) {
		short := nodes.Shortage(r.Sets[i], place.After)
		out.Nearest = core.NearestDomain{
			Level: short.Level, Domain: short.Domain, Fit: short.Fit, Usable: short.Usable,
		}
	}
	return out, true
}

// sparing are the running workloads of the tree that hold something of what is short, by the rules that spare them; nil if
// there are very many.
func (s *Searcher) sparing(r Request) []core.SparedCount {
	var out []core.SparedCount
	looks := 0
	known, must := false, false
	mustBorrow := func() bool { // the same for all: it looks at each workload of the queue
		if !known {
			known, must = true, s.mustBorrow()
		}
		return must
	}
	for _, list := range s.lists {
		for _, c := range list {
			if c.Queue.Root() != r.Queue.Root() || c.Interrupted {
				continue
			}
			if looks++; looks > maxSpared {
				return nil
			}
			rule, own := s.against(r, c, mustBorrow).Rule, c.Queue == r.Queue
			switch {
			case rule == core.SparedOtherQuota:
				continue
			case rule == "" && c.Until > r.Now:
				rule = core.SparedByRuntime
			case rule == "":
				return nil // all that is known does not say why
			}
			i := slices.IndexFunc(out, func(o core.SparedCount) bool { return o.Rule == rule && o.Own == own })
			if i < 0 {
				i, out = len(out), append(out, core.SparedCount{Rule: rule, Own: own})
			}
			out[i].Workloads++
		}
	}
	slices.SortFunc(out, func(a, b core.SparedCount) int {
		switch {
		case a.Own != b.Own && a.Own:
			return -1
		case a.Own != b.Own:
			return 1
		}
		return cmp.Or(cmp.Compare(b.Workloads, a.Workloads), cmp.Compare(a.Rule, b.Rule))
	})
	return out
}
