package forecast_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/forecast"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// town is an engine with a queue of 8 GPUs on one node, in which a job runs on so many of
// them for half an hour, and these wait.
func town(t *testing.T, taken int64, waiting ...core.Workload) *cycle.Snapshot {
	t.Helper()
	e := cycle.New(cycle.Options{})
	gpus := core.Resources{}.With(core.GPU, 8)
	for _, ev := range []core.Event{
		core.FlavorSet{Flavor: core.Flavor{Name: "f"}},
		core.QueueSet{Queue: core.Queue{Name: "q", Namespaces: &core.Selector{}, Preemption: core.Preemption{WithinQueue: core.PreemptLowerPriority}, Groups: []core.ResourceGroup{{
			Covered: []string{core.GPU}, Flavors: []core.FlavorQuotas{{Flavor: "f", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 8}}}},
		}}}},
		core.NamespaceSet{Namespace: core.Namespace{Name: "ns"}},
		core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "ns", Name: "q", Queue: "q"}},
		core.NodeSet{Node: core.Node{Name: "n", State: core.NodeReady, Allocatable: gpus.With(core.Pods, 100)}},
		core.WorkloadSet{Workload: job("running", 5, taken)},
	} {
		e.Apply(ev)
	}
	plan := e.Decide(start.Add(-30 * time.Minute))
	for _, d := range plan {
		if a, is := d.(core.Admit); is {
			w := job("running", 5, taken)
			w.Seq, w.Admission, w.Admitted, w.Ready, w.Reserved = 1, &a.Admission, true, true, start.Add(
				-30*time.Minute,
			)
			e.Apply(core.WorkloadSet{Workload: w})
		}
	}
	for _, w := range waiting {
		e.Apply(core.WorkloadSet{Workload: w})
	}
	e.Decide(start)
	s, err := e.Dump()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func job(name string, priority, gpus int64) core.Workload {
	return core.Workload{
		Key: core.Key{
			Namespace: "ns",
			Name:      name,
		},
		UID:       name,
		Queue:     "q",
		Priority:  priority,
		Created:   start.Add(-time.Hour),
		QueueTime: start.Add(-time.Hour),
		PodSets: []core.PodSet{
			{Name: "main", Count: 1, Requests: core.Resources{}.With(core.GPU, core.Amount(gpus))},
		},
	}
}

func question(s *cycle.Snapshot, jobs func(core.Key) forecast.Job, r *forecast.Runtimes) forecast.Question {
	return forecast.Question{State: s, Now: start, Jobs: jobs, Runtimes: r, Futures: 20, Decides: 1000}
}

// TestStartsWhenWhatRunsEnds: with limits alone known, jobs start when what runs must have
// ended, one after the other.
func TestStartsWhenWhatRunsEnds(t *testing.T) {
	s := town(t, 8, job("first", 1, 8), job("second", 0, 8), job("large", 0, 16))
	q := question(s, nil, nil)
	q.Limits = func(core.Key) time.Duration { return time.Hour }
	got, err := forecast.Starts(q)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		why        string
		from, upTo time.Duration
	}{
		"first":  {"what runs has half an hour left", 30 * time.Minute, 31 * time.Minute},
		"second": {"after that the first runs for an hour", 90 * time.Minute, 93 * time.Minute},
		"large":  {"there are never 16", forecast.Never, forecast.Never},
	} {
		e := got[core.Key{Namespace: "ns", Name: name}]
		if e.P50 < tc.from || e.P50 > tc.upTo || e.P90 != e.P50 {
			t.Errorf("%s starts after %s or %s, want %s to %s: %s", name, e.P50, e.P90, tc.from, tc.upTo, tc.why)
		}
	}
	if _, asked := got[core.Key{Namespace: "ns", Name: "running"}]; asked {
		t.Error("a job that runs has a start to come")
	}
}

