package cycle_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// report adds how many things were done per second, by the clock and by the
// processor time used, which other work on the machine does not change.
func report(b *testing.B, n int, what string, cpu time.Duration) {
	b.Helper()
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), what+"/s")
	b.ReportMetric(float64(n)/cpu.Seconds(), what+"/cpu-s")
}

// processor is the processor time that this process has used.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// world builds cohorts of queues with equal quotas and a flavor.
func world(e *cycle.Engine, cohorts, perCohort int, cpus core.Amount, p core.Preemption) []string {
	e.Apply(core.FlavorSet{Flavor: core.Flavor{Name: "f"}})
	all := core.Selector{}
	var names []string
	for c := range cohorts {
		for q := range perCohort {
			name := fmt.Sprintf("q-%d-%d", c, q)
			names = append(names, name)
			e.Apply(core.QueueSet{Queue: core.Queue{
				Name: name, Cohort: fmt.Sprintf("c-%d", c), Namespaces: &all, Preemption: p,
				Fungibility: core.Fungibility{PreemptTriesNext: true},
				Groups: []core.ResourceGroup{{
					Covered: []string{core.CPU, core.Memory, core.GPU},
					Flavors: []core.FlavorQuotas{{Flavor: "f", Quotas: []core.Quota{
						{Resource: core.CPU, Nominal: cpus * 1000},
						{Resource: core.Memory, Nominal: cpus << 30},
						{Resource: core.GPU, Nominal: cpus},
					}}},
				}},
			}})
			e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: name, Name: "q", Queue: name}})
		}
	}
	return names
}

func machines(e *cycle.Engine, n int, gpus core.Amount) {
	for i := range n {
		e.Apply(core.NodeSet{Node: core.Node{
			Name: fmt.Sprintf("node-%d", i), State: core.NodeReady,
			Allocatable: core.MakeResources(map[string]core.Amount{
				core.CPU: gpus * 1000, core.Memory: gpus << 30, core.GPU: gpus, core.Pods: 250,
			}),
		}})
	}
}

// oneUnit is a job of one pod with one cpu, 1 GiB and one GPU, times size.
func oneUnit(queue string, n int, priority int64, size core.Amount) core.Workload {
	at := time.Unix(int64(n), 0)
	name := fmt.Sprintf("job-%d", n)
	return core.Workload{
		Key: core.Key{
			Namespace: queue,
			Name:      name,
		},
		UID:       name,
		Queue:     "q",
		Priority:  priority,
		Created:   at,
		QueueTime: at,
		PodSets: []core.PodSet{{Name: "main", Count: 1, Requests: core.MakeResources(map[string]core.Amount{
			core.CPU: 1000 * size, core.Memory: size << 30, core.GPU: size,
		})}},
	}
}

// BenchmarkFill admits 50,000 pending workloads in 1,000 queues of 100 cohorts;
// everything fits.
func BenchmarkFill(b *testing.B) {
	for _, nodes := range []int{0, 1000} {
		for _, pending := range []int{5000, 50000} {
			b.Run(fmt.Sprintf("nodes=%d/pending=%d", nodes, pending), func(b *testing.B) {
				admitted, cpu := 0, time.Duration(0)
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					e := cycle.New(cycle.Options{})
					names := world(e, 100, 10, 100, core.Preemption{})
					machines(e, nodes, 64)
					for i := range pending {
						e.Apply(core.WorkloadSet{Workload: oneUnit(names[i%len(names)], i, int64(i%3), 1)})
					}
					start := processor(b)
					b.StartTimer()
					admitted += len(e.Decide(time.Unix(1e6, 0)))
					cpu += processor(b) - start
				}
				if admitted != b.N*pending {
					b.Fatalf("%d admissions of %d", admitted, b.N*pending)
				}
				report(b, admitted, "admissions", cpu)
			})
		}
	}
}

// apiServer confirms admissions as the API would show them.
type apiServer struct {
	engine    *cycle.Engine
	workloads map[core.Key]core.Workload
}

// confirm shows the engine its own admissions and returns them.
func (d *apiServer) confirm(plan core.Plan, now time.Time) []core.Key {
	var keys []core.Key
	for _, dec := range plan {
		a, ok := dec.(core.Admit)
		if !ok {
			continue
		}
		w := d.workloads[a.Key]
		w.Admission, w.Reserved = &a.Admission, now
		d.engine.Apply(core.WorkloadSet{Workload: w})
		keys = append(keys, a.Key)
	}
	return keys
}

// BenchmarkContended has quota for one workload in four; jobs finish one by one
// and each makes room for another.
func BenchmarkContended(b *testing.B) {
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
					e := cycle.New(cycle.Options{})
					d := &apiServer{e, map[core.Key]core.Workload{}}
					names := world(e, 100, 10, 12, policies[policy])
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

// BenchmarkPreempt has 10,000 running workloads of which one that arrives must
// evict some.
func BenchmarkPreempt(b *testing.B) {
	worlds := map[string]struct{ cohorts, queues, nodes int }{
		"one-queue": {1, 1, 0}, "hundred-queues": {1, 100, 0}, "nodes": {1, 100, 1250},
	}
	for _, kind := range []string{"one-queue", "hundred-queues", "nodes"} {
		for _, victims := range []int{1, 10, 100, 1000, 9999} {
			k := worlds[kind]
			if k.queues > 1 && victims > 1000 {
				continue // others give back only what they borrow
			}
			b.Run(fmt.Sprintf("%s/victims=%d", kind, victims), func(b *testing.B) {
				e := cycle.New(cycle.Options{})
				d := &apiServer{e, map[core.Key]core.Workload{}}
				all := core.Preemption{
					WithinQueue: core.PreemptLowerPriority, Reclaim: core.PreemptAny, WhileBorrow: core.PreemptLowerPriority,
				}
				names := world(e, k.cohorts, k.queues, core.Amount(10000/k.queues), all)
				machines(e, k.nodes, 8)
				now := time.Unix(1e6, 0)
				for i := range 10000 {
					// All in one queue, or spread by borrowing unevenly.
					w := oneUnit(names[(i*i)%len(names)], i, 0, 1)
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
				b.ReportMetric(float64(found), "victims")
				b.ReportMetric(cpu.Seconds()*1e3/float64(rounds), "cpu-ms/op")
			})
		}
	}
}
