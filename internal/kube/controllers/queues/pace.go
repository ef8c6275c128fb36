package queues

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// pace keeps writes of one object apart: by the interval at least, and by up to
// ten times as much while changes never cease, as numbers that move all the time
// need not be exact. After a rest of the same length it begins anew.
type pace struct {
	clock    clock.PassiveClock
	interval time.Duration

	mu   sync.Mutex
	last map[types.NamespacedName]beat
}

// beat is when an object was last written, and how long the next write waits.
type beat struct {
	at   time.Time
	rest time.Duration
}

const mostIntervals = 10

func newPace(c clock.PassiveClock, interval time.Duration) *pace {
	return &pace{clock: c, interval: interval, last: map[types.NamespacedName]beat{}}
}

// beat takes a beat of a tree now, and returns how long the next has to wait.
func (p *pace) beat(tree string) time.Duration {
	key := types.NamespacedName{Name: tree}
	p.wait(key) // the caller has seen to it that it may go
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[key].rest
}

// wait returns how long a write still has to wait; 0 means that it may go now,
// and counts as gone.
func (p *pace) wait(key types.NamespacedName) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	next := p.interval
	if last, ok := p.last[key]; ok {
		since := now.Sub(last.at)
		if since < last.rest {
			return last.rest - since
		}
		if since < 2*last.rest {
			next = min(last.rest*3/2, mostIntervals*p.interval)
		}
	}
	p.last[key] = beat{now, next}
	return 0
}

func (p *pace) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, key)
}
