package convert

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"

	"github.com/mlbatch/mlbatch/internal/core"
)

// RuntimeClass is what admission adds to the pods of a RuntimeClass.
type RuntimeClass struct {
	// Overhead is what each takes of its node besides what it asks for.
	Overhead corev1.ResourceList
	// NodeSelector and Tolerations say which nodes have the runtime.
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
}

// RuntimeClassOf translates a RuntimeClass.
func RuntimeClassOf(c *nodev1.RuntimeClass) RuntimeClass {
	var out RuntimeClass
	if c.Overhead != nil {
		out.Overhead = c.Overhead.PodFixed
	}
	if c.Scheduling != nil {
		out.NodeSelector, out.Tolerations = c.Scheduling.NodeSelector, c.Scheduling.Tolerations
	}
	return out
}

// Filter says which nodes a pod with this spec may use once it is made.
func (s Surroundings) Filter(spec *corev1.PodSpec) core.Filter {
	out := Filter(spec)
	out.Volumes = s.volumes(spec)
	if spec.RuntimeClassName == nil {
		return out
	}
	class := s.RuntimeClasses[*spec.RuntimeClassName]
	if len(class.NodeSelector) > 0 {
		must := maps.Clone(class.NodeSelector)
		maps.Copy(must, spec.NodeSelector)
		out.Must = equals(must)
	}
	out.Tolerations = append(out.Tolerations, Tolerations(class.Tolerations)...)
	return out
}

// overhead is what the RuntimeClass of a pod adds to it. A pod of a class that
// does not exist is rejected.
func (s Surroundings) overhead(spec *corev1.PodSpec) (list corev1.ResourceList, invalid string) {
	if spec.RuntimeClassName == nil || *spec.RuntimeClassName == "" {
		return spec.Overhead, ""
	}
	class, ok := s.RuntimeClasses[*spec.RuntimeClassName]
	if !ok {
		return spec.Overhead, fmt.Sprintf(
			"RuntimeClass %s doesn't exist: name another one in runtimeClassName, or none",
			*spec.RuntimeClassName,
		)
	}
	for _, key := range slices.Sorted(maps.Keys(class.NodeSelector)) {
		if own, has := spec.NodeSelector[key]; has && own != class.NodeSelector[key] {
			return spec.Overhead, fmt.Sprintf(
				"nodeSelector %s=%s contradicts RuntimeClass %s, whose pods run on nodes with %s=%s: change one of them",
				key,
				own,
				*spec.RuntimeClassName,
				key,
				class.NodeSelector[key],
			)
		}
	}
	if len(spec.Overhead) > 0 {
		return spec.Overhead, ""
	}
	return class.Overhead, ""
}
