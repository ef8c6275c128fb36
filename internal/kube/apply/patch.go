package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Status changes the status of a Workload to next by sending only the fields
// that differ, on condition that the object is still the one that was read. It
// updates w to what the API server stored. No difference sends nothing.
func Status(ctx context.Context, c client.Client, w *kueue.Workload, next kueue.WorkloadStatus) error {
	diff, err := difference(w.Status, next)
	if err != nil {
		return fmt.Errorf("compare status of workload %s/%s: %w", w.Namespace, w.Name, err)
	}
	if len(diff) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": w.ResourceVersion},
		"status":   diff,
	})
	if err != nil {
		return fmt.Errorf("encode status of workload %s/%s: %w", w.Namespace, w.Name, err)
	}
	return c.Status().Patch(ctx, w, client.RawPatch(types.MergePatchType, patch))
}

// difference returns the top-level fields that differ; null removes one. A merge
// patch merges objects, which is right here: the only object among the fields
// whose members come and go is requeueState, and it is set or removed whole.
func difference(was, is kueue.WorkloadStatus) (map[string]json.RawMessage, error) {
	a, err := fields(was)
	if err != nil {
		return nil, err
	}
	b, err := fields(is)
	if err != nil {
		return nil, err
	}
	out := map[string]json.RawMessage{}
	for k, v := range b {
		if !bytes.Equal(a[k], v) {
			out[k] = v
		}
	}
	for k := range a {
		if _, ok := b[k]; !ok {
			out[k] = json.RawMessage("null")
		}
	}
	return out, nil
}

func fields(s kueue.WorkloadStatus) (map[string]json.RawMessage, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	out := map[string]json.RawMessage{}
	return out, json.Unmarshal(data, &out)
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
