package order

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
)

func TestDecay(t *testing.T) {
	for name, c := range map[string]struct {
		why     string
		elapsed time.Duration
		want    float64
	}{
		"at once":          {"nothing is forgotten", 0, 1},
		"half":             {"that is what a half-life is", time.Hour, 0.5},
		"a quarter":        {"twice that", 2 * time.Hour, 0.25},
		"a bit":            {"five minutes of an hour", 5 * time.Minute, math.Exp2(-1.0 / 12)},
		"long ago":         {"forgotten", 100 * time.Hour, 0},
		"backwards":        {"clocks may step back", -time.Hour, 1},
		"almost the whole": {"all bits of the fraction", time.Hour - 1, 0.5},
	} {
		if got := float64(Decay(c.elapsed, time.Hour)) / float64(One); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %s: %v, want %v", name, c.why, got, c.want)
		}
	}
	if Decay(time.Second, 0) != 0 {
		t.Error("without a half-life nothing is kept")
	}
}

// TestPast compares with floating point: a usage that goes up and down.
func TestPast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, want := Past{}, 0.0
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			use := rapid.Int64Range(0, 1<<20).Draw(t, "use")
			took := time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "took"))
			keep := Decay(took, 7*24*time.Hour)
			p = p.Fade(keep, core.Amount(use))
			alpha := 1 - math.Exp2(-float64(took)/float64(7*24*time.Hour))
			want = want*(1-alpha) + float64(use)*alpha
			got := float64(p.Thousandths()) / 1000
			if math.Abs(got-want) > 1e-6*want+1 {
				t.Fatalf("%v, want %v", got, want)
			}
			if back := Thousandths(p.Thousandths()); back.Thousandths() != p.Thousandths() {
				t.Fatalf("%v is read as %v", p.Thousandths(), back.Thousandths())
			}
		}
		if !p.Minus(p.Plus(Past{part: 1})).IsZero() || p.Plus(Past{5, 9}).Minus(Past{5, 9}) != p {
			t.Fatalf("%v does not add up", p)
		}
	})
}

func TestStanding(t *testing.T) {
	of := func(resource string, n core.Amount, w core.Weight, queue core.Weight) core.UsageRank {
		return StandingOf([]Weighed{{resource, Share(n, One), w}}, queue)
	}
	const one = core.WeightOne
	for name, c := range map[string]struct {
		why  string
		a, b core.UsageRank
	}{
		"less use":          {"goes first", of(core.GPU, 3, one, one), of(core.GPU, 4, one, one)},
		"more weight":       {"halves the use", of(core.GPU, 4, one, 2*one), of(core.GPU, 3, one, one)},
		"resource weight":   {"counts half", of(core.GPU, 4, one/2, one), of(core.GPU, 3, one, one)},
		"cores":             {"a processor counts in cores", of(core.CPU, 2999, one, one), of(core.GPU, 3, one, one)},
		"weight 0":          {"behind the heaviest use", of(core.Memory, 1<<60, one, 1), of(core.GPU, 0, one, 0)},
		"beyond all bounds": {"saturates", of(core.Memory, 1<<40, one, one), of(core.Memory, core.Unlimited, core.HeaviestWeight, 1)},
	} {
		if c.a.Compare(c.b) >= 0 || c.b.Compare(c.a) <= 0 || c.a.Compare(c.a) != 0 {
			t.Errorf("%s: %s", name, c.why)
		}
	}
}

// TestEqualStandings: a queue that always used twice as much for twice the weight
// stands where the other does, whatever was rounded on the way.
func TestEqualStandings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SampledFrom([]core.Amount{2, 3, 7, 10, 1000}).Draw(t, "times")
		weight := core.Weight(rapid.SampledFrom([]int64{1e6, 1e8, 1e9, 3e9}).Draw(t, "weight"))
		halfLife := rapid.SampledFrom([]time.Duration{time.Hour, 7 * 24 * time.Hour}).Draw(t, "half-life")
		one, many := Past{}, Past{}
		for range rapid.IntRange(1, 300).Draw(t, "samplings") {
			use := core.Amount(rapid.IntRange(0, 64).Draw(t, "use"))
			keep := Decay(
				rapid.SampledFrom([]time.Duration{time.Minute, 5 * time.Minute, time.Hour}).Draw(t, "took"),
				halfLife,
			)
			one, many = one.Fade(keep, use), many.Fade(keep, use*times)
		}
		a := StandingOf([]Weighed{{core.GPU, one, core.WeightOne}}, weight)
		b := StandingOf([]Weighed{{core.GPU, many, core.WeightOne}}, weight*core.Weight(times))
		if a.Compare(b) != 0 {
			t.Fatalf("%v for %v and %v for %v times as much: %v and %v", one, weight, many, times, a, b)
		}
	})
}
