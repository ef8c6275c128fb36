package forecast

import (
	"math"
	"slices"
	"time"
)

// Runtimes is what is known of how long jobs run.
type Runtimes struct {
	classes map[string]*class
}

// Job is what is known of one job.
type Job struct {
	// Classes are what it has in common with others, the closest first: a job is taken to
	// run like those of its classes.
	Classes []string
	// GPUs is how many it has or asks for.
	GPUs int64
	// Limit is how long it may run at most, 0 for as long as it likes.
	Limit time.Duration
	// Endless says that it does not end by itself, unless it has a limit.
	Endless bool
}

// mostKept is how many runtimes a class remembers: the last ones. mostClasses bounds how
// many classes there are.
const (
	mostKept    = 256
	mostClasses = 10_000
)

// doubt is how many runtimes a class needs to count as much as the next wider one.
const doubt = 8

// The prior, for jobs of which nothing is known: each order of magnitude between these is
// as likely as another.
const (
	shortestRun = time.Minute
	longestRun  = 48 * time.Hour
)

// class is jobs that have something in common.
type class struct {
	// last are their runtimes in the order in which they ended, from next on the oldest;
	// sorted are the same.
	last   []time.Duration
	next   int
	sorted []time.Duration
}

// Ended notes how long a job ran that ended by itself.
func (r *Runtimes) Ended(j Job, ran time.Duration) {
	if ran <= 0 {
		return
	}
	if r.classes == nil {
		r.classes = map[string]*class{}
	}
	for _, name := range j.Classes {
		c := r.classes[name]
		if c == nil {
			if len(r.classes) >= mostClasses {
				continue
			}
			c = &class{}
			r.classes[name] = c
		}
		c.add(ran)
	}
}

func (c *class) add(ran time.Duration) {
	if len(c.last) < mostKept {
		c.last = append(c.last, ran)
	} else {
		i, _ := slices.BinarySearch(c.sorted, c.last[c.next])
		c.sorted = slices.Delete(c.sorted, i, i+1)
		c.last[c.next] = ran
		c.next = (c.next + 1) % mostKept
	}
	i, _ := slices.BinarySearch(c.sorted, ran)
	c.sorted = slices.Insert(c.sorted, i, ran)
}

// Remaining is how long a job goes on that has run for so long: the quantile u, from 0 to
// 1, of what is known of jobs like it. It is positive.
func (r *Runtimes) Remaining(j Job, ran time.Duration, u float64) time.Duration {
	total := 2 * horizon // an end that no future comes to
	if !j.Endless {
		total = r.total(j, ran, u)
	}
	if j.Limit > 0 {
		total = min(total, j.Limit)
	}
	return max(total-ran, time.Second)
}

// total is how long it runs altogether. Each class has a say by the number of its jobs
// that ran for longer than this one has: what u leaves over goes to the next wider one, and in
// the end to one that has outlived all that is known or, if that is little, to the prior.
func (r *Runtimes) total(j Job, ran time.Duration, u float64) time.Duration {
	most := 0
	for _, name := range j.Classes {
		c := r.classes[name]
		if c == nil {
			continue
		}
		most = max(most, len(c.sorted))
		longer := c.sorted
		if ran > 0 {
			i, _ := slices.BinarySearch(c.sorted, ran+1)
			longer = c.sorted[i:]
		}
		share := float64(len(longer)) / float64(len(longer)+doubt)
		if pick := spread(u, name); pick < share {
			return longer[min(int(u*float64(len(longer))), len(longer)-1)]
		}
	}
	if ran > 0 && spread(u, "outlived") < float64(most)/float64(most+doubt) {
		return outlived(ran, u)
	}
	return prior(ran, u)
}

// outlived is a total runtime of a job that ran for longer than any that is known of: it is as
// likely to go on for as long again as to end before.
func outlived(ran time.Duration, u float64) time.Duration {
	return time.Duration(min(float64(ran)/(1-u), float64(max(longestRun, 4*ran))))
}

// known is how many runtimes the closest class of a job has that has any.
func (r *Runtimes) known(j Job) int {
	for _, name := range j.Classes {
		if c := r.classes[name]; c != nil {
			return len(c.sorted)
		}
	}
	return 0
}

// spread turns a quantile into another number between 0 and 1 that is as good as chance,
// and the same for the same class.
func spread(u float64, name string) float64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return fraction(mix(h ^ math.Float64bits(u)))
}

// prior is a total runtime of jobs of which nothing is known. One that has run for longer
// than the shortest is as likely to go on for twice as long as to end before.
func prior(ran time.Duration, u float64) time.Duration {
	low := max(float64(shortestRun), float64(ran))
	high := max(float64(longestRun), 4*low)
	return time.Duration(low * math.Pow(high/low, u))
}

// mix spreads the bits of a number over all of it (SplitMix64, by Steele, Lea and Flood).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// fraction is a number from 0 to 1, without 1.
func fraction(x uint64) float64 { return float64(x>>11) / (1 << 53) }
