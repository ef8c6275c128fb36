package slack

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// InventoryName is the name of the ConfigMap that remembers the nodes.
const InventoryName = "mlbatch-nodes"

// Names used where Options leave them empty.
const (
	DefaultQueue     = "slack-cluster-queue"
	DefaultNamespace = "mlbatch-system"
)

const owner = client.FieldOwner("mlbatch-slack")

// Options names what the controller works on.
type Options struct {
	// Queue is the name of the slack ClusterQueue; "" means DefaultQueue. It
	// need not exist.
	Queue string
	// Namespace of the inventory; "" means DefaultNamespace.
	Namespace string
	// Health has what is remembered of nodes; nil is nothing.
	Health cache.Cache
}

// SetupWithManager adds the controller to the manager. It needs get, list and
// watch on nodes, resourceflavors and clusterqueues, patch on clusterqueues,
// create and patch on events, and get, list, watch, create and patch on
// configmaps in its namespace.
func SetupWithManager(mgr manager.Manager, o Options) error {
	if o.Queue == "" {
		o.Queue = DefaultQueue
	}
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	inventories, err := inventoryCache(mgr, o.Namespace)
	if err != nil {
		return fmt.Errorf("watch ConfigMap %s/%s: %w", o.Namespace, InventoryName, err)
	}
	r := &reconciler{
		client:      mgr.GetClient(),
		inventories: inventories,
		recorder:    mgr.GetEventRecorder("mlbatch-slack"),
		options:     o,
	}
	if o.Health != nil {
		r.health = o.Health
	}
	c, err := controller.New("slack", mgr, controller.Options{
		Reconciler: r,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			10*time.Millisecond, 5*time.Second),
	})
	if err != nil {
		return fmt.Errorf("make the slack controller: %w", err)
	}
	for _, s := range sources(mgr.GetCache(), inventories, o) {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("watch for the slack controller: %w", err)
		}
	}
	return nil
}

// inventoryCache watches the one ConfigMap, so that others need not be readable.
func inventoryCache(mgr manager.Manager, namespace string) (cache.Cache, error) {
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(),
		Scheme:     mgr.GetScheme(),
		Mapper:     mgr.GetRESTMapper(),
		DefaultNamespaces: map[string]cache.Config{
			namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", InventoryName)},
		},
	})
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(startedEarly{c}); err != nil {
		return nil, err
	}
	return c, nil
}

// startedEarly makes the manager start a cache with its own caches, before the
// controllers that wait for it.
type startedEarly struct{ cache.Cache }

// GetCache is what the manager tells caches by.
func (s startedEarly) GetCache() cache.Cache { return s.Cache }

type reconciler struct {
	client      client.Client
	inventories client.Reader
	// health is nil where nothing is remembered of nodes.
	health   client.Reader
	recorder events.EventRecorder
	options  Options
	// What was reported last is not repeated: the queue generation that had no
	// cohort, and the unreadable keys of the inventory.
	toldCohort told
	toldTorn   []string
}

type told struct {
	uid        types.UID
	generation int64
}

// Reconcile makes the lending limits of the slack queue follow the nodes.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	// 1. Gather.
	queue := &kueue.ClusterQueue{}
	err := r.client.Get(ctx, client.ObjectKey{Name: r.options.Queue}, queue)
	if apierrors.IsNotFound(err) || err == nil && queue.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read slack queue %s: %w", r.options.Queue, err)
	}
	if queue.Spec.CohortName == "" {
		r.tellNoCohort(queue)
		return reconcile.Result{}, nil
	}
	flavors, machines, err := r.pool(ctx, queue)
	if err != nil {
		return reconcile.Result{}, err
	}
	stored, err := r.readInventory(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	// 2. Decide.
	losses, inventory := nodehealth.Account(flavors, machines, stored.inventory)
	changes := lending(queue, losses)
	// 3. Apply. An inventory that cannot be written must not keep the promises from
	// being protected.
	return reconcile.Result{}, errors.Join(
		r.writeInventory(ctx, queue, stored, inventory),
		r.adjust(ctx, queue, changes),
	)
}

// pool reads the flavors of the queue and all nodes.
func (r *reconciler) pool(
	ctx context.Context,
	queue *kueue.ClusterQueue,
) ([]core.Flavor, []nodehealth.Machine, error) {
	var flavors []core.Flavor
	for _, g := range queue.Spec.ResourceGroups {
		for _, f := range g.Flavors {
			o := &kueue.ResourceFlavor{}
			err := r.client.Get(ctx, client.ObjectKey{Name: string(f.Name)}, o)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, nil, fmt.Errorf("read flavor %s of slack queue %s: %w", f.Name, queue.Name, err)
			}
			flavors = append(flavors, convert.Flavor(o))
		}
	}
	list := &corev1.NodeList{}
	if err := r.client.List(ctx, list); err != nil {
		return nil, nil, fmt.Errorf("list nodes: %w", err)
	}
	healths, err := r.healths(ctx)
	if err != nil {
		return nil, nil, err
	}
	machines := make([]nodehealth.Machine, len(list.Items))
	for i := range list.Items {
		n := &list.Items[i]
		machines[i] = nodehealth.Machine{Name: n.Name, Signals: convert.NodeSignals(n)}
		machines[i].Signals.Health = convert.OfNode(n, healths[n.Name])
	}
	return flavors, machines, nil
}

// healths are what is remembered of nodes.
func (r *reconciler) healths(ctx context.Context) (map[string]nodehealth.Health, error) {
	if r.health == nil {
		return nil, nil
	}
	m := &corev1.ConfigMap{}
	err := r.health.Get(ctx, client.ObjectKey{Namespace: r.options.Namespace, Name: convert.HealthMemory}, m)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", r.options.Namespace, convert.HealthMemory, err)
	}
	out, _ := convert.Healths(m)
	return out, nil
}

// adjust writes the changed limits and tells what changed.
func (r *reconciler) adjust(ctx context.Context, queue *kueue.ClusterQueue, changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	patch, err := limitsPatch(changes)
	if err != nil {
		return fmt.Errorf("compose lending limits of slack queue %s: %w", queue.Name, err)
	}
	if err := r.client.Patch(
		ctx,
		queue.DeepCopy(),
		client.RawPatch(types.JSONPatchType, patch),
		owner,
	); err != nil {
		return fmt.Errorf("adjust lending limits of slack queue %s: %w", queue.Name, err)
	}
	if note := limitedNote(changes); note != "" {
		r.recorder.Eventf(queue, nil, corev1.EventTypeWarning, "LendingLimited", "AdjustLending", "%s", note)
	}
	if note := restoredNote(changes); note != "" {
		r.recorder.Eventf(queue, nil, corev1.EventTypeNormal, "LendingRestored", "AdjustLending", "%s", note)
	}
	return nil
}

func (r *reconciler) tellNoCohort(queue *kueue.ClusterQueue) {
	now := told{queue.UID, queue.Generation}
	if r.toldCohort == now {
		return
	}
	r.toldCohort = now
	r.recorder.Eventf(queue, nil, corev1.EventTypeWarning, "NoCohort", "AdjustLending",
		"The slack queue lends to nobody because it is in no cohort: set spec.cohortName")
}