// TestSupposed: a job that is not there is placed behind those that wait, and the question leaves
// no trace of it.
func TestSupposed(t *testing.T) {
	s := town(t, 8, job("first", 0, 8))
	mine := job("mine", 0, 8)
	q := question(s, nil, nil)
	q.Limits = func(core.Key) time.Duration { return time.Hour }
	for i := range 2 {
		q.Also = &mine
		got, err := forecast.Starts(q)
		if e := got[mine.Key]; err != nil || e.P50 < 90*time.Minute || e.P50 > 93*time.Minute {
			t.Errorf(
				"it starts after %s (%v), want 90 min: half an hour until the first, which runs for one",
				e.P50,
				err,
			)
		}
		q.Also = nil
		without, err := forecast.Starts(q)
		if _, is := without[mine.Key]; err != nil || is ||
			without[core.Key{Namespace: "ns", Name: "first"}] != got[core.Key{Namespace: "ns", Name: "first"}] {
			t.Errorf("asked %d times: %v, %v", i+1, without, err)
		}
	}
}

// TestHistoryMakesTheFuture: the same picture has other starts when jobs like the one that
// runs ran for shorter or longer, and P90 is later the more they differ.
func TestHistoryMakesTheFuture(t *testing.T) {
	s := town(t, 8, job("mine", 0, 8))
	like := func(core.Key) forecast.Job { return forecast.Job{Classes: []string{"like"}} }
	estimate := func(runtimes ...time.Duration) forecast.Estimate {
		var r forecast.Runtimes
		for range 40 {
			for _, ran := range runtimes {
				r.Ended(like(core.Key{}), ran)
			}
		}
		got, err := forecast.Starts(question(s, like, &r))
		if err != nil {
			t.Fatal(err)
		}
		return got[core.Key{Namespace: "ns", Name: "mine"}]
	}
	short, long := estimate(40*time.Minute), estimate(5*time.Hour)
	if short.P50 < 9*time.Minute || short.P50 > 12*time.Minute {
		t.Errorf("jobs that run for 40 min leave a job that has run for 30 with %s, want 10m", short.P50)
	}
	if long.P50 < 4*time.Hour || long.P50 > 5*time.Hour {
		t.Errorf("jobs that run for 5 h leave a job that has run for 30 min with %s, want 4h30m", long.P50)
	}
	mixed := estimate(40*time.Minute, 5*time.Hour)
	if mixed.P90-mixed.P50 < 4*time.Hour && mixed.P90 < 4*time.Hour {
		t.Errorf("half of the jobs run for 5 h: %+v", mixed)
	}
	outlived := estimate(10 * time.Minute)
	if outlived.P50 < 10*time.Minute || outlived.P90 <= outlived.P50 {
		t.Errorf("a job that outlived all that were like it is about to go on for as long again: %+v", outlived)
	}
}

// TestAskingChangesNothing: the same question has the same answer, and the state is left
// as it was.
func TestAskingChangesNothing(t *testing.T) {
	s := town(t, 4, job("a", 0, 8), job("b", 0, 4), job("c", 0, 2))
	before := fmt.Sprintf("%+v", s)
	one, err := forecast.Starts(
		question(s, func(core.Key) forecast.Job { return forecast.Job{} }, &forecast.Runtimes{}),
	)
	if err != nil {
		t.Fatal(err)
	}
	two, err := forecast.Starts(
		question(s, func(core.Key) forecast.Job { return forecast.Job{} }, &forecast.Runtimes{}),
	)
	if err != nil || fmt.Sprint(one) != fmt.Sprint(two) {
		t.Errorf("%v, then %v, %v", one, two, err)
	}
	if after := fmt.Sprintf("%+v", s); after != before {
		t.Errorf("the state was\n%s\nand is\n%s", before, after)
	}
}

// TestThoseWhoWaitAreCorrectedApart: where estimates of jobs that came are right and those of jobs
// that have waited are twice what it takes, both become right.
func TestThoseWhoWaitAreCorrectedApart(t *testing.T) {
	var c forecast.Calibration
	raw := forecast.Estimate{P50: 30 * time.Minute, P90: 55 * time.Minute}
	in, n := map[bool]float64{}, 0.0
	for i := range 6000 {
		var known []forecast.Observation
		for _, waited := range []bool{false, true} {
			wait := time.Duration((i*7919)%60+1) * time.Minute // 1 to 60 minutes, each as often
			if waited {
				wait /= 2
			}
			said := c.Correct(raw, 1, waited)
			if i >= 3000 && wait <= said.P90 {
				in[waited]++
			}
			known = append(known,
				forecast.Observation{Raw: raw, GPUs: 1, Waited: waited, InTime: wait <= said.P50},
				forecast.Observation{Raw: raw, GPUs: 1, Waited: waited, P90: true, InTime: wait <= said.P90})
		}
		if i >= 3000 {
			n++
		}
		c.Learn(known)
	}
	for waited, right := range in {
		if part := right / n; part < 0.87 || part > 0.93 {
			t.Errorf("P90 is right in %.3f; waited: %v", part, waited)
		}
	}
}

