package apply

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Unpin removes the finalizer that keeps a Workload, and with it its quota,
// until its pods are gone.
func Unpin(ctx context.Context, c client.Client, w *kueue.Workload) error {
	next := w.DeepCopy()
	if !controllerutil.RemoveFinalizer(next, kueue.ResourceInUseFinalizer) {
		return nil
	}
	return client.IgnoreNotFound(
		c.Patch(ctx, next, client.MergeFromWithOptions(w, client.MergeFromWithOptimisticLock{})),
	)
}
