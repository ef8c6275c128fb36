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

// used keeps objects of one kind, that ClusterQueues refer to, until none does.
type used[T copied[T]] struct {
	client   client.Client
	recorder events.EventRecorder
	// kind is what people call it, empty makes one.
	kind  string
	empty func() T
	// refers reports whether a ClusterQueue refers to the object of a name.
	refers func(*kueue.ClusterQueue, string) bool
}

type (
	flavors = used[*kueue.ResourceFlavor]
	checks  = used[*kueue.AdmissionCheck]
)

func newFlavors(c client.Client, recorder events.EventRecorder) *flavors {
	return &flavors{c, recorder, "ResourceFlavor", func() *kueue.ResourceFlavor { return &kueue.ResourceFlavor{} }, uses}
}

func newChecks(c client.Client, recorder events.EventRecorder) *checks {
	return &checks{c, recorder, "AdmissionCheck", func() *kueue.AdmissionCheck { return &kueue.AdmissionCheck{} }, asks}
}

// asks reports whether a ClusterQueue asks an AdmissionCheck.
func asks(q *kueue.ClusterQueue, check string) bool {
	return slices.Contains(admissionChecks(q), check)
}

// Reconcile keeps the finalizer of one object: it stays until no ClusterQueue
// refers to it.
func (r *used[T]) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := r.empty()
	err := r.client.Get(ctx, req.NamespacedName, o)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read %s %s: %w", r.kind, req.Name, err)
	}
	if o.GetDeletionTimestamp() == nil {
		return reconcile.Result{}, addFinalizer(ctx, r.client, o)
	}
	users, err := r.users(ctx, o.GetName())
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(users) == 0 {
		return reconcile.Result{}, removeFinalizer(ctx, r.client, o)
	}
	r.recorder.Eventf(o, nil, corev1.EventTypeWarning, "InUse", "Delete",
		"Deletion waits for ClusterQueues that refer to the %s: %s", r.kind, strings.Join(users, ", "))
	return reconcile.Result{}, nil
}

// users names at most ten of the ClusterQueues that refer to an object, sorted.
func (r *used[T]) users(ctx context.Context, name string) ([]string, error) {
	const most = 10
	list := &kueue.ClusterQueueList{}
	if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ClusterQueues that refer to %s %s: %w", r.kind, name, err)
	}
	var names []string
	for i := range list.Items {
		if r.refers(&list.Items[i], name) {
			names = append(names, list.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), most)], nil
}
