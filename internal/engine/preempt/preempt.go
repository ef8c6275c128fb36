// Package preempt chooses which workloads to evict for another: the fewest, in Kueue's
// order of candidates, or with fair sharing in that of its strategies, whose
// eviction gives a waiting workload its quota and its nodes together.
//
// The search is a trial of the ledger: it takes candidates out one by one until the
// workload fits, and gives back candidates that turn out not to be needed. It decides nothing; the
// caller commits. Cost grows with the victims, not with the candidates, because
// running workloads stand in victim order per queue. Where least lost work counts, those of each queue that may give
// are sorted twice in a search.
package preempt

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Candidate is a running workload as the search sees it. It is immutable while
// it is listed. None is evicted whose allocation is Unseen: the eviction could
// overtake the admission.
type Candidate struct {
	ledger.Allocation
	Key      core.Key
	UID      string
	Priority int64
	// Reserved is when quota was reserved, in seconds: the resolution at which it
	// is kept in the API, so that the order survives a restart.
	Reserved int64
	// Time is the queue time in nanoseconds.
	Time int64
	// Until is when its minimum runtime ends, in seconds: it is not evicted for others before.
	Until int64
	// Interrupted says that it was evicted already and keeps what it holds for a while: to take it stops nothing
	// that runs.
	Interrupted bool
	// Saves is what is known of its checkpoints; nil if nothing is. It may change while the candidate is listed.
	Saves *Saves
	// Stands is the past usage of its LocalQueue for its weight; nil in ClusterQueues that do not
	// order by past usage. Among workloads of one ClusterQueue, those of the LocalQueue that used
	// more are evicted first.
	Stands *core.UsageRank
}

// Searcher holds the running workloads per queue and searches victims.
type Searcher struct {
	Ledger *ledger.Ledger
	// lists are by queue ID, each in reverse victim order, so that the newest of
	// the lowest priority is added and taken at the end.
	lists [][]*Candidate

	// Fair is fair sharing: queues of a cohort share the quota that none of them owns; nil is off.
	// Its Strategies are not empty.
	Fair *core.FairSharing

	// interrupted counts the listed workloads that are interrupted.
	interrupted int

	weighed []weighed // by queue ID
	tied    tied

	// The fields below are scratch of one search.
	skipped   Skipped
	fair      fairSearch
	req       Request
	own       []cursor
	hierarchy []cursor
	priority  []cursor
	rest      []quota.Use
	less      []quota.Use
	trial     *ledger.Trial
	merge     []cursor
	picked    []Victim
	only      func(*Candidate) bool // nil is all
	order     ordering
	ranked    map[ranking][]*Candidate // what ordered has sorted
	// lacksNodes says that quota would have been enough at some point of the search, and nodes were not.
	lacksNodes bool
	// idle says that only interrupted workloads are candidates.
	idle bool
}

// Add lists a running workload.
func (s *Searcher) Add(c *Candidate) {
	for len(s.lists) <= c.Queue.ID {
		s.lists = append(s.lists, nil)
	}
	l := s.lists[c.Queue.ID]
	i := locate(l, c)
	s.lists[c.Queue.ID] = slices.Insert(l, i, c)
	if c.Interrupted {
		s.interrupted++
	}
}

// Remove takes a workload off its list.
func (s *Searcher) Remove(c *Candidate) {
	if c.Queue.ID >= len(s.lists) {
		return
	}
	l := s.lists[c.Queue.ID]
	if i := locate(l, c); i < len(l) && l[i] == c {
		s.lists[c.Queue.ID] = slices.Delete(l, i, i+1)
		if c.Interrupted {
			s.interrupted--
		}
	}
}

func locate(l []*Candidate, c *Candidate) int {
	if n := len(l); n == 0 || victimOrder(l[n-1], c) > 0 {
		return n
	}
	i, _ := slices.BinarySearchFunc(l, c, func(x, c *Candidate) int { return victimOrder(c, x) })
	return i
}

// Running returns the running workloads of a queue, last victim first. Do not
// change it.
func (s *Searcher) Running(q *quota.Node) []*Candidate {
	if q.ID >= len(s.lists) {
		return nil
	}
	return s.lists[q.ID]
}

