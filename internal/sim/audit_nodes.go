package sim

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// onNodes checks the places of a decision: nodes that take work, suit the pods
// and have room for them beside all others (P2). Places that the workload had
// before are not new.
func (a *Auditor) onNodes(w *audited, before *core.Admission) error {
	for i := range w.held.PodSets {
		p := &w.held.PodSets[i]
		for _, pl := range p.Places {
			if before != nil && core.PodsOn(before.PodSets[i].Places, pl.Node) >= pl.Count {
				continue
			}
			if err := a.suits(&w.told.PodSets[i], p, pl.Node); err != nil {
				return fmt.Errorf("%s: %w", w.told.Key, err)
			}
			if err := a.roomOn(pl.Node, w.told.PodSets[i].Requests); err != nil {
				return fmt.Errorf("%s: %w", w.told.Key, err)
			}
			if err := a.sharing(w, i, pl); err != nil {
				return fmt.Errorf("%s: %w", w.told.Key, err)
			}
		}
		if err := a.near(&w.told.PodSets[i], p, before == nil); err != nil {
			return fmt.Errorf("%s: %w", w.told.Key, err)
		}
		if err := a.spread(w, i); before == nil && err != nil {
			return fmt.Errorf("%s: %w", w.told.Key, err)
		}
	}
	if before != nil {
		if err := a.beside(w, before); err != nil {
			return fmt.Errorf("%s: %w", w.told.Key, err)
		}
		return nil
	}
	if err := a.together(w); err != nil {
		return fmt.Errorf("%s: %w", w.told.Key, err)
	}
	return nil
}

// together checks that the pods of each group of pod sets are in one domain of its level (P2). Sets are compared that
// tell domains apart alike.
func (a *Auditor) together(w *audited) error {
	in := map[string]string{}
	for i := range w.held.PodSets {
		set, p := &w.told.PodSets[i], &w.held.PodSets[i]
		request, t := set.Topology.In(a.topologyOf(p))
		if t.Missing(request) != "" || request.Empty() || len(p.Places) == 0 {
			continue
		}
		if len(t.Levels) == 0 {
			t.Levels = request.Levels()
		}
		names, levels := slices.Clone(set.Parents), slices.Clone(request.Parents)
		if set.Group != "" && request.Required != "" {
			names, levels = append(names, set.Group), append(levels, request.Required)
		}
		for k, level := range levels {
			group := fmt.Sprint(names[k], t.Levels[:slices.Index(t.Levels, level)+1])
			for d := range a.byDomain(&t, level, p.Places) { // each is compared
				if was, has := in[group]; has && was != d || d == "" {
					return fmt.Errorf(
						"P2: the pods of group %s must be in one %s and are in %q and %q",
						names[k],
						level,
						was,
						d,
					)
				}
				in[group] = d
			}
		}
	}
	return nil
}

// near checks that the pods of a set are as near to each other as they must be (P2). Where some stay and
// others are moved, labels of nodes may have changed since those were placed, or the nodes be gone.
func (a *Auditor) near( //nolint:revive // a fact
	set *core.PodSet,
	p *core.PodSetAdmission,
	placed bool,
) error {
	t := a.topologyOf(p)
	if _, t = set.Topology.In(t); t.Missing(set.Topology) != "" || len(p.Places) == 0 || !placed {
		return nil
	}
	if len(t.Levels) == 0 {
		t.Levels = set.Topology.Levels()
	}
	if level := set.Topology.Required; level != "" {
		if in := a.byDomain(&t, level, p.Places); len(in) > 1 || in[""] > 0 {
			return fmt.Errorf("P2: the pods of %s must be in one %s and are in %v", set.Name, level, in)
		}
	}
	for _, slice := range set.Topology.For(set.Count).Slices {
		for run := range runs(p.Places, slice.Size) {
			if in := a.byDomain(&t, slice.Level, run); len(in) > 1 || in[""] > 0 {
				return fmt.Errorf(
					"P2: the pods of %s must be in slices of %d by their ranks, each in one %s, and one is in %v",
					set.Name, slice.Size, slice.Level, in,
				)
			}
		}
	}
	return nil
}

// runs cuts places, which are in the order of ranks, into runs of so many pods.
func runs(places []core.Place, size int32) iter.Seq[[]core.Place] {
	return func(yield func([]core.Place) bool) {
		var run []core.Place
		open := size
		for _, pl := range places {
			for pl.Count > 0 {
				n := min(open, pl.Count)
				run = append(run, core.Place{Node: pl.Node, Count: n})
				pl.Count -= n
				if open -= n; open > 0 {
					continue
				}
				if !yield(run) {
					return
				}
				run, open = nil, size
			}
		}
	}
}

