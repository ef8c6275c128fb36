package webhook

import (
	"context"
	"fmt"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	batchjob "github.com/mlbatch/mlbatch/internal/kube/jobs/job"
)

// count is how many jobs each namespace has, kept from what is watched anyway: a
// list of thousands for each new job would cost more than the job.
type count struct {
	counts func(client.Object) bool

	mu sync.Mutex
	of map[string]int // without zeros
}

// newCount counts the objects that the cache has.
func newCount(ctx context.Context, c cache.Cache, counts func(client.Object) bool) (*count, error) {
	out := &count{counts: counts, of: map[string]int{}}
	for _, o := range []client.Object{&aw.AppWrapper{}, &batchv1.Job{}} {
		informer, err := c.GetInformer(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("watch %T: %w", o, err)
		}
		if _, err := informer.AddEventHandler(out.handler()); err != nil {
			return nil, fmt.Errorf("watch %T: %w", o, err)
		}
	}
	return out, nil
}

// handler hears of every object once when it comes and once when it goes.
func (c *count) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { c.change(nil, o) },
		UpdateFunc: c.change,
		DeleteFunc: func(o any) {
			if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			c.change(o, nil)
		},
	}
}

func (c *count) change(was, is any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(was, -1)
	c.add(is, 1)
}

func (c *count) add(o any, n int) {
	object, ok := o.(client.Object)
	if !ok || !c.counts(object) {
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

// countsAsJob says which objects are jobs that are queued by themselves.
func countsAsJob(scope jobs.Scope) func(client.Object) bool {
	return func(o client.Object) bool {
		switch o := o.(type) {
		case *aw.AppWrapper:
			return appwrapper.Ours(o)
		case *batchv1.Job:
			if o.Labels[kueue.QueueNameLabel] != "" {
				return batchjob.Ours(o) // whoever it says owns it, which anybody may say
			}
			if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == aw.AppWrapperKind {
				return false // counted with the whole
			}
			return batchjob.Ours(o) && scope.WithoutQueue
		}
		return false
	}
}
