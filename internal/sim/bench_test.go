package sim_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/worldfile"
)

// BenchmarkTrace runs the trace named by MLBATCH_SIM_TRACE through the world that
// is made for it.
func BenchmarkTrace(b *testing.B) {
	path := os.Getenv("MLBATCH_SIM_TRACE")
	if path == "" {
		b.Skip("set MLBATCH_SIM_TRACE to the path of a trace")
	}
	if at, err := os.Stat(path); err == nil && at.IsDir() {
		b.Skip("MLBATCH_SIM_TRACE is a folder, for package packing")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		f, err := worldfile.ForTrace(worldfile.Trace{File: path}, text, worldfile.Sizes{})
		if err != nil {
			b.Fatal(err)
		}
		simulate(b, f, text)
	}
}

// BenchmarkBuiltin runs the built-in world.
func BenchmarkBuiltin(b *testing.B) {
	for b.Loop() {
		f, err := worldfile.Parse(worldfile.Builtin())
		if err != nil {
			b.Fatal(err)
		}
		simulate(b, f, nil)
	}
}

func simulate(b *testing.B, f *worldfile.File, trace []byte) {
	b.Helper()
	w, err := worldfile.Build(f, bytes.NewReader(trace))
	if err != nil {
		b.Fatal(err)
	}
	r, err := sim.New(*w, sim.Watch{}).Finish()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(r.Total.Jobs)*float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
