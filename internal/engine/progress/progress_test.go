package progress

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var (
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	five = Rule{First: 30 * time.Minute, Every: 5 * time.Minute}
)

func at(d time.Duration) time.Time { return noon.Add(d) }

// TestJudge: who takes a step in time is fine, and who does not for half as long again as stated hangs.
func TestJudge(t *testing.T) {
	const minute = time.Minute
	for name, x := range map[string]struct {
		why     string
		began   time.Time
		watched time.Time
		mark    Mark
		now     time.Duration
		want    Kind
		again   time.Time
	}{
		"pods do not run":   {why: "nothing is judged before", now: 24 * time.Hour, want: Starting},
		"first step":        {why: "it may take its time", began: noon, now: 29 * minute, want: Starting, again: at(30 * minute)},
		"no first step":     {why: "but no longer than stated", began: noon, now: 30 * minute, want: Hung},
		"a step":            {began: noon, mark: Mark{1, at(minute)}, now: 5 * minute, want: Fine, again: at(minute + 450*time.Second)},
		"late":              {why: "that may happen", began: noon, mark: Mark{1, at(minute)}, now: 6 * minute, want: Late, again: at(minute + 450*time.Second)},
		"just before":       {began: noon, mark: Mark{1, at(0)}, now: 450*time.Second - 1, want: Late, again: at(450 * time.Second)},
		"hung":              {began: noon, mark: Mark{1, at(0)}, now: 450 * time.Second, want: Hung},
		"nobody watched":    {why: "a laptop was asleep", began: noon, watched: at(time.Hour), mark: Mark{1, at(0)}, now: time.Hour + minute, want: Fine, again: at(time.Hour + 450*time.Second)},
		"watched long":      {began: noon, watched: at(-time.Hour), mark: Mark{1, at(0)}, now: 450 * time.Second, want: Hung},
		"began in future":   {why: "a clock was set back", began: at(time.Hour), now: 0, want: Starting, again: at(90 * minute)},
		"nobody saw it run": {why: "the first step, too", began: noon, watched: at(time.Hour), now: time.Hour, want: Starting, again: at(90 * minute)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Judge(five, x.began, x.watched, x.mark, at(x.now)); got != (Verdict{x.want, x.again}) {
				t.Errorf("it is %+v, want %s until %s: %s", got, x.want, x.again, x.why)
			}
		})
	}
}

// TestAdvance: progress is that the slowest rank takes a step.
func TestAdvance(t *testing.T) {
	was := Mark{10, at(time.Minute)}
	now := at(10 * time.Minute)
	says := func(step int64, d time.Duration) Report { return Report{Step: step, At: at(d)} }
	for name, x := range map[string]struct {
		why     string
		began   time.Time
		was     Mark
		reports []Report
		want    Mark
	}{
		"nobody says anything":   {"silence changes nothing", noon, was, nil, was},
		"the same step again":    {"a heartbeat is no progress", noon, was, []Report{says(10, 9*time.Minute)}, was},
		"a step":                 {"", noon, was, []Report{says(11, 9*time.Minute)}, Mark{11, at(9 * time.Minute)}},
		"others go on":           {"the slowest counts", noon, was, []Report{says(10, time.Minute), says(99, 9*time.Minute)}, was},
		"the slowest goes on":    {"", noon, was, []Report{says(11, 8*time.Minute), says(99, 9*time.Minute)}, Mark{11, at(9 * time.Minute)}},
		"back to a checkpoint":   {"it counts from there", noon, was, []Report{says(5, 9*time.Minute)}, Mark{5, at(9 * time.Minute)}},
		"from there":             {"", noon, Mark{5, at(time.Minute)}, []Report{says(6, 9*time.Minute)}, Mark{6, at(9 * time.Minute)}},
		"a report of the future": {"it counts for nothing", noon, was, []Report{says(11, time.Hour)}, was},
		"of before the start":    {"of another attempt", noon, Mark{}, []Report{says(11, -time.Second)}, Mark{}},
		"step 0":                 {"the first one is 1", noon, Mark{}, []Report{says(0, time.Minute)}, Mark{}},
		"the first":              {"", noon, Mark{}, []Report{says(1, time.Minute)}, Mark{1, at(time.Minute)}},
		"a new attempt":          {"it begins anew", at(5 * time.Minute), was, nil, Mark{}},
		"a clock was set back":   {"nobody waits for then", noon, Mark{10, at(time.Hour)}, nil, Mark{10, now}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Advance(x.was, x.began, now, x.reports); got != x.want {
				t.Errorf("the mark is %+v, want %+v: %s", got, x.want, x.why)
			}
		})
	}
}

