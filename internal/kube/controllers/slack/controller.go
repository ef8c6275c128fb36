package slack

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
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
	// Pools are what the configuration says of flavors, by name.
	Pools map[string]nodehealth.Pool
	// Cut has quotas cut in proportion where more is promised than healthy.
	Cut bool
	// Clock is the real one if nil.
	Clock clock.PassiveClock
	// Show is told how the capacity of all flavors stands, by name; nil is not told.
	Show func(flavors map[string][]nodehealth.Capacity)
}

// SetupWithManager adds the controller to the manager. It needs get, list and
// watch on nodes, resourceflavors, clusterqueues, cohorts and admissionchecks, patch on clusterqueues and
// resourceflavors, create and patch on events, and get, list, watch, create and patch on
// configmaps in its namespace.
func SetupWithManager(mgr manager.Manager, o Options) error {
	if o.Queue == "" {
		o.Queue = DefaultQueue
	}
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
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
	// said is how the capacity of each flavor stood last: another client may take the annotation away.
	said map[flavorID][]nodehealth.Capacity
}

// flavorID is a ResourceFlavor, and not one of the same name before it.
type flavorID struct {
	name string
	uid  types.UID
}

type told struct {
	uid        types.UID
	generation int64
}

// Reconcile has the flavors say how their capacity stands, and makes the lending limits of the slack queue follow.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	// 1. Gather.
	seen, err := r.look(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	stored, err := r.readInventory(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	// 2. Decide.
	known := stored.inventory.Forget(
		func(flavor string) bool { return seen.pools[flavor].OnDemand },
		seen.machines,
	)
	losses, inventory := nodehealth.Account(seen.flavors, seen.machines, known)
	capacities := map[string][]nodehealth.Capacity{}
	now := r.options.Clock.Now().UTC().Truncate(time.Second)
	for i := range seen.objects {
		name := seen.objects[i].Name
		supply := nodehealth.Supply{
			Flavor: name, Pool: seen.pools[name], Machines: seen.machines, Inventory: inventory,
			Promised: seen.promised, Cut: r.options.Cut,
		}
		is := supply.Capacities(r.before(&seen.objects[i]), now)
		capacities[name], losses = is, nodehealth.Missing(losses, name, seen.pools[name], is)
	}
	// 3. Apply. An inventory that cannot be written must not keep the promises from
	// being protected.
	if r.options.Show != nil {
		r.options.Show(capacities)
	}
	errs := []error{r.writeInventory(ctx, seen.about(r.options.Namespace), stored, inventory)}
	for i := range seen.objects {
		errs = append(errs, r.say(ctx, &seen.objects[i], capacities[seen.objects[i].Name]))
	}
	r.remember(seen.objects, capacities)
	switch {
	case seen.queue == nil:
	case seen.queue.Spec.CohortName == "":
		r.tellNoCohort(seen.queue)
	default:
		errs = append(errs, r.adjust(ctx, seen.queue, lending(seen.queue, losses)))
	}
	return reconcile.Result{}, errors.Join(errs...)
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
