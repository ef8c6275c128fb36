package cycle

import (
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Partial admission (docs/queueing.md, "Fewer pods"; Kueue's KEP 420): a workload whose
// pod sets can do with fewer pods is given fewer when all of them cannot be had, neither now nor by
// evicting others. Among the steps between all and the least, the largest that
// can be had is found by bisection: of delta pods that could be left out in all,
// i are, and every pod set gives up its part of them.
//
// Quota and nodes are judged together at each step. That more pods left out
// never fit worse is assumed, as in Kueue; nothing breaks where it is not so.

// reducible is how many pods of an equivalence class could be left out.
func (s *equivalence) reducible() int32 {
	sum := int32(0)
	for i := range s.podSets {
		sum += spareOf(&s.podSets[i])
	}
	return sum
}

func spareOf(p *core.PodSet) int32 {
	if p.MinCount <= 0 {
		return 0
	}
	return max(p.Count-p.MinCount, 0)
}

// countsWithout are the pods of each pod set when i pods in all are left out; the
// rest of a division stays in.
func (s *equivalence) countsWithout(i int32) []int32 {
	counts := make([]int32, len(s.podSets))
	all := int64(max(s.reducible(), 1))
	for k := range s.podSets {
		p := &s.podSets[k]
		counts[k] = p.Count - int32(int64(spareOf(p))*int64(i)/all) //nolint:gosec // at most Count
	}
	return counts
}

// least is a group's plan with as few pods as it can do with: the plan itself if
// it cannot be reduced.
func (j *judge) least(g *group) *compiled {
	p := j.compile(g)
	if p.least == nil {
		p.least = p
		if n := g.equivalence.reducible(); n > 0 {
			p.least = j.compileFor(g, g.equivalence.countsWithout(n))
		}
	}
	return p.least
}

// reduce judges a workload that was refused with all its pods.
func (j *judge) reduce(w *workload, refused verdict) verdict {
	g := w.group
	most := g.equivalence.reducible()
	if most == 0 || j.compile(g).refusal != nil {
		return refused
	}
	plan := j.least(g)
	found := j.try(w, plan)
	if found.kind == refuse {
		if quota.Permanent(*refused.why) && !quota.Permanent(*found.why) {
			return found // all its pods can never be had, and some can
		}
		return refused
	}
	lo, hi := int32(1), most // hi can be had, whatever is below lo cannot
	last := most
	for lo < hi {
		last = lo + (hi-lo)/2
		p := j.compileFor(g, g.equivalence.countsWithout(last))
		if v := j.try(w, p); v.kind != refuse {
			found, plan, hi = v, p, last
		} else {
			lo = last + 1
		}
	}
	if last != hi { // what was assigned last has to be what was found
		found = j.try(w, plan)
	}
	return found
}