// TestCalibrationMakesEstimatesRight: whatever the estimates are, after some hundreds those
// for 9 in 10 are right 9 times in 10, and those for one in two every other time.
func TestCalibrationMakesEstimatesRight(t *testing.T) {
	for name, tc := range map[string]struct {
		why string
		raw forecast.Estimate
	}{
		"early":  {"estimates of a tenth of the truth", forecast.Estimate{P50: 6 * time.Minute, P90: 8 * time.Minute}},
		"late":   {"estimates of ten times the truth", forecast.Estimate{P50: 10 * time.Hour, P90: 20 * time.Hour}},
		"narrow": {"right in the middle and too sure", forecast.Estimate{P50: 50 * time.Minute, P90: 51 * time.Minute}},
	} {
		var c forecast.Calibration
		var in50, in90, n int
		for i := range 3000 {
			wait := time.Duration((i*7919)%100+1) * time.Minute // 1 to 100 minutes, each as often
			said := c.Correct(tc.raw, 1, false)
			if i >= 1000 {
				n++
				if wait <= said.P50 {
					in50++
				}
				if wait <= said.P90 {
					in90++
				}
			}
			c.Learn([]forecast.Observation{
				{Raw: tc.raw, GPUs: 1, InTime: wait <= said.P50},
				{Raw: tc.raw, GPUs: 1, P90: true, InTime: wait <= said.P90},
			})
		}
		if a, b := float64(
			in50,
		)/float64(
			n,
		), float64(
			in90,
		)/float64(
			n,
		); a < 0.45 || a > 0.55 || b < 0.87 ||
			b > 0.93 {
			t.Errorf("%s: P50 is right in %.3f, P90 in %.3f: %s", name, a, b, tc.why)
		}
	}
}

// TestForecasterLearns: a world in which estimates are always too early teaches it, jobs
// that are deleted teach nothing, and a job that is late is known to be before it starts.
func TestForecasterLearns(t *testing.T) {
	s := town(t, 8, job("mine", 0, 8))
	k := core.Key{Namespace: "ns", Name: "mine"}
	like := func(core.Key) forecast.Job { return forecast.Job{Classes: []string{"like"}, GPUs: 8} }
	var f forecast.Forecaster
	for range 20 {
		f.Ended(like(k), 40*time.Minute)
	}
	if n := f.Known(like(k)); n != 20 {
		t.Errorf("%d runtimes are known, want 20", n)
	}
	look := func(now time.Time) forecast.Estimate {
		q := question(s, like, nil)
		q.Now = now
		got, err := f.Look(q)
		if err != nil {
			t.Fatal(err)
		}
		return got[k]
	}
	first := look(start)
	f.Gone(k)
	look(start.Add(time.Second))
	f.Gone(k)
	look(start.Add(100 * 24 * time.Hour))
	f.Gone(k)
	if f.Tally() != (forecast.Tally{}) {
		t.Errorf("deleted jobs were counted: %+v", f.Tally())
	}
	for i := range 60 {
		look(start.Add(time.Duration(i) * time.Millisecond))
		f.Started(k, start.Add(5*time.Hour))
	}
	if later := look(start.Add(time.Second)); 2*later.P50 < 3*first.P50 {
		t.Errorf("60 jobs waited for 5 h, and the next is told %+v as the first was %+v", later, first)
	}
	if tally := f.Tally(); tally.Wrong[0] != 60 || tally.Right[0] != 0 {
		t.Errorf("60 were late, and counted are %+v", tally)
	}
	look(start.Add(48 * time.Hour))
	if tally := f.Tally(); tally.Wrong[0] != 61 {
		t.Errorf("one that is late and still waits is not counted: %+v", tally)
	}
}

