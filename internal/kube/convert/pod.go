package convert

import corev1 "k8s.io/api/core/v1"

// Stuck is what a container waits for, if it is more than that it begins; nil if it does not wait, or no
// longer than any other.
func Stuck(s *corev1.ContainerStatus) *corev1.ContainerStateWaiting {
	if w := s.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" &&
		w.Reason != "ContainerCreating" {
		return w
	}
	return nil
}
