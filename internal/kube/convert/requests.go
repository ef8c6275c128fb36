package convert

import (
	"maps"
	"slices"
	"time"

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
	// RuntimeClasses are those of the cluster, by name: what they add to a pod.
	RuntimeClasses map[string]RuntimeClass
	// Volumes are those of the namespace that not every node reaches, by claim: what nodes have
	// that reach them.
	Volumes map[string][]core.Selector
	// Priorities are the values of the WorkloadPriorityClasses.
	Priorities map[string]int32
	// MinimumRuntimes are the minimum runtimes of those that have one.
	MinimumRuntimes map[string]time.Duration
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

// RequestsOf finds out what a pod with this spec asks for.
//
// It is what the API server makes of the spec: limits stand in for missing
// requests, of containers and then of the pod as a whole; the namespace's
// LimitRanges fill in what containers still leave out, and the RuntimeClass adds
// its overhead. The same counts against quota, but that excluded resources are
// left out and others transformed. Kueue counts LimitRanges before limits there,
// which is less than a pod gets whose limit is above the default request.
func RequestsOf(spec *corev1.PodSpec, s Surroundings, c Counting) Requests {
	overhead, invalid := s.overhead(spec)
	made := fill(spec, overhead, s.defaults)
	if invalid == "" {
		invalid = s.violation(spec, &made)
	}
	list := sum(&made)
	out := Requests{Node: natural(list), Invalid: invalid}
	if quota := natural(c.count(list)); !slices.Equal(quota, out.Node) {
		out.Quota = quota
	}
	return out
}

// PodRequests is what one pod asks for: containers, init containers, sidecars
// and overhead as the scheduler counts them, where a limit without a request is
// a request. Negative requests count as none.
func PodRequests(spec *corev1.PodSpec) core.Resources {
	made := fill(spec, spec.Overhead, func(*corev1.ResourceRequirements) {})
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

// fill returns the spec as the API server stores a pod with it: limits stand in
// for missing requests, then defaults are applied to the resources of each
// container. The spec stays as it is.
func fill(
	spec *corev1.PodSpec,
	overhead corev1.ResourceList,
	defaults func(*corev1.ResourceRequirements),
) corev1.PodSpec {
	out := *spec
	out.Overhead = overhead
	out.Containers = slices.Clone(spec.Containers)
	out.InitContainers = slices.Clone(spec.InitContainers)
	each := func(step func(*corev1.ResourceRequirements)) {
		for _, containers := range [][]corev1.Container{out.Containers, out.InitContainers} {
			for i := range containers {
				step(&containers[i].Resources)
			}
		}
	}
	each(limitsAsRequests)
	out.Resources = podLevel(&out)
	each(defaults)
	each(limitsAsRequests)
	return out
}

// podLevel is what the pod as a whole asks for. If it has limits, what it leaves
// out of its requests is what its containers request together, and where none
// requests anything, the limit.
func podLevel(spec *corev1.PodSpec) *corev1.ResourceRequirements {
	if spec.Resources == nil {
		return nil
	}
	out := *spec.Resources
	if len(out.Limits) == 0 {
		return &out
	}
	missing := corev1.ResourceList{}
	for name, q := range out.Limits {
		if resourcehelper.IsSupportedPodLevelResource(name) {
			missing[name] = q
		}
	}
	together := resourcehelper.AggregateContainerRequests(
		&corev1.Pod{Spec: *spec},
		resourcehelper.PodResourcesOptions{},
	)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, ok := together[name]; ok {
			missing[name] = q
		}
	}
	out.Requests = withMissing(out.Requests, missing)
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
