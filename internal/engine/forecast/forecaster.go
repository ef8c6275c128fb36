package forecast

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Forecaster looks at a picture again and again, and learns in between. It must be told
// what becomes of workloads. The zero value knows nothing.
type Forecaster struct {
	runtimes Runtimes
	arrivals Arrivals
	learned  Calibration
	// waiting are the waits that had an estimate and are not over; due are estimates of
	// which it is not known yet whether they are right, the earliest first.
	waiting map[core.Key]*wait
	due     []*said
	tally   Tally
}

// wait is one of a workload, since it was first estimated.
type wait struct {
	since time.Time
	said  []*said
}

// said is an estimate that was given.
type said struct {
	at        time.Time
	gpus      int64
	waited    bool // already, when it was given
	raw, told Estimate
	// started is when the job did, zero while it has not; void says that it never will.
	started time.Time
	void    bool
	known   [2]bool // whether it is right, of P50 and P90
}

// Tally is how often estimates were right: jobs that had, and had not, started up to P50
// and up to P90.
type Tally struct{ Right, Wrong [2]int }

const (
	// mostDue bounds the estimates that are remembered.
	mostDue = 100_000
	// leastPause is how long after an estimate the next one for the same workload counts at
	// the earliest.
	leastPause = time.Minute
)

// Ended notes how long a job ran that ended by itself.
func (f *Forecaster) Ended(j Job, ran time.Duration) { f.runtimes.Ended(j, ran) }

// Known is how many runtimes of jobs like a job are known, of the closest class of which
// any is; 0 for a guess.
func (f *Forecaster) Known(j Job) int { return f.runtimes.known(j) }

// Tally is how right estimates were so far.
func (f *Forecaster) Tally() Tally { return f.tally }

// Started notes that a workload got its quota.
func (f *Forecaster) Started(k core.Key, at time.Time) {
	f.over(k, func(s *said) { s.started = at })
}

// Gone notes that a workload does not wait any more and has not started.
func (f *Forecaster) Gone(k core.Key) { f.over(k, func(s *said) { s.void = true }) }

func (f *Forecaster) over(k core.Key, note func(*said)) {
	if w := f.waiting[k]; w != nil {
		for _, s := range w.said {
			note(s)
		}
		delete(f.waiting, k)
	}
}

// See takes in what came since the last look, where nothing is asked.
func (f *Forecaster) See(q Question) { f.arrivals.See(q.State, q.Now, q.Jobs) }

// Look estimates when what waits will start, with what was learned until now. Its
// q.Runtimes are the Forecaster's own.
func (f *Forecaster) Look(q Question) (map[core.Key]Estimate, error) {
	f.learn(q.Now)
	f.See(q)
	q.Runtimes, q.Arrivals = &f.runtimes, &f.arrivals
	raw, err := Starts(q)
	if err != nil {
		return nil, err
	}
	return f.say(raw, q.Now, func(k core.Key) int64 { return q.Jobs(k).GPUs }), nil
}

// say corrects estimates, and remembers what was said.
func (f *Forecaster) say(
	raw map[core.Key]Estimate,
	now time.Time,
	gpus func(core.Key) int64,
) map[core.Key]Estimate {
	out := make(map[core.Key]Estimate, len(raw))
	for _, k := range slices.SortedFunc(maps.Keys(raw), core.Key.Compare) {
		s := &said{at: now, waited: f.waited(k, now), gpus: gpus(k), raw: raw[k]}
		s.told = f.overdue(k, now).stretch(f.learned.Correct(s.raw, s.gpus, s.waited))
		out[k] = s.told
		f.remember(k, s)
	}
	return out
}

// waited says whether a workload had an estimate long enough ago for this one to be another.
func (f *Forecaster) waited(k core.Key, now time.Time) bool {
	w := f.waiting[k]
	return w != nil && now.Sub(w.since) >= leastPause
}

// overdue is by how much more a wait has taken than was said of it.
type overdue float64

// mostOverdue bounds it.
const mostOverdue = 8

// overdue is how late a workload is that waits past its P90: as many times as long as
// what was said of it. What was wrong for it will not be right from now on, so that what is
// said of it next is as much later, before it has started and anything is learned of others.
func (f *Forecaster) overdue(k core.Key, now time.Time) overdue {
	out := 1.0
	if w := f.waiting[k]; w != nil {
		for _, s := range w.said {
			if waited := now.Sub(s.at); waited > s.told.P90 {
				out = max(out, float64(waited+offset)/float64(s.told.P90+offset))
			}
		}
	}
	return overdue(min(out, mostOverdue))
}

func (o overdue) stretch(e Estimate) Estimate {
	by := math.Log(float64(o))
	e.P50, e.P90 = stretch(e.P50, by), stretch(e.P90, by)
	return e
}

// Suppose estimates when q.Also would start, were it submitted at q.Now, with what was learned
// until now. Nothing is learned from it. Its q.Runtimes are the Forecaster's own.
func (f *Forecaster) Suppose(q Question) (Estimate, error) {
	q.Runtimes, q.Arrivals = &f.runtimes, &f.arrivals
	raw, err := Starts(q)
	if err != nil {
		return Estimate{}, err
	}
	return f.learned.Correct(raw[q.Also.Key], q.Jobs(q.Also.Key).GPUs, false), nil
}

// remember keeps an estimate to learn from it: the first of a wait, and one whenever it
// has taken twice as long.
func (f *Forecaster) remember(k core.Key, s *said) {
	if len(f.due) >= mostDue {
		return
	}
	w := f.waiting[k]
	if w == nil {
		w = &wait{since: s.at}
		if f.waiting == nil {
			f.waiting = map[core.Key]*wait{}
		}
		f.waiting[k] = w
	} else if last := w.said[len(w.said)-1]; s.at.Sub(last.at) < max(last.at.Sub(w.since), leastPause) {
		return
	}
	w.said = append(w.said, s)
	f.due = append(f.due, s)
}

// learn takes in what has become of estimates.
func (f *Forecaster) learn(now time.Time) {
	var known []Observation
	for _, s := range f.due {
		if s.void {
			continue
		}
		waited, started := now.Sub(s.at), !s.started.IsZero()
		if started {
			waited = s.started.Sub(s.at)
		}
		for i, until := range []time.Duration{s.told.P50, s.told.P90} {
			if s.known[i] || !started && waited <= until {
				continue
			}
			s.known[i] = true
			known = append(
				known,
				Observation{Raw: s.raw, GPUs: s.gpus, Waited: s.waited, P90: i == 1, InTime: waited <= until},
			)
			if waited <= until {
				f.tally.Right[i]++
			} else {
				f.tally.Wrong[i]++
			}
		}
	}
	f.learned.Learn(known)
	f.due = slices.DeleteFunc(f.due, func(s *said) bool { return s.void || s.known == [2]bool{true, true} })
}
