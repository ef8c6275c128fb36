package worldfile_test

import (
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/worldfile"
)

// lending is a cluster in which a queue takes back quota from jobs of another, of which half save often, half seldom.
const lending = `
seed: 7
horizon: 14d
nodes: [{name: n, count: 32, gpus: 8}]
cohorts: [{name: org}]
teams:
- {name: prod, cohort: org, gpus: 192, leastLostWork: 2h, preemption: {reclaimWithinCohort: Any}}
- {name: research, cohort: org, gpus: 64}
jobs:
- {name: seldom, team: research, checkpoint: 1h, arrival: {poisson: 3h}, gpusPerPod: 8,
   gpus: {choose: [{value: 8}, {value: 16}, {value: 32}]},
   duration: {lognormal: {median: 18h, sigma: 0.8}, min: 2h, max: 4d}}
- {name: often, team: research, checkpoint: 10m, arrival: {poisson: 3h}, gpusPerPod: 8,
   gpus: {choose: [{value: 8}, {value: 16}, {value: 32}]},
   duration: {lognormal: {median: 18h, sigma: 0.8}, min: 2h, max: 4d}}
- {name: urgent, team: prod, priority: 5, arrival: {poisson: 90m}, gpusPerPod: 8,
   gpus: {choose: [{value: 8}, {value: 16}, {value: 64}]},
   duration: {lognormal: {median: 3h, sigma: 0.8}, min: 10m, max: 1d}}
`

// TestLessIsLost: where victims are chosen by least lost work, less is lost than where the newest go (docs/queueing.md, "By
// least lost work", has the numbers).
func TestLessIsLost(t *testing.T) {
	lost := func(text string) (hours float64, preempted int) {
		f, err := worldfile.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		w, err := worldfile.Build(f, nil)
		if err != nil {
			t.Fatal(err)
		}
		run := sim.New(*w, sim.Watch{})
		for run.Advance(1000) {
		}
		if err := run.Err(); err != nil {
			t.Fatal(err)
		}
		r := run.Result()
		return r.Total.Lost, r.Total.Preempted
	}
	newest, n := lost(strings.Replace(lending, "leastLostWork: 2h, ", "", 1))
	least, m := lost(lending)
	t.Logf(
		"GPU hours lost: %.0f in %d preemptions if the newest go, %.0f in %d by least lost work",
		newest,
		n,
		least,
		m,
	)
	if least > 0.8*newest {
		t.Errorf("%.0f GPU hours are lost, and %.0f if the newest go", least, newest)
	}
}
