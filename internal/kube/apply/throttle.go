package apply

import (
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

const (
	// shortest is how long a reason waits at least: it may hold for a moment only.
	shortest = 100 * time.Millisecond
	// each is how much longer it waits for every other reason to write, and
	// longest how long at most.
	each    = 20 * time.Millisecond
	longest = 2 * time.Minute
	// share is how many reasons of others a queue waits for with each of its own, or
	// as many as it has itself if those are more.
	share = 10
	// many is how many reasons wait to be written when each is no news any more.
	many = 100
)

// throttle counts the workloads whose reason to wait is not written yet.
//
// The more there are, the longer each waits: while thousands of jobs are
// submitted, the ones that start meanwhile are not told first why they have not
// started, and starting them is what the API server has time for. A user who submits
// a few is told soon all the same: a queue waits for others in proportion to what
// it has to be told itself, and longer if those are many.
type throttle struct {
	all int
	of  map[core.Key]int // by LocalQueue
}

// add counts n more, or fewer, in a LocalQueue.
func (c *throttle) add(queue core.Key, n int) {
	c.all += n
	if c.of[queue] += n; c.of[queue] == 0 {
		delete(c.of, queue)
	}
}

// before is how many reasons are written before the next one of a queue.
func (c *throttle) before(queue core.Key) int { return min(c.all, c.of[queue]*max(share, c.of[queue])) }

// wait is how long the next reason of a queue waits.
func (c *throttle) wait(queue core.Key) time.Duration {
	return min(shortest+time.Duration(c.before(queue))*each, longest)
}

// silent reports whether a reason of a queue is written without an event.
func (c *throttle) silent(queue core.Key) bool { return c.before(queue) >= many }
