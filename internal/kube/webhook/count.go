package webhook

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// count is how many jobs each namespace has, kept from what is watched anyway: a
// list of thousands for each new job would cost more than the job.
type count struct {
	mu sync.Mutex
	of map[string]int // without zeros
}

// newCount counts the objects that the cache has.
func newCount(ctx context.Context, c cache.Cache, all jobs.Kinds, scope jobs.Scope) (*count, error) {
	out := &count{of: map[string]int{}}
	for i := range all {
		k := &all[i]
		informer, err := c.GetInformer(ctx, k.New())
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", k.Resource, err)
		}
		if _, err := informer.AddEventHandler(out.handler(countsAsJob(all, k, scope))); err != nil {
			return nil, fmt.Errorf("watch %s: %w", k.Resource, err)
		}
	}
	pods, err := c.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	if _, err := pods.AddEventHandler(out.handler(heldPod)); err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	return out, nil
}

// heldPod says which pods are queued by themselves, those of groups included.
func heldPod(o client.Object) bool { return o.GetLabels()[kueue.ManagedLabel] == "true" }

// handler hears of every object of a kind once when it comes and once when it goes.
func (c *count) handler(counts func(client.Object) bool) toolscache.ResourceEventHandler {
	change := func(was, is any) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.add(was, counts, -1)
		c.add(is, counts, 1)
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { change(nil, o) },
		UpdateFunc: change,
		DeleteFunc: func(o any) {
			if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			change(o, nil)
		},
	}
}

func (c *count) add(o any, counts func(client.Object) bool, n int) {
	object, ok := o.(client.Object)
	if !ok || !counts(object) {
		return
	}
	namespace := object.GetNamespace()
	if c.of[namespace] += n; c.of[namespace] == 0 {
		delete(c.of, namespace)
	}
}

// in is how many jobs a namespace has.
func (c *count) in(namespace string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[namespace]
}

// countsAsJob says which objects of a kind are jobs that are queued by themselves.
func countsAsJob(all jobs.Kinds, k *jobs.Kind, scope jobs.Scope) func(client.Object) bool {
	return func(o client.Object) bool {
		switch {
		case !k.Ours(o):
			return false
		case o.GetLabels()[kueue.QueueNameLabel] != "" || k.OnlyQueued:
			return true // whatever it says owns it, which any user may say
		case all.Make(metav1.GetControllerOf(o)):
			return false // counted with the whole
		}
		return scope.WithoutQueue
	}
}
