package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Usage is what a queue uses of one flavor and resource.
type Usage struct {
	core.FlavorResource
	// Total is reserved, evicted workloads included until they are gone; Borrowed
	// is the part above the nominal quota.
	Total, Borrowed core.Amount
	// Admitted is what workloads use that may run; the others wait for admission
	// checks.
	Admitted core.Amount
}

// Counts are numbers of workloads.
type Counts struct {
	// Active are waiting and can be admitted when their turn comes; Inadmissible
	// are parked until something changes. Reserving hold quota; Evicting are those
	// of them that are on their way out.
	Active, Inadmissible, Reserving, Evicting int
	// Admitted are those that hold quota and may run.
	Admitted int
}

// Pending is how many workloads wait.
func (c Counts) Pending() int { return c.Active + c.Inadmissible }

// Usage lists what a queue uses, sorted by flavor and resource: every pair that
// the queue has quota for or uses.
func (e *Engine) Usage(name string) []Usage {
	q := e.queues[name]
	if q == nil {
		return nil
	}
	var out []Usage
	checking, _ := e.checking(q)
	for _, p := range e.forest.PairsOf(q.node) {
		out = append(out, Usage{
			FlavorResource: e.forest.Name(p),
			Total:          q.node.Usage(core.Current, p),
			Borrowed:       q.node.Borrowed(core.Current, p),
			Admitted:       q.node.Usage(core.Current, p).Sub(amountOf(checking, p)),
		})
	}
	slices.SortFunc(out, func(a, b Usage) int { return a.Compare(b.FlavorResource) })
	return out
}

// checking reports whether a workload holds quota and waits for admission checks.
func (w *workload) checking() bool {
	return (w.State() == running || w.State() == leaving) && !w.assumed && !w.obs.admitted
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

// LocalUsage lists what the workloads of a LocalQueue use, sorted by flavor and
// resource.
func (e *Engine) LocalUsage(namespace, name string) []Usage {
	d := e.localQueues[localQueueKey{namespace, name}]
	if d == nil {
		return nil
	}
	var sum, checking []quota.Use
	for w := range d.workloads { // sums, so order does not matter
		if w.State() == running || w.State() == leaving {
			for _, u := range w.Uses {
				sum = addUse(sum, u)
				if w.checking() {
					checking = addUse(checking, u)
				}
			}
		}
	}
	out := make([]Usage, 0, len(sum))
	for _, u := range sum {
		out = append(out, Usage{FlavorResource: e.forest.Name(u.Pair), Total: u.Amount, Admitted: u.Amount.Sub(amountOf(checking, u.Pair))})
	}
	slices.SortFunc(out, func(a, b Usage) int { return a.Compare(b.FlavorResource) })
	return out
}

// Counts counts the workloads of a queue.
func (e *Engine) Counts(name string) Counts {
	q := e.queues[name]
	if q == nil {
		return Counts{}
	}
	_, n := e.checking(q)
	c := Counts{Reserving: q.reserving, Admitted: q.reserving - n, Evicting: q.evicting, Active: len(q.reserved)}
	for _, g := range q.groups {
		if g.considered() {
			c.Active += g.members.Len()
		}
	}
	pending := 0
	for _, d := range q.localQueues {
		pending += d.counts[waiting] + d.counts[reserved]
	}
	c.Inadmissible = max(0, pending-c.Active)
	return c
}

// LocalCounts counts the workloads of a LocalQueue; those that wait are all
// given as Active.
func (e *Engine) LocalCounts(namespace, name string) Counts {
	d := e.localQueues[localQueueKey{namespace, name}]
	if d == nil {
		return Counts{}
	}
	n := 0
	for w := range d.workloads { // a count, so order does not matter
		if w.checking() {
			n++
		}
	}
	return Counts{
		Admitted:  d.counts[running] + d.counts[leaving] - n,
		Active:    d.counts[waiting] + d.counts[reserved],
		Reserving: d.counts[running] + d.counts[leaving], Evicting: d.counts[leaving],
	}
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
		out[i] = Waiting{Key: w.Key, LocalQueue: w.obs.localQueue, Priority: w.Priority}
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
		for w := range d.workloads {
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

// EachWaiting tells of every workload that waits in a queue, in no order, and
// whether it is parked. It costs time proportional to how many there are.
func (e *Engine) EachWaiting(tell func(queue string, key core.Key, parked bool)) {
	for _, q := range e.sortedQueues() {
		for _, d := range q.localQueues {
			for w := range d.workloads { // they are counted, so order does not matter
				switch w.State() {
				case reserved:
					tell(q.name, w.Key, false)
				case waiting:
					tell(q.name, w.Key, w.group == nil || !w.group.considered())
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
			for w := range d.workloads { // they are counted, so order does not matter
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
