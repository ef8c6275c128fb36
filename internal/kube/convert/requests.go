package convert

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Surroundings are what of a cluster changes the pods that are made in one
// namespace.
type Surroundings struct {
	// LimitRanges of the namespace, in the order in which their defaults apply:
	// the first to give one wins.
	LimitRanges []*corev1.LimitRange
	// Overheads are what RuntimeClasses add to a pod, by name. A class without
	// overhead is listed too.
	Overheads map[string]corev1.ResourceList
}

// Requests are what one pod asks for.
type Requests struct {
	// Node is what it takes of a node once it is made.
	Node core.Resources
	// Quota is what it counts against quota; nil if that is Node.
	Quota core.Resources
	// Invalid says why such a pod could not be made, and what to do; "" if it
	// can.
	Invalid string
}

// RequestsOf finds out what a pod with this spec asks for (spec/kueue.md 2.1).
//
// A node gives what the API server makes of the spec: limits stand in for
// missing requests, then the namespace's LimitRanges fill in what is missing,
// and the RuntimeClass adds its overhead. Quota is counted like Kueue counts
// it: the LimitRanges come first, then limits; excluded resources are left out
// and others transformed.
func RequestsOf(spec *corev1.PodSpec, s Surroundings, c Counting) Requests {
	overhead, invalid := s.overhead(spec)
	made := fill(spec, overhead, limitsAsRequests, s.defaults, limitsAsRequests)
	if invalid == "" {
		invalid = s.violation(&made)
	}
	list := sum(&made)
	out := Requests{Node: natural(list), Invalid: invalid}
	if s.hasDefaults() {
		counted := fill(spec, overhead, s.defaults, limitsAsRequests)
		list = sum(&counted)
	}
	if quota := natural(c.count(list)); !slices.Equal(quota, out.Node) {
		out.Quota = quota
	}
	return out
}

// PodRequests is what one pod asks for: containers, init containers, sidecars
// and overhead as the scheduler counts them, where a limit without a request is
// a request. Negative requests count as none.
func PodRequests(spec *corev1.PodSpec) core.Resources {
	made := fill(spec, spec.Overhead, limitsAsRequests)
	return natural(sum(&made))
}

func sum(spec *corev1.PodSpec) corev1.ResourceList {
	return resourcehelper.PodRequests(&corev1.Pod{Spec: *spec}, resourcehelper.PodResourcesOptions{})
}

// natural translates a list and counts negative amounts as none.
func natural(list corev1.ResourceList) core.Resources {
	r := Resources(list)
	for i := range r {
		r[i].Amount = max(r[i].Amount, 0)
	}
	return r
}

// fill returns the spec with another overhead and the steps applied in turn to
// the resources of each container. The spec stays as it is.
func fill(spec *corev1.PodSpec, overhead corev1.ResourceList, steps ...func(*corev1.ResourceRequirements)) corev1.PodSpec {
	out := *spec
	out.Overhead = overhead
	out.Containers = slices.Clone(spec.Containers)
	out.InitContainers = slices.Clone(spec.InitContainers)
	for _, containers := range [][]corev1.Container{out.Containers, out.InitContainers} {
		for i := range containers {
			for _, step := range steps {
				step(&containers[i].Resources)
			}
		}
	}
	out.Resources = podLevel(&out)
	return out
}

// podLevel is what the pod as a whole asks for: its limits stand in for missing
// requests, unless containers request the resource.
func podLevel(spec *corev1.PodSpec) *corev1.ResourceRequirements {
	if spec.Resources == nil {
		return nil
	}
	out := *spec.Resources
	for _, name := range slices.Sorted(maps.Keys(out.Limits)) {
		requested := slices.ContainsFunc(slices.Concat(spec.Containers, spec.InitContainers), func(c corev1.Container) bool {
			_, ok := c.Resources.Requests[name]
			return ok
		})
		if !requested {
			out.Requests = withMissing(out.Requests, corev1.ResourceList{name: out.Limits[name]})
		}
	}
	return &out
}

// limitsAsRequests lets limits stand in for missing requests.
func limitsAsRequests(r *corev1.ResourceRequirements) { r.Requests = withMissing(r.Requests, r.Limits) }

// withMissing returns a list with the entries of more that it lacks.
func withMissing(list, more corev1.ResourceList) corev1.ResourceList {
	missing := false
	for name := range more {
		if _, ok := list[name]; !ok {
			missing = true
		}
	}
	if !missing {
		return list
	}
	out := maps.Clone(more)
	maps.Copy(out, list)
	return out
}
