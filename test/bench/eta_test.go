package bench_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

const (
	// streamLasts is how long jobs keep coming in BenchmarkEstimates, in each part of a world.
	streamLasts = 8 * time.Minute
	// streamWork is how long its jobs run on average, and askEvery how often is asked when they start:
	// as often as the controller looks.
	streamWork, askEvery = 20 * time.Second, 10 * time.Second
)

// BenchmarkEstimates measures how right `mlbatch eta` is where jobs keep coming: the parts of those
// asked about that had started up to the two times they were told, 0.5 and 0.9 if it is perfect,
// told at the first look after they came and at those while they waited. 4 nodes of 8 GPUs; jobs of
// one GPU to twelve come by chance and run for some time each; so much of the GPUs' time is taken.
func BenchmarkEstimates(b *testing.B) {
	for _, w := range []struct {
		name  string
		loads []float64
	}{{"busy", []float64{0.95, 0.95}}, {"changing", []float64{0.5, 1}}} {
		b.Run(w.name, func(b *testing.B) {
			bd := start(b, 4)
			once(b, func() { bd.stream(b, w.loads) })
		})
	}
}

// told is an estimate that was given.
type told struct {
	workload string
	first    bool
	p50, p90 time.Time // zero is never
}

// stream lets jobs come, asks when they start, and reports how many did.
func (bd bed) stream(b *testing.B, loads []float64) {
	workloads := bd.watch(b, &kueue.WorkloadList{}, team)
	started := map[string]time.Time{}
	var all []told
	known := map[string]bool{}
	r := rand.New(rand.NewPCG(1, 1))
	ask, next := time.NewTicker(askEvery), time.NewTimer(0)
	defer ask.Stop()
	began, n := time.Now(), 0
	end := time.After(time.Duration(len(loads)) * streamLasts)
	for {
		select {
		case e := <-workloads:
			w, ok := e.Object.(*kueue.Workload)
			if _, seen := started[w.GetName()]; ok && !seen && e.Type != watch.Deleted && convert.Admitted(w) {
				started[w.Name] = time.Now().Truncate(time.Second) // as the two times that are told
			}
		case <-ask.C:
			all = append(all, bd.ask(b, known)...)
		case <-next.C:
			load := loads[min(int(time.Since(began)/streamLasts), len(loads)-1)]
			next.Reset(bd.one(b, r, n, load))
			n++
		case <-end:
			reportTold(b, all, started)
			return
		}
	}
}

// one creates a job, and returns how long it is until the next comes.
func (bd bed) one(b *testing.B, r *rand.Rand, n int, load float64) time.Duration {
	const gpus, spread = 4 * 8, 0.8 // the latter of the logarithm of how long jobs run
	sizes := []int32{1, 1, 1, 2, 2, 4, 4, 8, 12}
	const meanSize = 35.0 / 9
	work := streamWork.Seconds() * math.Exp(spread*r.NormFloat64()-spread*spread/2)
	j := job(fmt.Sprintf("stream-%04d", n), shape{pods: sizes[r.IntN(len(sizes))], gpus: 1, seconds: max(1, int(work+0.5))})
	if err := bd.client.Create(b.Context(), j); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.ExpFloat64() * meanSize * float64(streamWork) / (load * gpus))
}

// ask asks as people do. Known are the workloads that an answer was about before.
func (bd bed) ask(b *testing.B, known map[string]bool) (all []told) {
	out, err := bd.Run(b.Context(), "eta", "-n", team, "-o", "json")
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	var list struct{ Items []cli.WaitingRow }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	at := func(t *metav1.Time) time.Time {
		if t == nil {
			return time.Time{}
		}
		return t.Time
	}
	for _, row := range list.Items {
		if row.Start == nil || row.Start.Known == 0 {
			continue // not looked at yet, or a guess, which says so
		}
		all = append(all, told{row.Workload, !known[row.Workload], at(row.Start.P50), at(row.Start.P90)})
		known[row.Workload] = true
	}
	return all
}

// reportTold compares what was told with what came. Those that still wait are not known yet.
func reportTold(b *testing.B, all []told, started map[string]time.Time) {
	for when, first := range map[string]bool{"came": true, "waited": false} {
		var n, in50, in90 float64
		for _, t := range all {
			s, ok := started[t.workload]
			if !ok || t.first != first {
				continue
			}
			n++
			if t.p50.IsZero() || !s.After(t.p50) {
				in50++
			}
			if t.p90.IsZero() || !s.After(t.p90) {
				in90++
			}
		}
		b.ReportMetric(n, "estimates-"+when)
		b.ReportMetric(in50/max(n, 1), "P50-"+when)
		b.ReportMetric(in90/max(n, 1), "P90-"+when)
	}
	b.Logf("%d jobs started", len(started))
}