// TestQuantiles: those of a job in all futures together are its whole distribution.
func TestQuantiles(t *testing.T) {
	var r forecast.Runtimes
	j := forecast.Job{Classes: []string{"x"}, Limit: 3 * time.Hour}
	for i := range 1000 { // the last 256 count
		r.Ended(j, time.Duration(i)*time.Minute)
	}
	var all []time.Duration
	for i := range 100 {
		all = append(all, r.Remaining(j, 0, (float64(i)+0.5)/100))
	}
	if slices.Max(all) != 3*time.Hour {
		t.Errorf("a job goes on for %s in spite of its limit of 3 h", slices.Max(all))
	}
	if left := r.Remaining(j, 10*time.Hour, 0.5); left != time.Second {
		t.Errorf("one that is over its limit goes on for %s", left)
	}
}

// TestEvictedRunsAgain: who may evict starts at once, when those that are evicted are gone;
// they wait again, and what would have been the end of their first run is none.
func TestEvictedRunsAgain(t *testing.T) {
	s := town(t, 8, job("urgent", 9, 8), job("last", 0, 8))
	q := question(s, nil, nil)
	q.Limits = func(core.Key) time.Duration { return time.Hour }
	got, err := forecast.Starts(q)
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) time.Duration { return got[core.Key{Namespace: "ns", Name: name}].P50 }
	if at("urgent") < 30*time.Second || at("urgent") > time.Minute {
		t.Errorf("it may evict what runs, and starts after %s", at("urgent"))
	}
	// An hour for the urgent one and an hour for the one that was evicted, which goes first.
	if last := at("last"); last < 2*time.Hour || last > 130*time.Minute {
		t.Errorf("the last starts after %s, want two hours: the evicted one begins anew", last)
	}
}

// TestFarAndNear: what is beyond the horizon is in no future, a future ends when the engine
// has decided often enough, and a back-off ends without anything happening.
func TestFarAndNear(t *testing.T) {
	resting := job("resting", 0, 4)
	resting.NotBefore = start.Add(20 * time.Minute)
	s := town(t, 4, job("all", 0, 8), resting)
	q := question(s, nil, nil)
	q.Limits = func(core.Key) time.Duration { return 40 * 24 * time.Hour }
	got, err := forecast.Starts(q)
	if err != nil {
		t.Fatal(err)
	}
	if e := got[core.Key{Namespace: "ns", Name: "all"}]; e.P50 != forecast.Never {
		t.Errorf("what runs goes on for 40 days, and the next starts after %s", e.P50)
	}
	if e := got[core.Key{Namespace: "ns", Name: "resting"}]; e.P50 < 20*time.Minute || e.P50 > 21*time.Minute {
		t.Errorf("it rests for 20 min and there is room for it: it starts after %s", e.P50)
	}
	q.Limits = func(core.Key) time.Duration { return time.Hour }
	q.Decides = 1
	if got, err = forecast.Starts(
		q,
	); err != nil ||
		got[core.Key{Namespace: "ns", Name: "all"}].P50 != forecast.Never {
		t.Errorf("a future of one decision knows %v, %v", got, err)
	}
}

// TestEnough: no more futures are played than are wanted.
func TestEnough(t *testing.T) {
	q := question(
		town(t, 8, job("a", 0, 8)),
		func(core.Key) forecast.Job { return forecast.Job{} },
		&forecast.Runtimes{},
	)
	var played []int
	q.Enough = func(n int) bool {
		played = append(played, n)
		return n == 3
	}
	if _, err := forecast.Starts(q); err != nil || !slices.Equal(played, []int{1, 2, 3}) {
		t.Errorf("asked after %v futures, %v", played, err)
	}
}

// What corrections make earlier is earlier by the same part, whether jobs take seconds or days.
func TestEstimatesAreMadeEarlierByTheSamePartAtAnyScale(t *testing.T) {
	var c forecast.Calibration
	for _, waited := range []bool{false, true} {
		long := forecast.Estimate{P50: 10 * time.Hour, P90: 20 * time.Hour}
		short := forecast.Estimate{P50: 10 * time.Second, P90: 20 * time.Second}
		told, of := c.Correct(short, 1, waited), c.Correct(long, 1, waited)
		if told.P90 >= short.P90 || (told.P90-of.P90/3600).Abs() > time.Millisecond {
			t.Errorf("waited %t: %s of %s and %s of %s", waited, told.P90, short.P90, of.P90, long.P90)
		}
	}
}
