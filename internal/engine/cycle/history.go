package cycle

import (
	"maps"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/order"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Admission fair sharing (docs/queueing.md, "Sharing a queue by past use"; Kueue's KEP
// 4136). In a queue with UsageBased the LocalQueue that used less in the past, for its weight, goes first,
// before priority and time; and is evicted from last.
//
// What a LocalQueue used is sampled: at each sampling the usage of its admitted
// workloads counts for the time since the last one, and what was there counts
// less. A workload that was given quota costs its LocalQueue at once what it will
// have used by the next sampling; the cost becomes past usage when the workload
// is admitted, and is given back if it never is. So one LocalQueue cannot take a
// whole queue between two samplings.
//
// Groups of waiting workloads belong to one LocalQueue there, so that a change of
// its standing moves whole groups in their queue and nothing else.

const (
	defaultHalfLife = 7 * 24 * time.Hour
	defaultSampling = 5 * time.Minute
)

// past is what a local queue is remembered for.
type past struct {
	used   map[string]order.Past // by resource
	costs  map[string]order.Past // of workloads that are not admitted yet
	at     time.Time             // of the last sampling
	stands core.UsageRank
}

// usageBased reports whether the queue's local queues go by past usage.
func (q *queue) usageBased() bool { return q.spec != nil && q.spec.UsageBased }

// nextWake is when past usage is to be counted; zero if it is not.
func (h *history) nextWake() time.Time {
	if len(h.metered) == 0 {
		return time.Time{}
	}
	return h.sampled.Add(h.opt.AdmissionFairSharing.Sampling)
}

// remember starts the memory of a local queue, with what the API remembers.
func (h *history) remember(d *localQueue) {
	if d.past != nil || d.spec == nil {
		return
	}
	d.past = &past{used: map[string]order.Past{}, costs: map[string]order.Past{}, at: d.spec.ConsumedAt}
	for _, r := range d.spec.Consumed {
		d.past.used[r.Resource] = order.Thousandths(r.Amount)
	}
}

// settleUsage lists the local queues of queues that go by usage, and regroups the
// workloads of a queue that began or ceased to.
func (h *history) settleUsage() {
	h.metered = h.metered[:0]
	for _, d := range h.sortedLocalQueues() {
		if d.spec == nil || !d.queue.usageBased() {
			h.meter(d, nil)
			continue
		}
		h.remember(d)
		if d.past.at.IsZero() {
			d.past.at = h.now
		}
		h.metered = append(h.metered, d)
		h.stand(d)
		h.meter(d, &d.past.stands)
	}
	for _, q := range h.sortedQueues() {
		if q.byUsage == q.usageBased() {
			continue
		}
		q.byUsage = q.usageBased()
		for _, d := range q.localQueues {
			for _, w := range d.sorted() {
				if w.group != nil {
					h.pending.depart(w, w.group)
					h.pending.enter(w)
				}
			}
		}
	}
	if h.sampled.IsZero() {
		h.sampled = h.now
	}
}

// meter says where a local queue stands from now on; nil if its queue does not ask.
func (h *history) meter(d *localQueue, stands *core.UsageRank) {
	if d.stands == stands {
		return
	}
	d.stands = stands
	for _, w := range d.workloads { // each alike, so order does not matter
		if w.State() == running {
			w.Stands = stands
		}
	}
}

// sample counts the usage of the time since the last sampling.
func (h *history) sample() {
	if len(h.metered) == 0 || h.now.Before(h.sampled.Add(h.opt.AdmissionFairSharing.Sampling)) {
		return
	}
	h.sampled = h.now
	for _, d := range h.metered {
		var sum []quota.Use
		for _, w := range d.workloads { // a sum, so order does not matter
			if (w.State() == running || w.State() == leaving) && w.obs.admitted {
				for _, u := range w.Uses {
					sum = addUse(sum, u)
				}
			}
		}
		inUse := map[string]core.Amount{}
		for _, u := range sum {
			r := h.forest.Name(u.Pair).Resource
			inUse[r] = inUse[r].Add(u.Amount)
		}
		keep := order.Decay(h.now.Sub(d.past.at), h.opt.AdmissionFairSharing.HalfLife)
		for r := range d.past.used {
			inUse[r] = inUse[r].Add(0)
		}
		for r, amount := range inUse { // each on its own, so order does not matter
			if p := d.past.used[r].Fade(keep, amount); p.IsZero() {
				delete(d.past.used, r)
			} else {
				d.past.used[r] = p
			}
		}
		d.past.at = h.now
		h.restand(d)
	}
}

// charge makes a workload that was just given quota cost its LocalQueue what it
// will have used by the next sampling.
func (h *history) charge(w *workload) {
	d := w.localQueue
	if d.stands == nil {
		return
	}
	share := order.One - order.Decay(h.opt.AdmissionFairSharing.Sampling, h.opt.AdmissionFairSharing.HalfLife)
	w.costs = map[string]order.Past{}
	for _, u := range w.Uses {
		r := h.forest.Name(u.Pair).Resource
		c := order.Share(u.Amount, share)
		w.costs[r] = w.costs[r].Plus(c)
		d.past.costs[r] = d.past.costs[r].Plus(c)
	}
	w.charged = d
	h.restand(d)
}

// outcome is what became of a workload that was charged a cost.
type outcome uint8

const (
	withdrawn outcome = iota // it never ran
	admitted
)

// discharge ends the cost of a workload: it counts as used if the workload was
// admitted, and is given back if it never was.
func (h *history) discharge(w *workload, as outcome) {
	d := w.charged
	if d == nil {
		return
	}
	for r, c := range w.costs { // each on its own, so order does not matter
		if d.past.costs[r] = d.past.costs[r].Minus(c); d.past.costs[r].IsZero() {
			delete(d.past.costs, r)
		}
		if as == admitted {
			d.past.used[r] = d.past.used[r].Plus(c)
		}
	}
	w.charged, w.costs = nil, nil
	h.restand(d)
}

// stand computes where a local queue stands.
func (h *history) stand(d *localQueue) {
	all := map[string]bool{}
	for _, m := range []map[string]order.Past{d.past.used, d.past.costs} {
		for r := range m {
			all[r] = true
		}
	}
	var usage []order.Weighed
	for _, r := range slices.Sorted(maps.Keys(all)) {
		weight, ok := h.opt.AdmissionFairSharing.Weights[r]
		if !ok {
			weight = core.WeightOne
		}
		usage = append(
			usage,
			order.Weighed{Resource: r, Past: d.past.used[r].Plus(d.past.costs[r]), Weight: weight},
		)
	}
	d.past.stands = order.StandingOf(usage, core.WeightOr(d.spec.Weight))
}

// restand does so after a change, and moves the local queue's groups in their queue.
func (h *history) restand(d *localQueue) {
	if d.spec == nil || d.stands == nil {
		return
	}
	before := d.past.stands
	h.stand(d)
	if before == d.past.stands {
		return
	}
	q := d.queue
	q.active.Sort()
	if b := q.blocker; b != nil && q.active.Len() > 0 && q.first() != b {
		h.pending.unblock(q) // another one is first now
	}
	h.pending.headReservationsChange(q)
	h.pending.turns.rehead(q)
}

// Consumed is what a LocalQueue used in the past, older use counting less, in
// thousandths of base units, and when that was computed. It is false unless the
// LocalQueue's queue goes by usage.
func (e *Engine) Consumed(namespace, name string) (core.Resources, time.Time, bool) {
	d := e.localQueues[localQueueKey{namespace, name}]
	if d == nil || d.stands == nil {
		return nil, time.Time{}, false
	}
	used := map[string]core.Amount{}
	for r, p := range d.past.used {
		used[r] = p.Thousandths()
	}
	return core.MakeResources(used), d.past.at, true
}
