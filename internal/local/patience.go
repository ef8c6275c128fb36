package local

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/mlbatch/mlbatch/internal/local/supervise"
)

// patience bounds a start by how long nothing moves, not by how long it takes: on a machine that has much
// else to do all takes long, and comes up.
type patience struct {
	clock clock.WithTicker

	mu   sync.Mutex
	last time.Time // when something moved
	used time.Duration
}

const (
	// patienceLooks is how often it is looked in the time in which something has to move.
	patienceLooks = 40
	// patienceFactor times that is all the time that there is.
	patienceFactor = 10
	// busyEnough is how much processor time the components that are not ready yet have to use for that
	// to count as a move: more than one that only waits for something does.
	busyEnough = 2 * time.Second
)

// moved notes that something moved.
func (p *patience) moved() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = p.clock.Now()
}

// bound ends the context when nothing has moved for that long. used is how much processor time
// components have used that are not ready.
func (p *patience) bound(
	ctx context.Context,
	limit time.Duration,
	used func() time.Duration,
) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	begun := p.clock.Now()
	p.moved()
	go func() {
		ticker := p.clock.NewTicker(limit / patienceLooks)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C():
			}
			if err := p.gone(begun, limit, used()); err != nil {
				cancel(err)
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// gone says that patience has gone, and why.
func (p *patience) gone(begun time.Time, limit, used time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	if used-p.used >= busyEnough {
		p.last, p.used = now, used
	}
	p.used = min(p.used, used) // one has become ready, or died
	switch {
	case now.Sub(begun) >= patienceFactor*limit:
		return fmt.Errorf("not ready after %s", patienceFactor*limit)
	case now.Sub(p.last) >= limit:
		return fmt.Errorf(
			"not ready after %s, and nothing has moved for %s",
			now.Sub(begun).Round(time.Second),
			limit,
		)
	}
	return nil
}

// starting is how much processor time the components have used that run and are not ready.
func (c *Cluster) starting() time.Duration {
	var sum time.Duration
	for _, s := range c.sup.Status() {
		if s.Health == supervise.Starting {
			sum += processorTime(s.PID)
		}
	}
	return sum
}

// processorTime is how much a process has used, zero if there is none.
func processorTime(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return processorTimeOf(string(b))
}

// processorTimeOf reads /proc/PID/stat.
func processorTimeOf(stat string) time.Duration {
	const user, system, tick = 11, 12, 10 * time.Millisecond // after the name, which may hold anything
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	var sum time.Duration
	for _, i := range []int{user, system} {
		if i >= len(fields) {
			return 0
		}
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0
		}
		sum += time.Duration(n) * tick
	}
	return sum
}
