package forecast_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/forecast"
)

// came are arrivals: so many workloads, one every so often up to start, each like this one and
// running for so long.
func came(n int, every, run time.Duration, like core.Workload) *forecast.Arrivals {
	var a forecast.Arrivals
	jobs := func(core.Key) forecast.Job { return forecast.Job{Endless: true, Limit: run} }
	var s cycle.Snapshot
	begin := start.Add(-time.Duration(n) * every)
	a.See(&s, begin, jobs)
	for i := range n {
		at := begin.Add(time.Duration(i+1) * every)
		s.Workloads = []cycle.WorkloadState{
			{
				Key: core.Key{
					Namespace: "ns",
					Name:      fmt.Sprint("came-", i),
				},
				UID:        fmt.Sprint("came-", i),
				LocalQueue: like.Queue,
				Priority:   like.Priority,
				Time:       at.UnixNano(),
				PodSets:    like.PodSets,
			},
		}
		a.See(&s, at, jobs)
	}
	return &a
}

// asked is what is said of the workload mine, which waits behind one that runs on all GPUs but
// so many, when jobs run for so long and such come.
func asked(
	t *testing.T,
	taken int64,
	run time.Duration,
	a *forecast.Arrivals,
	seed uint64,
) forecast.Estimate {
	t.Helper()
	q := question(
		town(t, taken, job("mine", 0, 8)),
		func(core.Key) forecast.Job { return forecast.Job{Endless: true, Limit: run} },
		&forecast.Runtimes{},
	)
	q.Arrivals, q.Seed, q.Decides = a, seed, 5000
	got, err := forecast.Starts(q)
	if err != nil {
		t.Fatal(err)
	}
	return got[core.Key{Namespace: "ns", Name: "mine"}]
}

// TestWhatComesIsInFutures: jobs that go first and keep coming make one that waits wait for
// longer, those that do not go first do not, and the same seed has the same jobs come.
func TestWhatComesIsInFutures(t *testing.T) {
	alone := asked(t, 8, time.Hour, nil, 1)
	if alone.P50 < 25*time.Minute || alone.P50 > 45*time.Minute {
		t.Fatalf("an hour's job has run for half an hour, and the next starts after %s", alone.P50)
	}
	urgent := asked(t, 8, time.Hour, came(8, 40*time.Minute, time.Hour, job("urgent", 9, 8)), 1)
	if urgent.P50 != forecast.Never && urgent.P50 < alone.P50+time.Hour {
		t.Errorf(
			"such that go first came every 40 minutes, and it is told %s as without them %s",
			urgent.P50,
			alone.P50,
		)
	}
	if low := asked(
		t,
		8,
		time.Hour,
		came(8, 40*time.Minute, time.Hour, job("low", -1, 8)),
		1,
	); low.P50 > alone.P50+5*time.Minute {
		t.Errorf("such that go after it came, and it is told %s as without them %s", low.P50, alone.P50)
	}
	some := func(seed uint64) forecast.Estimate {
		return asked(t, 8, time.Hour, came(4, 100*time.Minute, time.Hour, job("urgent", 9, 8)), seed)
	}
	if one, again := some(1), some(1); one != again {
		t.Error("the same seed has different jobs come")
	}
	if some(1) == some(2) && some(2) == some(3) {
		t.Errorf("three seeds have the same jobs come: %+v", some(1))
	}
}

// TestWhatComesOftenComesAsOftenInFutures: of more arrivals than are remembered the rate is that of
// those that are.
func TestWhatComesOftenComesAsOftenInFutures(t *testing.T) {
	const run = 1500 * time.Millisecond
	for _, n := range []int{300, 3000} {
		e := asked(t, 8, run, came(n, time.Second, run, job("urgent", 9, 8)), 1)
		if e.P50 != forecast.Never && e.P50 < 5*time.Minute {
			t.Errorf("%d that go first came one a second, each for longer than that, and it is told %s", n, e.P50)
		}
	}
}

