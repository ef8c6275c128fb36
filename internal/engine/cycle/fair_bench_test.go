package cycle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// sharing is a world of queues of which none owns anything: all is the
// cohorts', so that every admission borrows.
func sharing(e *cycle.Engine, cohorts, perCohort int, cpus core.Amount, p core.Preemption) []string {
	e.Apply(core.FlavorSet{Flavor: core.Flavor{Name: "f"}})
	all := core.Selector{}
	groups := func(n core.Amount) []core.ResourceGroup {
		return []core.ResourceGroup{{
			Covered: []string{core.CPU, core.Memory, core.GPU},
			Flavors: []core.FlavorQuotas{{Flavor: "f", Quotas: []core.Quota{
				{
					Resource: core.CPU,
					Nominal:  n * 1000,
				},
				{Resource: core.Memory, Nominal: n << 30},
				{Resource: core.GPU, Nominal: n},
			}}},
		}}
	}
	var names []string
	for c := range cohorts {
		cohort := fmt.Sprintf("c-%d", c)
		e.Apply(core.CohortSet{Cohort: core.Cohort{Name: cohort, Groups: groups(cpus)}})
		for q := range perCohort {
			name := fmt.Sprintf("q-%d-%d", c, q)
			names = append(names, name)
			weight := core.WeightOne * core.Weight(1+q%3)
			if c == 0 && q == 0 {
				weight = core.WeightOne * 1e6 // it may have nearly everything
			}
			e.Apply(core.QueueSet{Queue: core.Queue{
				Name: name, Cohort: cohort, Namespaces: &all, Preemption: p, Weight: &weight,
				Fungibility: core.Fungibility{PreemptTriesNext: true}, Groups: groups(0),
			}})
			e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: name, Name: "q", Queue: name}})
		}
	}
	return names
}

// BenchmarkFairFill is BenchmarkFill with fair sharing, where every queue borrows.
func BenchmarkFairFill(b *testing.B) {
	for _, queues := range []int{10, 1000} {
		for _, nodes := range []int{0, 1000} {
			b.Run(fmt.Sprintf("queues-per-cohort=%d/nodes=%d", queues, nodes), func(b *testing.B) {
				admitted, cpu := 0, time.Duration(0)
				for b.Loop() {
					b.StopTimer()
					e := cycle.New(cycle.Options{FairSharing: core.DefaultFairSharing()})
					names := sharing(e, 1000/queues, queues, 50*core.Amount(queues), core.Preemption{})
					machines(e, nodes, 64)
					for i := range 50000 {
						e.Apply(core.WorkloadSet{Workload: oneUnit(names[i%len(names)], i, int64(i%3), 1)})
					}
					start := processor(b)
					b.StartTimer()
					admitted += len(e.Decide(time.Unix(1e6, 0)))
					cpu += processor(b) - start
				}
				if admitted != b.N*50000 {
					b.Fatalf("%d admissions", admitted)
				}
				report(b, admitted, "admissions", cpu)
			})
		}
	}
}

// BenchmarkFairContended is BenchmarkContended with fair sharing.
func BenchmarkFairContended(b *testing.B) {
	policies := map[string]core.Preemption{
		"never":   {},
		"preempt": {WithinQueue: core.PreemptLowerPriority, Reclaim: core.PreemptAny},
	}
	for _, policy := range []string{"never", "preempt"} {
		for _, nodes := range []int{0, 200} {
			b.Run(fmt.Sprintf("policy=%s/nodes=%d", policy, nodes), func(b *testing.B) {
				decisions, cpu := 0, time.Duration(0)
				for b.Loop() {
					b.StopTimer()
					e := cycle.New(cycle.Options{FairSharing: core.DefaultFairSharing()})
					d := &apiServer{e, map[core.Key]core.Workload{}}
					names := sharing(e, 100, 10, 120, policies[policy])
					machines(e, nodes, 60)
					for i := range 50000 {
						w := oneUnit(names[i%len(names)], i, int64(i%3), 1)
						d.workloads[w.Key] = w
						e.Apply(core.WorkloadSet{Workload: w})
					}
					now := time.Unix(1e6, 0)
					running := d.confirm(e.Decide(now), now)
					start := processor(b)
					b.StartTimer()
					for len(running) > 0 {
						e.Apply(core.WorkloadGone{Key: running[0]})
						plan := e.Decide(now)
						decisions += len(plan)
						running = append(running[1:], d.confirm(plan, now)...)
					}
					cpu += processor(b) - start
				}
				report(b, decisions, "decisions", cpu)
			})
		}
	}
}

// BenchmarkFairPreempt has 10,000 workloads running in 1,000 queues of a cohort.
// One that arrives evicts some by its share, first by one strategy, in the end by
// the other.
func BenchmarkFairPreempt(b *testing.B) {
	for _, victims := range []int{1, 10, 100, 1000, 9999} {
		b.Run(fmt.Sprintf("victims=%d", victims), func(b *testing.B) {
			e := cycle.New(cycle.Options{FairSharing: core.DefaultFairSharing()})
			d := &apiServer{e, map[core.Key]core.Workload{}}
			all := core.Preemption{WithinQueue: core.PreemptLowerPriority, Reclaim: core.PreemptAny}
			names := sharing(e, 1, 1001, 10000, all)
			now := time.Unix(1e6, 0)
			for i := range 10000 {
				w := oneUnit(names[1+i%1000], i, 0, 1)
				d.workloads[w.Key] = w
				e.Apply(core.WorkloadSet{Workload: w})
			}
			if got := len(d.confirm(e.Decide(now), now)); got != 10000 {
				b.Fatalf("%d run", got)
			}
			big := oneUnit(names[0], 1e6, 10, 1)
			big.PodSets[0].Count = int32(victims)
			found, rounds, cpu := 0, 0, time.Duration(0)
			for b.Loop() {
				b.StopTimer()
				start := processor(b)
				b.StartTimer()
				e.Apply(core.WorkloadSet{Workload: big})
				plan := e.Decide(now)
				b.StopTimer()
				cpu += processor(b) - start
				rounds++
				found = len(plan) - 1
				e.Apply(core.WorkloadGone{Key: big.Key})
				for _, dec := range plan {
					if ev, ok := dec.(core.Evict); ok {
						e.Apply(core.Refused{Key: ev.Key})
					}
				}
				b.StartTimer()
			}
			if found != victims {
				b.Fatalf("%d victims", found)
			}
			b.ReportMetric(cpu.Seconds()*1e3/float64(rounds), "cpu-ms/op")
		})
	}
}
