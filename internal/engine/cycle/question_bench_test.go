package cycle_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// BenchmarkQuestion is what an explanation with its advice costs while 10,000
// workloads wait and 500 run on 130 nodes: of a few kinds, or hardly two alike; for
// the first of all, whom much would help, and for one in the middle, whom nothing
// does. Follows is the same asked of a process that does not lead. Decisions wait for
// what ask-cpu-ms says, not for the rest.
func BenchmarkQuestion(b *testing.B) {
	at := time.Unix(1e6, 0)
	for _, kinds := range []int{5, 5000} {
		leads, follows := cycle.New(cycle.Options{}), cycle.New(cycle.Options{})
		engines := map[string]*cycle.Engine{"leads": leads, "follows": follows}
		waiting := crowded(leads, follows, 11000, kinds, at)
		for _, who := range []string{"leads", "follows"} {
			for place, n := range map[string]int{"first": 0, "middle": len(waiting) / 2} {
				b.Run(fmt.Sprintf("kinds=%d/%s/%s", kinds, who, place), func(b *testing.B) {
					advice, asking, start := 0, time.Duration(0), processor(b)
					b.ReportAllocs()
					for b.Loop() {
						look := func(ask func(*cycle.Engine)) error {
							began := processor(b)
							ask(engines[who])
							asking += processor(b) - began
							return nil
						}
						why, waits, err := cycle.Explain(look, waiting[n], at, []int64{1, 5, 10})
						if !waits || err != nil {
							b.Fatal("it does not wait", err)
						}
						advice = len(why.Advice)
					}
					b.ReportMetric(float64(advice), "advice")
					b.ReportMetric(float64(asking.Microseconds())/1000/float64(b.N), "ask-cpu-ms/op")
					b.ReportMetric(float64((processor(b)-start).Microseconds())/1000/float64(b.N), "cpu-ms/op")
				})
			}
		}
	}
}

// crowded fills the nodes of two engines, of which the first decides, and returns who
// waits, in order.
func crowded(leads, follows *cycle.Engine, jobs, kinds int, at time.Time) (waiting []core.Key) {
	var queues []string
	for _, e := range []*cycle.Engine{leads, follows} {
		queues = world(e, 5, 20, 16, core.Preemption{Reclaim: core.PreemptLowerPriority})
		machines(e, 130, 8)
	}
	tell := func(ev core.Event) {
		leads.Apply(ev)
		follows.Apply(ev)
	}
	workloads := map[core.Key]core.Workload{}
	for i := range jobs {
		w := oneUnit(queues[i*7%len(queues)], i, 0, 1)
		w.PodSets[0].Count = int32(1 + i%3)
		w.PodSets[0].Requests = w.PodSets[0].Requests.With(core.CPU, core.Amount(500+i%kinds/10))
		workloads[w.Key] = w
		tell(core.WorkloadSet{Workload: w})
	}
	for _, d := range leads.Decide(at) {
		if a, is := d.(core.Admit); is {
			w := workloads[a.Key]
			w.Admission, w.Admitted, w.Reserved = &a.Admission, true, at
			tell(core.WorkloadSet{Workload: w})
		}
	}
	leads.Decide(at)
	follows.Follow(at)
	for _, q := range queues {
		waiting = append(waiting, leads.Positions(q)...)
	}
	slices.SortFunc(waiting, func(a, b core.Key) int { return workloads[a].Created.Compare(workloads[b].Created) })
	return waiting
}
