package jobs

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
)

// ComputeDomainGVK is the kind of ComputeDomains.
func ComputeDomainGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "resource.nvidia.com", Version: "v1beta1", Kind: "ComputeDomain"}
}

// NoComputeDomains is what is told where a job asks for one and the cluster does not have the kind.
func NoComputeDomains() string {
	return fmt.Sprintf(
		"this cluster has no ComputeDomains (%s): install NVIDIA's DRA driver, or remove the annotation %s",
		ComputeDomainGVK().GroupVersion(), kueue.ComputeDomainAnnotation,
	)
}

// AsksComputeDomain are the pod sets that want to be in a ComputeDomain: those whose pods say so and, if their
// job does, as annotations say, those with GPUs.
func AsksComputeDomain(annotations map[string]string, sets []kueue.PodSet) (out []kueue.PodSetReference) {
	asks := func(of map[string]string) bool { return of[kueue.ComputeDomainAnnotation] == "true" }
	for i := range sets {
		t := &sets[i].Template
		if asks(t.Annotations) || asks(annotations) && Asks(&t.Spec, corev1.ResourceName(core.GPU)) {
			out = append(out, sets[i].Name)
		}
	}
	return out
}

// SharesMemory adds to pods that were given a place in a ComputeDomain the claim of their channel in it, of
// the template that was noted on them. Containers with GPUs get the channel, or all if none has any. Pods
// whose author wrote the claim stay as they are; false says that nothing was added.
func SharesMemory(p *corev1.Pod) bool {
	template := p.Annotations[kueue.ComputeDomainClaimAnnotation]
	claims := func(c corev1.PodResourceClaim) bool {
		return c.ResourceClaimTemplateName != nil && *c.ResourceClaimTemplateName == template
	}
	if template == "" || slices.ContainsFunc(p.Spec.ResourceClaims, claims) {
		return false
	}
	name := computeDomainClaim
	for slices.ContainsFunc(p.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool { return c.Name == name }) {
		name = "mlbatch-" + name
	}
	p.Spec.ResourceClaims = append(
		p.Spec.ResourceClaims,
		corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: &template},
	)
	all := !slices.ContainsFunc(p.Spec.Containers, hasGPU)
	for i := range p.Spec.Containers {
		if c := &p.Spec.Containers[i]; all || hasGPU(*c) {
			c.Resources.Claims = append(c.Resources.Claims, corev1.ResourceClaim{Name: name})
		}
	}
	return true
}

// computeDomainClaim is what a pod calls its claim of a channel.
const computeDomainClaim = "compute-domain-channel"

func hasGPU(c corev1.Container) bool {
	return Asks(&corev1.PodSpec{Containers: []corev1.Container{c}}, corev1.ResourceName(core.GPU))
}
