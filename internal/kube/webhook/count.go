package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// count is how many jobs each namespace has, and how large they are, kept from what is watched
// anyway: a list of thousands for each new job would cost more than the job.
type count struct {
	mu sync.Mutex
	of map[string]int // without zeros
	// weights are those of the jobs, and bytes their sums, without zeros.
	weights map[types.UID]weight
	bytes   map[string]int64
}

// weight is how large a job is. Most of it is measured once for each generation; notes are its
// annotations, which change without one.
type weight struct {
	generation  int64
	rest, notes int64
	// unfinished: what it is based on is not in it yet.
	unfinished bool
}

func (w weight) size() int64 { return w.rest + w.notes }

// newCount counts the objects that the cache has.
func newCount(ctx context.Context, c cache.Cache, all jobs.Kinds, scope jobs.Scope) (*count, error) {
	out := &count{of: map[string]int{}, weights: map[types.UID]weight{}, bytes: map[string]int64{}}
	for i := range all {
		k := &all[i]
		informer, err := c.GetInformer(ctx, k.New())
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", k.Naming.Resource, err)
		}
		if _, err := informer.AddEventHandler(out.handler(countsAsJob(all, k, scope), out.weigh(k))); err != nil {
			return nil, fmt.Errorf("watch %s: %w", k.Naming.Resource, err)
		}
	}
	pods, err := c.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	if _, err := pods.AddEventHandler(out.handler(heldPod, nil)); err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	return out, nil
}

// heldPod says which pods are queued by themselves, those of groups included.
func heldPod(o client.Object) bool { return o.GetLabels()[kueue.ManagedLabel] == "true" }

// handler hears of every object of a kind once when it comes and once when it goes. weigh is told
// of those that count, of nil when one goes; nil weighs none: pods are in the cache without most of
// what they are.
func (c *count) handler(
	counts func(client.Object) bool,
	weigh func(was, is client.Object),
) toolscache.ResourceEventHandler {
	change := func(was, is any) {
		c.mu.Lock()
		defer c.mu.Unlock()
		before, after := c.add(was, counts, -1), c.add(is, counts, 1)
		if weigh != nil {
			weigh(before, after)
		}
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

// add counts an object, and returns it if it counts.
func (c *count) add(o any, counts func(client.Object) bool, n int) client.Object {
	object, ok := o.(client.Object)
	if !ok || !counts(object) {
		return nil
	}
	namespace := object.GetNamespace()
	if c.of[namespace] += n; c.of[namespace] == 0 {
		delete(c.of, namespace)
	}
	return object
}

// weigh keeps the weights of jobs of a kind.
func (c *count) weigh(k *jobs.Kind) func(was, is client.Object) {
	return func(was, is client.Object) {
		var had weight
		if was != nil {
			had = c.weights[was.GetUID()]
			c.load(was.GetNamespace(), -had.size())
			delete(c.weights, was.GetUID())
		}
		if is == nil {
			return
		}
		if had.rest == 0 || had.unfinished || had.generation != is.GetGeneration() {
			had = measured(k, is)
		}
		had.notes = notesOf(is)
		c.weights[is.GetUID()] = had
		c.load(is.GetNamespace(), had.size())
	}
}

// measured is the weight of a job without its annotations.
func measured(k *jobs.Kind, o client.Object) weight {
	w := weight{generation: o.GetGeneration()}
	if text, err := json.Marshal(o); err == nil {
		w.rest = max(int64(len(text))-notesOf(o), 0)
	}
	if job, is := o.(jobs.Object); is && k.Queueing.Basis != nil {
		w.unfinished = k.Queueing.Basis.Missing(job)
	}
	return w
}

// notesOf is how large annotations are.
func notesOf(o client.Object) int64 {
	n := 0
	for key, value := range o.GetAnnotations() {
		n += len(key) + len(value)
	}
	return int64(n)
}

func (c *count) load(namespace string, n int64) {
	if c.bytes[namespace] += n; c.bytes[namespace] == 0 {
		delete(c.bytes, namespace)
	}
}

// sizeIn is how many bytes the jobs of a namespace have together.
func (c *count) sizeIn(namespace string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes[namespace]
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
		case o.GetLabels()[kueue.QueueNameLabel] != "" || k.Queueing.OnlyQueued:
			return true // whatever it says owns it, which any user may say
		case all.Make(metav1.GetControllerOf(o)):
			return false // counted with the whole
		}
		return scope.WithoutQueue
	}
}
