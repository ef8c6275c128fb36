package queues

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

type flavors struct {
	client   client.Client
	recorder events.EventRecorder
}

// Reconcile keeps the finalizer of one ResourceFlavor: a flavor stays until no
// ClusterQueue refers to it.
func (r *flavors) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	f := &kueue.ResourceFlavor{}
	err := r.client.Get(ctx, req.NamespacedName, f)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read ResourceFlavor %s: %w", req.Name, err)
	}
	if f.DeletionTimestamp == nil {
		return reconcile.Result{}, addFinalizer(ctx, r.client, f)
	}
	users, err := r.users(ctx, f.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(users) == 0 {
		return reconcile.Result{}, removeFinalizer(ctx, r.client, f)
	}
	r.recorder.Eventf(f, nil, corev1.EventTypeWarning, "InUse", "Delete",
		"Deletion waits for ClusterQueues that refer to the flavor: %s", strings.Join(users, ", "))
	return reconcile.Result{}, nil
}

// users names at most ten of the ClusterQueues that refer to a flavor, sorted.
func (r *flavors) users(ctx context.Context, flavor string) ([]string, error) {
	const most = 10
	list := &kueue.ClusterQueueList{}
	if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ClusterQueues that refer to ResourceFlavor %s: %w", flavor, err)
	}
	var names []string
	for i := range list.Items {
		if uses(&list.Items[i], flavor) {
			names = append(names, list.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), most)], nil
}
