package sim

import (
	"fmt"
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
			if err := a.within(w, i, pl); err != nil {
				return fmt.Errorf("%s: %w", w.told.Key, err)
			}
		}
	}
	return nil
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

// within checks that the pods of a pod set share a node with no more than their limits admit (P2).
func (a *Auditor) within(w *audited, set int, at core.Place) error {
	for _, l := range w.told.PodSets[set].Limits {
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
