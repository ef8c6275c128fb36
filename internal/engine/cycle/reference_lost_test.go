package cycle_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// refCounting is how what victims lose counts: docs/queueing.md, "By least lost work".
type refCounting struct {
	now, most int64
	bySecond  bool
}

func (r *reference) counting(w *refWorkload) refCounting {
	return refCounting{now: r.now, most: int64(r.queues[w.queue].Preemption.LeastLost / time.Second)}
}

// seconds are those that count of what a workload did since its last checkpoint.
func (k refCounting) seconds(w *refWorkload) int64 {
	saved, every := w.Saved.Unix(), min(int64(w.SavesEvery/time.Second), k.most)
	if since := k.now - saved; !w.Saved.IsZero() && saved > w.reserved && since > 0 && since <= 2*every {
		return min(since, every)
	}
	return 0
}

// size is the GPUs of a workload and, where its pods are placed, its pods without GPUs.
func (w *refWorkload) size() (gpus, pods int64) {
	placed := false
	for _, p := range w.adm.PodSets {
		i := slices.IndexFunc(w.PodSets, func(o core.PodSet) bool { return o.Name == p.Name })
		for _, at := range p.Places {
			placed = true
			if each := int64(w.PodSets[i].Requests.Of(core.GPU)); each > 0 {
				gpus += each * int64(at.Count)
			} else {
				pods += int64(at.Count)
			}
		}
	}
	if placed {
		return gpus, pods
	}
	for x, n := range w.uses() {
		if x.Resource == core.GPU {
			gpus += int64(n)
		}
	}
	if gpus == 0 {
		pods = 1
	}
	return gpus, pods
}

func (k refCounting) lost(w *refWorkload) (gpus, pods int64) {
	if k.bySecond {
		return k.seconds(w), 0
	}
	gpus, pods = w.size()
	return gpus * k.seconds(w), pods * k.seconds(w)
}

// victimOrder is negative if a goes before b.
func (k refCounting) victimOrder(a, b *refWorkload) int {
	lost := 0
	if k.most > 0 {
		aGPUs, aPods := k.lost(a)
		bGPUs, bPods := k.lost(b)
		lost = cmp.Or(cmp.Compare(aGPUs, bGPUs), cmp.Compare(aPods, bPods))
	}
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), lost, cmp.Compare(b.reserved, a.reserved),
		b.QueueTime.Compare(a.QueueTime), cmp.Compare(a.UID, b.UID))
}

// refPrice is what victims cost: whether some are of the own queue, the highest priority, what counts of their work,
// all of it since they started, and how many they are.
type refPrice [7]int64

func (p refPrice) compare(o refPrice) int { return slices.Compare(p[:], o[:]) }

func (p refPrice) counts() bool { return p[2] > 0 || p[3] > 0 }

func (k refCounting) price(w *refWorkload, victims []*refWorkload) (p refPrice) {
	p[1] = victims[0].Priority
	k.bySecond = false
	for _, v := range victims {
		if v.adm.Queue == w.queue {
			p[0] = 1
		}
		p[1] = max(p[1], v.Priority)
		gpus, pods := k.lost(v)
		p[2], p[3] = p[2]+gpus, p[3]+pods
		if len(v.adm.PodSets) > 0 && slices.ContainsFunc(v.adm.PodSets, func(s core.PodSetAdmission) bool {
			return len(s.Places) > 0
		}) {
			gpus, pods = v.size()
			p[4], p[5] = p[4]+gpus*(k.now-v.reserved), p[5]+pods*(k.now-v.reserved)
		}
		p[6]++
	}
	return p
}
