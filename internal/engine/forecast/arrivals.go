package forecast

import (
	"fmt"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// Arrivals is what came in the last hours: how much, how large, where to, and of which
// priorities. What comes next is taken to be like it. The zero value has seen nothing.
type Arrivals struct {
	// since is the first look; seen are the workloads there were at the last one, by what
	// tells one from another of the same name.
	since time.Time
	seen  map[core.Key]string
	// last are the jobs that came, the earliest first; dropped says that there were more.
	last    []arrival
	dropped bool
}

// arrival is a workload that came.
type arrival struct {
	at  time.Time
	job Job
	is  core.Workload
}

const (
	// memory is how far back arrivals count, mostArrivals how many of them, of all queues together;
	// leastMemory is how long the time since the first look counts at least: few seconds tell no rate.
	memory, leastMemory = 6 * time.Hour, 5 * time.Minute
	mostArrivals        = 1024
	// parts is how many parts the time of arrivals is cut into: a future is put together from
	// them by chance, so that what comes together stays together and futures differ in how
	// much comes.
	parts = 12
	// reach is for how many times as long as that of which is known futures have arrivals.
	reach = 3
)

// See takes in which workloads there are now.
func (a *Arrivals) See(s *cycle.Snapshot, now time.Time, jobs func(core.Key) Job) {
	first := a.seen == nil
	if first {
		a.since = now
	}
	seen := make(map[core.Key]string, len(s.Workloads))
	for i := range s.Workloads {
		w := &s.Workloads[i]
		seen[w.Key] = w.UID
		uid, is := a.seen[w.Key]
		if first || is && uid == w.UID || w.Held != "" || w.Invalid != "" {
			continue
		}
		at := time.Unix(0, w.Time)
		if at.After(now) || at.Before(a.since) {
			at = now
		}
		came := observed(w)
		came.GatedBy, came.NotBefore = "", time.Time{}
		a.last = append(a.last, arrival{at: at, job: jobs(w.Key), is: came})
	}
	a.seen = seen
	slices.SortStableFunc(a.last, func(x, y arrival) int { return x.at.Compare(y.at) })
	from := max(0, len(a.last)-mostArrivals)
	for from < len(a.last) && now.Sub(a.last[from].at) > memory {
		from++
	}
	if from > 0 {
		a.since, a.dropped = a.last[from-1].at, true
		a.last = slices.Delete(a.last, 0, from)
	}
	if now.Sub(a.since) > memory {
		a.since = now.Add(-memory)
	}
}

// coming are the arrivals of one future, in order.
type coming struct {
	of     *Arrivals
	now    time.Time
	span   time.Duration // of which is known
	chance uint64
	part   int // the next part of the future
	ready  []arrival
	number int
	jobs   map[core.Key]Job
}

// from are those of one of the futures that begin at a moment.
func (a *Arrivals) from(now time.Time, seed uint64, i int) *coming {
	c := &coming{
		of:     a,
		now:    now,
		chance: mix(seed ^ mix(uint64(i))), //nolint:gosec // not negative
		jobs:   map[core.Key]Job{},
	}
	if a != nil && len(a.last) > 0 {
		c.span = now.Sub(a.since)
		if !a.dropped {
			c.span = max(c.span, leastMemory)
		}
	}
	c.fill()
	return c
}

// fill makes the next arrivals ready, if there are to be any.
func (c *coming) fill() {
	for len(c.ready) == 0 && c.span > 0 && c.part < reach*parts {
		long := c.span / parts
		from := c.now.Add(
			-c.span + time.Duration(
				int(fraction(mix(c.chance+uint64(c.part)))*parts), //nolint:gosec // not negative
			)*long,
		)
		begins := c.now.Add(time.Duration(c.part) * long)
		i, _ := slices.BinarySearchFunc(
			c.of.last,
			from,
			func(a arrival, t time.Time) int { return a.at.Compare(t) },
		)
		for ; i < len(c.of.last) && c.of.last[i].at.Before(from.Add(long)); i++ {
			next := c.of.last[i]
			next.at = begins.Add(next.at.Sub(from))
			c.ready = append(c.ready, next)
		}
		c.part++
	}
}

// next is when the next one comes; false if none does.
func (c *coming) next() (time.Time, bool) {
	if len(c.ready) == 0 {
		return time.Time{}, false
	}
	return c.ready[0].at, true
}

// take is the next one, as a workload of its own.
func (c *coming) take() core.Workload {
	next := c.ready[0]
	c.ready = c.ready[1:]
	w := next.is
	c.number++
	w.Key.Name = fmt.Sprintf("%s~%d", w.Key.Name, c.number)
	w.UID = fmt.Sprintf("%s~%d", w.UID, c.number)
	w.Created, w.QueueTime, w.Seq = next.at, next.at, 0
	c.jobs[w.Key] = next.job
	c.fill()
	return w
}

// job is what is known of one that came in the future; false if it did not.
func (c *coming) job(k core.Key) (Job, bool) {
	j, is := c.jobs[k]
	return j, is
}
