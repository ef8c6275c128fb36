package events

import (
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/crowd"
)

const (
	// most is how many events are put off at most; more are told at once.
	most = 16 * 1024
	// each second, so many are told of those that were put off.
	each = 100
)

// yielding puts off events that tell that a workload was stopped, while many are: the conditions of the Workload say the
// same, and the API server has pods to end. They are told in order. A process that is killed meanwhile does not tell them;
// one that is told to end does.
type yielding struct {
	crowd *crowd.Crowd
	clock clock.WithTicker

	mu   sync.Mutex
	list []late
}

// late is an event that was put off at some time.
type late struct {
	at   time.Time
	tell func()
}

// yields reports whether events for a reason are put off.
func yields(reason string) bool {
	switch reason {
	case kueue.ReasonPreempted, kueue.EventPreemptedWorkload, "Stopped":
		return true
	}
	return strings.HasPrefix(reason, "EvictedDueTo")
}

// later tells an event now or, if there is a crowd, later.
func (y *yielding) later(reason string, tell func()) {
	if y == nil || !yields(reason) {
		tell()
		return
	}
	now := y.clock.Now()
	wait := y.crowd.Yields(now) > 0
	y.mu.Lock()
	wait = wait && len(y.list) < most
	if wait {
		y.list = append(y.list, late{now, tell})
	}
	y.mu.Unlock()
	if !wait {
		tell()
	}
}

// NeedLeaderElection: what was told while leading is told to its end.
func (*yielding) NeedLeaderElection() bool { return false }

// Start tells what was put off until the context ends, and the rest then.
func (y *yielding) Start(ctx context.Context) error {
	t := y.clock.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			for _, e := range y.take(most, false) {
				e.tell()
			}
			return nil
		case <-t.C():
			for _, e := range y.take(each, true) {
				e.tell()
			}
		}
	}
}

// take takes so many events off the list, only those that are due or all.
func (y *yielding) take(n int, due bool) []late { //nolint:revive // which of them
	y.mu.Lock()
	defer y.mu.Unlock()
	n = min(n, len(y.list))
	for i := range n {
		if due && y.crowd.Yields(y.list[i].at) > 0 {
			n = i
			break
		}
	}
	out := y.list[:n:n]
	if y.list = y.list[n:]; len(y.list) == 0 {
		y.list = nil
	}
	return out
}
