package preempt

import (
	"cmp"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Least lost work: where the policy of the request says so (core.Preemption.LeastLost), of victims of the same standing
// those go that lose the least. What a victim loses counts as far as it is known by what its job reported of its
// checkpoints. One that reports none, or did so long ago, counts as one that has just saved: who never reports gains
// nothing. Who reports some only counts as one that saves so seldom, as far as the policy lets it count.
//
// Whether there are victims does not depend on it, since what is lost grows with the time, and nobody looks again when
// only that has changed. So victims are looked for in Kueue's order first, and those of another order stand in their
// place if less is lost with them.

// Saves is what is known of the checkpoints of a workload that runs.
type Saves struct {
	// At is when it saved last, in seconds; before it was admitted it saved nothing of what it does now.
	At int64
	// Every is the time between its last two checkpoints, or from its start to the first, in seconds; 0 if that is not known.
	Every int64
}

// counting says how much of what is lost counts: none if most is 0.
type counting struct {
	// now and most are in seconds.
	now, most int64
	ledger    *ledger.Ledger
}

// Counted is how many seconds of what a workload did since its last checkpoint count as lost, at most so many. A report
// lapses when the next one is overdue by as long as it should have taken, or may.
func (c *Candidate) Counted(now, most int64) int64 {
	at, saved := c.Since()
	if !saved {
		return 0
	}
	every := min(c.Saves.Every, most)
	if now-at > 2*every {
		return 0
	}
	return max(0, min(now-at, every))
}

// Since is since when what a workload does would be lost, in seconds, and whether that is a checkpoint.
func (c *Candidate) Since() (at int64, saved bool) {
	if c.Saves != nil && c.Saves.At > c.Reserved {
		return c.Saves.At, true
	}
	return c.Reserved, false
}

// loss is work in two numbers: the packed resource times seconds, and for pods that have none of it those times seconds.
type loss struct{ work, pods int64 }

func (l loss) compare(o loss) int {
	return cmp.Or(cmp.Compare(l.work, o.work), cmp.Compare(l.pods, o.pods))
}

func (l loss) plus(o loss) loss { return loss{l.work + o.work, l.pods + o.pods} }

func (l loss) times(n int64) loss { return loss{l.work * n, l.pods * n} }

// size is what a workload loses in a second. Where quota alone decides, it is its quota of the packed resource.
func (k counting) size(c *Candidate) (l loss) {
	for _, h := range c.Holds {
		if packed := h.Packed(); packed > 0 {
			l.work += packed
		} else {
			l.pods += int64(h.Count)
		}
	}
	if len(c.Holds) > 0 {
		return l
	}
	for _, u := range c.Uses {
		if k.ledger.Forest.Name(u.Pair).Resource == k.ledger.Nodes.PackedResource() {
			l.work += int64(u.Amount)
		}
	}
	if l.work == 0 {
		l.pods = 1
	}
	return l
}

// of is what counts of what a workload loses.
func (k counting) of(c *Candidate) loss {
	if k.most <= 0 || c.Interrupted {
		return loss{}
	}
	seconds := c.Counted(k.now, k.most)
	if seconds == 0 {
		return loss{}
	}
	return k.size(c).times(seconds)
}

// counting is how the request counts what is lost.
func (s *Searcher) counting() counting {
	return counting{s.req.Now, int64(s.req.Policy.LeastLost / time.Second), s.Ledger}
}

// ordering is in which order candidates go: Kueue's where nothing counts.
type ordering struct {
	counting
	// bySecond orders by what each loses for its size, and not in all: a large one may lose less than the many small
	// ones that would go in its place.
	bySecond bool
}

// lost is by what a candidate is ordered among those of its standing.
func (o ordering) lost(c *Candidate) loss {
	if o.bySecond && o.most > 0 && !c.Interrupted {
		return loss{work: c.Counted(o.now, o.most)}
	}
	return o.of(c)
}

// compare is negative if a is evicted before b.
func (o ordering) compare(a, b *Candidate) int {
	if o.most > 0 && a.Priority == b.Priority && a.Interrupted == b.Interrupted {
		if by := o.lost(a).compare(o.lost(b)); by != 0 {
			return by
		}
	}
	return victimOrder(a, b)
}

// ranking names the running workloads of a queue in one of the orders in which something counts.
type ranking struct {
	queue    int
	bySecond bool
}

// ordered are the running workloads of a queue in the order that is set, the last victim first. They are sorted once in
// a search, which looks for candidates again and again.
func (s *Searcher) ordered(q *quota.Node) []*Candidate {
	l := s.Running(q)
	if s.order.most <= 0 {
		return l
	}
	key := ranking{q.ID, s.order.bySecond}
	if is, known := s.ranked[key]; known {
		return is
	}
	if s.ranked == nil {
		s.ranked = map[ranking][]*Candidate{}
	}
	is := s.order.sorted(l)
	s.ranked[key] = is
	return is
}

// sorted are the running workloads of a queue, the last victim first, as Running lists them where nothing counts.
func (o ordering) sorted(l []*Candidate) []*Candidate {
	type ranked struct {
		*Candidate
		lost loss
	}
	all, some := make([]ranked, len(l)), false
	for i, c := range l {
		all[i] = ranked{c, o.lost(c)}
		some = some || all[i].lost != loss{}
	}
	if !some {
		return l
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		if a.Priority != b.Priority || a.Interrupted != b.Interrupted {
			return victimOrder(b.Candidate, a.Candidate)
		}
		return b.lost.compare(a.lost)
	})
	out := make([]*Candidate, len(l))
	for i, r := range all {
		out[i] = r.Candidate
	}
	return out
}

// leastLost searches victims, and where what they lose counts and they lose some, in the orders of that, too: those
// stand that lose the least. search picks victims in the order that is set, and reports whether the request fits then;
// collect looks for candidates anew. The trial has taken nothing off when it begins.
func (s *Searcher) leastLost(search, collect func() bool) bool {
	if !search() {
		return false
	}
	k := s.counting()
	if least := s.priceOf(s.picked); k.most > 0 && least.counted != (loss{}) {
		best := slices.Clone(s.picked)
		for _, bySecond := range []bool{false, true} {
			s.trial.Restore()
			s.order = ordering{k, bySecond}
			if collect() && search() {
				if is := s.priceOf(s.picked); is.compare(least) < 0 {
					best, least = append(best[:0], s.picked...), is
				}
			}
		}
		s.order = ordering{}
		s.picked = append(s.picked[:0], best...)
	}
	return true
}
