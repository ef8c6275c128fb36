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

// used keeps objects of one kind, that others refer to, until none does.
type used[T copied[T]] struct {
	client   client.Client
	recorder events.EventRecorder
	// kind is what people call it, empty makes one.
	kind  string
	empty func() T
	// user is the kind that refers to them, users lists the names of those that
	// refer to the object of a name.
	user  string
	users func(ctx context.Context, c client.Reader, name string) ([]string, error)
}

type (
	flavors    = used[*kueue.ResourceFlavor]
	checks     = used[*kueue.AdmissionCheck]
	topologies = used[*kueue.Topology]
)

func newFlavors(c client.Client, recorder events.EventRecorder) *flavors {
	return &flavors{
		c,
		recorder,
		"ResourceFlavor",
		func() *kueue.ResourceFlavor { return &kueue.ResourceFlavor{} },
		"ClusterQueue",
		queuesThat(uses),
	}
}

func newChecks(c client.Client, recorder events.EventRecorder) *checks {
	return &checks{
		c,
		recorder,
		"AdmissionCheck",
		func() *kueue.AdmissionCheck { return &kueue.AdmissionCheck{} },
		"ClusterQueue",
		queuesThat(asks),
	}
}

func newTopologies(c client.Client, recorder events.EventRecorder) *topologies {
	return &topologies{
		c,
		recorder,
		"Topology",
		func() *kueue.Topology { return &kueue.Topology{} },
		"ResourceFlavor",
		flavorsOn,
	}
}

// named reports whether a flavor's nodes are in a Topology.
func named(f *kueue.ResourceFlavor, topology string) bool {
	return f.Spec.TopologyName != nil && string(*f.Spec.TopologyName) == topology
}

// flavorsOn lists the ResourceFlavors of a Topology.
func flavorsOn(ctx context.Context, c client.Reader, topology string) ([]string, error) {
	list := &kueue.ResourceFlavorList{}
	if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ResourceFlavors of Topology %s: %w", topology, err)
	}
	var names []string
	for i := range list.Items {
		if named(&list.Items[i], topology) {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, nil
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
	users, err := r.users(ctx, r.client, o.GetName())
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(users) == 0 {
		return reconcile.Result{}, removeFinalizer(ctx, r.client, o)
	}
	const most = 10
	slices.Sort(users)
	r.recorder.Eventf(
		o,
		nil,
		corev1.EventTypeWarning,
		"InUse",
		"Delete",
		"Deletion waits for %ss that refer to the %s: %s",
		r.user,
		r.kind,
		strings.Join(users[:min(len(users), most)], ", "),
	)
	return reconcile.Result{}, nil
}

// queuesThat lists the ClusterQueues that refer to an object.
func queuesThat(
	refer func(*kueue.ClusterQueue, string) bool,
) func(context.Context, client.Reader, string) ([]string, error) {
	return func(ctx context.Context, c client.Reader, name string) ([]string, error) {
		list := &kueue.ClusterQueueList{}
		if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list ClusterQueues that refer to %s: %w", name, err)
		}
		var names []string
		for i := range list.Items {
			if refer(&list.Items[i], name) {
				names = append(names, list.Items[i].Name)
			}
		}
		return names, nil
	}
}
