package worldfile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/sim"
)

// TestRules switches each rule on in a world file and looks at when jobs start and
// end, in minutes.
func TestRules(t *testing.T) {
	const red = "teams: [{name: red, gpus: 16}]\n"
	cases := map[string]struct {
		why, text string
		want      []string
	}{
		"partial admission": {
			why:  "half the pods take twice as long",
			text: red + "jobs: [{name: j, team: red, count: 1, gpus: 32, duration: 1h, minPods: 1}]",
			want: []string{"red/j-0 0-120"},
		},
		"admission gate": {
			why:  "it is not considered before",
			text: red + "jobs: [{name: j, team: red, count: 1, duration: 1h, gatedFor: 20m}]",
			want: []string{"red/j-0 20-80"},
		},
		"preemption gate": {
			why: "no workload is evicted for it before",
			text: red + `jobs:
- {name: low, team: red, count: 1, gpus: 16, duration: 1h, checkpoint: 1m, priority: 1}
- {name: high, team: red, count: 1, gpus: 16, duration: 1h, from: 10m, priority: 9, preemptionGatedFor: 20m}`,
			want: []string{"red/high-0 30-90", "red/low-0 0-120"},
		},
		"admission check": {
			why:  "pods are made when it agrees",
			text: "teams: [{name: red, gpus: 16, admissionCheck: {answer: 5m}}]\njobs: [{name: j, team: red, count: 1, duration: 1h}]",
			want: []string{"red/j-0 5-65"},
		},
		"rejected": {
			why: "it never starts and its quota goes to others",
			text: `teams: [{name: red, gpus: 16, cohort: c, admissionCheck: {answer: 5m, reject: 1}}, {name: blue, cohort: c, gpus: 0}]
jobs:
- {name: j, team: red, count: 1, gpus: 16, duration: 1h}
- {name: k, team: blue, count: 1, gpus: 16, duration: 1h}`,
			want: []string{"blue/k-0 5-65", "red/j-0 never OnHold"},
		},
		"early pods": {
			why: "the quota of a pod that is done goes to others",
			text: red + `jobs:
- {name: a, team: red, count: 1, gpus: 16, duration: 1h, endEarly: {pods: 1, after: 10m}}
- {name: b, team: red, count: 1, gpus: 8, duration: 1h, from: 1m}`,
			want: []string{"red/a-0 0-60", "red/b-0 10-70"},
		},
		"past usage": {
			why: "the local queue that used less goes first, however late its job came",
			text: `teams: [{name: red, gpus: 16, admissionMode: UsageBasedAdmissionFairSharing, localQueues: [{name: x}, {name: y}]}]
engine: {admissionFairSharing: {usageHalfLifeTime: 1d, usageSamplingInterval: 1m}}
jobs:
- {name: a, team: red, localQueue: x, count: 2, gpus: 16, duration: 1h}
- {name: b, team: red, localQueue: y, count: 1, gpus: 16, duration: 1h, from: 10m}`,
			want: []string{"red/a-0 0-60", "red/a-1 120-180", "red/b-0 60-120"},
		},
		"past usage off": {
			why: "first come, first served",
			text: `teams: [{name: red, gpus: 16, localQueues: [{name: x}, {name: y}]}]
jobs:
- {name: a, team: red, localQueue: x, count: 2, gpus: 16, duration: 1h}
- {name: b, team: red, localQueue: y, count: 1, gpus: 16, duration: 1h, from: 10m}`,
			want: []string{"red/a-0 0-60", "red/a-1 60-120", "red/b-0 120-180"},
		},
		"pods ready": {
			why:  "the second is admitted when pods of the first are ready",
			text: red + "engine: {blockAdmission: true}\nclusterModel: {start: 5m}\njobs: [{name: j, team: red, count: 2, gpus: 8, duration: 1h}]",
			want: []string{"red/j-0 5-65", "red/j-1 10-70"},
		},
		"circle": {
			why: "teams of a circle admit nothing until it heals",
			text: `teams: [{name: red, cohort: low, gpus: 16}]
cohorts: [{name: low, parent: high}, {name: high}]
jobs: [{name: j, team: red, count: 1, from: 10m, duration: 1h}]
events: [{at: 5m, cohort: high, moveTo: low}, {at: 30m, cohort: high, moveTo: ""}]`,
			want: []string{"red/j-0 30-90"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := sim.New(*build(t, c.text), sim.Watch{Check: true}).Finish()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, j := range r.Jobs() {
				when := fmt.Sprintf("%g-%g", j.Started/60, j.Ended/60)
				if j.Started < 0 {
					when = "never " + string(j.Reason)
				}
				got = append(got, fmt.Sprintf("%s %s", j.Key, when))
			}
			slices.Sort(got)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, d)
			}
		})
	}
}

// TestFairSharingHasItsRules: what is not said is on, as in the cluster.
func TestFairSharingHasItsRules(t *testing.T) {
	const rest = "\nteams: [{name: red, gpus: 8}]\njobs: [{name: j, team: red, count: 1, duration: 1h}]"
	on := build(t, "engine: {fairSharing: {}}"+rest).Engine.FairSharing
	if on == nil || !on.NonBorrowingFirst || !on.ReclaimNominal || len(on.Strategies) != 2 {
		t.Errorf("nothing given: %+v", on)
	}
	text := strings.Replace("engine: {fairSharing: {R: false}}"+rest, "R", "preemptWithinNominal", 1)
	if off := build(t, text).Engine.FairSharing; !off.NonBorrowingFirst || off.ReclaimNominal {
		t.Errorf("one rule off: %+v", off)
	}
}
