package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Load is how full a queue is, without its share: every flavor and resource that it
// has quota for or uses is in it.
func (e *Engine) Load(name string) core.Load {
	q := e.queues[name]
	if q == nil {
		return core.Load{}
	}
	checking, n := e.checking(q)
	out := core.Load{
		Reserving: q.reserving, Evicting: q.evicting, Admitted: q.reserving - n, Pending: len(q.reserved),
		Reserved: map[core.FlavorResource]core.Amount{}, Used: map[core.FlavorResource]core.Amount{},
	}
	for _, p := range e.forest.PairsOf(q.node) {
		reserved := q.node.Usage(core.Current, p)
		out.Reserved[e.forest.Name(p)], out.Used[e.forest.Name(p)] = reserved, reserved.Sub(amountOf(checking, p))
		if cut := q.node.Cut(p); cut > 0 {
			if out.Cut == nil {
				out.Cut = map[core.FlavorResource]core.Amount{}
			}
			out.Cut[e.forest.Name(p)] = cut
		}
	}
	for _, g := range q.groups {
		if g.considered() {
			out.Pending += g.members.Len()
		}
	}
	waits := 0
	for _, d := range q.localQueues {
		waits += d.counts[waiting] + d.counts[reserved] - d.held
	}
	out.Inadmissible = max(0, waits-out.Pending)
	return out
}

// checking reports whether a workload holds quota and waits for admission checks.
func (w *workload) checking() bool {
	return (w.State() == running || w.State() == leaving) && !w.assumed() && !w.obs.admitted
}

// checking sums what such workloads of a queue use, and counts them.
func (e *Engine) checking(q *queue) (sum []quota.Use, n int) {
	add := func(w *workload) {
		if w.Queue == q.node && w.checking() {
			n++
			for _, u := range w.Uses {
				sum = addUse(sum, u)
			}
		}
	}
	for _, c := range e.judge.search.Running(q.node) {
		add(e.byID[c.ID])
	}
	for _, w := range e.admissions.leaving {
		add(w)
	}
	return sum, n
}

// LocalLoad is how full a LocalQueue is: what its workloads use, who waits, parked or not as the
// load of its queue has it, and what was used in the past.
func (e *Engine) LocalLoad(namespace, name string) core.Load {
	d := e.localQueues[localQueueKey{namespace, name}]
	if d == nil {
		return core.Load{}
	}
	out := core.Load{
		Pending: d.counts[reserved], Reserving: d.counts[running] + d.counts[leaving], Evicting: d.counts[leaving],
		Reserved: map[core.FlavorResource]core.Amount{}, Used: map[core.FlavorResource]core.Amount{},
	}
	for _, w := range d.workloads { // sums, so order does not matter
		switch {
		case w.State() != waiting, w.counted: // what is held does not wait for quota
		case w.group != nil && w.group.considered():
			out.Pending++
		default:
			out.Inadmissible++
		}
		if w.State() != running && w.State() != leaving {
			continue
		}
		if !w.checking() {
			out.Admitted++
		}
		for _, u := range w.Uses {
			of := e.forest.Name(u.Pair)
			out.Reserved[of] = out.Reserved[of].Add(u.Amount)
			if !w.checking() {
				out.Used[of] = out.Used[of].Add(u.Amount)
			}
		}
	}
	out.Consumed, out.ConsumedAt, _ = e.Consumed(namespace, name)
	return out
}

// Positions lists the waiting workloads of a queue in the order in which they
// are considered.
func (e *Engine) Positions(name string) []core.Key {
	all := e.line(name)
	keys := make([]core.Key, len(all))
	for i, w := range all {
		keys[i] = w.Key
	}
	return keys
}

// Waiting is a workload that waits in a queue.
type Waiting struct {
	Key core.Key
	// LocalQueue is its local queue in its namespace.
	LocalQueue string
	Priority   int64
}