// byDomain counts pods by domain of a level, "" for those in none.
func (a *Auditor) byDomain(t *core.Topology, level string, places []core.Place) map[string]int32 {
	out := map[string]int32{}
	for _, pl := range places {
		name := ""
		for _, label := range t.Levels[:slices.Index(t.Levels, level)+1] {
			value, has := a.nodes[pl.Node].Labels[label]
			if !has {
				name = ""
				break
			}
			name += "/" + value
		}
		out[name] += pl.Count
	}
	return out
}

func (a *Auditor) suits(set *core.PodSet, p *core.PodSetAdmission, name string) error {
	n, ok := a.nodes[name]
	if !ok || !n.State.TakesWork() {
		return fmt.Errorf("P2: pods are placed on node %s, which takes no work (%s)", name, n.State)
	}
	f := set.Filter
	for _, flavor := range p.FlavorNames() {
		spec := a.flavors[flavor]
		if !matches(spec.NodeLabels, n.Labels) {
			return fmt.Errorf("P2: node %s is not of flavor %s", name, flavor)
		}
		f.Tolerations = append(slices.Clip(f.Tolerations), spec.Tolerations...)
	}
	if !f.Admits(&n) {
		return fmt.Errorf("P2: node %s does not suit pod set %s", name, set.Name)
	}
	return nil
}

// sharing checks that the pods of a pod set share a node with no more than their limits admit (P2).
func (a *Auditor) sharing(w *audited, set int, at core.Place) error {
	for _, l := range w.told.PodSets[set].Limits {
		if !l.PerNode() {
			continue
		}
		taken := int64(0)
		for _, f := range a.nodes[at.Node].ForeignLimits {
			if f.Name == l.Name {
				taken += int64(f.Count)
			}
		}
		for _, o := range a.workloads { // sums, so order does not matter
			if o.held == nil || l.Own && o != w {
				continue
			}
			taken += takenBy(o, l.Name, at.Node)
		}
		if taken > int64(l.Most) {
			return fmt.Errorf("P2: node %s has %d of %s and %d are planned there", at.Node, l.Most, l.Name, taken)
		}
	}
	return nil
}

// spread checks that a decision puts no more pods into a domain than the limits of domains admit (P2).
func (a *Auditor) spread(w *audited, set int) error {
	for _, l := range w.told.PodSets[set].Limits {
		if l.PerNode() || len(w.held.PodSets[set].Places) == 0 || !l.Own && l.Skew > 0 { // others come and go
			continue
		}
		t := a.topologyOf(&w.held.PodSets[set])
		if _, t = w.told.PodSets[set].Topology.In(t); len(t.Levels) == 0 {
			t.Levels = w.told.PodSets[set].Topology.Levels()
		}
		if !slices.Contains(t.Levels, l.Level) {
			t.Levels = []string{l.Level}
		}
		taken, field, alike := map[string]int64{}, a.counted(w, set, &l), true
		for _, pl := range field {
			if l.Skew > 0 {
				for d := range a.byDomain(&t, l.Level, []core.Place{pl}) { // one
					taken[d] += 0
				}
			}
		}
		for _, x := range a.workloads { // sums, so order does not matter
			if x.held == nil || l.Own && x != w {
				continue
			}
			for k := range x.held.PodSets[:min(len(x.held.PodSets), len(x.told.PodSets))] {
				for _, o := range x.told.PodSets[k].Limits {
					if o.Name != l.Name {
						continue
					}
					alike = alike && (x != w || slices.Equal(a.counted(w, k, &l), field))
					if !a.sameDomains(x, k, w, set) {
						return nil // what is one domain for the one are two for the other
					}
					places := slices.DeleteFunc(slices.Clone(x.held.PodSets[k].Places), func(pl core.Place) bool {
						return a.nodes[pl.Node].Name == "" // it is gone
					})
					for i := range places {
						places[i].Count -= core.PodsAt(x.told.Ended, x.held.PodSets[k].Name, places[i].Node)
					}
					for d, n := range a.byDomain(&t, l.Level, places) { // sums, too
						taken[d] += int64(o.Count) * int64(n)
					}
				}
			}
		}
		if l.Skew > 0 && !alike { // they are checked one after the other, each by the nodes that it may use
			continue
		}
		unlabelled := taken[""]
		delete(taken, "")
		counts, over := slices.Sorted(maps.Values(taken)), map[string]bool{}
		for _, pl := range field {
			for d := range a.byDomain(&t, l.Level, []core.Place{pl}) { // one
				over[d] = d != ""
			}
		}
		if delete(over, ""); len(over) < int(l.MinDomains) {
			counts = append([]int64{0}, counts...)
		}
		switch {
		case l.Skew > 0 && unlabelled > 0:
			return fmt.Errorf(
				"P2: %d pods of %s are on nodes without %s",
				unlabelled,
				w.told.PodSets[set].Name,
				l.Level,
			)
		case len(counts) == 0:
		case l.Skew > 0 && counts[len(counts)-1]-counts[0] > int64(l.Skew),
			l.Skew == 0 && counts[len(counts)-1] > int64(l.Most):
			return fmt.Errorf("P2: %s does not hold: %v", l.Name, taken)
		}
	}
	return nil
}