// Request is a workload that does not fit.
type Request struct {
	Queue    *quota.Node
	Policy   core.Preemption
	Priority int64
	Time     int64
	// Uses is all quota it needs; Short the pairs that need an eviction: only
	// workloads that use one of them are candidates.
	Uses  []quota.Use
	Short []quota.FlavorResource
	// Sets are the pods that need nodes; none if quota alone decides.
	Sets []place.Set
	// Spare are not evicted unless they hold quota that the request's own side of
	// the tree has lent: the workloads that this one was evicted for, and those
	// that they must spare. This is what ends circles of evictions.
	Spare []core.Key
	// Now is when, in seconds: what victims have computed until then is lost, and whose minimum runtime ends
	// later is no candidate.
	Now int64
}

// Skipped says that candidates were passed over for no other reason than that their time has not come.
type Skipped struct {
	// Unseen says that some are Unseen.
	Unseen bool
	// Until is when the first may be evicted of those whose minimum runtime has not ended, in seconds; 0
	// for none.
	Until int64
}

// And is what either of two searches skipped.
func (s Skipped) And(o Skipped) Skipped {
	if s.Until == 0 || o.Until != 0 && o.Until < s.Until {
		s.Until = o.Until
	}
	s.Unseen = s.Unseen || o.Unseen
	return s
}

// Victim is a candidate chosen, and by which rule.
type Victim struct {
	*Candidate
	Reason core.EvictReason
}

// Find returns victims whose eviction makes room for the request, or nil, and what it passed over.
// The victims are valid until the next call. Nothing that runs is evicted where what interrupted workloads keep
// is enough.
func (s *Searcher) Find(r Request) (victims []Victim, skipped Skipped) {
	if s.interrupted > 0 {
		s.idle = true
		victims, _ = s.find(r)
		s.idle = false
		if victims != nil {
			return victims, Skipped{}
		}
	}
	return s.find(r)
}

// find searches among the workloads that are candidates.
func (s *Searcher) find(r Request) (victims []Victim, skipped Skipped) {
	s.req, s.skipped, s.lacksNodes = r, Skipped{}, false
	clear(s.ranked)
	s.begin()
	defer s.trial.End()
	if s.Fair != nil {
		victims = s.findFair()
		return victims, s.skipped
	}
	s.collect()
	if len(s.own)+len(s.hierarchy)+len(s.priority) == 0 {
		return nil, s.skipped
	}
	if slices.ContainsFunc(s.attempts(), s.attempt) {
		victims = s.picked
	}
	return victims, s.skipped
}

// begin begins the trial in which victims for a request are searched. The trial keeps account of the
// pairs that the request uses; with fair sharing of all pairs, because a queue's share depends on all.
func (s *Searcher) begin() {
	scope := ledger.Scope{Account: core.Projected, NoNodes: len(s.req.Sets) == 0}
	if s.Fair == nil {
		scope.Of = s.req.Uses
	} else {
		scope.Seen = s.Ledger.Unsettled() > 0
	}
	s.trial = s.Ledger.Begin(s.req.Queue, scope)
}

// attempt takes candidates until the request fits, then gives back the ones that need not go.
func (s *Searcher) attempt(may borrowing) bool {
	inOrder := func() bool {
		s.picked = s.picked[:0]
		if !s.take(may) {
			return false
		}
		s.giveBack(may)
		return true
	}
	search := func() bool {
		hierarchy, priority, own := s.hierarchy, s.priority, s.own
		defer func() { s.hierarchy, s.priority, s.own = hierarchy, priority, own }()
		return s.leastLost(inOrder, func() bool {
			s.hierarchy, s.priority, s.own = nil, nil, nil
			s.collect()
			return true
		})
	}
	fits := search()
	s.trial.Restore()
	return s.byPlace([][]cursor{s.hierarchy, s.priority, s.own}, fits, search)
}

// take takes candidates until the request fits, and reports whether it does.
func (s *Searcher) take(may borrowing) bool {
	priority := s.priority
	if may == allowed && !Allows(s.req.Policy.WhileBorrow) {
		priority = nil // reason would refuse each
	}
	return slices.ContainsFunc(
		[][]cursor{s.hierarchy, priority, s.own},
		func(list []cursor) bool { return s.drain(list, may) },
	)
}

