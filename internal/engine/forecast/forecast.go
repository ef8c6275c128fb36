package forecast

import (
	"math"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// Question is what is asked, and of what.
type Question struct {
	// State is the picture at Now of an engine with these Options.
	State   *cycle.Snapshot
	Options cycle.Options
	Now     time.Time
	// Also, if not nil, is a workload that is not there, and would be submitted at Now.
	Also *core.Workload
	// Jobs says what is known of a workload's runtime.
	Jobs     func(core.Key) Job
	Runtimes *Runtimes
	// Limits, if not nil, has each workload run for as long as it may, whatever is known:
	// what schedulers that know nothing but limits foresee.
	Limits func(core.Key) time.Duration
	// Arrivals, if not nil, is what came of late: futures have more of it, drawn by Seed.
	Arrivals *Arrivals
	Seed     uint64
	// Futures is how many are played at most, Decides how often the engine may decide in
	// each of them. More futures make quantiles finer: 20 are enough for those here.
	Futures, Decides int
	// Enough, if not nil, is asked after each future whether the futures that were played will
	// do.
	Enough func(played int) bool
}

// Estimate is when a workload will start, as time from now.
type Estimate struct {
	// P50 is as likely too early as too late; 9 in 10 workloads start up to P90. Never
	// stands for later than any future goes.
	P50, P90 time.Duration
	// Passed says that others that come later will start before it for as long as so many
	// come: P50 is Never because of that.
	Passed bool
}

// Forecast is an Estimate at a moment, in times of day.
type Forecast struct {
	// At is when it was made. P50 and P90 are zero for what happens in no future.
	At, P50, P90 time.Time
	// Passed is that of Estimate.
	Passed bool
	// Known is how many runtimes of jobs like it are known, see Forecaster.Known.
	Known int
}

// From is an estimate that was made at a moment.
func (e Estimate) From(at time.Time) Forecast {
	f := Forecast{At: at, Passed: e.Passed}
	if e.P50 != Never {
		f.P50 = at.Add(e.P50)
	}
	if e.P90 != Never {
		f.P90 = at.Add(e.P90)
	}
	return f
}

// Never is the time of what happens in no future.
const Never = time.Duration(math.MaxInt64)

// Starts estimates when each workload that waits will start.
func Starts(q Question) (map[core.Key]Estimate, error) {
	all, passed := map[core.Key][]time.Duration{}, map[core.Key]int{}
	played := 0
	for i := range q.Futures {
		coming := q.Arrivals.from(q.Now, q.Seed, i)
		f, err := begin(q.Options, q.State, q.Now, q.Decides, func(k core.Key, ran time.Duration) time.Duration {
			if q.Limits != nil {
				return max(q.Limits(k)-ran, time.Second)
			}
			j, came := coming.job(k)
			if !came {
				j = q.Jobs(k)
			}
			return q.Runtimes.Remaining(j, ran, leaning(stratum(k, i, q.Futures), i, q.Futures))
		})
		if err != nil {
			return nil, err
		}
		f.coming = coming
		if q.Also != nil {
			f.submit(*q.Also)
		}
		asked := f.asked()
		f.run()
		for k, c := range asked { // each alone
			after := Never
			if !c.started.IsZero() {
				after = c.started.Sub(q.Now)
			}
			if c.passed {
				passed[k]++
			}
			all[k] = append(all[k], after)
		}
		played++
		if q.Enough != nil && q.Enough(played) {
			break
		}
	}
	out := make(map[core.Key]Estimate, len(all))
	for k, starts := range all { // each alone
		slices.Sort(starts)
		e := Estimate{P50: quantile(starts, 0.5), P90: quantile(starts, 0.9)}
		e.Passed = e.P50 == Never && 2*passed[k] >= len(starts)
		out[k] = e
	}
	return out, nil
}

// asked are the jobs that wait as the future begins.
func (f *future) asked() map[core.Key]*course {
	out := map[core.Key]*course{}
	for k, c := range f.workloads {
		if c.asked {
			out[k] = c
		}
	}
	return out
}

// stratum is the quantile of a workload's runtime in one of n futures. Over all of them it
// has each n-th part of its distribution once, begun at one of its own.
func stratum(k core.Key, i, n int) float64 {
	h := uint64(14695981039346656037)
	for _, s := range []string{k.Namespace, "/", k.Name} {
		for j := range len(s) {
			h = (h ^ uint64(s[j])) * 1099511628211
		}
	}
	h = mix(h)
	step := 1
	for _, prime := range []int{7, 11, 13} { // a step that has no factor in common with n visits all parts
		if n%prime != 0 {
			step = prime
			break
		}
	}
	at := (int(h%uint64(n)) + i*step) % n //nolint:gosec // below n
	return (float64(at) + 0.5) / float64(n)
}

// mood is how much the futures differ in how long jobs run altogether, as the standard
// deviation of a normal distribution that a quantile is moved by: what is known of jobs is
// of the past, and those of now have much in common.
const mood = 0.6

// leaning moves the quantile of a runtime to what it is in one of n futures: in the first
// ones everything takes shorter, in the last ones longer.
func leaning(u float64, i, n int) float64 {
	if n == 1 {
		return u
	}
	shift := mood * math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/float64(n)-1)
	x := math.Sqrt2*math.Erfinv(2*u-1) + shift
	return min(0.5*math.Erfc(-x/math.Sqrt2), 1-1e-9)
}

// quantile of sorted times, between two of them by their distance.
func quantile(sorted []time.Duration, p float64) time.Duration {
	at := p*float64(len(sorted)) - 0.5
	i := max(0, min(int(math.Floor(at)), len(sorted)-1))
	k := min(i+1, len(sorted)-1)
	if at <= 0 || sorted[k] == Never {
		if at-float64(i) > 0.5 || at <= 0 && sorted[i] == Never {
			return sorted[k]
		}
		return sorted[i]
	}
	part := at - float64(i)
	return sorted[i] + time.Duration(part*float64(sorted[k]-sorted[i]))
}
