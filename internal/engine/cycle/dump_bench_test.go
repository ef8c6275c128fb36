package cycle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/record"
)

// BenchmarkDump is what the start of a recording costs the decision loop with
// 10,000 workloads, of which 1,000 run; BenchmarkDump/encode what it costs the
// recorder's goroutine then, and load what a replay begins with.
func BenchmarkDump(b *testing.B) {
	e := cycle.New(cycle.Options{})
	queues := world(e, 5, 20, 10, core.Preemption{})
	machines(e, 200, 8)
	at := time.Unix(1000, 0)
	for i := range 10000 {
		q := queues[i%len(queues)]
		e.Apply(core.WorkloadSet{Workload: core.Workload{
			Key: core.Key{
				Namespace: q,
				Name:      fmt.Sprintf("job-%05d", i),
			},
			UID:       fmt.Sprintf("uid-%05d", i),
			Queue:     "q",
			Created:   at,
			QueueTime: at,
			PodSets: []core.PodSet{
				{
					Name:     "main",
					Count:    1,
					Requests: core.MakeResources(map[string]core.Amount{core.CPU: 1000, core.GPU: 1}),
				},
			},
		}})
	}
	e.Decide(at)
	s, err := e.Dump()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("dump", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := e.Dump(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encode", func(b *testing.B) {
		c := record.NewCodec()
		var buf []byte
		for b.Loop() {
			if buf, err = c.Append(buf[:0], s); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(len(buf)))
	})
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			if _, err := cycle.Load(cycle.Options{}, s); err != nil {
				b.Fatal(err)
			}
		}
	})
}
