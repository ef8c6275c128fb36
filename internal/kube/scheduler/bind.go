package scheduler

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"

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
	switch {
	case err != nil || live.UID != pod.UID || live.DeletionTimestamp != nil:
	case live.Spec.NodeName == node:
		return nil
	case live.Spec.NodeName == "" && refusedForGood(status.AsError()) && p.refused != nil &&
		p.reservations.unbindable(k, pod.UID, node) >= patience(defaultbinder.Name):
		v, f := p.reservations.look(k), found{}
		set := gang.SetOf(v.gang, pod)
		f.add(set, node, v.shownOn(set, node), defaultbinder.Name, status.Message())
		p.refused(pod, f)
	}
	return status
}

// shownOn counts the pods of a set that the API shows on a node: a pod that is about to be bound has it reserved, and
// so would count as one that the node took.
func (v view) shownOn(set, node string) int32 {
	n := int32(0)
	for i, m := range v.members {
		if m.Set == set && v.pods[i].Spec.NodeName == node {
			n++
		}
	}
	return n
}

// refusedForGood reports whether the API server would probably refuse to bind a pod that is there to that node again:
// a rule of the cluster has something against it, such as a webhook. (The API server itself does not look at the node.)
// If it goes on to, it is told like a node's own refusal (refusal.go): the plan is called back, and the next one leaves
// the node out. That this process may bind nothing at all, or that the namespace ends, says nothing about the node.
func refusedForGood(err error) bool {
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return false
	case apierrors.IsForbidden(err):
		return !strings.Contains(err.Error(), "cannot create resource") // how authorization puts it
	}
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err)
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
