package cycle_test

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// refLocalQueue is what a LocalQueue is remembered for, in floating point.
type refLocalQueue struct {
	weight float64
	used   map[string]float64
	at     time.Time
}

// How past usage counts in the duel.
const (
	refHalfLife = 20 * time.Second
	refSampling = 6 * time.Second
)

func refAlpha(d time.Duration) float64 { return 1 - math.Exp2(-d.Seconds()/refHalfLife.Seconds()) }

// localQueueOf is the LocalQueue of a workload, by queue and name.
func localQueueOf(w *refWorkload) string { return w.queue + "/" + w.Queue }

// sample counts the usage since the last sampling.
func (r *reference) sample(now time.Time) {
	for name, d := range r.localQueues {
		queue, _, _ := cutLocalQueue(name)
		if r.queues[queue].UsageBased && d.at.IsZero() {
			d.at = now
		}
	}
	if r.sampled.IsZero() {
		r.sampled = now
	}
	if now.Before(r.sampled.Add(refSampling)) {
		return
	}
	metered := false
	for name, d := range r.localQueues {
		queue, _, _ := cutLocalQueue(name)
		if !r.queues[queue].UsageBased {
			continue
		}
		metered = true
		inUse := map[string]float64{}
		for _, w := range r.workloads {
			if localQueueOf(w) == name && (w.phase == refRunning || w.phase == refLeaving) && !w.unseen {
				for x, v := range w.uses() {
					inUse[x.Resource] += float64(v)
				}
			}
		}
		a := refAlpha(now.Sub(d.at))
		for _, res := range []string{core.CPU, core.GPU} {
			d.used[res] = d.used[res]*(1-a) + inUse[res]*a
		}
		d.at = now
	}
	if metered {
		r.sampled = now
	}
}

func cutLocalQueue(s string) (queue, name string, ok bool) {
	i := slices.Index([]byte(s), '/')
	return s[:i], s[i+1:], true
}

// stands is the usage of a workload's LocalQueue for its weight, costs included.
func (r *reference) stands(w *refWorkload) float64 {
	d := r.localQueues[localQueueOf(w)]
	if d.weight == 0 {
		return math.Inf(1)
	}
	sum := 0.0
	for _, res := range []string{core.CPU, core.GPU} {
		v := d.used[res]
		for _, o := range r.sorted() {
			if localQueueOf(o) == localQueueOf(w) {
				v += o.costs[res]
			}
		}
		if res == core.CPU {
			v /= 1000
		}
		sum += v
	}
	return sum / d.weight
}

// charge makes an admission cost its LocalQueue.
func (r *reference) charge(w *refWorkload) {
	if !r.queues[w.queue].UsageBased {
		return
	}
	w.costs = map[string]float64{}
	for x, v := range w.uses() {
		w.costs[x.Resource] += float64(v) * refAlpha(refSampling)
	}
}

// fold makes the costs of a workload past usage once it is seen as admitted.
func (r *reference) fold(w *refWorkload) {
	for res, v := range w.costs {
		r.localQueues[localQueueOf(w)].used[res] += v
	}
	w.costs = nil
}

// inQueue orders the workloads of a queue.
func (r *reference) inQueue(name string) []*refWorkload {
	out := slices.DeleteFunc(r.sorted(), func(w *refWorkload) bool { return w.queue != name })
	if r.queues[name].UsageBased {
		slices.SortStableFunc(out, func(a, b *refWorkload) int { return r.compareStands(a, b) })
	}
	return out
}

// compareStands compares in grains of a 2^-10 of a thousandth. It notes if floating
// point cannot tell in which of two grains a usage is.
func (r *reference) compareStands(a, b *refWorkload) int {
	x, y := r.stands(a), r.stands(b)
	m, closeM := grain(x)
	n, closeN := grain(y)
	r.tied = r.tied || localQueueOf(a) != localQueueOf(b) && (closeM || closeN) && math.Abs(m-n) <= 1
	return cmp.Compare(m, n)
}

// grain is the number of the grain in which a standing is, and whether it is close
// to its border.
func grain(x float64) (n float64, atBorder bool) {
	v := x*1000*1024 + math.Phi - 1
	return math.Floor(v), math.Abs(v-math.Round(v)) < 1e-4
}

// merge puts candidates in the order in which they are evicted: those of each
// queue by past usage where that counts, the queues by what is next in each.
func (r *reference) merge(all []*refWorkload) []*refWorkload {
	byQueue := map[string][]*refWorkload{}
	for _, c := range all {
		byQueue[c.adm.Queue] = append(byQueue[c.adm.Queue], c)
	}
	victim := r.order.victimOrder
	for name, l := range byQueue {
		slices.SortFunc(l, victim)
		if r.queues[name].UsageBased {
			slices.SortStableFunc(l, func(a, b *refWorkload) int { return r.compareStands(b, a) })
		}
	}
	var out []*refWorkload
	for range all {
		best := ""
		for name, l := range byQueue {
			if len(l) > 0 && (best == "" || victim(l[0], byQueue[best][0]) < 0) {
				best = name
			}
		}
		out = append(out, byQueue[best][0])
		byQueue[best] = byQueue[best][1:]
	}
	return out
}