// sameDomains reports whether two pod sets tell domains apart alike.
func (a *Auditor) sameDomains(x *audited, k int, w *audited, set int) bool {
	levels := func(w *audited, i int) []string {
		_, t := w.told.PodSets[i].Topology.In(a.topologyOf(&w.held.PodSets[i]))
		if len(t.Levels) == 0 {
			return w.told.PodSets[i].Topology.Levels()
		}
		return t.Levels
	}
	return slices.Equal(levels(x, k), levels(w, set))
}

// counted are the nodes that count where the pods of a set with its flavors have to spread, in the order of their names.
func (a *Auditor) counted(w *audited, set int, l *core.Limit) (out []core.Place) {
	for _, name := range slices.Sorted(maps.Keys(a.nodes)) {
		n, filter := a.nodes[name], w.told.PodSets[set].Filter
		filter.Must = slices.Clone(filter.Must)
		for _, flavor := range w.held.PodSets[set].FlavorNames() {
			filter.Tolerations = append(slices.Clip(filter.Tolerations), a.flavors[flavor].Tolerations...)
			for key, value := range a.flavors[flavor].NodeLabels { // all hold, in any order
				filter.Must = append(
					filter.Must,
					core.Requirement{Key: key, Operator: core.In, Values: []string{value}},
				)
			}
		}
		if l.SpreadsOver(filter, &n) {
			out = append(out, core.Place{Node: name, Count: 1})
		}
	}
	return out
}

// topologyOf is that of the flavors of a pod set.
func (a *Auditor) topologyOf(p *core.PodSetAdmission) core.Topology {
	var t core.Topology
	for _, name := range p.FlavorNames() {
		if f := a.flavors[name]; len(t.Levels) == 0 {
			t = f.Topology
		}
	}
	return t
}

// takenBy is how much of a limit a workload is given on a node.
func takenBy(w *audited, limit, node string) int64 {
	taken := int64(0)
	for i := range w.held.PodSets[:min(len(w.held.PodSets), len(w.told.PodSets))] {
		p := &w.held.PodSets[i]
		count := core.PodsOn(p.Places, node) - core.PodsAt(w.told.Ended, p.Name, node)
		for _, l := range w.told.PodSets[i].Limits {
			if l.Name == limit {
				taken += int64(l.Count) * int64(count)
			}
		}
	}
	return taken
}

// roomOn checks that a node holds all that is planned there, of what new pods ask for: of
// something else it may have too little, because a pod that was given up with the node
// came back with it.
func (a *Auditor) roomOn(name string, asked core.Resources) error {
	n := a.nodes[name]
	used := map[string]core.Amount{}
	for _, q := range n.Foreign {
		used[q.Resource] = used[q.Resource].Add(q.Amount)
	}
	for _, w := range a.workloads { // sums, so order does not matter
		if w.held == nil {
			continue
		}
		for i := range w.held.PodSets {
			p := &w.held.PodSets[i]
			count := core.PodsOn(p.Places, name) - core.PodsAt(w.told.Ended, p.Name, name)
			if count == 0 || i >= len(w.told.PodSets) {
				continue
			}
			used[core.Pods] += core.Amount(count)
			for _, q := range w.told.PodSets[i].Requests {
				used[q.Resource] = used[q.Resource].Add(q.Amount.Mul(int64(count)))
			}
		}
	}
	for _, resource := range sortedNames(used) {
		has := n.Allocatable.Of(resource)
		if used[resource] > has && (resource == core.Pods || asked.Of(resource) > 0) {
			return fmt.Errorf("P2: node %s has %v of %s and %v are planned there", name, has, resource, used[resource])
		}
	}
	return nil
}
