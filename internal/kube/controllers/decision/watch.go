package decision

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	world "github.com/mlbatch/mlbatch/internal/kube/cache"
)

// watched is a kind of object that the engine learns about.
type watched struct {
	kind world.RefKind
	obj  client.Object
}

// queued are the kinds that say which workload waits where.
func queued() []watched {
	return []watched{
		{world.Topology, &kueue.Topology{}},
		{world.Flavor, &kueue.ResourceFlavor{}},
		{world.Cohort, &kueue.Cohort{}},
		{world.AdmissionCheck, &kueue.AdmissionCheck{}},
		{world.Queue, &kueue.ClusterQueue{}},
		{world.LocalQueue, &kueue.LocalQueue{}},
		{world.Namespace, &corev1.Namespace{}},
		{world.LimitRange, &corev1.LimitRange{}},
		{world.RuntimeClass, &nodev1.RuntimeClass{}},
		{world.Volume, &corev1.PersistentVolume{}},
		{world.PriorityClass, &kueue.WorkloadPriorityClass{}},
		{world.Workload, &kueue.Workload{}},
	}
}

// placed are the kinds that say where there is room.
func placed() []watched {
	return []watched{{world.Node, &corev1.Node{}}, {world.Pod, &corev1.Pod{}}}
}

// watchHealth lets what is remembered of nodes feed the inbox; from a cache of its own, nil for none.
func (f *feed) watchHealth(ctx context.Context, memory cache.Cache) error {
	if memory == nil {
		return nil
	}
	return f.watchIn(ctx, memory, &corev1.ConfigMap{}, f.handler(world.NodeHealth))
}

// feed puts what informers tell into an inbox.
type feed struct {
	cache  cache.Cache
	inbox  *world.Inbox
	synced []toolscache.InformerSynced
	// ends take back the handlers.
	ends []func() error
}

// watch adds a handler for all objects of a kind.
func (f *feed) watch(ctx context.Context, o client.Object, h toolscache.ResourceEventHandler) error {
	return f.watchIn(ctx, f.cache, o, h)
}

func (f *feed) watchIn(
	ctx context.Context,
	in cache.Cache,
	o client.Object,
	h toolscache.ResourceEventHandler,
) error {
	informer, err := in.GetInformer(ctx, o)
	if err != nil {
		return fmt.Errorf("watch %T: %w", o, err)
	}
	reg, err := informer.AddEventHandler(h)
	if err != nil {
		return fmt.Errorf("watch %T: %w", o, err)
	}
	f.synced = append(f.synced, reg.HasSynced)
	f.ends = append(f.ends, func() error { return informer.RemoveEventHandler(reg) })
	return nil
}

// watchAll lets kinds feed the inbox.
func (f *feed) watchAll(ctx context.Context, kinds []watched) error {
	for _, k := range kinds {
		if err := f.watch(ctx, k.obj, f.handler(k.kind)); err != nil {
			return err
		}
	}
	return nil
}

// sync returns when all that exists has been delivered.
func (f *feed) sync(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), f.synced...) {
		return ctx.Err()
	}
	return nil
}

// end takes the handlers back.
func (f *feed) end() error {
	var errs []error
	for _, end := range f.ends {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

func (f *feed) handler(kind world.RefKind) toolscache.ResourceEventHandler {
	put := func(o any, gone bool) {
		if t, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = t.Obj
		}
		c, ok := o.(client.Object)
		if !ok {
			return
		}
		ref := world.Ref{Kind: kind, Namespace: c.GetNamespace(), Name: c.GetName()}
		if gone {
			c = nil
		}
		f.inbox.Put(ref, c)
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { put(o, false) },
		UpdateFunc: func(_, o any) { put(o, false) },
		DeleteFunc: func(o any) { put(o, true) },
	}
}
