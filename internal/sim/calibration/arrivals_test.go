package calibration_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/calibration"
)

// stream is a world of 4 nodes of 8 GPUs to which jobs keep coming by chance, of which so
// much of the GPUs' time is taken in each part of it: from one GPU to twelve, of two
// priorities, some minutes each.
func stream(seed uint64, part time.Duration, loads ...float64) sim.World {
	w := line(0, 0)
	w.Name, w.Seed = "stream", seed
	const nodes, each = 4, 8
	for i := range w.Objects {
		switch ev := w.Objects[i].(type) {
		case core.QueueSet:
			ev.Queue.Groups[0].Flavors[0].Quotas[0].Nominal = nodes * each
		case core.NodeSet:
			ev.Node.Name = "n0"
			w.Objects[i] = ev
			for k := 1; k < nodes; k++ {
				ev.Node.Name = fmt.Sprint("n", k)
				w.Objects = append(w.Objects, ev)
			}
		}
	}
	r := rand.New(rand.NewPCG(seed, 1))
	sizes := []int32{1, 1, 1, 2, 2, 4, 4, 8, 12}
	const meanSize, meanWork = 35.0 / 9, 5 * time.Minute
	for i, load := range loads {
		pause := meanSize * float64(meanWork) / (load * nodes * each)
		for at := r.ExpFloat64() * pause; at < float64(part); at += r.ExpFloat64() * pause {
			name := fmt.Sprintf("job-%04d", len(w.Jobs))
			const spread = 0.8 // of the logarithm of how long jobs run
			w.Jobs = append(w.Jobs, sim.Job{
				Key: core.Key{
					Namespace: "ns",
					Name:      name,
				},
				UID:      name,
				Queue:    "q",
				Submit:   time.Duration(i)*part + time.Duration(at),
				Work:     time.Duration(float64(meanWork) * math.Exp(spread*r.NormFloat64()-spread*spread/2)),
				Priority: 10 * (r.Int32N(5) / 4),
				PodSets: []core.PodSet{
					{Name: "main", Count: sizes[r.IntN(len(sizes))], Requests: core.Resources{}.With(core.GPU, 1)},
				},
			})
		}
	}
	return w
}

func told(t *testing.T, w sim.World) []calibration.Told {
	t.Helper()
	trial := calibration.New(
		calibration.Options{Every: time.Minute, Futures: 20, Decides: 2000, Engine: w.Engine},
	)
	if _, err := sim.New(w, sim.Watch{Log: trial, Look: trial.Look}).Finish(); err != nil {
		t.Fatal(err)
	}
	return trial.Told()
}

// coverage is how many estimates there are and which parts of them were in time, of P50 and P90.
type coverage struct {
	n        int
	p50, p90 float64
}

func cover(all []calibration.Told, which func(calibration.Told) bool) (c coverage) {
	for _, g := range all {
		if !g.Started || !which(g) {
			continue
		}
		c.n++
		if g.Wait <= g.Said.P50 {
			c.p50++
		}
		if g.Wait <= g.Said.P90 {
			c.p90++
		}
	}
	c.p50, c.p90 = 100*c.p50/float64(max(c.n, 1)), 100*c.p90/float64(max(c.n, 1))
	return c
}

// TestEstimatesHoldWhileJobsCome: where jobs keep coming, nine in ten start up to their P90 and
// every other one up to its P50, as told when they came and while they waited: in a busy world, in
// a quiet one and in one whose load doubles. Where few wait there are few to tell by.
func TestEstimatesHoldWhileJobsCome(t *testing.T) {
	for name, tc := range map[string]struct {
		loads []float64
		seeds uint64
		// off50 and off90 are how far the parts may be from 50 % and 90 %.
		off50, off90 float64
	}{
		"busy": {[]float64{0.95}, 4, 5, 3}, "quiet": {[]float64{0.5}, 16, 10, 5}, "changing": {[]float64{0.5, 1}, 4, 5, 3},
	} {
		var all []calibration.Told
		for seed := range tc.seeds {
			all = append(all, told(t, stream(seed, 90*time.Minute, tc.loads...))...)
		}
		for when, first := range map[string]bool{"when they came": true, "while they waited": false} {
			c := cover(all, func(g calibration.Told) bool { return g.First == first })
			t.Logf("%-9s %-18s %4d, P50 %.1f %%, P90 %.1f %%", name, when, c.n, c.p50, c.p90)
			if c.n < 50 || math.Abs(c.p50-50) > tc.off50 || math.Abs(c.p90-90) > tc.off90 {
				t.Errorf(
					"%s: of %d that were told %s, %.1f %% started up to P50 and %.1f %% up to P90",
					name,
					c.n,
					when,
					c.p50,
					c.p90,
				)
			}
		}
	}
}