func TestBehind(t *testing.T) {
	all := []Report{{Rank: 3, Step: 7}, {Rank: 1, Step: 6}, {Rank: 0, Step: 6}, {Rank: 2, Step: 8}}
	got := Behind(all)
	if !slices.Equal(got, []Report{{Rank: 0, Step: 6}, {Rank: 1, Step: 6}}) {
		t.Errorf("behind are %+v", got)
	}
	if got := Behind([]Report{{Rank: 0, Step: 6}, {Rank: 1, Step: 6}}); got != nil {
		t.Errorf("of ranks that are alike, %+v are behind", got)
	}
}

// days runs a job of some ranks that is looked at whenever a step is told and when Judge asks for it, and
// returns when it was found to hang, zero if it was not. From hang on it takes no step, and goes on to say that it lives.
func days(r *rand.Rand, rule Rule, length, hang time.Duration) time.Time {
	ranks := make([]Report, 1+r.IntN(8))
	for i := range ranks {
		ranks[i] = Report{Rank: int32(i)}
	}
	var m Mark
	now, step, end := noon, int64(0), at(length)
	next := at(time.Duration(r.Int64N(int64(rule.First))))
	for now.Before(end) {
		m = Advance(m, noon, now, ranks)
		v := Judge(rule, noon, noon, m, now)
		if v.Kind == Hung {
			return now
		}
		if now = v.Again; now.Before(next) {
			continue
		}
		now = next
		if hang > 0 && !now.Before(at(hang)) { // one rank takes a step more; all others live
			ranks[0].At = now
			next = now.Add(rule.Every / 3)
			continue
		}
		if step++; r.IntN(200) == 0 && step > 100 {
			step -= 50 // its processes were restarted from a checkpoint
		}
		for i := range ranks {
			ranks[i].Step, ranks[i].At = step, now.Add(-time.Duration(r.Int64N(int64(time.Second))))
			if ranks[i].At.Before(noon) {
				ranks[i].At = now
			}
		}
		pause := time.Duration(r.NormFloat64()*float64(rule.Every)/8 + float64(rule.Every)/2)
		if step%20 == 0 { // a checkpoint
			pause += time.Duration(r.Int64N(int64(rule.Every / 2)))
		}
		next = now.Add(min(max(pause, rule.Every/100), rule.Every))
	}
	return time.Time{}
}

// TestNoFalseAlarm: of 1,000 days of jobs whose steps keep what they state, none seems to hang.
func TestNoFalseAlarm(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for day := range 1000 {
		rule := Rule{First: 30 * time.Minute, Every: time.Minute + time.Duration(r.Int64N(int64(10*time.Minute)))}
		if found := days(r, rule, 24*time.Hour, 0); !found.IsZero() {
			t.Fatalf("on day %d a job that takes a step each %s seems to hang at %s", day, rule.Every, found)
		}
	}
}

// TestEachHangIsFound within twice the time stated, and not before one and a half times.
func TestEachHangIsFound(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		rule := Rule{First: 30 * time.Minute, Every: time.Minute + time.Duration(r.Int64N(int64(10*time.Minute)))}
		hang := time.Hour + time.Duration(r.Int64N(int64(10*time.Hour)))
		found := days(r, rule, 24*time.Hour, hang)
		// The last step was at most Every before the hang.
		if took := found.Sub(at(hang)); found.IsZero() || took < rule.Every/2-time.Second || took > 2*rule.Every {
			t.Fatalf("a hang after %s of a job that takes a step each %s was found after %s", hang, rule.Every, took)
		}
	}
}

func TestStraggler(t *testing.T) {
	ranks := func(steps ...int64) (out []Report) {
		for i, s := range steps {
			out = append(out, Report{Rank: int32(i), Step: s})
		}
		return out
	}
	for name, c := range map[string]struct {
		reports []Report
		want    int32 // -1 for nobody
	}{
		"nobody tells":          {nil, -1},
		"all are as far":        {ranks(5, 5, 5), -1},
		"one of two":            {ranks(5, 4), 1},
		"one of three":          {ranks(5, 4, 5), 1},
		"a quarter":             {ranks(5, 4, 5, 5, 5, 5, 5, 4), 1},
		"more than a quarter":   {ranks(5, 4, 5, 5, 5, 5, 4), -1},
		"most wait for one yet": {ranks(4, 4, 4, 5), -1},
	} {
		if got, is := Straggler(c.reports); is != (c.want >= 0) || is && got.Rank != c.want {
			t.Errorf("%s: rank %d, %t", name, got.Rank, is)
		}
	}
}
