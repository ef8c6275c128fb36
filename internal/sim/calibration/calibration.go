package calibration

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/forecast"
)

// Options say what is measured.
type Options struct {
	// Every is how much time passes between looks at what waits, at least.
	Every time.Duration
	// Futures and Decides bound each look, as those of forecast.Question.
	Futures, Decides int
	Engine           cycle.Options
	// Limit is the time limit that a job would have been given, for the estimate by limits
	// alone; nil leaves that estimate out.
	Limit func(core.Key) time.Duration
}

// Trial watches a world. It is a sim.Log, and Look a sim.Watch.Look.
type Trial struct {
	opt     Options
	oracle  forecast.Forecaster
	jobs    map[core.Key]*job
	waiting int
	looked  time.Time
	now     time.Time
	given   []*given
	looks   int
	err     error
}

// job is what is known of one.
type job struct {
	forecast.Job
	waits   bool
	started time.Time // zero while it waits
	// leaving says that it was evicted and is still there.
	leaving bool
	// open are the estimates of this wait that count.
	open []*given
}

// given is an estimate that was given.
type given struct {
	key   core.Key
	at    time.Time
	first bool // of this wait
	said  forecast.Estimate
	// limits is what limits alone say.
	limits time.Duration
	// started says that the job has, after this wait.
	started bool
	wait    time.Duration
}

// New is a trial in which nothing has happened.
func New(o Options) *Trial {
	return &Trial{opt: o, jobs: map[core.Key]*job{}}
}

// Began implements sim.Log.
func (t *Trial) Began(cycle.Options) {}

// Event implements sim.Log.
func (t *Trial) Event(ev core.Event) {
	switch ev := ev.(type) {
	case core.WorkloadSet:
		t.sees(&ev.Workload)
	case core.WorkloadGone:
		j := t.jobs[ev.Key]
		switch {
		case j == nil:
			return
		case j.waits:
			t.waiting--
			t.oracle.Gone(ev.Key)
		case !j.started.IsZero() && !j.leaving:
			t.oracle.Ended(j.Job, t.now.Sub(j.started))
		}
		delete(t.jobs, ev.Key)
	}
}

func (t *Trial) sees(w *core.Workload) {
	j := t.jobs[w.Key]
	if j == nil {
		j = &job{}
		for i := range w.PodSets {
			j.GPUs += int64(w.PodSets[i].Count) * int64(w.PodSets[i].Requests.Of(core.GPU))
		}
		queue := w.Key.Namespace + "/" + w.Queue
		j.Classes = []string{
			fmt.Sprintf("%s %d", queue, bits.Len64(uint64(j.GPUs))), //nolint:gosec // not negative
			queue,
			"",
		}
		t.jobs[w.Key] = j
	}
	// While it runs, a state without an admission is a late one.
	if w.Admission == nil && !j.waits && (j.started.IsZero() || j.leaving) {
		j.waits, j.leaving, j.started = true, false, time.Time{}
		t.waiting++
	}
}

// Decided implements sim.Log.
func (t *Trial) Decided(now time.Time, plan core.Plan) {
	t.now = now
	for _, d := range plan {
		switch d := d.(type) {
		case core.Admit:
			if j := t.jobs[d.Key]; j != nil && j.waits {
				j.waits, j.started = false, now
				t.waiting--
				t.oracle.Started(d.Key, now)
				for _, g := range j.open {
					g.started, g.wait = true, now.Sub(g.at)
				}
				j.open = nil
			}
		case core.Evict:
			if j := t.jobs[d.Key]; j != nil {
				j.leaving = true
			}
		case core.Replace, core.Refuse:
		}
	}
}

// Look asks when what waits will start, if it is time.
func (t *Trial) Look(e *cycle.Engine, now time.Time) {
	if t.err != nil || now.Sub(t.looked) < t.opt.Every {
		return
	}
	state, err := e.Dump()
	if err != nil {
		return // edits are being taken in; another moment will do
	}
	t.looked = now
	q := forecast.Question{
		State: state, Options: t.opt.Engine, Now: now, Futures: t.opt.Futures, Decides: t.opt.Decides,
		Jobs: func(k core.Key) forecast.Job {
			if j := t.jobs[k]; j != nil {
				return j.Job
			}
			return forecast.Job{}
		},
	}
	if t.waiting == 0 {
		t.oracle.See(q)
		return
	}
	t.looks++
	var said map[core.Key]forecast.Estimate
	if said, t.err = t.oracle.Look(q); t.err != nil {
		return
	}
	limits := map[core.Key]forecast.Estimate{}
	if t.opt.Limit != nil {
		q.Futures, q.Limits = 1, t.opt.Limit
		if limits, t.err = forecast.Starts(q); t.err != nil {
			return
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(said), core.Key.Compare) {
		j := t.jobs[k]
		if j == nil || !j.waits {
			continue
		}
		if n := len(j.open); n > 0 && now.Sub(j.open[n-1].at) < max(j.open[n-1].at.Sub(j.open[0].at), t.opt.Every) {
			continue // not twice as long as when it was counted last
		}
		g := &given{key: k, at: now, first: len(j.open) == 0, said: said[k], limits: forecast.Never}
		if l, is := limits[k]; is {
			g.limits = l.P50
		}
		j.open = append(j.open, g)
		t.given = append(t.given, g)
	}
}

// Told is an estimate that a job was given, and what came.
type Told struct {
	Key core.Key
	At  time.Time
	// First says that it was asked for the first time in this wait.
	First bool
	Said  forecast.Estimate
	// Started says that the job has started, Wait after how long from then on.
	Started bool
	Wait    time.Duration
}

// Told are all estimates that count, in the order in which they were given.
func (t *Trial) Told() []Told {
	out := make([]Told, 0, len(t.given))
	for _, g := range t.given {
		out = append(out, Told{g.key, g.at, g.first, g.said, g.started, g.wait})
	}
	return out
}
