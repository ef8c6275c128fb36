package convert

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// Node translates a node without what foreign pods use on it.
func Node(n *corev1.Node) core.Node {
	state, why := nodehealth.Classify(NodeSignals(n))
	out := core.Node{
		Name:        n.Name,
		Labels:      maps.Clone(n.Labels),
		Taints:      lasting(Taints(n.Spec.Taints)),
		Allocatable: Resources(n.Status.Allocatable),
		State:       state,
		Why:         why,
	}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	out.Labels[nodeNameKey] = n.Name
	return out
}

// NodeSignals gathers what bears on the health of a node.
func NodeSignals(n *corev1.Node) nodehealth.Signals {
	f := nodehealth.Signals{
		Labels:        n.Labels,
		Taints:        Taints(n.Spec.Taints),
		Capacity:      Resources(n.Status.Capacity),
		Unschedulable: n.Spec.Unschedulable,
		Deleting:      n.DeletionTimestamp != nil,
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			f.Ready, f.ReadyReason = string(c.Status), c.Reason
		}
	}
	return f
}

// lasting leaves out the taints by which Kubernetes says that a node is cordoned,
// out of reach or short of something. State says the same, and a node that comes back serves the same pods
// as before: with these taints, jobs would be told that no node could ever do.
func lasting(taints []core.Taint) []core.Taint {
	return slices.DeleteFunc(taints, func(t core.Taint) bool { return nodehealth.IsPassing(t.Key) })
}
