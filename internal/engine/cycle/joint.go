package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Pod sets of one group (core.PodSet.Group) share a flavor of each resource group
// (docs/queueing.md, "Which flavor"). Flavors are then chosen for all of them at once:
// each common choice is an assignment of its own, and among those the same preferences hold as
// among the flavors of one pod set.

// jointAsks lists the asks that have to get the same flavor: of the same group and the
// same flavors.
func jointAsks(s *equivalence, p *compiled) [][]int {
	var out [][]int
	done := make([]bool, len(p.Requests))
	for i := range p.Requests {
		group := s.podSets[p.Requests[i].Set].Group
		if group == "" || done[i] {
			continue
		}
		together := []int{i}
		for k := i + 1; k < len(p.Requests); k++ {
			if s.podSets[p.Requests[k].Set].Group == group && sameFlavors(p.Requests[i], p.Requests[k]) {
				together, done[k] = append(together, k), true
			}
		}
		if len(together) > 1 && len(p.Requests[i].Options) > 1 {
			out = append(out, together)
		}
	}
	return out
}

func sameFlavors(a, b quota.Request) bool {
	return slices.EqualFunc(a.Options, b.Options, func(x, y quota.Option) bool { return x.Flavor == y.Flavor })
}

// choice is a flavor for each list of asks that go together, and what came of it.
type choice struct {
	options []int
	mode    quota.Mode
	level   int
}

// tryJointly is try for a plan with asks that have to get the same flavor.
func (j *judge) tryJointly(w *workload, p *compiled) verdict {
	var choices []choice
	for c := (choice{options: make([]int, len(p.joint))}); len(choices) < maxCombinations; {
		j.assignJointly(p, c.options)
		c.mode, c.level = j.assigned.Mode, j.assigned.Level
		at := len(choices)
		if p.Enough(c.mode, c.level) {
			at = 0 // no further choice is looked at
		} else if better := slices.IndexFunc(choices, func(o choice) bool {
			return p.Prefers(c.mode, c.level, o.mode, o.level)
		}); better >= 0 {
			at = better
		}
		choices = slices.Insert(choices, at, choice{slices.Clone(c.options), c.mode, c.level})
		if p.Enough(c.mode, c.level) || !p.nextChoice(c.options) {
			break
		}
	}
	refused := verdict{assigned: &j.assigned}
	for _, c := range choices {
		j.assignJointly(p, c.options)
		v := j.resolve(w, p)
		if v.kind != refuse {
			return v
		}
		j.keepWorst(&refused, &v)
		j.met.lacksNodes = j.met.lacksNodes || v.why.LacksNodes()
	}
	return refused
}

// assignJointly assigns flavors with one option for each list of asks.
func (j *judge) assignJointly(p *compiled, options []int) {
	j.tried = slices.Grow(j.tried[:0], len(p.Requests))[:len(p.Requests)]
	clear(j.tried)
	for i, asks := range p.joint {
		for _, k := range asks {
			j.tried[k] = ^(uint64(1) << options[i])
		}
	}
	j.forest.Assign(&p.CompiledRequests, j.tried, &j.oracle, &j.assigned)
}

// nextChoice moves to the next choice, the last list first; false after the last.
func (p *compiled) nextChoice(options []int) bool {
	for i := len(options) - 1; i >= 0; i-- {
		if options[i]++; options[i] < min(len(p.Requests[p.joint[i][0]].Options), 64) {
			return true
		}
		options[i] = 0
	}
	return false
}
