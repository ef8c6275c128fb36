package settings

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mlbatch/mlbatch/internal/strict"
)

// offer is what mlbatch makes of a feature gate.
type offer int

const (
	// always: the feature is built in; false is refused.
	always offer = iota
	// absent: there is no such feature; true is refused.
	absent
	// choice: both values are served.
	choice
	// inner: the gate is about the inside of Kueue; either value is accepted and
	// has no effect.
	inner
)

// gate is one of Kueue's feature gates.
type gate struct {
	name string
	// stage is Kueue's: Alpha, Beta, GA or Deprecated.
	stage string
	// on is the value if it is not set.
	on    bool
	offer offer
	// needs is another gate without which this one cannot be on.
	needs string
	// why is the end of a sentence that starts with the gate and what it cannot
	// be, for users.
	why string
}

// Gates are the values of all feature gates, resolved once at start.
type Gates map[string]bool

// resolveGates returns the value of every gate. Unknown names, values that are
// not offered and missing dependencies are errors with the path of the gate.
func resolveGates(set map[string]bool) (Gates, []Notice, field.ErrorList) {
	var errs field.ErrorList
	var notices []Notice
	out, byName := Gates{}, map[string]gate{}
	for _, g := range gates() {
		byName[g.name] = g
		out[g.name] = g.on
	}
	retired := retiredGates()
	for _, name := range slices.Sorted(maps.Keys(set)) {
		value, at := set[name], field.NewPath("featureGates").Key(name)
		g, known := byName[name]
		fixed, gone := retired[name]
		switch {
		case gone && fixed == value:
			notices = append(
				notices,
				Notice{Path: at.String(), Text: "has no effect: it is no longer a gate, " + onOff(fixed) + " for good"},
			)
		case gone:
			errs = append(
				errs,
				field.Invalid(at, value, "it is no longer a gate, "+onOff(fixed)+" for good: take it out"),
			)
		case !known:
			errs = append(errs, field.Invalid(at, value, unknownGate(name, byName)))
		default:
			out[name] = value
			n, err := g.set(value, at)
			notices, errs = append(notices, n...), append(errs, err...)
			if parent := byName[g.needs]; value && g.needs != "" && !valueOf(parent, set) {
				errs = append(errs, field.Invalid(at, value, fmt.Sprintf("needs the gate %s, which is off", g.needs)))
			}
		}
	}
	return out, notices, errs
}

// set judges a value that a user gives the gate.
func (g gate) set(value bool, at *field.Path) ([]Notice, field.ErrorList) {
	switch {
	case g.offer == inner:
		return []Notice{{Path: at.String(), Text: "has no effect: " + g.why}}, nil
	case g.offer == always && !value:
		return nil, field.ErrorList{field.Invalid(at, value, "cannot be turned off: "+g.why)}
	case g.offer == absent && value:
		return nil, field.ErrorList{field.Invalid(at, value, "cannot be turned on: "+g.why)}
	}
	return nil, nil
}

func valueOf(g gate, set map[string]bool) bool {
	if v, given := set[g.name]; given {
		return v
	}
	return g.on
}

func unknownGate(name string, all map[string]gate) string {
	if name == "AllAlpha" || name == "AllBeta" {
		return "gates are set one by one: name those you mean"
	}
	if near := strict.Nearest(name, slices.Sorted(maps.Keys(all))); near != "" {
		return fmt.Sprintf("there is no such gate; did you mean %s?", near)
	}
	return "there is no such gate: take it out, or see docs/configuration.md for those there are"
}

func onOff(v bool) string { return map[bool]string{true: "on", false: "off"}[v] }

// parseGates reads the value of --feature-gates: A=true,B=false.
func parseGates(text string) (map[string]bool, error) {
	out := map[string]bool{}
	for pair := range strings.SplitSeq(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("--feature-gates %q: must be NAME=true or NAME=false, separated by commas", pair)
		}
		name = strings.TrimSpace(name)
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("--feature-gates: %s is set twice: keep one", name)
		}
		out[name] = on
	}
	return out, nil
}
