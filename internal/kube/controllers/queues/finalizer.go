package queues

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// addFinalizer makes sure that the object carries the finalizer.
func addFinalizer[T copied[T]](ctx context.Context, c client.Client, o T) error {
	before := o.DeepCopy()
	if !controllerutil.AddFinalizer(o, kueue.ResourceInUseFinalizer) {
		return nil
	}
	return patchFinalizers(ctx, c, o, before)
}

// removeFinalizer makes sure that the object does not carry the finalizer.
func removeFinalizer[T copied[T]](ctx context.Context, c client.Client, o T) error {
	before := o.DeepCopy()
	if !controllerutil.RemoveFinalizer(o, kueue.ResourceInUseFinalizer) {
		return nil
	}
	return patchFinalizers(ctx, c, o, before)
}

// copied is an object of a known kind.
type copied[T any] interface {
	client.Object
	DeepCopy() T
}

// patchFinalizers writes the finalizers of o. A conflict means that a newer
// object is on its way here, which is looked at then.
func patchFinalizers(ctx context.Context, c client.Client, o, before client.Object) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := c.Patch(ctx, o, patch, owner)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("write finalizers of %s: %w", o.GetName(), err)
}
