package core

import (
	"slices"
	"strconv"
	"strings"
)

// Topology is how nodes are nested in domains: nodes in racks, racks in blocks (Kueue's Topology).
type Topology struct {
	Name string
	// Levels are labels of nodes, the widest domain first. A node is in the domain of a level that
	// has its values of the label and of all wider ones; a node without one of these labels is in
	// no domain of that level and of narrower ones.
	Levels []string
}

// TopologyRequest says how near to each other the pods of a set must be. Levels are labels of nodes.
type TopologyRequest struct {
	// Parents are the levels of which one domain must hold all pods of each group that the set is in (PodSet.Parents).
	Parents []string
	// Required is the level of which one domain must hold all pods; "" if none must.
	Required string
	// Preferred is the level of which one domain should hold all pods; "" if none should.
	Preferred string
	// Slices cut the pods, in order, into runs that must each be in one domain, coarse to fine; each
	// Size is a multiple of the next one's.
	Slices []PodSetSlice
	// Balanced is the level of which domains should have equal shares of the pods, as few domains as do; "" for none.
	// Where no equal shares have room the pods go as near to each other as they can.
	Balanced string
	// Spread is the level of which domains should have equal shares of the pods, as many domains as do; "" for none.
	// Balanced goes before it. Where no equal shares have room the pods go as near to each other as they can.
	Spread string
	// Optional says that it counts only where the flavor has a topology with all its levels.
	Optional bool
	// AnyLabel says that it may name any label of nodes: one that is no level of the flavor's topology stands
	// for itself.
	AnyLabel bool
}

// PodSetSlice is a run of pods of a set that must be in one domain.
type PodSetSlice struct {
	Level string
	// Size is how many pods a run has, 1 at least.
	Size int32
}

// For is the request of so many pods: without slices into which they cannot be cut, as what is left of a set
// some of whose pods are done.
func (r TopologyRequest) For(count int32) TopologyRequest {
	cuts := func(s PodSetSlice) bool { return count%max(1, s.Size) == 0 }
	if !slices.ContainsFunc(r.Slices, func(s PodSetSlice) bool { return !cuts(s) }) {
		return r
	}
	var kept []PodSetSlice
	for _, s := range r.Slices {
		if cuts(s) {
			kept = append(kept, s)
		}
	}
	r.Slices = kept
	return r
}

// In is what counts of a request on nodes with a topology, and the topology by which it does.
func (r TopologyRequest) In(t Topology) (TopologyRequest, Topology) {
	switch missing := t.Missing(r) != ""; {
	case r.Optional && (len(t.Levels) == 0 || missing):
		return TopologyRequest{}, t
	case r.AnyLabel && missing:
		return r, Topology{}
	}
	return r, t
}

// Empty reports whether it asks for nothing.
func (r TopologyRequest) Empty() bool {
	return r.Required == "" && r.Preferred == "" && r.Balanced == "" && r.Spread == "" &&
		len(r.Slices)+len(r.Parents) == 0
}

// Equal reports whether two requests ask for the same.
func (r TopologyRequest) Equal(o TopologyRequest) bool {
	return r.Required == o.Required && r.Preferred == o.Preferred && r.Balanced == o.Balanced &&
		r.Spread == o.Spread &&
		r.Optional == o.Optional && r.AnyLabel == o.AnyLabel && slices.Equal(r.Slices, o.Slices) &&
		slices.Equal(r.Parents, o.Parents)
}

// Levels lists the levels that the request names, each once: those of its parents first and the required one then,
// slices coarse to fine, the preferred one last, and nothing behind nodes.
func (r TopologyRequest) Levels() []string {
	var out []string
	add := func(level string) {
		if level != "" && !slices.Contains(out, level) {
			out = append(out, level)
		}
	}
	for _, level := range r.Parents {
		add(level)
	}
	add(r.Required)
	for _, s := range r.Slices {
		add(s.Level)
	}
	add(r.Balanced)
	add(r.Spread)
	add(r.Preferred)
	if i := slices.Index(out, HostnameLabel); i >= 0 {
		out = append(slices.Delete(out, i, i+1), HostnameLabel)
	}
	return out
}

// Missing is a level that the request names and the topology lacks; "" if it has all, or if there is no
// topology: then the labels that the request names are the levels. None lacks nodes: what is narrowest is one.
func (t *Topology) Missing(r TopologyRequest) string {
	if len(t.Levels) == 0 {
		return ""
	}
	for _, level := range r.Levels() {
		if level != HostnameLabel && !slices.Contains(t.Levels, level) {
			return level
		}
	}
	return ""
}

// Reversed are two levels of the request of which the outer one should hold domains of the inner one, and is narrower by
// the topology; "" if there are none, or if nothing says how they nest. Groups go from wide to narrow, and what a set
// requires itself is within all of them.
func (t *Topology) Reversed(r TopologyRequest) (outer, inner string) {
	at := func(level string) int {
		if i := slices.Index(t.Levels, level); i >= 0 || level != HostnameLabel {
			return i
		}
		return len(t.Levels) // nodes are the narrowest
	}
	levels := slices.Clip(r.Parents)
	if r.Required != "" {
		levels = append(levels, r.Required)
	}
	for i, level := range levels {
		for _, within := range levels[i+1:] {
			if at(within) >= 0 && at(within) < at(level) {
				return level, within
			}
		}
	}
	return "", ""
}

// Loosen are pod sets of which one, with those that are loosened with it, has its required level replaced as an advice of
// kind RequireLevel or PreferLevel says. What it is given stays as it is.
func Loosen(sets []PodSet, name string, a Advice) []PodSet {
	with := LoosenedWith(sets, name)
	sets = slices.Clone(sets)
	for k := range sets {
		if sets[k].Name != name && !slices.Contains(with, sets[k].Name) {
			continue
		}
		t := &sets[k].Topology
		if t.Required = a.Level; a.Kind == PreferLevel {
			t.Required, t.Preferred, t.AnyLabel = "", a.Level, false
		}
	}
	return sets
}

// LoosenedWith names the other pod sets of the group of one that require the same level: one domain holds all of them.
func LoosenedWith(sets []PodSet, name string) []string {
	i := slices.IndexFunc(sets, func(p PodSet) bool { return p.Name == name })
	if i < 0 || sets[i].Group == "" {
		return nil
	}
	var out []string
	for _, p := range sets {
		if p.Name != name && p.Group == sets[i].Group && p.Topology.Required == sets[i].Topology.Required {
			out = append(out, p.Name)
		}
	}
	return out
}

// Key appends a text that is equal for equal requests, and differs for others.
func (r TopologyRequest) Key(b *strings.Builder) {
	if r.Empty() {
		return
	}
	if r.Optional {
		b.WriteByte('?')
	}
	if r.AnyLabel {
		b.WriteByte('+')
	}
	b.WriteString("^" + strconv.Quote(r.Required) + strconv.Quote(r.Preferred))
	if r.Balanced != "" {
		b.WriteString("=" + strconv.Quote(r.Balanced))
	}
	if r.Spread != "" {
		b.WriteString("~" + strconv.Quote(r.Spread))
	}
	for _, s := range r.Slices {
		b.WriteString(strconv.Quote(s.Level) + strconv.Itoa(int(s.Size)) + ";")
	}
	for _, level := range r.Parents {
		b.WriteString(">" + strconv.Quote(level))
	}
}
