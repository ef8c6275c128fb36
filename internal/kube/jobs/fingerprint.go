package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

// fingerprintLength is the length of a fingerprint, which can be part of a name.
const fingerprintLength = 8

// Fingerprint is the same for pods that ask the same of the cluster; images and commands
// do not matter.
func Fingerprint(spec *corev1.PodSpec) string {
	type container struct {
		Resources corev1.ResourceRequirements
		Ports     []corev1.ContainerPort
		Restart   *corev1.ContainerRestartPolicy
	}
	shapes := func(in []corev1.Container) []container {
		out := make([]container, len(in))
		for i, c := range in {
			out[i] = container{c.Resources, c.Ports, c.RestartPolicy}
		}
		return out
	}
	return Sum(struct {
		Init, Containers []container
		Pod              *corev1.ResourceRequirements
		NodeSelector     map[string]string
		Affinity         *corev1.Affinity
		Tolerations      []corev1.Toleration
		RuntimeClass     *string
		PriorityClass    string
		Spread           []corev1.TopologySpreadConstraint
		Overhead         corev1.ResourceList
		Claims           []corev1.PodResourceClaim
	}{
		shapes(
			spec.InitContainers,
		),
		shapes(spec.Containers),
		spec.Resources,
		spec.NodeSelector,
		spec.Affinity,
		spec.Tolerations,
		spec.RuntimeClassName,
		spec.PriorityClassName,
		spec.TopologySpreadConstraints,
		spec.Overhead,
		spec.ResourceClaims,
	})
}

// Sum is the same for what is written alike; "" if it cannot be written, as API types can.
func Sum(of any) string {
	text, err := json.Marshal(of)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:fingerprintLength]
}
