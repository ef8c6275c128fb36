package sakkara

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
)

// LevelLabel is the label of nodes that a level is told by: that of which Sakkara makes its tree where it has no
// other. A name that is such a label itself, with a slash, is taken as it is.
func LevelLabel(level string) string {
	switch {
	case level == NodeLevel:
		return core.HostnameLabel
	case strings.Contains(level, "/"):
		return level
	}
	return TopologyLabel + "." + level
}

// label is the label of a level of the group: that of known levels which is the only one of its name, else its own.
func (g *Group) label(level string, known []string) string {
	own := LevelLabel(level)
	if level == NodeLevel || slices.Contains(known, own) {
		return own
	}
	if named := kueue.LevelsNamed(known, level); len(named) == 1 {
		return named[0]
	}
	return own
}

// mask is which numbers of pods a domain of a level may have: multiples of unit, most at most. 0 is always one.
type mask struct {
	level, label string
	unit, most   int32
}

// Near is what the constraints of a group ask for, as annotations of its pods. Every place that these allow is one
// that the constraints allow. An error names the constraint that they cannot give.
//
// A domain's pods are counted in multiples of a number (slices) up to another, so that partitions are equal, and of a
// range those numbers are used that are multiples of the least one in it of which the group is a multiple.
func (g *Group) Near(known []string) (map[string]string, error) {
	n := g.Size
	masks := make([]mask, len(g.Constraints))
	below := int32(1)
	for i := range slices.Backward(g.Constraints) { // what holds in narrow domains holds in wide ones
		c := &g.Constraints[i]
		m, err := c.mask(g.label(c.Level, known), n, below)
		if err != nil {
			return nil, err
		}
		masks[i], below = m, m.unit
	}
	out := map[string]string{}
	required, err := g.together(masks)
	if err != nil {
		return nil, err
	}
	if required >= 0 {
		out[kueue.PodSetRequiredTopologyAnnotation] = masks[required].label
	}
	g.wish(required, masks, out)
	return out, bound(masks, n, out)
}

// Alike names the first key that counts the pods of a domain, which have to ask for the same then; "" if there is none.
func (g *Group) Alike() string {
	for i := range g.Constraints {
		c := &g.Constraints[i]
		at := constraintsKey + "." + c.Level
		switch {
		case c.Partitions > 1:
			return at + ".partitions"
		case c.Factor > 1:
			return at + ".factor"
		case c.Min > 0:
			return at + ".min"
		case c.Max > 0:
			return at + ".max"
		}
	}
	return ""
}

// mask is what of a constraint is a rule for each domain. below is of what the number of pods is a multiple in the
// domains that it has inside.
func (c *Constraint) mask(label string, n, below int32) (mask, error) {
	at := constraintsKey + "." + c.Level
	if errs := validation.IsQualifiedName(label); len(errs) > 0 || c.Level == "" {
		return mask{}, fmt.Errorf(
			"%s: %q is no name of a level: %s",
			constraintsKey,
			c.Level,
			strings.Join(errs, "; "),
		)
	}
	m := mask{level: c.Level, label: label, unit: below, most: n}
	if c.Factor > 1 {
		unit := lcm(int64(m.unit), int64(c.Factor))
		if int64(n)%unit != 0 {
			return m, fmt.Errorf("%s.factor: %d pods are no multiple of %d", at, n, unit)
		}
		m.unit = int32(unit) //nolint:gosec // it divides n
	}
	if c.Type == spread && c.Hard {
		m.most = 1
	}
	if k := c.Partitions; k > 0 {
		if n%k != 0 {
			return m, fmt.Errorf("%s.partitions: %d pods cannot be cut into %d equal parts", at, n, k)
		}
		share := n / k
		if share%m.unit != 0 {
			return m, fmt.Errorf(
				"%s.partitions: each of %d has %d pods, which are no multiple of %d",
				at,
				k,
				share,
				m.unit,
			)
		}
		m.unit, m.most = share, min(m.most, share)
	}
	if c.Min > 0 || c.Max > 0 {
		if err := c.clip(&m, n); err != nil {
			return m, err
		}
	}
	if m.most < m.unit {
		return m, fmt.Errorf(
			"%s: domains would have %d pods at most, and a multiple of %d: change one of them", at, m.most, m.unit)
	}
	return m, nil
}

