package replay

import (
	"slices"
	"time"
)

// Summary is what happened between two times, by ClusterQueue.
type Summary struct {
	From, To time.Time
	// Queues by name, those only in which something was; Total is of all, and has no name.
	Queues []QueueSummary
	Total  QueueSummary
	// Nodes and Other count changes of nodes, and of queues, cohorts and flavors.
	Nodes, Other int
}

// QueueSummary is what happened in one ClusterQueue.
type QueueSummary struct {
	Queue string `json:",omitempty"`
	// Submitted, Admitted, Evicted and Gone count what happened between the times; Waiting
	// and Holding are the jobs that waited and that held quota in the end.
	Submitted, Admitted, Evicted, Gone, Waiting, Holding int
	// WaitP50 and WaitP90 are of the jobs that were admitted for the first time then, from
	// their creation on, in seconds; nil if there were none.
	WaitP50, WaitP90 *float64 `json:",omitempty"`

	waits []time.Duration
}

// summary counts what is wanted from a time on.
func (h *history) summary(is wanted, from, to time.Time) *Summary {
	s := &Summary{From: from, To: to}
	all := map[string]*QueueSummary{}
	both := func(queue string, note func(*QueueSummary)) {
		q := all[queue]
		if q == nil {
			q = &QueueSummary{Queue: queue}
			all[queue] = q
		}
		note(q)
		note(&s.Total)
	}
	for _, m := range h.timeline(is, from) {
		both(m.Queue, func(q *QueueSummary) { q.count(m.Is) })
		switch {
		case m.Is != Changed:
		case m.node:
			s.Nodes++
		default:
			s.Other++
		}
	}
	lives := append(slices.Clone(h.ended), h.sorted()...)
	for _, l := range lives {
		if !is(l.key, l.Queue) {
			continue
		}
		both(l.Queue, func(q *QueueSummary) {
			if l.waited != nil && !l.admitted.Before(from) {
				q.waits = append(q.waits, *l.waited)
			}
			switch l.State {
			case waits:
				q.Waiting++
			case holds:
				q.Holding++
			}
		})
	}
	for _, name := range sorted(all) {
		if q := all[name]; name != "" {
			q.rank()
			s.Queues = append(s.Queues, *q)
		}
	}
	s.Total.rank()
	return s
}

func (q *QueueSummary) count(is Event) {
	switch is {
	case Submitted:
		q.Submitted++
	case Admitted:
		q.Admitted++
	case Evicted:
		q.Evicted++
	case Gone:
		q.Gone++
	case Known, Waits, Replaced, Changed:
	}
}

// rank sets the waits below which half of the jobs were, and nine in ten.
func (q *QueueSummary) rank() {
	n := len(q.waits)
	if n == 0 {
		return
	}
	slices.Sort(q.waits)
	at := func(percent int) *float64 { return new(q.waits[(n*percent+99)/100-1].Seconds()) }
	q.WaitP50, q.WaitP90 = at(50), at(90)
}
