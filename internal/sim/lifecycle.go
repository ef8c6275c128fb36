package sim

import (
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// What becomes of a job between its quota and its pods, and of pods that are done
// before the others.

// checkOf is the admission check of a queue; nil if it has none.
func (r *Run) checkOf(queue string) *Check {
	for i := range r.world.Checks {
		if r.world.Checks[i].Queue == queue {
			return &r.world.Checks[i]
		}
	}
	return nil
}

// agreed lets a job run that has quota: its pods are made.
func (r *Run) agreed(j *job) {
	j.checked = true
	r.enter(j, starting)
	r.changed(j)
	r.at(j, doReady, r.faults().start(j))
}

// answer is what an admission check makes of a job that has quota.
func (r *Run) answer(j *job) {
	c := r.checkOf(j.admission.Queue)
	luck := 1.0
	if c.Retry > 0 || c.Reject > 0 {
		luck = share(r.draw("check " + j.spec.UID))
	}
	switch {
	case luck < c.Reject:
		j.held = "an admission check rejected it"
	case luck < c.Reject+c.Retry:
		j.notBefore = r.clock().Add(c.Backoff)
		r.queue.push(item{at: r.now + int64(c.Backoff), kind: doRetry})
	default:
		r.agreed(j)
		return
	}
	r.sendBack(j)
}

// podSets are the pods that still have to run: of all it asks for, or of those
// that it was given.
func (j *job) podSets() []core.PodSet {
	sets := j.spec.PodSets
	reduced := j.past > 0 || len(j.ended) > 0
	for i := range sets {
		reduced = reduced || sets[i].MinCount > 0
	}
	if !reduced {
		return sets
	}
	sets = append([]core.PodSet(nil), sets...)
	sets[0].Count -= j.past
	for i := range sets {
		p := &sets[i]
		p.MinCount = min(p.MinCount, p.Count)
		if j.admission != nil {
			p.Count = min(p.Count, j.admission.PodSets[i].Count) - endedOf(j.ended, p.Name)
		}
	}
	return sets
}

// early is how many pods of the first pod set end before the others.
func (j *job) early() int32 {
	return min(j.spec.EarlyPods-j.past-endedPods(j.ended), j.admission.PodSets[0].Count-endedPods(j.ended)-1)
}

// endEarly is the end of a running job's early pods: those on the last nodes.
func (r *Run) endEarly(j *job) {
	n := j.early()
	p := &j.admission.PodSets[0]
	ended := core.PodSetPlaces{Name: p.Name}
	if len(p.Places) == 0 { // quota alone decided
		ended.Places = []core.Place{{Count: endedPods(j.ended) + n}}
	}
	left := n + endedPods(j.ended)
	for i := len(p.Places) - 1; i >= 0 && left > 0; i-- {
		gone := min(left, p.Places[i].Count)
		left -= gone
		ended.Places = append([]core.Place{{Node: p.Places[i].Node, Count: gone}}, ended.Places...)
	}
	j.ended = []core.PodSetPlaces{ended}
	r.meter.shrunk(j)
	r.changed(j)
	r.workloads().enqueue(j)
}

// endedOf counts the pods of a pod set that ended, endedOn those on a node, and
// endedPods all.
func endedOf(ended []core.PodSetPlaces, set string) (n int32) {
	for _, p := range ended {
		for _, pl := range p.Places {
			if p.Name == set {
				n += pl.Count
			}
		}
	}
	return n
}

func endedPods(ended []core.PodSetPlaces) (n int32) {
	for _, p := range ended {
		n += endedOf(ended, p.Name)
	}
	return n
}

// unitsLeft is what the pods of a job ask for that it was given and that have not
// ended.
func (j *job) unitsLeft(unit string) (sum core.Amount) {
	for i := range j.admission.PodSets {
		p := &j.admission.PodSets[i]
		sum = sum.Add(j.spec.PodSets[i].Requests.Of(unit).Mul(int64(p.Count - endedOf(j.ended, p.Name))))
	}
	return sum
}

// pace is the share of its pods that a job was given.
func (j *job) pace() float64 {
	var all, given int32
	for i := range j.spec.PodSets {
		all += j.spec.PodSets[i].Count
		given += j.admission.PodSets[i].Count
	}
	given += j.past
	if given >= all || given == 0 {
		return 1
	}
	return float64(given) / float64(all)
}

// needs is how long a job runs for so much work, progress how much it does in a
// time.
func (j *job) needs(work time.Duration) time.Duration {
	if p := j.pace(); p < 1 {
		return time.Duration(float64(work) / p)
	}
	return work
}

func (j *job) progress(ran time.Duration) time.Duration {
	if p := j.pace(); p < 1 {
		return time.Duration(float64(ran) * p)
	}
	return ran
}

// keepUsage has the API remember what local queues used in the past, as their
// status does.
func (r *Run) keepUsage() {
	for i, ev := range r.cluster.objects {
		d, ok := ev.(core.LocalQueueSet)
		if !ok {
			continue
		}
		if used, at, metered := r.engine.Consumed(d.LocalQueue.Namespace, d.LocalQueue.Name); metered {
			d.LocalQueue.Consumed, d.LocalQueue.ConsumedAt = used, at
			r.cluster.objects[i] = d
		}
	}
}