// clip bounds how many pods a domain has by the range of a constraint.
func (c *Constraint) clip(m *mask, n int32) error {
	low, high := max(c.Min, 1), min(c.Max, n)
	if c.Max == 0 {
		high = n
	}
	unit := m.unit
	for unit < low || n%unit != 0 {
		if unit += m.unit; unit > high {
			return fmt.Errorf(
				"%s.%s.min: no number of pods from %d to %d divides the %d of the group%s: choose another range or size",
				constraintsKey, c.Level, low, high, n, also(m.unit))
		}
	}
	if unit > high {
		return fmt.Errorf("%s.%s.max: each domain would have %d pods at least, which is more than %d",
			constraintsKey, c.Level, unit, high)
	}
	m.unit, m.most = unit, min(m.most, high)
	return nil
}

func also(unit int32) string {
	if unit == 1 {
		return ""
	}
	return fmt.Sprintf(" and is a multiple of %d", unit)
}

// together is the narrowest level of which one domain has to hold all pods, by its place among the constraints; -1
// if none has.
func (g *Group) together(masks []mask) (int, error) {
	at := -1
	for i := range g.Constraints {
		if c := &g.Constraints[i]; c.Type != spread && c.Hard && c.Partitions <= 1 || c.Partitions == 1 {
			at = i
		}
	}
	for i := range at + 1 {
		if masks[i].most < g.Size {
			return -1, fmt.Errorf(
				"%s.%s: all pods are in one %s, but one %s has %d of the %d at most: change one of the two",
				constraintsKey, g.Constraints[at].Level, g.Constraints[at].Level, masks[i].level, masks[i].most, g.Size)
		}
	}
	return at, nil
}

// wish adds what is not required: to be in one domain of a level, the narrowest for which that is asked, and to be
// in as many domains of another as there are, the widest.
func (g *Group) wish(required int, masks []mask, out map[string]string) {
	for i := range g.Constraints {
		c := &g.Constraints[i]
		switch {
		case i <= required || c.Partitions > 0 || c.Hard || masks[i].most < g.Size && c.Type != spread:
		case c.Type != spread:
			out[kueue.PodSetPreferredTopologyAnnotation] = masks[i].label
		case out[kueue.SpreadTopologyAnnotation] == "":
			out[kueue.SpreadTopologyAnnotation] = masks[i].label
		}
	}
}

// mostLayers is how many levels may have slices.
const mostLayers = 3

// bound adds the rules for domains. Levels that are wider than nodes are named there if there are several, with slices
// of one pod if need be: so they nest as they are listed, also where no Topology says how.
func bound(masks []mask, n int32, out map[string]string) error {
	var layers []kueue.PodsetSliceRequiredTopologyConstraint
	var most []string
	wide := slices.IndexFunc(masks, func(m mask) bool { return m.level == NodeLevel })
	if wide < 0 {
		wide = len(masks)
	}
	for _, m := range masks {
		if m.unit > 1 || wide > 1 && wide <= mostLayers && m.level != NodeLevel {
			layers = append(layers, kueue.PodsetSliceRequiredTopologyConstraint{Topology: m.label, Size: m.unit})
		}
		if m.most < n {
			most = append(most, fmt.Sprintf("%s=%d", m.label, m.most))
		}
		if len(layers) > mostLayers || len(most) > mostLayers {
			return fmt.Errorf("%s.%s: pods can be counted at %d levels, and this is one more",
				constraintsKey, m.level, mostLayers)
		}
	}
	if len(layers) > 0 {
		text, err := json.Marshal(layers)
		if err != nil {
			return fmt.Errorf("write slices: %w", err)
		}
		out[kueue.PodSetSliceRequiredTopologyConstraintsAnnotation] = string(text)
	}
	if len(most) > 0 {
		out[kueue.MaxPerDomainAnnotation] = strings.Join(most, ",")
	}
	return nil
}

func lcm(a, b int64) int64 {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}
