package bench_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// binaryVariable names the program whose cluster is measured, beforeVariable the one that it is
	// compared with.
	binaryVariable = "MLBATCH_TEST_BINARY"
	beforeVariable = "MLBATCH_BEFORE_BINARY"

	// costJobs of each kind are enough: what they cost at the start is the same for both.
	costJobs = 200
	// grown is by what factor something has to cost more to be told of, and the least* are what it costs
	// at least then: a job's share of a process that mostly sleeps is noise.
	grown     = 1.1
	leastTime = 2 * time.Millisecond
	leastRate = 0.1 // writes of a job
)

// BenchmarkCost compares what a job costs with that of another program, by process and by write, in one
// run: figures of two machines, or of two days, say nothing of each other. What costs a tenth more is
// named. Nothing is asserted: the machine is never quiet.
func BenchmarkCost(b *testing.B) {
	before := os.Getenv(beforeVariable)
	if before == "" {
		b.Skip(beforeVariable + " names no program to compare with")
	}
	now := os.Getenv(binaryVariable)
	log.SetLogger(logr.Discard()) // clients tell it of warnings
	costs := map[string][2]usage{}
	speed := map[string][2]float64{}
	once(b, func() {
		for at, binary := range []string{before, now} {
			b.Setenv(binaryVariable, binary)
			bd := start(b, drainNodes, "--time-scale", "10")
			for _, k := range append([]kind{bare()}, kinds()...) {
				from := bd.used(b)
				_, took := bd.drain(b, k, costJobs)
				c, s := costs[k.name], speed[k.name]
				c[at], s[at] = bd.used(b).since(from), costJobs*drainPods/took.Seconds()
				costs[k.name], speed[k.name] = c, s
			}
			if err := bd.Stop(); err != nil {
				b.Error(err)
			}
		}
	})
	for _, name := range slices.Sorted(maps.Keys(costs)) {
		both := costs[name]
		fmt.Printf(
			"%s: %.1f pods/s before, %.1f now; of bare Jobs %.2f before, %.2f now. A job, before and now:%s\n",
			name,
			speed[name][0],
			speed[name][1],
			speed[name][0]/speed["Bare"][0],
			speed[name][1]/speed["Bare"][1],
			compared(both[0], both[1], costJobs),
		)
	}
}

// compared prints what one of n jobs took before and takes now, and marks what grew.
func compared(before, now usage, n int) string {
	var out strings.Builder
	row := func(was, is, least float64, unit, name string) {
		mark := ""
		switch {
		case is <= was*grown || is-was < least:
		case was == 0:
			mark = "  NEW"
		default:
			mark = fmt.Sprintf("  GREW by %.0f %%", (is/was-1)*100)
		}
		if is >= least || was >= least {
			fmt.Fprintf(&out, "\n%10.2f %10.2f %-2s %s%s", was, is, unit, name, mark)
		}
	}
	all := maps.Clone(before.cpu)
	maps.Copy(all, now.cpu)
	per := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(n) }
	for _, k := range slices.Sorted(maps.Keys(all)) {
		row(per(before.cpu[k]), per(now.cpu[k]), leastTime.Seconds()*1000, "ms", k)
	}
	was, wrote := before.totals()
	is, writes := now.totals()
	row(per(was), per(is), leastTime.Seconds()*1000, "ms", "all processes")
	rows := maps.Clone(before.writes)
	maps.Copy(rows, now.writes)
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		row(before.writes[k]/float64(n), now.writes[k]/float64(n), leastRate, "", k)
	}
	row(wrote/float64(n), writes/float64(n), leastRate, "", "all writes")
	return out.String()
}
