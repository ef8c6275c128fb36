package queues

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
)

// pages keeps what the statuses of queues say of one tree true of one moment. Numbers
// of a tree are taken together, at most once per interval (see pace for how that grows
// while changes never cease), and each of its queues writes what was taken: so that
// what all use together is never more than there is, because one of them had been
// written before and another after a job went.
type pages struct {
	reader  client.Reader
	numbers Numbers
	clock   clock.PassiveClock
	pace    *pace

	mu sync.Mutex
	// of are the last pages, by the name of the tree's root.
	of map[string]page
}

// page is the numbers of a tree at one moment.
type page struct {
	until time.Time
	loads map[string]core.Load
}

func newPages(reader client.Reader, o Options) *pages {
	return &pages{
		reader:  reader,
		numbers: o.Numbers,
		clock:   o.Clock,
		pace:    newPace(o.Clock, o.Interval),
		of:      map[string]page{},
	}
}

// current returns what a queue's status has to say until the next page, and how long
// that is; false if a new page may be taken.
func (p *pages) current(root, queue string) (load core.Load, left time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.of[root]
	left = last.until.Sub(p.clock.Now())
	if left <= 0 {
		return core.Load{}, 0, false
	}
	load, ok = last.loads[queue]
	return load, left, ok
}

// turn takes a new page of a tree.
func (p *pages) turn(ctx context.Context, root string) error {
	queues, err := p.members(ctx, root)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of[root].until.After(p.clock.Now()) {
		return nil // another queue of the tree was first
	}
	next := page{until: p.clock.Now().Add(p.pace.beat(root)), loads: make(map[string]core.Load, len(queues))}
	for _, q := range queues {
		if t, ok := p.numbers.Queue(q); ok {
			next.loads[q] = t
		}
	}
	p.of[root] = next
	return nil
}

// forget drops a queue that is gone.
func (p *pages) forget(queue string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for root, last := range p.of {
		delete(last.loads, queue)
		if len(last.loads) == 0 {
			delete(p.of, root)
			p.pace.forget(types.NamespacedName{Name: root})
		}
	}
}

// members lists the queues of a tree.
func (p *pages) members(ctx context.Context, root string) ([]string, error) {
	cohorts := &kueue.CohortList{}
	if err := p.reader.List(ctx, cohorts, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Cohorts: %w", err)
	}
	parents := map[string]string{}
	for i := range cohorts.Items {
		parents[cohorts.Items[i].Name] = string(cohorts.Items[i].Spec.ParentName)
	}
	queues := &kueue.ClusterQueueList{}
	if err := p.reader.List(ctx, queues, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ClusterQueues: %w", err)
	}
	var out []string
	for i := range queues.Items {
		q := &queues.Items[i]
		var above []string
		for name := string(q.Spec.CohortName); name != "" && !slices.Contains(above, name); name = parents[name] {
			above = append(above, name)
		}
		if rootOf(q.Name, above) == root {
			out = append(out, q.Name)
		}
	}
	return out, nil
}

// rootOf names the tree of a queue below cohorts, the nearest first: a cohort and a
// queue may have the same name.
func rootOf(queue string, cohorts []string) string {
	if len(cohorts) == 0 {
		return "queue " + queue
	}
	return "cohort " + cohorts[len(cohorts)-1]
}
