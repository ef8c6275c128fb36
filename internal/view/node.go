package view

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// DrainAnnotation on a node says that mlbatch took it out of service: who, when and why, and what
// of that is to be undone. Cordons without it are of others.
const DrainAnnotation = "mlbatch.dev/drained"

// Drain is what the annotation says.
type Drain struct {
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
	// Cordoned says that the node was not cordoned before, Labelled that its health label was
	// set, which was Health before, "" for none.
	Cordoned bool   `json:"cordoned,omitempty"`
	Labelled bool   `json:"labelled,omitempty"`
	Health   string `json:"health,omitempty"`
}

// DrainOf is what mlbatch did to a node, nil if nothing.
func DrainOf(n *corev1.Node) *Drain {
	text, there := n.Annotations[DrainAnnotation]
	if !there {
		return nil
	}
	var d Drain
	if json.Unmarshal([]byte(text), &d) != nil {
		return nil
	}
	return &d
}

// Words say who took a node out of service, how long ago and why.
func (d *Drain) Words(now time.Time) string {
	text := fmt.Sprintf("drained by %s %s ago", d.By, duration.HumanDuration(max(now.Sub(d.At), 0)))
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}

// NodeHealth is what findings say of a node.
type NodeHealth struct {
	State nodehealth.State `json:"state"`
	// Finding is what was found, and by whom, and Since when the state is so; of a test that its label tells of neither.
	Finding string    `json:"finding,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Held says that it would be out of service, and is not, since too many nodes are already.
	Held bool `json:"held,omitempty"`
}

// HealthOf is what is remembered of a node, nil if nothing is wrong.
func HealthOf(h nodehealth.Health) *NodeHealth {
	f, since := h.Worst()
	switch {
	case h.State() == nodehealth.Testing:
		return &NodeHealth{State: nodehealth.Testing}
	case f == nil:
		return nil
	}
	return &NodeHealth{State: h.State(), Finding: f.Words(), Since: since, Held: !h.Held.IsZero()}
}

// NodeFaults are those of a node in the last eight weeks.
type NodeFaults struct {
	// Lemon is how bad they are together: 0 is nothing that matters, 3 the worst. Of nodes that are otherwise as good,
	// jobs get those with the least.
	Lemon int `json:"lemon"`
	// Kinds are how many there were of each kind: Down, Devices, System, DeepTest, Hang.
	Kinds map[string]int `json:"kinds"`
	// JobsLost is how many jobs lost what they did since their last checkpoint, at least.
	JobsLost int `json:"jobsLost"`
	// Since is when the first of them was, Last when the last was, of LastKind.
	Since    time.Time `json:"since"`
	Last     time.Time `json:"last"`
	LastKind string    `json:"lastKind"`
}

// Count is how many faults there were.
func (f *NodeFaults) Count() (n int) {
	for _, of := range f.Kinds {
		n += of
	}
	return n
}

// FaultsOf are those that are remembered of a node, nil if none are.
func FaultsOf(h nodehealth.Health) *NodeFaults {
	if len(h.Faults) == 0 {
		return nil
	}
	last := h.Faults[len(h.Faults)-1]
	out := &NodeFaults{
		Lemon: h.Lemon, Kinds: map[string]int{}, JobsLost: h.JobsLost(), Since: h.Faults[0].At, Last: last.At,
		LastKind: string(last.Kind),
	}
	for _, f := range h.Faults {
		out.Kinds[string(f.Kind)]++
	}
	return out
}

// Node is how a node stands, in one line. Its JSON is stable.
type Node struct {
	// Name is that of the node.
	Name string `json:"name"`
	// State is what the node is good for, Why the reason if that is not everything.
	State core.NodeState `json:"state"`
	Why   string         `json:"why,omitempty"`
	// GPUs is how many it offers, Free how many of them no pod has, whatever its state; nil if
	// the user may not read pods.
	GPUs int64  `json:"gpus"`
	Free *int64 `json:"free,omitempty"`
	// Slices and FreeSlices are the same for parts of GPUs, by their sort, such as mig-1g.5gb.
	Slices     map[string]int64 `json:"slices,omitempty"`
	FreeSlices map[string]int64 `json:"freeSlices,omitempty"`
	// Pods is how many are on it that have not ended, nil as above; Jobs whose those are that have
	// GPUs, as NAMESPACE/NAME with the number of GPUs or, of a job without, of parts of them.
	Pods    *int             `json:"pods,omitempty"`
	Jobs    map[string]int64 `json:"jobs,omitempty"`
	Created time.Time        `json:"created"`
	// Domain is where it is, by the levels of a topology, widest first: of the Topology, if there is one alone, and else
	// those that the labels of nodes tell. Commands say it only where that was asked for.
	Domain []string `json:"domain,omitempty"`
	// Drained is who took it out of service with mlbatch drain, nil if nobody did.
	Drained *Drain `json:"drained,omitempty"`
	// Health is what findings say of it, nil if nothing.
	Health *NodeHealth `json:"health,omitempty"`
	// Faults are those of the last weeks, nil if there were none.
	Faults *NodeFaults `json:"faults,omitempty"`
	// UsedSince is since when the GPUs that pods have were used, on average over these GPUs; nil if none is, or
	// that is not known.
	UsedSince *time.Time `json:"gpusUsedSince,omitempty"`
}
