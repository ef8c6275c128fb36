package cycle_test

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// judge finds what can be done for a workload, with fewer pods if it must be;
// nil if nothing.
func (r *reference) judge(w *refWorkload) (level int, act func()) {
	if level, act = r.judgeAll(w); act != nil {
		return level, act
	}
	all := int32(0)
	spare := make([]int32, len(w.PodSets))
	for i, p := range w.PodSets {
		if p.MinCount > 0 {
			spare[i] = max(0, p.Count-p.MinCount)
		}
		all += spare[i]
	}
	type found struct {
		level int
		act   func()
		fit   bool
	}
	try := func(left int32) found {
		full, sets := w.PodSets, slices.Clone(w.PodSets)
		for i := range sets {
			sets[i].Count -= spare[i] * left / all
		}
		w.PodSets = sets
		lv, do := r.judgeAll(w)
		w.PodSets = full
		if do == nil {
			return found{}
		}
		return found{lv, func() {
			w.PodSets = sets
			do()
			w.PodSets = full
		}, r.fit}
	}
	if all == 0 {
		return 0, nil
	}
	best := try(all)
	if best.act == nil {
		return 0, nil
	}
	for lo, hi := int32(1), all; lo < hi; {
		mid := lo + (hi-lo)/2
		if f := try(mid); f.act != nil {
			best, hi = f, mid
		} else {
			lo = mid + 1
		}
	}
	r.fit = best.fit
	return best.level, best.act
}

// reduced is a workload as it is observed while it holds fewer pods than it asked
// for.
func (w *refWorkload) reduced() []core.PodSet {
	sets := slices.Clone(w.PodSets)
	for i := range sets {
		if sets[i].MinCount > 0 {
			sets[i].Count = w.adm.PodSets[i].Count
		}
	}
	return sets
}
