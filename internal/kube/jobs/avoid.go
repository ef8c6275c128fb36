package jobs

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// Avoidance keeps pods that ask for a resource away from nodes by a label. Which pods
// have to leave which nodes is decided here for every kind of job: see MustLeave.
type Avoidance struct {
	Resource corev1.ResourceName
	Label    string
	// Required are label values of nodes that such pods may not begin to use, Preferred
	// values of nodes that they use only if no others fit, and Evicting values of
	// nodes that they have to leave.
	Required, Preferred, Evicting []string
}

// AvoidBadGPUs keeps pods with GPUs away from nodes whose health label speaks
// against them, by the words of every generation of health checks.
func AvoidBadGPUs() []Avoidance {
	return []Avoidance{{
		Resource:  corev1.ResourceName(core.GPU),
		Label:     nodehealth.HealthLabel,
		Required:  nodehealth.Marks(func(s core.NodeState) bool { return !s.TakesWork() }),
		Preferred: nodehealth.Marks(func(s core.NodeState) bool { return s == core.NodeWarned }),
		Evicting:  nodehealth.Marks(func(s core.NodeState) bool { return s == core.NodeEvicted }),
	}}
}

func (a Avoidance) evicts(labels map[string]string) bool {
	return slices.ContainsFunc(a.Evicting, func(v string) bool { return strings.EqualFold(v, labels[a.Label]) })
}

// Evicting are the labels of a node that make pods leave it, as "label=value"; "" if
// none does.
func Evicting(labels map[string]string, avoid []Avoidance) string {
	var found []string
	for _, a := range avoid {
		if a.evicts(labels) {
			found = append(found, a.Label+"="+labels[a.Label])
		}
	}
	return strings.Join(found, ", ")
}

// MustLeave says why a pod has to leave its node; "" if it may stay.
func MustLeave(p *corev1.Pod, node *corev1.Node, avoid []Avoidance) string {
	if p.Status.Phase == corev1.PodSucceeded {
		return ""
	}
	for _, a := range avoid {
		if Asks(&p.Spec, a.Resource) && a.evicts(node.Labels) {
			return fmt.Sprintf("node %s has the label %s=%s", node.Name, a.Label, node.Labels[a.Label])
		}
	}
	return ""
}

// Asks reports whether a container requests some of a resource.
func Asks(spec *corev1.PodSpec, name corev1.ResourceName) bool {
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			r := containers[i].Resources
			if q := r.Limits[name]; q.Sign() > 0 {
				return true
			}
			if q := r.Requests[name]; q.Sign() > 0 {
				return true
			}
		}
	}
	return false
}
