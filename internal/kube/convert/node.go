package convert

import (
	"maps"
	"slices"
	"strings"

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
		Broken:        broken(n),
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

// broken are the devices of a node that cannot be allocated. What the system keeps of CPU and memory for itself is not.
func broken(n *corev1.Node) core.Resources {
	if len(n.Status.Allocatable) == 0 { // its kubelet has not said yet
		return nil
	}
	out := map[string]core.Amount{}
	for name, has := range n.Status.Capacity {
		gives := n.Status.Allocatable[name]
		if strings.Contains(string(name), "/") && has.Cmp(gives) > 0 {
			out[string(name)] = Amount(name, has).Sub(Amount(name, gives))
		}
	}
	if len(out) == 0 {
		return nil
	}
	return core.MakeResources(out)
}

// lasting leaves out the taints by which Kubernetes says that a node is cordoned,
// out of reach or short of something. State says the same, and a node that comes back serves the same pods
// as before: with these taints, jobs would be told that no node could ever do.
func lasting(taints []core.Taint) []core.Taint {
	return slices.DeleteFunc(taints, func(t core.Taint) bool { return nodehealth.IsPassing(t.Key) })
}
