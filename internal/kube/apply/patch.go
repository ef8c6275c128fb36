package apply

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Status changes the status of a Workload to next by sending only what differs,
// on condition that the object is still the one that was read. It updates w to
// what the API server stored. No difference sends nothing.
func Status(ctx context.Context, c client.Client, w *kueue.Workload, next kueue.WorkloadStatus) error {
	diff, err := difference(w.Status, next)
	if err != nil {
		return fmt.Errorf("compare status of workload %s/%s: %w", w.Namespace, w.Name, err)
	}
	if string(diff) == "{}" {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": w.ResourceVersion},
		"status":   json.RawMessage(diff),
	})
	if err != nil {
		return fmt.Errorf("encode status of workload %s/%s: %w", w.Namespace, w.Name, err)
	}
	return c.Status().Patch(ctx, w, client.RawPatch(types.MergePatchType, patch))
}

// difference is the merge patch that turns one status into the other.
func difference(was, is kueue.WorkloadStatus) ([]byte, error) {
	a, err := json.Marshal(was)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(is)
	if err != nil {
		return nil, err
	}
	return jsonpatch.CreateMergePatch(a, b)
}

// Unpin removes the finalizer that keeps a Workload, and with it its quota,
// until its pods are gone.
func Unpin(ctx context.Context, c client.Client, w *kueue.Workload) error {
	next := w.DeepCopy()
	if !controllerutil.RemoveFinalizer(next, kueue.ResourceInUseFinalizer) {
		return nil
	}
	return client.IgnoreNotFound(c.Patch(ctx, next, client.MergeFromWithOptions(w, client.MergeFromWithOptimisticLock{})))
}
