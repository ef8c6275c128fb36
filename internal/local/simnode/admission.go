package simnode

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resources "k8s.io/component-helpers/resource"
)

// refusal is why a node cannot take a pod in next to the pods that it has, empty
// if it can. A kubelet makes the same check, so a scheduler that promises a
// GPU twice does not get away with it here either.
func refusal(node *corev1.Node, taken []*corev1.Pod, pod *corev1.Pod) string {
	left := node.Status.Allocatable.DeepCopy()
	pods := left[corev1.ResourcePods]
	if int64(len(taken)) >= pods.Value() {
		return fmt.Sprintf("node %s has room for %d pods and runs as many", node.Name, pods.Value())
	}
	for _, p := range taken {
		for name, q := range resources.PodRequests(p, resources.PodResourcesOptions{}) {
			have := left[name]
			have.Sub(q)
			left[name] = have
		}
	}
	wants := resources.PodRequests(pod, resources.PodResourcesOptions{})
	names := make([]corev1.ResourceName, 0, len(wants))
	for name := range wants {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		want, have := wants[name], left[name]
		if !want.IsZero() && want.Cmp(have) > 0 {
			return fmt.Sprintf(
				"node %s has %s of %s left, the pod requests %s",
				node.Name,
				have.String(),
				name,
				want.String(),
			)
		}
	}
	return ""
}
