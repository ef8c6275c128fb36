package forecast

import (
	"container/heap"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

func minutes(n ...int) []time.Duration {
	out := make([]time.Duration, len(n))
	for i := range n {
		out[i] = time.Duration(n[i]) * time.Minute
	}
	return out
}

func TestQuantile(t *testing.T) {
	ten := minutes(0, 10, 20, 30, 40, 50, 60, 70, 80, 90)
	for name, tc := range map[string]struct {
		why  string
		of   []time.Duration
		p    float64
		want time.Duration
	}{
		"middle of ten":     {"between the two in the middle", ten, 0.5, 45 * time.Minute},
		"nine in ten":       {"between the two last", ten, 0.9, 85 * time.Minute},
		"middle of three":   {"the one in the middle", minutes(1, 5, 100), 0.5, 5 * time.Minute},
		"one":               {"there is no other", minutes(7), 0.9, 7 * time.Minute},
		"below the first":   {"nothing is less than the least", ten, 0.01, 0},
		"last never":        {"the middle is known", append(minutes(1, 2, 3), Never), 0.5, 150 * time.Second},
		"near never":        {"half of the way to never is not never", append(minutes(1, 2, 3), Never), 0.75, 3 * time.Minute},
		"more than half":    {"nearer to never than to the one before", append(minutes(1, 2, 3), Never), 0.85, Never},
		"all never":         {"in no future", []time.Duration{Never, Never}, 0.5, Never},
		"all never, little": {"nor for the least", []time.Duration{Never, Never}, 0.01, Never},
	} {
		if got := quantile(tc.of, tc.p); (got - tc.want).Abs() > time.Millisecond {
			t.Errorf("%s: %s, want %s: %s", name, got, tc.want, tc.why)
		}
	}
}

// TestStrata: over all futures each part of a distribution is drawn once, two workloads are
// not long in the same future, and futures lean from shorter to longer.
func TestStrata(t *testing.T) {
	for _, n := range []int{1, 2, 7, 20, 77, 1001} {
		seen := map[float64]bool{}
		for i := range n {
			seen[stratum(core.Key{Namespace: "a", Name: "b"}, i, n)] = true
		}
		for i := range n {
			if want := (float64(i) + 0.5) / float64(n); !seen[want] {
				t.Errorf("of %d parts that at %v is not drawn", n, want)
			}
		}
	}
	begins := map[float64]int{}
	for i := range 1000 {
		begins[stratum(core.Key{Namespace: "team", Name: string(rune('a' + i))}, 0, 20)]++
	}
	for at, n := range begins {
		if n < 20 || n > 90 {
			t.Errorf("%d of 1000 workloads begin at %v, about 50 should", n, at)
		}
	}
	if len(begins) != 20 {
		t.Errorf("workloads begin at %d of 20 parts", len(begins))
	}
	last := 0.0
	for i := range 20 {
		u := leaning(0.5, i, 20)
		if u <= last {
			t.Errorf("future %d leans no more than the one before: %v after %v", i, u, last)
		}
		last = u
	}
	// The last of 20 is at 1.96 standard deviations, of which one is mood: the middle of a
	// distribution moves to its quantile there.
	if want := 0.5 * math.Erfc(-1.95996*mood/math.Sqrt2); math.Abs(last-want) > 1e-4 {
		t.Errorf("the last future leans to %v, want %v", last, want)
	}
	if leaning(0.3, 0, 1) != 0.3 {
		t.Error("one future alone leans")
	}
	if u := leaning(1-1e-17, 19, 20); u >= 1 {
		t.Errorf("a quantile of %v is none", u)
	}
}

// TestSpread: which class has a say is as good as chance, and not by the quantile.
func TestSpread(t *testing.T) {
	var low, high int
	for i := range 1000 {
		u := (float64(i) + 0.5) / 1000
		x := spread(u, "class")
		if x < 0 || x >= 1 {
			t.Fatalf("%v is no part of one", x)
		}
		if x < 0.5 {
			low++
		}
		if u >= 0.5 && x >= 0.5 {
			high++
		}
	}
	if low < 430 || low > 570 || high < 200 || high > 300 {
		t.Errorf("%d of 1000 are in the lower half, and %d of the 500 upper ones in the upper", low, high)
	}
	if spread(0.5, "a") == spread(0.5, "b") {
		t.Error("two classes have their say together")
	}
}

// TestRuntimesRemember: the last runtimes of a class count, in whatever order they came, and
// a job that has run for as long as one of them has outlived it.
func TestRuntimesRemember(t *testing.T) {
	var r Runtimes
	j := Job{Classes: []string{"x"}}
	r.Ended(j, 0)
	r.Ended(j, -time.Second)
	if r.known(j) != 0 {
		t.Error("a job that did not run is no runtime")
	}
	r.Ended(j, 1)
	if r.known(j) != 1 {
		t.Error("a runtime of a nanosecond is one")
	}
	for i := range mostKept {
		r.Ended(j, time.Duration((i*37)%mostKept+1000)*time.Second)
	}
	c := r.classes["x"]
	if len(c.last) != mostKept || len(c.sorted) != mostKept || !slices.IsSorted(c.sorted) ||
		c.sorted[0] != 1000*time.Second {
		t.Errorf(
			"%d and %d are kept, from %s on; the first was to be forgotten",
			len(c.last),
			len(c.sorted),
			c.sorted[0],
		)
	}
	r.Ended(j, time.Hour*100)
	if c.sorted[0] != 1001*time.Second { // the oldest of the others was the one of 1000 s
		t.Errorf("the oldest is not the one that is forgotten: the least is %s", c.sorted[0])
	}

	var few Runtimes
	for range 10_000 {
		few.Ended(j, time.Hour)
	}
	few.Ended(j, 3*time.Hour)
	if left := few.Remaining(j, time.Hour, 0.5); left < time.Hour && left != 2*time.Hour {
		t.Errorf("a job that has run for as long as the others goes on for %s: it has outlived them", left)
	}
	if left := few.Remaining(j, time.Hour-1, 0.001); left != time.Second {
		t.Errorf("one that has not yet ends when they did, not after %s", left)
	}
}

// TestOutlived: a job that has outlived all of which much is known goes on for about as long again,
// and not for as long as any job might; where hardly anything is known, it might.
func TestOutlived(t *testing.T) {
	median := func(known int) time.Duration {
		var r Runtimes
		j := Job{Classes: []string{"x", ""}}
		for i := range known {
			r.Ended(j, time.Duration(i%20+1)*time.Minute)
		}
		var left []time.Duration
		for i := range 200 {
			left = append(left, r.Remaining(j, 30*time.Minute, (float64(i)+0.5)/200))
		}
		slices.Sort(left)
		return left[100]
	}
	if m := median(200); m < 20*time.Minute || m > 45*time.Minute {
		t.Errorf("after half an hour, longer than 200 others, it is thought to go on for %s", m)
	}
	if m := median(1); m < 2*time.Hour {
		t.Errorf(
			"one that ended in a minute says little of one that runs for half an hour, which is thought to go on for %s",
			m,
		)
	}
	if got := outlived(24*time.Hour, 1-1e-9); got != 96*time.Hour {
		t.Errorf("it is thought to take %s at most, four times what it took", got)
	}
}

// TestServersDoNotEnd: what does not end by itself runs beyond the horizon, whatever jobs like it
// did, unless it has a limit.
func TestServersDoNotEnd(t *testing.T) {
	var r Runtimes
	server := Job{Classes: []string{"q", ""}, Endless: true}
	for range 20 {
		r.Ended(Job{Classes: server.Classes}, time.Minute)
	}
	if got := r.Remaining(server, time.Hour, 0.1); got <= horizon {
		t.Errorf("it is thought to end in %s", got)
	}
	server.Limit = 2 * time.Hour
	if got := r.Remaining(server, time.Hour, 0.1); got != time.Hour {
		t.Errorf("with an hour left of its limit it is thought to end in %s", got)
	}
}

func TestPrior(t *testing.T) {
	for name, tc := range map[string]struct {
		why  string
		ran  time.Duration
		u    float64
		want time.Duration
	}{
		"least":    {"a minute", 0, 0, time.Minute},
		"most":     {"two days", 0, 1, 48 * time.Hour},
		"middle":   {"as many orders of magnitude on both sides", 0, 0.5, time.Duration(math.Sqrt(60*48*3600) * float64(time.Second))},
		"going on": {"up to four times as long", 24 * time.Hour, 1, 96 * time.Hour},
		"half":     {"twice as long in the middle", 24 * time.Hour, 0.5, 48 * time.Hour},
	} {
		if got := prior(tc.ran, tc.u); (got - tc.want).Abs() > time.Second {
			t.Errorf("%s: %s, want %s: %s", name, got, tc.want, tc.why)
		}
	}
}

// TestStretch: a wait of none is corrected as well, never is left alone, and what is far
// beyond the horizon is cut.
func TestStretch(t *testing.T) {
	for name, tc := range map[string]struct {
		why  string
		wait time.Duration
		log  float64
		want time.Duration
	}{
		"unchanged": {"e^0 is 1", time.Hour, 0, time.Hour},
		"doubled":   {"an hour and a minute twice, less a minute", time.Hour, math.Log(2), 121 * time.Minute},
		"none":      {"from none to a minute", 0, math.Log(2), time.Minute},
		"less":      {"never negative", 0, -1, 0},
		"never":     {"nothing is known of it", Never, 1, Never},
		"far":       {"twice the horizon at most", 20 * 24 * time.Hour, math.Log(100), 2 * horizon},
	} {
		if got := stretch(tc.wait, tc.log); (got - tc.want).Abs() > time.Millisecond {
			t.Errorf("%s: %s, want %s: %s", name, got, tc.want, tc.why)
		}
	}
}

// TestStep: how far one step goes, for one outcome and for a crowd, and its bounds.
func TestStep(t *testing.T) {
	for name, tc := range map[string]struct {
		why          string
		f            factor
		level, moves float64
	}{
		"nothing": {"nothing became of any", factor{}, 0.9, 0},
		"one":     {"a part of a step", factor{wrong: 1}, 0.9, pace * (1 - math.Exp(-1.0/crowd)) * 0.9},
		"right":   {"nine times as small in the other direction", factor{right: 1}, 0.9, -pace * (1 - math.Exp(-1.0/crowd)) * 0.1},
		"crowd":   {"one whole step at most", factor{wrong: 100_000}, 0.5, pace * 0.5},
		"as said": {"nothing to correct", factor{right: 9, wrong: 1}, 0.9, 0},
	} {
		f := tc.f
		f.step(tc.level, pace)
		if math.Abs(f.log-tc.moves) > 1e-9 || f.right+f.wrong != 0 {
			t.Errorf("%s: moved by %v, want %v: %s", name, f.log, tc.moves, tc.why)
		}
	}
	f := factor{}
	for range 10_000 {
		f.wrong = 100
		f.step(0.9, pace)
	}
	if f.log != farthest {
		t.Errorf("after that many mistakes it is %v, want %v", f.log, farthest)
	}
}

// TestDueIsForgotten: estimates are remembered until it is known whether they are right.
func TestDueIsForgotten(t *testing.T) {
	var f Forecaster
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	k := core.Key{Namespace: "a", Name: "b"}
	say := func(at time.Time) {
		f.remember(k, &said{at: at, told: Estimate{P50: time.Minute, P90: time.Hour}})
	}
	say(now)
	say(now.Add(30 * time.Second))
	if len(f.due) != 1 {
		t.Errorf("%d are remembered; the second came within a minute", len(f.due))
	}
	say(now.Add(2 * time.Minute))
	say(now.Add(3 * time.Minute))
	if len(f.due) != 2 {
		t.Errorf("%d are remembered; the third came before it took twice as long", len(f.due))
	}
	f.learn(now.Add(4 * time.Minute))
	if len(f.due) != 2 || f.tally.Wrong != [2]int{2, 0} {
		t.Errorf("%d are remembered, counted are %+v: P50 is over, P90 is not", len(f.due), f.tally)
	}
	f.Started(k, now.Add(5*time.Minute))
	f.learn(now.Add(6 * time.Minute))
	if len(f.due) != 0 || f.tally != (Tally{Right: [2]int{0, 2}, Wrong: [2]int{2, 0}}) || len(f.waiting) != 0 {
		t.Errorf("%d are remembered, counted are %+v", len(f.due), f.tally)
	}
}

// TestFrom: what happens in no future has no time of day.
func TestFrom(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if f := (Estimate{P50: time.Hour, P90: 2 * time.Hour}).From(
		at,
	); !f.P50.Equal(at.Add(time.Hour)) || !f.P90.Equal(at.Add(2*time.Hour)) ||
		!f.At.Equal(at) {
		t.Errorf("%+v", f)
	}
	if f := (Estimate{P50: Never, P90: Never}).From(at); !f.P50.IsZero() || !f.P90.IsZero() {
		t.Errorf("%+v", f)
	}
}

// TestTurns: what happens first comes first, and at one moment the order is that of names.
func TestTurns(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var all turns
	for _, x := range []struct {
		name  string
		after time.Duration
	}{{"d", 3}, {"c", 1}, {"b", 1}, {"a", 2}} {
		heap.Push(&all, turn{at: at.Add(x.after), key: core.Key{Name: x.name}})
	}
	order := ""
	for all.Len() > 0 {
		next, _ := heap.Pop(&all).(turn)
		order += next.key.Name
	}
	if order != "bcad" {
		t.Errorf("the order is %s", order)
	}
}
