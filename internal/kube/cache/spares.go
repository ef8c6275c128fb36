package cache

import (
	"maps"
	"slices"
	"strings"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// spares are the nodes that are kept for recovery, and what that depends on. It is kept up to date node by node: which
// are kept is found out anew only when a node becomes free or is not any more, or serves another flavor.
type spares struct {
	rules map[string]nodehealth.Spares // by flavor
	// places are how many pods admissions have on each node. held are the nodes that the engine holds for
	// workloads whose time has not come; before it says so, next are what workloads say that is held for them.
	places map[string]int32
	held   map[string]bool
	next   map[core.Key]*core.Admission
	// stale are nodes of which any of that changed, all says that flavors did.
	stale map[string]bool
	all   bool
	// made are the flavors of which an admission check makes nodes.
	made map[string]bool
	// serves are the flavors of each node, free says that it takes any work and has none, faults are those that it
	// has. members are the nodes of each flavor by name; nil where that is to be found out.
	serves  map[string][]string
	free    map[string]bool
	faults  map[string]int32
	members map[string][]string
	kept    map[string]bool
}

func newSpares(rules map[string]nodehealth.Spares) spares {
	return spares{
		rules: rules, places: map[string]int32{}, next: map[core.Key]*core.Admission{}, stale: map[string]bool{},
		serves: map[string][]string{}, free: map[string]bool{}, faults: map[string]int32{},
		members: map[string][]string{},
	}
}

// none reports whether no nodes are kept of any flavor.
func (s *spares) none() bool { return len(s.rules) == 0 }

// place counts the places of an admission, which may be nil, so many times.
func (s *spares) place(a *core.Admission, times int32) {
	if a == nil || s.none() {
		return
	}
	for i := range a.PodSets {
		for _, p := range a.PodSets[i].Places {
			s.stale[p.Node] = true
			if s.places[p.Node] += times * p.Count; s.places[p.Node] == 0 {
				delete(s.places, p.Node)
			}
		}
	}
}

// plan replaces the newest admission of a workload; nil is none.
func (w *World) plan(k core.Key, a *core.Admission) {
	w.spares.place(w.plans[k], -1)
	w.spares.place(a, 1)
	w.plans[k] = a
	if a == nil {
		delete(w.plans, k)
	}
}

// inherit notes what an earlier process held for a workload, until the engine of this one says what it holds.
func (s *spares) inherit(k core.Key, next *core.Admission) {
	if s.next == nil || s.none() {
		return
	}
	s.place(s.next[k], -1)
	s.place(next, 1)
	s.next[k] = next
	if next == nil {
		delete(s.next, k)
	}
}

// KeepsSpares reports whether nodes are kept for recovery, so that Holds is to be told.
func (w *World) KeepsSpares() bool { return !w.spares.none() }

// Holds says which nodes the engine holds, after a decision, for workloads that start there once others are gone: they
// are not free, though nothing is on them. It reports whether that is new: then it may be others that are kept, which
// is to be translated and decided at once, since nothing else wakes who waits for those.
func (w *World) Holds(nodes []string) (changed bool) {
	s := &w.spares
	if s.none() {
		return false
	}
	changed = len(s.next) > 0
	for _, a := range s.next {
		s.place(a, -1)
	}
	s.next = nil
	held := make(map[string]bool, len(nodes))
	for _, name := range nodes {
		held[name] = true
	}
	for _, name := range slices.Concat(nodes, slices.Collect(maps.Keys(s.held))) {
		if s.held[name] != held[name] {
			s.stale[name], changed = true, true
		}
	}
	s.held = held
	return changed
}

// keep chooses the nodes that are kept for recovery, and has those told of which that is new.
func (b *batch) keep() {
	w := b.world
	s := &w.spares
	if s.none() {
		return
	}
	maps.Copy(s.stale, b.nodes)
	if s.all {
		for name := range w.nodes {
			s.stale[name] = true
		}
	}
	flavors := w.kinds()
	changed := s.all
	for name := range s.stale { // each by itself, so order does not matter
		changed = w.lookAt(name, flavors) || changed
	}
	clear(s.stale)
	s.all = false
	if !changed {
		return
	}
	kept := s.choose()
	for name := range kept {
		if !s.kept[name] {
			b.nodes[name] = true
		}
	}
	for name := range s.kept {
		if !kept[name] {
			b.nodes[name] = true
		}
	}
	s.kept = kept
}

// keepsSpares reports whether nodes of a flavor are kept: not where they are made when jobs ask for them.
func (w *World) keepsSpares(flavor string) bool {
	_, ruled := w.spares.rules[flavor]
	f, exists := w.flavors[flavor]
	return ruled && exists && !f.onDemand && !w.spares.made[flavor]
}

// making finds out of which flavors an admission check makes nodes, where queues or checks changed, and tells of those
// that are others than before.
func (b *batch) making() {
	w := b.world
	s := &w.spares
	if s.none() || len(b.queues) == 0 {
		return
	}
	was, never := s.made, func(string) bool { return false }
	s.made = map[string]bool{}
	for _, q := range w.queues { // a set, so order does not matter
		for _, flavor := range convert.Provisioned(q, w.controller, never) {
			s.made[flavor] = true
		}
	}
	for _, flavor := range slices.Sorted(maps.Keys(s.rules)) {
		if _, exists := w.flavors[flavor]; exists && was[flavor] != s.made[flavor] {
			s.all = true
			b.events = append(b.events, w.flavorSet(flavor))
		}
	}
}

// Spares are the nodes that are kept for recovery, as they were translated last. The map is not changed any more.
func (w *World) Spares() map[string]bool { return w.spares.kept }

// kinds are the flavors of which nodes are kept.
func (w *World) kinds() []core.Flavor {
	flavors := make([]core.Flavor, 0, len(w.spares.rules))
	for _, name := range slices.Sorted(maps.Keys(w.spares.rules)) {
		if w.keepsSpares(name) {
			flavors = append(flavors, w.flavors[name].spec)
		}
	}
	return flavors
}

// lookAt finds out which flavors a node serves, whether it is free and which faults it has, and reports whether that is new.
func (w *World) lookAt(name string, flavors []core.Flavor) bool {
	s := &w.spares
	var serves []string
	n, exists := w.nodes[name]
	if exists {
		serves = nodehealth.Pools(flavors, w.health.signals[name].Signals)
	}
	free := len(serves) > 0 && n.State == core.NodeReady && s.places[name] == 0 && !s.held[name] &&
		!w.holdsDevices(name)
	faults := n.Faults
	if len(serves) == 0 {
		faults = 0 // of no flavor of which nodes are kept
	}
	was := s.serves[name]
	if slices.Equal(was, serves) && free == s.free[name] && faults == s.faults[name] {
		return false
	}
	if !slices.Equal(was, serves) {
		for _, f := range slices.Concat(was, serves) {
			delete(s.members, f)
		}
	}
	s.serves[name], s.free[name], s.faults[name] = serves, free, faults
	if len(serves) == 0 {
		delete(s.serves, name)
		delete(s.free, name)
		delete(s.faults, name)
	}
	return true
}

// choose are the nodes to keep, of each flavor those that its rule says.
func (s *spares) choose() map[string]bool {
	kept := map[string]bool{}
	for flavor, rule := range s.rules { // each by itself, so order does not matter
		members, known := s.members[flavor]
		if !known {
			for name, serves := range s.serves {
				if slices.Contains(serves, flavor) {
					members = append(members, name)
				}
			}
			slices.Sort(members)
			s.members[flavor] = members
		}
		for _, name := range rule.Keep(members, func(name string) bool { return s.free[name] },
			func(name string) int32 { return s.faults[name] }) {
			kept[name] = true
		}
	}
	return kept
}

// holdsDevices reports whether pods that no plan put on a node have GPUs there, or other devices.
func (w *World) holdsDevices(node string) bool {
	foreign, _ := w.pods.foreign(node, w.planned(node))
	return slices.ContainsFunc(foreign, func(q core.Quantity) bool {
		return q.Amount > 0 && strings.Contains(q.Resource, "/")
	})
}

// withSpare says of a node whether it is kept for recovery. Whatever label of that name it has says nothing.
func (w *World) withSpare(n core.Node) core.Node {
	if w.spares.none() {
		return n
	}
	n.Labels = maps.Clone(n.Labels)
	delete(n.Labels, core.SpareLabel)
	if w.spares.kept[n.Name] {
		n.Labels[core.SpareLabel] = "true"
	}
	return n
}
