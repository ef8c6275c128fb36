package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

// Bind gives a pod of a gang its node, and answers only when it is known whether it
// has it: when an API server dies its answer gets lost, not always the write. Until
// then the place stays reserved; taken for free, it would be given to a second pod.
// Pods without a gang have no place of their own, and are left to the next plugin.
func (p *gangPlugin) Bind(
	ctx context.Context,
	state fwk.CycleState,
	pod *corev1.Pod,
	node string,
) *fwk.Status {
	k, ok := gang.KeyOf(pod)
	if !ok {
		return fwk.NewStatus(fwk.Skip)
	}
	if why := p.reservations.ends(k); why != "" {
		return fwk.NewStatus(fwk.Unschedulable, why)
	}
	status := p.binder.Bind(ctx, state, pod, node)
	if status.IsSuccess() {
		return status
	}
	live, err := p.readPod(ctx, pod)
	if err == nil && live.UID == pod.UID && live.Spec.NodeName == node {
		return nil
	}
	return status
}

// readPod reads a pod from the API server, which may take as long as that is away.
// It fails when the pod is not there, may not be read, or the context ends.
func (p *gangPlugin) readPod(ctx context.Context, pod *corev1.Pod) (live *corev1.Pod, err error) {
	pods := p.handle.ClientSet().CoreV1().Pods(pod.Namespace)
	ended := wait.PollUntilContextCancel(ctx, askAfter, true, func(ctx context.Context) (bool, error) {
		live, err = pods.Get(ctx, pod.Name, metav1.GetOptions{})
		return err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err), nil
	})
	if ended != nil {
		return nil, ended
	}
	return live, err
}