// drain takes candidates from a list of queues, merged in victim order.
func (s *Searcher) drain(list []cursor, may borrowing) bool {
	s.merge = append(s.merge[:0], list...)
	heapify(s.merge)
	for len(s.merge) > 0 {
		c := &s.merge[0]
		if !s.valid(c) {
			s.merge = drop(s.merge)
			continue
		}
		cand := c.current()
		reason, ok := s.reason(c, cand, may)
		if ok && (s.only == nil || s.only(cand)) {
			s.trial.Without(&cand.Allocation)
			s.picked = append(s.picked, Victim{cand, reason})
			if s.fits(may) {
				return true
			}
		}
		if !s.advance(c) {
			s.merge = drop(s.merge)
			continue
		}
		sink(s.merge)
	}
	return false
}

// valid reports whether the cursor's queue, and each cohort between it and the common cohort, still
// uses more than its own quota: a queue loses only what it has borrowed.
func (s *Searcher) valid(c *cursor) bool {
	return c.common == nil || !s.keepsWithin(c.queue, c.common)
}

// keepsWithin reports whether a queue, or a cohort between it and the common cohort, uses no more than
// its own quota of the pairs that are short, with what is cut of that for now.
func (s *Searcher) keepsWithin(n, common *quota.Node) bool {
	for ; n != common; n = n.Parent() {
		if n.WithinPromised(core.Projected, s.req.Short) {
			return true
		}
	}
	return false
}

// reason classifies a candidate; false if this attempt must not take it.
func (s *Searcher) reason(c *cursor, cand *Candidate, may borrowing) (core.EvictReason, bool) {
	switch {
	case c.common == nil:
		return core.InClusterQueue, true
	case c.advantage:
		return core.InCohortReclamation, true
	case !s.mayBorrow(cand):
		return core.InCohortReclamation, may == forbidden
	}
	return core.InCohortReclaimWhileBorrow, true
}

// fits reports whether the request fits as things stand after the evictions.
func (s *Searcher) fits(may borrowing) bool {
	q := s.req.Queue
	for _, u := range s.req.Uses {
		if may == forbidden && q.BorrowsWith(core.Projected, u.Pair, u.Amount) {
			return false
		}
		if u.Amount > q.Room(core.Projected, u.Pair) {
			return false
		}
	}
	if len(s.req.Sets) > 0 && !s.Ledger.Nodes.Fits(place.Request{View: place.After, Sets: s.req.Sets}) {
		s.lacksNodes = true
		return false
	}
	return true
}

// giveBack spares victims without which the request fits as well, beginning with the last but one.
func (s *Searcher) giveBack(may borrowing) {
	for i := len(s.picked) - 2; i >= 0; i-- {
		s.trial.With(&s.picked[i].Allocation)
		if s.fits(may) {
			last := len(s.picked) - 1
			s.picked[i] = s.picked[last]
			s.picked = s.picked[:last]
			continue
		}
		s.trial.Without(&s.picked[i].Allocation)
	}
}

// Grade is the oracle of flavor assignment: which workloads would evicting have to hit to
// make room for one pair alone, and how far would the queue then borrow. skipped is that
// of Find.
func (s *Searcher) Grade(r Request) (mode quota.Mode, level int, skipped Skipped) {
	r.Sets, r.Policy.LeastLost = nil, 0 // a flavor is not chosen by who saved when
	u := r.Uses[0]
	victims, skipped := s.Find(r)
	if len(victims) == 0 {
		level, _ = r.Queue.Level(core.Projected, u.Pair, u.Amount)
		return quota.NoCandidates, level, skipped
	}
	mode = quota.Reclaim
	s.begin()
	defer s.trial.End()
	for _, v := range victims {
		s.trial.Without(&v.Allocation)
		if v.Queue == r.Queue {
			mode = quota.Preempt
		}
	}
	level, _ = r.Queue.Level(core.Projected, u.Pair, u.Amount)
	return mode, level, skipped
}