// TestPassedAgainAndAgain: a large job that smaller ones pass for as long as they come is told
// that, and not the time at which they were to cease; one that they do not hold up is not.
func TestPassedAgainAndAgain(t *testing.T) {
	small := came(60, 4*time.Minute, 30*time.Minute, job("small", 0, 2))
	if e := asked(t, 4, time.Hour, small, 1); !e.Passed || e.P50 != forecast.Never || e.P90 != forecast.Never {
		t.Errorf("four GPUs of eight are free for jobs of two that keep coming, and a job of eight is told %+v", e)
	}
	for name, rare := range map[string]*forecast.Arrivals{"none": nil, "few": came(4, time.Hour, 30*time.Minute, job("small", 0, 2))} {
		if e := asked(t, 4, time.Hour, rare, 1); e.Passed || e.P50 == forecast.Never {
			t.Errorf("%s come, and a job of eight is told %+v", name, e)
		}
	}
}

// TestArrivals: what there was at the first look did not come since, nor what was there before,
// what cannot be submitted does not count, and what came long ago is forgotten.
func TestArrivals(t *testing.T) {
	urgent := job("urgent", 9, 8)
	was := asked(t, 8, time.Hour, nil, 1)
	var a forecast.Arrivals
	jobs := func(core.Key) forecast.Job { return forecast.Job{Endless: true, Limit: time.Hour} }
	s := &cycle.Snapshot{Workloads: make([]cycle.WorkloadState, 20)}
	for i := range s.Workloads {
		s.Workloads[i] = cycle.WorkloadState{
			Key:        core.Key{Namespace: "ns", Name: fmt.Sprint("was-", i)},
			UID:        "1",
			LocalQueue: "q",
			Priority:   9,
			PodSets:    urgent.PodSets,
			Time:       start.UnixNano(),
		}
	}
	a.See(s, start.Add(-time.Hour), jobs)
	a.See(s, start, jobs)
	if e := asked(t, 8, time.Hour, &a, 1); e != was {
		t.Errorf("nothing came, and it is told %+v as otherwise %+v", e, was)
	}
	for i := range s.Workloads {
		s.Workloads[i].UID, s.Workloads[i].Held = "2", "held"
	}
	a.See(s, start, jobs)
	if e := asked(t, 8, time.Hour, &a, 1); e != was {
		t.Errorf("only jobs came that are held, and it is told %+v as otherwise %+v", e, was)
	}
	for i := range s.Workloads {
		s.Workloads[i].UID, s.Workloads[i].Held = "3", ""
	}
	a.See(s, start, jobs)
	if e := asked(t, 8, time.Hour, &a, 1); e == was {
		t.Errorf("20 came anew under the same names, and it is told %+v", e)
	}
	a.See(&cycle.Snapshot{}, start.Add(7*time.Hour), jobs)
	if e := asked(t, 8, time.Hour, &a, 1); e != was {
		t.Errorf("they came 7 hours ago, and it is told %+v as otherwise %+v", e, was)
	}
}

// TestOverdueMovesOn: a job that waits past what it was told is told a later time at once,
// before it has started and before anything is learned of others.
func TestOverdueMovesOn(t *testing.T) {
	s := town(t, 8, job("mine", 0, 8))
	k := core.Key{Namespace: "ns", Name: "mine"}
	like := func(core.Key) forecast.Job { return forecast.Job{Classes: []string{"like"}, GPUs: 8} }
	look := func(f *forecast.Forecaster, at time.Duration) forecast.Estimate {
		q := question(s, like, nil)
		q.Now = start.Add(at)
		got, err := f.Look(q)
		if err != nil {
			t.Fatal(err)
		}
		return got[k]
	}
	var fresh, waited forecast.Forecaster
	told := look(&waited, 25*time.Minute)
	over := 25*time.Minute + 3*told.P90
	if again, anew := look(&waited, over), look(&fresh, over); again.P90 < 2*anew.P90 || again.P50 < 2*anew.P50 {
		t.Errorf(
			"told %s it has waited for three times as long, and is told %+v as one that has just come %+v",
			told.P90,
			again,
			anew,
		)
	}
}
