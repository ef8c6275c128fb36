package forecast_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/forecast"
)

// crowd is a picture of 130 nodes on which 500 jobs run, and 10,000 wait in ten queues.
func crowd(b *testing.B, different bool) *cycle.Snapshot { //nolint:revive // a fact
	b.Helper()
	e := cycle.New(cycle.Options{})
	gpus := func(n core.Amount) core.Resources { return core.Resources{}.With(core.GPU, n) }
	e.Apply(core.FlavorSet{Flavor: core.Flavor{Name: "f"}})
	e.Apply(core.NamespaceSet{Namespace: core.Namespace{Name: "ns"}})
	for i := range 130 {
		e.Apply(
			core.NodeSet{
				Node: core.Node{
					Name:        fmt.Sprint("n", i),
					State:       core.NodeReady,
					Allocatable: gpus(8).With(core.CPU, 96_000).With(core.Pods, 100),
				},
			},
		)
	}
	for i := range 10 {
		name := fmt.Sprint("q", i)
		e.Apply(
			core.QueueSet{
				Queue: core.Queue{Name: name, Cohort: "all", Namespaces: &core.Selector{}, Groups: []core.ResourceGroup{
					{
						Covered: []string{
							core.GPU,
							core.CPU,
						},
						Flavors: []core.FlavorQuotas{
							{
								Flavor: "f",
								Quotas: []core.Quota{{Resource: core.GPU, Nominal: 104}, {Resource: core.CPU, Nominal: 1_248_000}},
							},
						},
					},
				}},
			},
		)
		e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "ns", Name: name, Queue: name}})
	}
	submit := func(i int) core.Workload {
		w := core.Workload{
			Key: core.Key{
				Namespace: "ns",
				Name:      fmt.Sprint("job", i),
			},
			UID:       fmt.Sprint(i),
			Queue:     fmt.Sprint("q", i%10),
			Created:   start,
			QueueTime: start.Add(time.Duration(i) * time.Second),
			PodSets:   []core.PodSet{{Name: "main", Count: 1, Requests: gpus(core.Amount(1 << (i % 4)))}},
		}
		if different {
			w.PodSets[0].Requests = w.PodSets[0].Requests.With(core.CPU, core.Amount(1000+i))
		}
		return w
	}
	for i := range 10_500 {
		e.Apply(core.WorkloadSet{Workload: submit(i)})
	}
	for _, d := range e.Decide(start) {
		if a, is := d.(core.Admit); is {
			var i int
			fmt.Sscanf(a.Key.Name, "job%d", &i) //nolint:errcheck // it is such a name
			w := submit(i)
			w.Seq, w.Admission, w.Admitted, w.Ready, w.Reserved = 1, &a.Admission, true, true, start
			e.Apply(core.WorkloadSet{Workload: w})
		}
	}
	e.Decide(start)
	s, err := e.Dump()
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkFuture plays one future of a picture in which 10,000 jobs wait, of which many are
// alike, and hardly two, and in which more come all the time.
func BenchmarkFuture(b *testing.B) {
	var r forecast.Runtimes
	like := forecast.Job{Classes: []string{"x"}}
	for i := range 200 {
		r.Ended(like, time.Duration(1+i*i%311)*time.Minute)
	}
	more := job("more", 0, 1)
	more.Queue = "q0"
	for name, tc := range map[string]struct {
		different bool
		arrivals  *forecast.Arrivals
	}{
		"alike": {}, "different": {different: true}, "coming": {arrivals: came(100, time.Minute, time.Hour, more)},
	} {
		b.Run(name, func(b *testing.B) {
			s := crowd(b, tc.different)
			for b.Loop() {
				q := question(s, func(core.Key) forecast.Job { return like }, &r)
				q.Futures, q.Decides, q.Arrivals = 1, 20_000, tc.arrivals
				got, err := forecast.Starts(q)
				if err != nil || len(got) < 9_500 {
					b.Fatal(err, len(got))
				}
				for _, e := range got {
					if e.P50 == forecast.Never {
						b.Fatal("a job never starts")
					}
				}
			}
		})
	}
}
