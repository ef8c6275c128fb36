package whatif_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/cli/whatif"
	"github.com/mlbatch/mlbatch/internal/replay"
)

// month is 30 days of eight teams on 512 GPUs, with a job every two minutes.
func month() string {
	var b strings.Builder
	b.WriteString(
		"name: month\nhorizon: 30d\ncohorts: [{name: org}]\nnodes: [{name: node, count: 64, gpus: 8, cpu: 96, memory: 1Ti}]\nteams:\n",
	)
	for i := range 8 {
		fmt.Fprintf(&b, "- {name: t%d, cohort: org, gpus: 64}\n", i)
	}
	b.WriteString("clusterModel: {write: 50ms, observe: 20ms, start: {min: 10s, max: 60s}, stop: 30s}\njobs:\n")
	for i := range 8 {
		fmt.Fprintf(
			&b,
			"- {name: j%d, team: t%d, until: 30d, arrival: {poisson: 16m}, gpus: {choose: [{value: 1, weight: 4}, {value: 8}, {value: 32}]}, duration: {lognormal: {median: 1h, sigma: 1.2}, min: 1m, max: 12h}}\n",
			i,
			i,
		)
	}
	return b.String()
}

// BenchmarkMonth reads a recording of a month and decides it under two policies.
func BenchmarkMonth(b *testing.B) {
	path, result := recordWorld(b, month())
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	p := policy(b, "p.yaml", strings.ReplaceAll(queue("t0", 128, asRecorded), "name: red", "name: t0"))
	var c *whatif.Comparison
	for b.Loop() {
		past, err := replay.ReadPast(path)
		if err != nil {
			b.Fatal(err)
		}
		if c, err = whatif.Compare(b.Context(), past, []*whatif.Policy{p}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(result.Total.Jobs), "jobs")
	b.ReportMetric(float64(info.Size())/1e6, "MB")
	b.ReportMetric(100*float64(c.Trust.Near)/float64(c.Trust.Jobs), "%near")
}
