package inquiry_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/inquiry"
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
						look := func(ask func(cycle.View)) error {
							began := processor(b)
							ask(engines[who].View())
							asking += processor(b) - began
							return nil
						}
						why, waits, err := inquiry.Explain(look, waiting[n], at, []int64{1, 5, 10})
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

// BenchmarkCompare is the same crowd, of whom the first is compared with one that runs.
func BenchmarkCompare(b *testing.B) {
	at := time.Unix(1e6, 0)
	for _, kinds := range []int{5, 5000} {
		e := cycle.New(cycle.Options{})
		waiting := crowded(e, cycle.New(cycle.Options{}), 11000, kinds, at)
		other := oneGPU("q-0-0", 0).Key
		b.Run(fmt.Sprintf("kinds=%d", kinds), func(b *testing.B) {
			start := processor(b)
			for b.Loop() {
				if x, waits, err := inquiry.Compare(
					inquiry.At(e.View()),
					waiting[0],
					other,
					at,
				); !waits || err != nil ||
					!x.Gone.Tried {
					b.Fatal("it does not wait", err)
				}
			}
			b.ReportMetric(float64((processor(b)-start).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// BenchmarkSuppose is the same crowd, and one more workload.
func BenchmarkSuppose(b *testing.B) {
	at := time.Unix(1e6, 0)
	for _, kinds := range []int{5, 5000} {
		e := cycle.New(cycle.Options{})
		crowded(e, cycle.New(cycle.Options{}), 11000, kinds, at)
		b.Run(fmt.Sprintf("kinds=%d", kinds), func(b *testing.B) {
			start := processor(b)
			for b.Loop() {
				if x, err := inquiry.Suppose(
					inquiry.At(e.View()),
					oneGPU("q-0-0", 1e5),
					at,
					nil,
				); err != nil ||
					x.Admission != nil {
					b.Fatal("it does not wait", err)
				}
			}
			b.ReportMetric(float64((processor(b)-start).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
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
