package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/view/why"
	"github.com/mlbatch/mlbatch/internal/words"
)

// PendingAsker asks a controller what waits in a queue.
type PendingAsker interface {
	// Pending lists what waits in a LocalQueue, in order.
	Pending(ctx context.Context, namespace, queue string) ([]visibility.PendingWorkload, error)
}

// mostAsked is how many queues are asked about at the same time.
const mostAsked = 16

// TakeStarts lists what waits in the LocalQueues of a namespace, or of all if it is "", the
// first to start first. Queues that the user may not ask about are left out; it fails if there
// is no other.
func TakeStarts(
	ctx context.Context,
	c client.Reader,
	ask PendingAsker,
	namespace string,
) ([]WaitingRow, error) {
	var queues kueue.LocalQueueList
	if err := c.List(ctx, &queues, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list LocalQueues: %w", err)
	}
	rows, errs := make([][]WaitingRow, len(queues.Items)), make([]error, len(queues.Items))
	var asking sync.WaitGroup
	free := make(chan struct{}, mostAsked)
	for i := range queues.Items {
		q := &queues.Items[i]
		asking.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			var pending []visibility.PendingWorkload
			if pending, errs[i] = ask.Pending(ctx, q.Namespace, q.Name); errs[i] == nil {
				rows[i], errs[i] = WaitingRows(ctx, c, q.Namespace, pending)
			}
		})
	}
	asking.Wait()
	out := slices.Concat(rows...)
	if err := errors.Join(errs...); err != nil && len(out) == 0 {
		return nil, err
	}
	lost, err := queueless(ctx, c, namespace, queues.Items)
	if err != nil {
		return nil, err
	}
	out = append(out, lost...)
	slices.SortStableFunc(out, func(a, b WaitingRow) int {
		return cmp.Or(
			compareStarts(a.Start, b.Start),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Queue, b.Queue),
			cmp.Compare(a.Position, b.Position),
		)
	})
	return out, nil
}

// queueless are the waiting jobs that name a LocalQueue which is not there: no line has them.
func queueless(
	ctx context.Context,
	c client.Reader,
	namespace string,
	queues []kueue.LocalQueue,
) (out []WaitingRow, err error) {
	var list kueue.WorkloadList
	if err := gather.Readable(c.List(ctx, &list, client.InNamespace(namespace))); err != nil {
		return nil, fmt.Errorf("list Workloads: %w", err)
	}
	there := map[[2]string]bool{}
	for i := range queues {
		there[[2]string{queues[i].Namespace, queues[i].Name}] = true
	}
	for i := range list.Items {
		w := &list.Items[i]
		if name := string(
			w.Spec.QueueName,
		); name == "" || there[[2]string{w.Namespace, name}] || !why.IsWaiting(w) ||
			!ptr.Deref(w.Spec.Active, true) {
			continue
		}
		out = append(out, WaitingRow{
			Namespace:    w.Namespace,
			Name:         gather.JobName(w),
			Workload:     w.Name,
			Queue:        string(w.Spec.QueueName),
			Priority:     ptr.Deref(w.Spec.Priority, 0),
			Created:      w.CreationTimestamp.UTC(),
			Reason:       kueue.ReasonMisconfigured,
			QueueMissing: true,
		})
	}
	return out, nil
}

// compareStarts orders by P50; what is not known comes last, what is not foreseen before that.
func compareStarts(a, b *visibility.Start) int {
	rank := func(s *visibility.Start) int {
		switch {
		case s == nil:
			return 2
		case s.P50 == nil:
			return 1
		}
		return 0
	}
	if rank(a) != rank(b) || rank(a) > 0 {
		return cmp.Compare(rank(a), rank(b))
	}
	return a.P50.Compare(b.P50.Time)
}

// StartColumns are those of when jobs start.
func StartColumns(now time.Time) []Column[WaitingRow] {
	clock := func(at *metav1.Time) string {
		if at == nil {
			return "later than " + why.Foreseen
		}
		return at.Local().Format("Jan 2 15:04")
	}
	return []Column[WaitingRow]{
		{Title: "NAMESPACE", Rank: 2, Text: func(r WaitingRow) string { return r.Namespace }},
		{Title: "NAME", Text: func(r WaitingRow) string { return r.Name }},
		{Title: "QUEUE", Rank: 4, Text: func(r WaitingRow) string { return r.Queue }},
		{Title: "#", Rank: 3, Text: func(r WaitingRow) string {
			if r.QueueMissing {
				return ""
			}
			return strconv.Itoa(r.Position)
		}},
		{Title: "WAITED", Rank: 1, Text: func(r WaitingRow) string { return age(now, r.Created) }},
		{Title: "STARTS IN", Text: func(r WaitingRow) string {
			if r.QueueMissing {
				return "no such queue"
			}
			return why.StartText(r.Start, now)
		}, Less: func(a, b WaitingRow) int { return compareStarts(a.Start, b.Start) }},
		{Title: "EVEN CHANCE BY", Wide: true, Text: func(r WaitingRow) string {
			if r.Start == nil {
				return ""
			}
			return clock(r.Start.P50)
		}},
		{Title: "9 IN 10 BY", Wide: true, Text: func(r WaitingRow) string {
			if r.Start == nil {
				return ""
			}
			return clock(r.Start.P90)
		}},
		{Title: "JUDGED BY", Rank: 5, Text: func(r WaitingRow) string {
			switch {
			case r.Start == nil:
				return ""
			case r.Start.Known == 0:
				return "a guess"
			}
			return words.Count(int(r.Start.Known), "job")
		}},
	}
}
