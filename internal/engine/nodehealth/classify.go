package nodehealth

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Taints by which Kubernetes says that a node is out of reach, or cordoned.
const (
	notReadyTaint    = "node.kubernetes.io/not-ready"
	unreachableTaint = "node.kubernetes.io/unreachable"
	cordonTaint      = "node.kubernetes.io/unschedulable"
)

// sentinelTaint is what NVSentinel keeps pods off a node by that it has found bad. It says so itself, and has a breaker
// of its own: that counts as a cordon.
const sentinelTaint = "AggregatedNodeHealth"

// pressure is the condition that a taint stands for by which Kubernetes keeps pods off a node that
// is short of something, and ends some there; "" for other taints. Such taints come and go with
// what runs on a node: they say what it takes now, and not for whom it is.
func pressure(taint string) string {
	switch taint {
	case "node.kubernetes.io/disk-pressure":
		return "DiskPressure"
	case "node.kubernetes.io/memory-pressure":
		return "MemoryPressure"
	case "node.kubernetes.io/pid-pressure":
		return "PIDPressure"
	case "node.kubernetes.io/network-unavailable":
		return "NetworkUnavailable"
	}
	return ""
}

// IsPassing reports whether a taint says of a node what State says as well: that it is cordoned,
// out of reach or short of something.
func IsPassing(taint string) bool {
	switch taint {
	case cordonTaint, notReadyTaint, unreachableTaint, sentinelTaint:
		return true
	}
	return pressure(taint) != ""
}

// Signals are what is known of a node and bears on its health.
type Signals struct {
	Labels map[string]string
	Taints []core.Taint
	// Capacity is all that the node has. A node that lists core.GPU, be it
	// with 0, is a GPU node.
	Capacity core.Resources
	// Broken are devices of its capacity that cannot be allocated, as those that their device plugin calls unhealthy.
	Broken core.Resources
	// Unschedulable is true when the node is cordoned.
	Unschedulable bool
	// Ready is the status of the Ready condition: "True", "False" or
	// "Unknown"; "" if the node never reported one.
	Ready string
	// ReadyReason is the reason of the Ready condition.
	ReadyReason string
	// Deleting is true from the moment the node's deletion was asked for.
	Deleting bool
	// Health is what is remembered of findings on it.
	Health Health
}

// Classify returns the state of a node, and in a few words why it is not
// NodeReady ("" if it is). The worst signal decides the state; the words name all
// signals, worst first, so that mending what they say brings the node back.
//
// The health label counts for nodes with GPUs only, and then for the whole
// node: what it says of the GPUs closes the node to all pods.
func Classify(f Signals) (core.NodeState, string) {
	found := findings(f)
	if _, hasGPUs := f.Capacity.Lookup(core.GPU); !hasGPUs {
		found = slices.DeleteFunc(found, func(x finding) bool { return x.scope == gpusOnly })
	}
	if len(found) == 0 {
		return core.NodeReady, ""
	}
	words := make([]string, len(found))
	for i, x := range found {
		words[i] = x.why
	}
	return found[0].state, strings.Join(words, ", ")
}

// scope is how much of a node a finding concerns.
type scope int

const (
	wholeNode scope = iota
	gpusOnly
)

// finding is one thing that is wrong with a node.
type finding struct {
	state core.NodeState
	scope scope
	why   string
}

// findings lists what is wrong with a node, worst first.
func findings(f Signals) []finding {
	var found []finding
	if f.Deleting {
		found = append(found, finding{core.NodeLost, wholeNode, "being deleted"})
	}
	if x, ok := readiness(f); ok {
		found = append(found, x)
	}
	if f.Unschedulable {
		found = append(found, finding{core.NodeClosed, wholeNode, core.Cordoned})
	}
	for _, t := range f.Taints {
		if short := pressure(t.Key); short != "" {
			found = append(found, finding{core.NodeClosed, wholeNode, short})
		}
		if t.Key == sentinelTaint && t.Effect != core.PreferNoSchedule {
			found = append(
				found,
				finding{core.NodeClosed, wholeNode, "taint " + t.Key + "=" + t.Value + " of NVSentinel"},
			)
		}
	}
	if x, ok := labelled(f.Labels); ok {
		found = append(found, x)
	}
	found = append(found, judged(f)...)
	slices.SortStableFunc(
		found,
		func(a, b finding) int { return cmp.Compare(severity(b.state), severity(a.state)) },
	)
	return found
}

// readiness judges the Ready condition and, where that is still good, the
// taints that follow it: taints may be set before the condition is seen.
func readiness(f Signals) (finding, bool) {
	switch f.Ready {
	case "True":
	case "":
		return finding{core.NodeLost, wholeNode, "never reported ready"}, true
	default:
		words := "not ready"
		if f.Ready == "Unknown" {
			words = "ready unknown"
		}
		if f.ReadyReason != "" {
			words += " (" + f.ReadyReason + ")"
		}
		return finding{core.NodeLost, wholeNode, words}, true
	}
	for _, t := range f.Taints {
		if t.Key == notReadyTaint || t.Key == unreachableTaint {
			return finding{core.NodeLost, wholeNode, "taint " + t.Key}, true
		}
	}
	return finding{}, false
}

// labelled judges the health label.
func labelled(labels map[string]string) (finding, bool) {
	state := MarkedState(labels)
	return finding{state, gpusOnly, "label " + HealthLabel + "=" + labels[HealthLabel]}, state != core.NodeReady
}

// judged are the findings that are remembered of a node. Those of devices that it does not have say nothing.
func judged(f Signals) []finding {
	var out []finding
	for _, p := range f.Health.Parts {
		state, of := p.nodeState(), wholeNode
		switch {
		case state == core.NodeReady:
			continue
		case p.Of == core.GPU:
			of = gpusOnly
		case p.Of != "":
			if _, has := f.Capacity.Lookup(p.Of); !has {
				continue
			}
		}
		why := p.Words()
		if !f.Health.Held.IsZero() && !state.TakesWork() {
			state, why = core.NodeWarned, why+", and would be out of service if not too many were already"
		}
		out = append(out, finding{state, of, why})
	}
	if at := f.Health.Untested; !at.IsZero() {
		why := "waits for a deep test since it was cleared at " + at.UTC().Format("2006-01-02T15:04Z")
		out = append(out, finding{core.NodeClosed, wholeNode, why})
	}
	return out
}

// Words say how a part is, why and since when.
func (p Part) Words() string {
	text := string(p.State)
	if p.Worst != nil && p.State != Healthy {
		text += ": " + p.Worst.Words()
	}
	if p.State == Back {
		text += ", gone"
	}
	return text + " since " + p.Since.UTC().Format("2006-01-02T15:04Z")
}

func severity(s core.NodeState) int {
	switch s {
	case core.NodeReady:
		return 0
	case core.NodeWarned:
		return 1
	case core.NodeClosed:
		return 2
	case core.NodeLost:
		return 3
	case core.NodeEvicted:
		return 4
	}
	return 0
}
