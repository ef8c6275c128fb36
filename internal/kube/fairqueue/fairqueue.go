// Package fairqueue is the order in which controllers work on what is waiting: the
// namespaces take turns, and within one it is first come, first served. A tenant
// with ten thousand changes delays the next one of another tenant by one item, not
// by ten thousand. Objects without a namespace are one more tenant.
package fairqueue

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Pauses between two tries of what failed. Those of controller-runtime double up to a
// quarter of an hour: after an API server was away, jobs would start late by as long
// again.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = 30 * time.Second
)

// Options are those of a controller whose queue serves namespaces in turn.
func Options() controller.Options {
	return controller.Options{
		NewQueue: newQueue,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			firstPause,
			longestPause,
		),
	}
}

func newQueue(
	name string,
	limiter workqueue.TypedRateLimiter[reconcile.Request],
) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return NewQueue(name, limiter, New(func(r reconcile.Request) string { return r.Namespace }))
}

// NewQueue returns a work queue that hands out its items in an order. It has metrics
// if it has a name.
func NewQueue[T comparable](
	name string,
	limiter workqueue.TypedRateLimiter[T],
	order workqueue.Queue[T],
) workqueue.TypedRateLimitingInterface[T] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[T]{
		Name: name,
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{
			Name:  name,
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: order}),
		}),
	})
}

// Rounds is an order for work queues, which serialise its calls. It implements
// workqueue.Queue.
type Rounds[T comparable] struct {
	tenant func(T) string
	// lines are the tenants' items, none of them empty.
	lines map[string][]T
	// turns are the tenants that have items, each once, the next one first.
	turns []string
	count int
}

// New returns an order in which tenants take turns.
func New[T comparable](tenant func(T) string) *Rounds[T] {
	return &Rounds[T]{tenant: tenant, lines: map[string][]T{}}
}

// Push implements workqueue.Queue.
func (r *Rounds[T]) Push(item T) {
	who := r.tenant(item)
	if len(r.lines[who]) == 0 {
		r.turns = append(r.turns, who)
	}
	r.lines[who] = append(r.lines[who], item)
	r.count++
}

// Touch implements workqueue.Queue: an item that is added again keeps its place.
func (r *Rounds[T]) Touch(T) {}

// Len implements workqueue.Queue.
func (r *Rounds[T]) Len() int { return r.count }

// Pop implements workqueue.Queue.
func (r *Rounds[T]) Pop() T {
	who := r.turns[0]
	r.turns = r.turns[1:]
	line := r.lines[who]
	item := line[0]
	if len(line) == 1 {
		delete(r.lines, who)
	} else {
		r.lines[who] = line[1:]
		r.turns = append(r.turns, who)
	}
	r.count--
	return item
}
