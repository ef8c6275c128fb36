package cache

import (
	"maps"
	"reflect"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// lefts are how flavors' resources stand of which quotas are cut, by the annotation of the flavor.
type lefts map[core.FlavorResource]nodehealth.Capacity

// leftOf are those of a flavor.
func leftOf(flavor string, all []nodehealth.Capacity) lefts {
	out := lefts{}
	for _, c := range all {
		if c.Cut && !c.ShortSince.IsZero() {
			// What was promised then may be another quota now, and since when it is short cuts nothing.
			out[core.FlavorResource{Flavor: flavor, Resource: c.Resource}] = nodehealth.Capacity{
				Planned: c.Planned, Healthy: c.Healthy,
			}
		}
	}
	return out
}

// capacity notes what is left of a flavor, so that quotas of it are cut anew.
func (b *batch) capacity(flavor string, all []nodehealth.Capacity) {
	is, was := leftOf(flavor, all), lefts{}
	for fr, left := range b.world.left {
		if fr.Flavor == flavor {
			was[fr] = left
		}
	}
	if maps.Equal(is, was) {
		return
	}
	for fr := range was {
		delete(b.world.left, fr)
	}
	maps.Copy(b.world.left, is)
	b.recut = true
}

// promises has quotas cut anew, while any are, where those of a queue or a cohort change: who has how much depends on all
// of them.
func (b *batch) promises(was, is []core.ResourceGroup) {
	b.recut = b.recut || len(b.world.left) > 0 && !reflect.DeepEqual(was, is)
}

// retell cuts quotas anew if that is needed, and has queues and cohorts told of which others are cut.
func (b *batch) retell() {
	if !b.recut {
		return
	}
	w := b.world
	before := w.cuts
	w.recut()
	for _, cuts := range []map[owner]map[core.FlavorResource]core.Amount{before, w.cuts} {
		for o := range cuts {
			switch {
			case maps.Equal(before[o], w.cuts[o]):
			case o.cohort:
				b.cohorts[o.name] = true
			default:
				b.queues[o.name] = true
			}
		}
	}
}

// owner is a queue or a cohort that has a quota.
type owner struct {
	name   string
	cohort bool
}

// recut finds out how much of each quota is cut: in proportion to what was promised. The slack queue has what nobody
// was promised, and so nothing.
func (w *World) recut() {
	w.cuts = map[owner]map[core.FlavorResource]core.Amount{}
	if len(w.left) == 0 {
		return
	}
	type promise struct {
		owner
		amount core.Amount
	}
	promised := map[core.FlavorResource][]promise{}
	note := func(o owner, groups []core.ResourceGroup) {
		for _, g := range groups {
			for _, f := range g.Flavors {
				for _, q := range f.Quotas {
					fr := core.FlavorResource{Flavor: f.Flavor, Resource: q.Resource}
					if _, short := w.left[fr]; short && q.Nominal > 0 {
						promised[fr] = append(promised[fr], promise{o, q.Nominal})
					}
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.queues)) {
		note(owner{name: name}, convert.Queue(w.queues[name]).Groups)
	}
	for _, name := range slices.Sorted(maps.Keys(w.cohorts)) {
		note(owner{name, true}, w.cohorts[name].Groups)
	}
	for fr, all := range promised { // each by itself, so order does not matter
		amounts := make([]core.Amount, len(all))
		slack, sum := -1, core.Amount(0)
		for i, p := range all {
			amounts[i] = p.amount
			if !p.cohort && p.name == w.rules.SlackQueue {
				slack, amounts[i] = i, 0
			}
			sum = sum.Add(amounts[i])
		}
		kept := nodehealth.Cut(w.left[fr].Left(sum), amounts)
		if slack >= 0 {
			rest := w.left[fr].Healthy
			for _, k := range kept {
				rest = rest.Sub(k)
			}
			kept[slack] = min(all[slack].amount, max(0, rest))
		}
		for i, p := range all {
			if cut := p.amount.Sub(kept[i]); cut > 0 {
				if w.cuts[p.owner] == nil {
					w.cuts[p.owner] = map[core.FlavorResource]core.Amount{}
				}
				w.cuts[p.owner][fr] = cut
			}
		}
	}
}

// cut is what is promised to a queue or a cohort, less what is cut of it.
func (w *World) cut(o owner, groups []core.ResourceGroup) []core.ResourceGroup {
	cuts := w.cuts[o]
	if len(cuts) == 0 {
		return groups
	}
	out := slices.Clone(groups)
	for i := range out {
		out[i].Flavors = slices.Clone(out[i].Flavors)
		for j := range out[i].Flavors {
			f := &out[i].Flavors[j]
			f.Quotas = slices.Clone(f.Quotas)
			for k := range f.Quotas {
				q := &f.Quotas[k]
				q.Cut = cuts[core.FlavorResource{Flavor: f.Flavor, Resource: q.Resource}]
				q.Nominal = q.Nominal.Sub(q.Cut)
			}
		}
	}
	return out
}

// changedCohorts returns the events of the cohorts that are to be told.
func (b *batch) changedCohorts() []core.Event {
	var out []core.Event
	for _, name := range slices.Sorted(maps.Keys(b.cohorts)) {
		c, ok := b.world.cohorts[name]
		if !ok {
			continue
		}
		c.Groups = b.world.cut(owner{name, true}, c.Groups)
		out = append(out, core.CohortSet{Cohort: c})
	}
	return out
}

// cohort notes a Cohort.
func (b *batch) cohort(c ObjectUpdate) {
	e := plain(c)
	set, is := e.(core.CohortSet)
	if !is {
		b.promises(b.world.cohorts[c.Name].Groups, nil)
		delete(b.world.cohorts, c.Name)
		b.events = append(b.events, e)
		return
	}
	b.promises(b.world.cohorts[c.Name].Groups, set.Cohort.Groups)
	b.world.cohorts[c.Name] = set.Cohort
	b.cohorts[c.Name] = true
}
