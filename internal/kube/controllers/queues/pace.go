package queues

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// pace keeps writes of one object apart by at least the interval.
type pace struct {
	clock    clock.PassiveClock
	interval time.Duration

	mu   sync.Mutex
	last map[types.NamespacedName]time.Time
}

func newPace(c clock.PassiveClock, interval time.Duration) *pace {
	return &pace{clock: c, interval: interval, last: map[types.NamespacedName]time.Time{}}
}

// wait returns how long a write still has to wait; 0 means that it may go now,
// and counts as gone.
func (p *pace) wait(key types.NamespacedName) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	if last, ok := p.last[key]; ok {
		if left := p.interval - now.Sub(last); left > 0 {
			return left
		}
	}
	p.last[key] = now
	return 0
}

func (p *pace) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, key)
}
