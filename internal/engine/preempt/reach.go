package preempt

import "github.com/mlbatch/mlbatch/internal/engine/place"

// maxReach bounds how many workloads Reach looks at.
const maxReach = 1 << 14

// Reach counts the running workloads of which the policies would let a request evict one or another, and reports
// whether its pods would have no place even if all of these were gone, so that no victims are enough. It changes
// nothing. Of very many it says nothing: none, and not in vain.
func (s *Searcher) Reach(r Request) (workloads int, inVain bool) {
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
			return 0, false
		}
		if !c.Interrupted {
			workloads++
		}
		s.trial.Without(&c.Allocation)
	}
	return workloads, !s.Ledger.Nodes.Fits(place.Request{View: place.After, Sets: r.Sets})
}
