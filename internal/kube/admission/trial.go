package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// TryPod finds out whether a pod may be made, by asking the API server without storing anything. It
// says why it may not, "" if it may; that we ourselves may not make it says nothing about who will. Other
// errors say nothing about the pod, and are returned as they are.
func TryPod(ctx context.Context, c client.Writer, p *corev1.Pod) (why string, err error) {
	err = c.Create(ctx, p, client.DryRunAll)
	switch {
	case err == nil, jobs.LacksRight(err):
		return "", nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return err.Error(), nil
	}
	return "", err //nolint:wrapcheck // it is looked at
}
