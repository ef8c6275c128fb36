package cache

import (
	"maps"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// keep chooses the nodes that are kept for recovery, and has those told of which that is new.
func (b *batch) keep() {
	w := b.world
	if len(w.rules.Spares) == 0 {
		return
	}
	flavors := make([]core.Flavor, 0, len(w.rules.Spares))
	for _, name := range slices.Sorted(maps.Keys(w.rules.Spares)) {
		if f, exists := w.flavors[name]; exists {
			flavors = append(flavors, f.spec)
		}
	}
	members := map[string][]nodehealth.Spare{}
	used := w.occupied()
	for name, n := range w.nodes {
		free := func() bool { return n.State == core.NodeReady && !used[name] && !w.holdsGPUs(name) }
		for _, flavor := range nodehealth.Pools(flavors, w.health.signals[name].Signals) {
			members[flavor] = append(members[flavor], nodehealth.Spare{Name: name, Free: free})
		}
	}
	kept := map[string]bool{}
	for flavor, nodes := range members { // each by itself, so order does not matter
		for _, name := range w.rules.Spares[flavor].Keep(nodes) {
			kept[name] = true
		}
	}
	for name := range kept {
		if !w.kept[name] {
			b.nodes[name] = true
		}
	}
	for name := range w.kept {
		if !kept[name] {
			b.nodes[name] = true
		}
	}
	w.kept = kept
}

// occupied are the nodes on which admissions have places.
func (w *World) occupied() map[string]bool {
	out := map[string]bool{}
	for _, a := range w.plans {
		if a == nil {
			continue
		}
		for _, ps := range a.PodSets {
			for _, p := range ps.Places {
				out[p.Node] = true
			}
		}
	}
	return out
}

// holdsGPUs reports whether pods that no plan put on a node have GPUs there.
func (w *World) holdsGPUs(node string) bool {
	foreign, _ := w.pods.foreign(node, w.planned(node))
	return foreign.Of(core.GPU) > 0
}

// withSpare says of a node whether it is kept for recovery. Whatever label of that name it has says nothing.
func (w *World) withSpare(n core.Node) core.Node {
	if len(w.rules.Spares) == 0 {
		return n
	}
	n.Labels = maps.Clone(n.Labels)
	delete(n.Labels, core.SpareLabel)
	if w.kept[n.Name] {
		n.Labels[core.SpareLabel] = "true"
	}
	return n
}
