package cycle_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// growth runs a benchmark at sizes that grow tenfold and reports the exponent of
// the power law fitted to its costs: 0 means that size does not matter, 1 that
// cost grows in proportion. run returns the cost of one operation.
func growth(b *testing.B, unit string, sizes []int, run func(b *testing.B, size int) time.Duration) {
	b.Helper()
	var xs, ys []float64
	for _, size := range sizes {
		var cost time.Duration
		ran := b.Run(fmt.Sprintf("%s=%d", unit, size), func(b *testing.B) { cost = run(b, size) })
		if ran && cost > 0 {
			xs, ys = append(xs, math.Log(float64(size))), append(ys, math.Log(float64(cost)))
		}
	}
	if len(xs) > 1 {
		b.Run("growth", func(b *testing.B) {
			for b.Loop() {
				_ = slope(xs, ys)
			}
			b.ReportMetric(slope(xs, ys), "exponent")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// slope is that of the straight line with the least squares.
func slope(xs, ys []float64) float64 {
	var sx, sy, sxx, sxy float64
	for i := range xs {
		sx, sy, sxx, sxy = sx+xs[i], sy+ys[i], sxx+xs[i]*xs[i], sxy+xs[i]*ys[i]
	}
	n := float64(len(xs))
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}

// backlog is a world in which one workload of each queue runs at a time, and all
// others wait.
type backlog struct {
	apiServer
	running []core.Key
	now     time.Time
}

func newBacklog(pending, queues int, p core.Preemption) *backlog {
	c := &backlog{
		apiServer: apiServer{engine: cycle.New(cycle.Options{}), workloads: map[core.Key]core.Workload{}},
		now:       time.Unix(1e7, 0),
	}
	names := world(c.engine, max(queues/10, 1), min(queues, 10), 1, p)
	// Two kinds of jobs, so that a queue has more than one group to look at.
	for i := range pending {
		c.engine.Apply(core.WorkloadSet{Workload: oneUnit(names[i%len(names)], i, int64(i/len(names)%2), 1)})
	}
	c.settle(c.engine.Decide(c.now))
	return c
}

// settle shows admissions as the API would. Only what runs is kept, so that the
// backlog itself costs no memory.
func (c *backlog) settle(plan core.Plan) {
	for _, dec := range plan {
		a, ok := dec.(core.Admit)
		if !ok {
			continue
		}
		var n int
		_, _ = fmt.Sscanf(a.Key.Name, "job-%d", &n)
		w := oneUnit(a.Key.Namespace, n, 0, 1)
		w.Priority = c.priority(n)
		w.Admission, w.Reserved = &a.Admission, c.now
		c.engine.Apply(core.WorkloadSet{Workload: w})
		c.running = append(c.running, a.Key)
	}
}

func (c *backlog) priority(n int) int64 { return int64(n / (len(c.running) + 1) % 2) }

// BenchmarkEvent finishes one job in a world of pending workloads, ten queues to
// a cohort and a hundred workloads to a queue, and takes the time to the
// admissions that follow.
func BenchmarkEvent(b *testing.B) {
	growth(b, "pending", []int{10_000, 100_000, 1_000_000}, func(b *testing.B, pending int) time.Duration {
		b.Helper()
		b.StopTimer()
		c := newBacklog(pending, pending/100, core.Preemption{})
		if len(c.running) != pending/100 {
			b.Fatalf("%d run, want one in each of %d queues", len(c.running), pending/100)
		}
		runtime.GC()
		var took []time.Duration
		b.StartTimer()
		for i := 0; b.Loop(); i++ {
			start := time.Now()
			c.engine.Apply(core.WorkloadGone{Key: c.running[i]})
			plan := c.engine.Decide(c.now)
			took = append(took, time.Since(start))
			b.StopTimer()
			if len(plan) != 1 {
				b.Fatalf("%d decisions, want one admission", len(plan))
			}
			if c.settle(plan); i == pending*9/10 { // soon none waits
				c, i = newBacklog(pending, pending/100, core.Preemption{}), -1
			}
			b.StartTimer()
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "µs-p50")
		b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "µs-p99")
		return took[len(took)/2]
	})
}

// BenchmarkMemory is what a pending workload costs the engine, strings of its
// own included.
func BenchmarkMemory(b *testing.B) {
	for _, pending := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("pending=%d", pending), func(b *testing.B) {
			for b.Loop() {
				before := heap()
				c := newBacklog(pending, pending/100, core.Preemption{})
				b.ReportMetric(float64(heap()-before)/float64(pending), "B/workload")
				runtime.KeepAlive(c)
			}
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkInfeasible judges a workload that nothing can make fit, with many
// running ones that it may evict: the refusal must not cost a search.
func BenchmarkInfeasible(b *testing.B) {
	policies := core.Preemption{
		WithinQueue: core.PreemptLowerPriority, Reclaim: core.PreemptAny, WhileBorrow: core.PreemptLowerPriority,
	}
	growth(b, "running", []int{100, 1_000, 10_000}, func(b *testing.B, running int) time.Duration {
		b.Helper()
		b.StopTimer()
		e := cycle.New(cycle.Options{})
		d := &apiServer{e, map[core.Key]core.Workload{}}
		names := world(e, 1, 100, core.Amount(running/100), policies)
		now := time.Unix(1e7, 0)
		for i := range running {
			// One in each queue is too important to go: all the others would not do.
			priority := int64(0)
			if i < len(names) {
				priority = 10
			}
			w := oneUnit(names[i%len(names)], i, priority, 1)
			d.workloads[w.Key] = w
			e.Apply(core.WorkloadSet{Workload: w})
		}
		if got := len(d.confirm(e.Decide(now), now)); got != running {
			b.Fatalf("%d run", got)
		}
		big := oneUnit(names[0], 1e6, 5, core.Amount(running/100))
		b.StartTimer()
		for b.Loop() {
			e.Apply(core.WorkloadSet{Workload: big})
			if plan := e.Decide(now); len(plan) != 1 {
				b.Fatalf("%d decisions, want one refusal", len(plan))
			}
			e.Apply(core.WorkloadGone{Key: big.Key})
		}
		return b.Elapsed() / time.Duration(b.N)
	})
}
