// Package crowd says when many Workloads are stopped at once, so that what can wait yields to what ends their pods.
//
// To stop a job takes three writes here, and some of the job's controller and of the node. As many again only tell of it,
// or tidy up: events, why the job waits now, its templates as their author wrote them. When thousands are stopped for
// one, an API server that takes hundreds of writes a second has that one wait for all of these. While there is a crowd,
// and for a moment after, in which the pods start for which it made room, they are put off, but none for longer than
// Longest.
//
// A crowd is counted, not planned: it is the Workloads that were evicted and hold quota still, whoever evicted them. The
// package knows nothing of what yields, and nothing of it has to survive: a new process counts anew.
package crowd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

const (
	// Many is how many Workloads that are stopped at once are a crowd: fewer are done with within a second or two.
	Many = 50
	// Longest is how long something yields at most.
	Longest = 2 * time.Minute
	// after is for how long others yield when the crowd has gone.
	after = 10 * time.Second
	// pause is after which time to ask again.
	pause = 10 * time.Second
)

// Crowd counts the Workloads that are stopped. Make one with New; a nil one never has anybody yield.
type Crowd struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	leaving map[types.NamespacedName]bool
	// last is when there was a crowd last.
	last time.Time
}

// New returns a Crowd that has seen nothing.
func New(c clock.PassiveClock) *Crowd {
	return &Crowd{clock: c, leaving: map[types.NamespacedName]bool{}}
}

// Watch counts what a cache shows from now on, until the context ends.
func (c *Crowd) Watch(ctx context.Context, from cache.Cache) error {
	informer, err := from.GetInformer(ctx, &kueue.Workload{})
	if err != nil {
		return fmt.Errorf("watch workloads: %w", err)
	}
	see := func(o any) {
		if w, is := o.(*kueue.Workload); is {
			c.See(w)
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, o any) { see(o) },
		DeleteFunc: func(o any) {
			if last, is := o.(toolscache.DeletedFinalStateUnknown); is {
				o = last.Obj
			}
			if w, is := o.(*kueue.Workload); is {
				c.Gone(types.NamespacedName{Namespace: w.Namespace, Name: w.Name})
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch workloads: %w", err)
	}
	return nil
}

// Comes takes in that so many are about to be evicted at once: what tells of the first of them is written before a watch
// shows the others.
func (c *Crowd) Comes(n int) {
	if c == nil || n < Many {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = c.clock.Now()
}

// See takes in a Workload as it is.
func (c *Crowd) See(w *kueue.Workload) {
	name := types.NamespacedName{Namespace: w.Namespace, Name: w.Name}
	if w.Status.Admission == nil || !convert.Evicted(w) || convert.Finished(w) {
		c.Gone(name)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaving[name] = true
	c.note()
}

// Gone takes in that a Workload is not stopped any more.
func (c *Crowd) Gone(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note()
	delete(c.leaving, name)
}

// note notes that there is a crowd now, if there is.
func (c *Crowd) note() {
	if len(c.leaving) >= Many {
		c.last = c.clock.Now()
	}
}

// Yields says for how long something yields still that might have been written at some time, before it asks again; 0 if
// it is to be written now.
func (c *Crowd) Yields(since time.Time) time.Duration {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note()
	now := c.clock.Now()
	if c.last.IsZero() || now.Sub(c.last) >= after {
		return 0
	}
	return max(0, min(pause, since.Add(Longest).Sub(now)))
}
