package queues

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
)

// feeder passes on which queues are fuller or emptier than they were. It looks at all of them
// after each change, at most once per interval; that is cheap, and it needs no
// list of names from what counts.
type feeder struct {
	reader      client.Reader
	numbers     Numbers
	clock       clock.Clock
	interval    time.Duration
	queues      chan event.GenericEvent
	localQueues chan event.GenericEvent
	cohorts     chan event.GenericEvent
	// seen is what was passed on last.
	seenQueues, seenLocal map[types.NamespacedName]core.Load
	seenCohorts           map[string]core.Share
}

func newFeeder(reader client.Reader, o Options) *feeder {
	return &feeder{
		reader: reader, numbers: o.Numbers, clock: o.Clock, interval: o.Interval,
		queues: make(chan event.GenericEvent), localQueues: make(chan event.GenericEvent),
		cohorts: make(chan event.GenericEvent), seenCohorts: map[string]core.Share{},
		seenQueues: map[types.NamespacedName]core.Load{}, seenLocal: map[types.NamespacedName]core.Load{},
	}
}

// Start feeds until ctx ends.
func (f *feeder) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.numbers.Changed():
		}
		if err := f.scan(ctx); err != nil {
			// What was not passed on is still new to the next scan.
			log.FromContext(ctx).Error(err, "Look for changed queues")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.clock.After(f.interval):
		}
	}
}

func (f *feeder) scan(ctx context.Context) error {
	queues := &kueue.ClusterQueueList{}
	if err := f.reader.List(ctx, queues, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list ClusterQueues: %w", err)
	}
	seen := make(map[types.NamespacedName]core.Load, len(queues.Items))
	for i := range queues.Items {
		q := &queues.Items[i]
		if t, ok := f.numbers.Queue(q.Name); ok {
			pass(ctx, f.queues, q, t, f.seenQueues, seen)
		}
	}
	f.seenQueues = seen

	local := &kueue.LocalQueueList{}
	if err := f.reader.List(ctx, local, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list LocalQueues: %w", err)
	}
	seen = make(map[types.NamespacedName]core.Load, len(local.Items))
	for i := range local.Items {
		q := &local.Items[i]
		if t, ok := f.numbers.LocalQueue(q.Namespace, q.Name); ok {
			pass(ctx, f.localQueues, q, t, f.seenLocal, seen)
		}
	}
	f.seenLocal = seen
	return f.scanCohorts(ctx)
}

// scanCohorts passes on cohorts whose share changed.
func (f *feeder) scanCohorts(ctx context.Context) error {
	list := &kueue.CohortList{}
	if err := f.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Cohorts: %w", err)
	}
	seen := make(map[string]core.Share, len(list.Items))
	for i := range list.Items {
		c := &list.Items[i]
		share, ok := f.numbers.CohortShare(c.Name)
		if !ok {
			continue
		}
		if last, known := f.seenCohorts[c.Name]; !known || !last.Equal(share) {
			select {
			case f.cohorts <- event.GenericEvent{Object: c}:
			case <-ctx.Done():
				return nil
			}
		}
		seen[c.Name] = share
	}
	f.seenCohorts = seen
	return nil
}

// pass notes in now how full a queue is, and sends the queue if it is not the
// one in old.
func pass(
	ctx context.Context,
	to chan<- event.GenericEvent,
	o client.Object,
	t core.Load,
	old, now map[types.NamespacedName]core.Load,
) {
	key := client.ObjectKeyFromObject(o)
	last, known := old[key]
	if known && last.Equal(t) {
		now[key] = last
		return
	}
	select {
	case to <- event.GenericEvent{Object: o}:
		now[key] = t
	case <-ctx.Done():
	}
}