// Line lists the waiting workloads of a queue in the order in which they are
// considered, whether they can be admitted now or not. It is false if the queue
// is not defined.
func (e *Engine) Line(name string) ([]Waiting, bool) {
	if q := e.queues[name]; q == nil || q.spec == nil {
		return nil, false
	}
	all := e.line(name)
	out := make([]Waiting, len(all))
	for i, w := range all {
		out[i] = Waiting{Key: w.Key, LocalQueue: w.localQueue.key.name, Priority: w.Priority}
	}
	return out, true
}

func (e *Engine) line(name string) []*workload {
	q := e.queues[name]
	if q == nil {
		return nil
	}
	var all []*workload
	for _, d := range q.localQueues {
		for _, w := range d.workloads {
			if w.State() == waiting || w.State() == reserved {
				all = append(all, w)
			}
		}
	}
	slices.SortFunc(all, func(a, b *workload) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	return all
}

// EachWaiting tells of every workload that waits in a queue and is not held, in no
// order, and whether it is parked. It costs time proportional to how many there are.
func (e *Engine) EachWaiting(tell func(queue string, key core.Key, parked bool)) {
	for _, q := range e.sortedQueues() {
		for _, d := range q.localQueues {
			for _, w := range d.workloads { // they are counted, so order does not matter
				switch w.State() {
				case reserved:
					tell(q.name, w.Key, false)
				case waiting:
					if !w.counted { // what is held waits for its user
						tell(q.name, w.Key, w.group == nil || !w.group.considered())
					}
				case running, leaving:
				}
			}
		}
	}
}

// EachAdmitted tells of every workload that is admitted. It costs time
// proportional to how many there are.
func (e *Engine) EachAdmitted(tell func(queue string, key core.Key)) {
	for _, q := range e.sortedQueues() {
		for _, d := range q.localQueues {
			for _, w := range d.workloads { // they are counted, so order does not matter
				if (w.State() == running || w.State() == leaving) && !w.checking() {
					tell(q.name, w.Key)
				}
			}
		}
	}
}

// QueueOf names the queue that a LocalQueue leads to, false if the LocalQueue is
// not defined.
func (e *Engine) QueueOf(namespace, name string) (string, bool) {
	d := e.localQueues[localQueueKey{namespace, name}]
	if d == nil || d.spec == nil {
		return "", false
	}
	return d.spec.Queue, true
}

// Share is the dominant resource share of a queue by what is reserved now, in
// thousandths, rounded up: what status.fairSharing.weightedShare shows. It is 0
// for unknown queues and those without a cohort, math.MaxInt64 for a queue of
// weight 0 that borrows. Edits count from the next Decide.
func (e *Engine) Share(queue string) int64 { return e.ShareOf(queue).Value() }

// ShareOf is Share before it is rounded.
func (e *Engine) ShareOf(queue string) quota.DominantResourceShare {
	q := e.queues[queue]
	if q == nil || e.forest.Dirty() {
		return quota.DominantResourceShare{}
	}
	return q.node.Share(core.Current)
}

// Shares reports whether fair sharing is on.
func (e *Engine) Shares() bool { return e.opt.FairSharing != nil }

// CohortShare is the same for a cohort; 0 for a root.
func (e *Engine) CohortShare(cohort string) int64 { return e.CohortShareOf(cohort).Value() }

// CohortShareOf is CohortShare before it is rounded.
func (e *Engine) CohortShareOf(cohort string) quota.DominantResourceShare {
	n := e.forest.Named(cohort)
	if n == nil || e.forest.Dirty() {
		return quota.DominantResourceShare{}
	}
	return n.Share(core.Current)
}

// Closed says why a queue admits nothing; false if it is open.
func (e *Engine) Closed(name string) (core.Reason, bool) {
	q := e.queues[name]
	if q == nil || q.closed == nil {
		return core.Reason{}, false
	}
	return *q.closed, true
}

// Holding returns what a workload holds by the engine's account, including what
// was decided and not observed yet.
func (e *Engine) Holding(k core.Key) (core.Admission, bool) {
	w := e.workloads[k]
	if w == nil || (w.State() != running && w.State() != leaving) {
		return core.Admission{}, false
	}
	return *w.admission, true
}
