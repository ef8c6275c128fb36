package worldfile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/report"
	"github.com/mlbatch/mlbatch/internal/sim/worldfile"
)

func build(t *testing.T, text string) *sim.World {
	t.Helper()
	f, err := worldfile.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	w, err := worldfile.Build(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// run is everything that is printed about a world.
func run(t *testing.T, w *sim.World, watch sim.Watch) string {
	t.Helper()
	r, err := sim.New(*w, watch).Finish()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := report.Text(&b, r); err != nil {
		t.Fatal(err)
	}
	for _, table := range report.Tables() {
		if err := table.Write(&b, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.NewEncoder(&b).Encode(r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestSameSeedSameBytes also keeps the built-in world sound: it is the first
// thing that people see. The auditor, who takes longer than the world, looks on once.
func TestSameSeedSameBytes(t *testing.T) {
	text := string(worldfile.Builtin())
	run(t, build(t, text), sim.Watch{Check: true})
	alone := sim.Watch{}
	one, two := run(t, build(t, text), alone), run(t, build(t, text), alone)
	if d := cmp.Diff(one, two); d != "" {
		t.Errorf("the same world gave two results:\n%s", d)
	}
	other := run(t, build(t, strings.Replace(text, "seed: 1", "seed: 2", 1)), alone)
	if one == other {
		t.Error("another seed gave the same result")
	}
}

func TestErrorsNameFieldAndCure(t *testing.T) {
	const team = "teams: [{name: red, gpus: 8}]\n"
	const job = "jobs: [{name: j, team: red, count: 1, duration: 1h}]\n"
	cases := map[string]struct {
		why, text string
		want      []string
	}{
		"unknown field": {
			"a typo must not be ignored",
			team + job + "horizont: 3d\n",
			[]string{"horizont", "docs/simulate.md"},
		},
		"unknown in quota": {
			"strict at every depth",
			"teams: [{name: red, quotas: [{resources: {nvidia.com/gpu: {nominal: 3}}}]}]\n" + job,
			[]string{"nominal"},
		},
		"no teams": {"a world without teams runs nothing", job, []string{"teams"}},
		"no jobs":  {"a world without jobs measures nothing", team, []string{"jobs"}},
		"bad duration": {
			"units are easily forgotten",
			team + "jobs: [{name: j, team: red, count: 1, duration: 1x}]\n",
			[]string{"1x", "90s"},
		},
		"endless": {
			"jobs that never stop coming",
			team + "jobs: [{name: j, team: red, duration: 1h, arrival: {every: 1m}}]\n",
			[]string{"count", "until"},
		},
		"countless nodes": {
			"they would not fit into memory",
			team + "nodes: [{name: n, count: 150000, gpus: 8}, {name: m, count: 2000000000, gpus: 8}]\n",
			[]string{"nodes[1].count", "200000"},
		},
		"countless jobs": {
			"nor would these",
			team + "jobs: [{name: j, team: red, count: 2000000000, duration: 1h}]\n",
			[]string{"jobs[0]", "more than"},
		},
		"negative domains": {
			"racks have nodes",
			team + job + "nodes: [{name: n, count: 4, gpus: 8, domains: {rack: 0}}]\n",
			[]string{"nodes[0].domains[rack]", "at least 1"},
		},
		"domains twice": {
			"which of the two counts?",
			team + job + "nodes: [{name: n, count: 4, gpus: 8, labels: {rack: a}, domains: {rack: 2}}]\n",
			[]string{"nodes[0].domains[rack]", "not in labels"},
		},
		"levels twice": {
			"a level is in one place",
			team + job + "flavors: [{name: f, topology: [rack, rack]}]\n",
			[]string{"flavors[0] (f).topology", "rack", "widest first"},
		},
		"slices that do not nest": {
			"a slice is cut into whole ones",
			team + "jobs: [{name: j, team: red, count: 1, duration: 1h, topology: {slices: [{level: rack, size: 4}, {level: host, size: 3}]}}]\n",
			[]string{"topology.slices[1].size", "multiple"},
		},
		"slices without level": {
			"one domain of what?",
			team + "jobs: [{name: j, team: red, count: 1, duration: 1h, topology: {slices: [{size: 4}]}}]\n",
			[]string{"topology.slices[0]", "needs a level"},
		},
		"unknown team": {
			"a job of no team",
			team + "jobs: [{name: j, team: blue, count: 1, duration: 1h}]\n",
			[]string{"jobs[0]", "blue"},
		},
		"two distributions": {
			"which one holds?",
			team + "jobs: [{name: j, team: red, count: 1, duration: {fixed: 1h, exponential: {mean: 1h}}}]\n",
			[]string{"exactly one"},
		},
		"unknown policy": {
			"policies are words",
			"teams: [{name: red, gpus: 8, preemption: {withinClusterQueue: Always}}]\n" + job,
			[]string{"withinClusterQueue", "Always", "LowerPriority"},
		},
		"mtbf without mttr": {
			"nodes that never come back are stated, not implied",
			team + job + "faults: {mtbf: 3d}\n",
			[]string{"mttr"},
		},
		"unknown flavor": {
			"a quota of nothing",
			"teams: [{name: red, quotas: [{flavor: a100, resources: {nvidia.com/gpu: 3}}]}]\n" + job,
			[]string{"a100", "flavors"},
		},
		"unknown queue": {
			"a job of no queue",
			team + "jobs: [{name: j, team: red, count: 1, duration: 1h, localQueue: x}]\n",
			[]string{"jobs[0]", "localQueue", "default-queue"},
		},
		"two queues": {
			"which one?",
			"teams: [{name: red, gpus: 8, localQueues: [{name: a}, {name: a}]}]\n" + job,
			[]string{"localQueues[1]"},
		},
		"endless retries": {
			"a check that never agrees",
			"teams: [{name: red, gpus: 8, admissionCheck: {answer: 1m, retry: 1}}]\n" + job,
			[]string{"admissionCheck", "retry"},
		},
		"no early pods": {
			"which pods?",
			team + "jobs: [{name: j, team: red, count: 1, duration: 1h, endEarly: {after: 1m}}]\n",
			[]string{"endEarly.pods"},
		},
		"unknown mode": {
			"modes are words",
			"teams: [{name: red, gpus: 8, admissionMode: Fair}]\n" + job,
			[]string{"admissionMode", "UsageBased"},
		},
		"unknown node event": {
			"an event about nothing",
			team + job + "events: [{at: 1h, node: x}]\n",
			[]string{"events[0]", "\"x\""},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f, err := worldfile.Parse([]byte(c.text))
			if err == nil {
				_, err = worldfile.Build(f, nil)
			}
			if err == nil {
				t.Fatalf("%s: no error", c.why)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%s: error %q does not mention %q", c.why, err, w)
				}
			}
		})
	}
}

func TestTraceMakesItsWorld(t *testing.T) {
	const csv = "timestamp,duration,num_gpus,gpu_time,cluster\n" +
		"2017-10-09 07:01:55,66.0,1,66.0,B1\n2017-10-09 06:13:03,7200.0,12,86400,a_2\n"
	f, err := worldfile.ForTrace(worldfile.Trace{File: "t.csv"}, []byte(csv), worldfile.Sizes{Nodes: 4})
	if err != nil {
		t.Fatal(err)
	}
	w, err := worldfile.Build(f, strings.NewReader(csv))
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Jobs) != 2 || w.Jobs[0].Key.Namespace != "a-2" ||
		w.Jobs[1].Submit != 48*time.Minute+52*time.Second {
		t.Errorf("jobs %+v", w.Jobs)
	}
	if p := w.Jobs[0].PodSets[0]; p.Count != 2 || p.Requests.Of(core.GPU) != 6 {
		t.Errorf("12 GPUs on nodes of 8 are 2 pods of 6, not %+v", p)
	}
	r, err := sim.New(*w, sim.Watch{Check: true}).Finish()
	if err != nil {
		t.Fatal(err)
	}
	if r.Total.Finished != 2 || r.Total.Used != 24.018 {
		t.Errorf("result %+v", r.Total)
	}
}

// TestExamples keeps the example worlds sound, and shows what the comparison of
// policies is for: fair sharing gives the modest team its part.
func TestExamples(t *testing.T) {
	paths, err := filepath.Glob("../../../examples/simulate/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	results := map[string]*sim.Result{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if results[filepath.Base(path)], err = sim.New(
			*build(t, string(text)),
			sim.Watch{Check: strings.Contains(path, "bad-day")},
		).Finish(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	fair, first := results["fair-sharing.yaml"], results["no-fair-sharing.yaml"]
	if fair == nil || first == nil {
		t.Fatal("the two worlds to compare are missing")
	}
	if a, b := fair.Teams[1].Wait.Mean, first.Teams[1].Wait.Mean; a >= b {
		t.Errorf("the modest team waits %.0f s with fair sharing and %.0f s without", a, b)
	}
	var b bytes.Buffer
	if err := report.Compare(first, fair).Text(&b); err != nil || !strings.Contains(b.String(), "modest") {
		t.Errorf("comparison %q: %v", b.String(), err)
	}
	t.Log("\n" + b.String())
}

// TestDocumentedWorld keeps docs/simulate.md true: its example is a world.
func TestDocumentedWorld(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/simulate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "```yaml\n")
	text, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page has no example")
	}
	f, err := worldfile.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	trace := "timestamp,duration,num_gpus,cluster\n2026-01-02 00:00:00,60,1,red\n"
	w, err := worldfile.Build(f, strings.NewReader(trace))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sim.New(*w, sim.Watch{}).Finish(); err != nil {
		t.Error(err)
	}
}

// TestFormerNames: files outlive the names of their fields.
func TestFormerNames(t *testing.T) {
	const text = "teams: [{name: red, gpus: 8}]\njobs: [{name: j, team: red, count: 1, duration: 1h}]\nNAME: {start: {min: 5m, max: 10m}, refused: 0.1}\n"
	now, before := build(
		t,
		strings.ReplaceAll(text, "NAME", "clusterModel"),
	), build(
		t,
		strings.ReplaceAll(text, "NAME", "edge"),
	)
	if now.Cluster.Start.Max == 0 || now.Cluster.Refuse == 0 {
		t.Fatalf("the world lost its cluster model: %+v", now.Cluster)
	}
	if d := cmp.Diff(now, before); d != "" {
		t.Errorf("edge means something else (-clusterModel +edge):\n%s", d)
	}
	_, err := worldfile.Parse([]byte(strings.ReplaceAll(text, "NAME", "edge") + "clusterModel: {start: 1m}\n"))
	if want := "line 4: clusterModel: this is given twice"; err == nil || err.Error() != want {
		t.Errorf("both names: got %v, want %s", err, want)
	}
}

// TestAllErrorsAtOnceWithLines: a user who mends a file wants to do it once.
func TestAllErrorsAtOnceWithLines(t *testing.T) {
	const head = "teams: [{name: red, gpus: 8}]\n"
	tests := map[string]struct {
		why, text, want string
	}{
		"unknown fields": {
			"every one of them, at every depth",
			"horizont: 3d\nteams:\n- name: red\n  gpus: 8\n  colour: red\njobs:\n- {name: j, team: red, count: 1, duration: 1h, gpu: 8}\n",
			"line 1: horizont: there is no such field, only clusterModel, cohorts, engine, events, faults, flavors, horizon, jobs, name, nodes, seed, start, teams, trace (docs/simulate.md)\n" +
				"line 5: teams[0] (red).colour: there is no such field, only admissionCheck, admissionMode, cohort, flavorFungibility, gpus, leastLostWork, localQueues, minimumRuntime, name, preemption, quotas, relocationsPerHour, stopPolicy, strategy, weight (docs/simulate.md)\n" +
				"line 7: jobs[0] (j).gpu: there is no such field, only ",
		},
		"bad values": {
			"in their own words", head + "horizon: soon\njobs:\n- {name: j, team: red, count: many, duration: 1x}\n",
			"line 2: horizon: \"soon\" is no duration: write it like 90s, 15m, 2h, 7d or 1d12h\n" +
				"line 4: jobs[0] (j).count: \"many\" is no number\n" +
				"line 4: jobs[0] (j).duration: \"1x\" is neither a number nor a duration like 90s, 15m, 2h or 7d",
		},
		"no duration": {
			"it panicked",
			head + "jobs:\n- {name: j, team: red, count: 1}\n- {name: k, team: rde, count: 1, duration: 1h}\n",
			"line 3: jobs[0] (j): has no duration: say how long its jobs run, for example duration: 1h\n" +
				"line 4: jobs[1] (k): there is no team \"rde\"",
		},
		"min above max": {
			"nothing can be drawn",
			head + "jobs:\n- name: j\n  team: red\n  count: 1\n  duration: {exponential: {mean: 1h}, min: 2h, max: 1h}\n  gpus: {uniform: {min: 8, max: 1}}\n",
			"line 6: jobs[0] (j).duration.min: is 7200 and max 3600: min must not be above max\n" +
				"line 7: jobs[0] (j).gpus.uniform: min is 8 and max 1: min must not be above max",
		},
		"zeros": {
			"they mean nothing",
			"seed: 0\nhorizon: 0\n" + head + "jobs: [{name: j, team: red, count: 1, duration: 1h}]\n",
			"line 1: seed: is 0: it must be at least 1; leave it out for 1\n" +
				"line 2: horizon: is 0: nothing would happen; leave it out to go on until nothing can happen any more",
		},
		"twice": {
			"which one holds?",
			head + "seed: 1\nname: a\nseed: 2\njobs: [{name: j, team: red, count: 1, duration: 1h}]\n",
			"line 4: seed: this is given twice",
		},
		"syntax": {"what is no YAML has a line as well", "teams:\n- {name: red\n", "line 1: "},
		"kind": {
			"a list is a list",
			"teams: {name: red}\njobs: 3\n",
			"line 1: teams: this must be a list\nline 2: jobs: this must be a list",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := worldfile.Parse([]byte(tc.text))
			if err == nil {
				_, err = worldfile.Build(f, nil)
			}
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("%s:\ngot  %v\nwant %s", tc.why, err, tc.want)
			}
		})
	}
}

// TestUnmatchedLabels: labels that no node has are told before anything waits.
func TestUnmatchedLabels(t *testing.T) {
	const text = `flavors:
- {name: h100, nodeLabels: {gpu: h100}}
- {name: typo, nodeLabels: {gpu: a1000}}
- {name: cloud, nodeLabels: {gpu: cloud}, onDemand: true}
nodes: [{name: n, count: 1, gpus: 8, labels: {gpu: h100, zone: a}}]
teams:
- {name: red, quotas: [{flavor: h100, resources: {nvidia.com/gpu: 8}}, {flavor: typo, resources: {nvidia.com/gpu: 8}}, {flavor: cloud, resources: {nvidia.com/gpu: 8}}]}
jobs:
- {name: a, team: red, count: 3, gpus: 8, duration: 1h}
- {name: b, team: red, count: 1, gpus: 8, duration: 1h, nodeSelector: {zone: b}}
`
	f, err := worldfile.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	const want = "line 3: flavors[1] (typo).nodeLabels: no node has the labels gpu=a1000: what asks for them waits for ever\n" +
		"line 10: jobs[1] (b).nodeSelector: no node has the labels zone=b: what asks for them waits for ever"
	if d := cmp.Diff(want, f.Unmatched().Error()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	r, err := sim.New(*build(t, text), sim.Watch{Check: true}).Finish()
	if err != nil {
		t.Fatal(err)
	}
	if r.Total.Used > 32 || r.Total.Finished == 0 {
		t.Errorf("%g GPU-hours were used: the flavor without nodes gave some", r.Total.Used)
	}
}

// TestWorldsRelocate: a gang gets the rack of a job that moves to another, where the team of that job lets it.
func TestWorldsRelocate(t *testing.T) {
	const text = `flavors: [{name: f, topology: [rack]}]
nodes: [{name: n, count: 4, gpus: 8, domains: {rack: 2}}]
teams:
- {name: red, cohort: org, gpus: 32, relocationsPerHour: %d}
- {name: blue, cohort: org, gpus: 16}
jobs:
- {name: short, team: red, count: 1, gpus: 8, duration: 10m}
- {name: long, team: red, count: 2, from: 1s, gpus: 8, duration: 5h, topology: {preferred: rack}}
- {name: brief, team: red, count: 1, from: 2s, gpus: 8, duration: 10m}
- {name: gang, team: blue, count: 1, from: 1h, gpus: 16, duration: 1h, topology: {required: rack}}
`
	for most, waits := range map[int]bool{0: true, 1: false} {
		r, err := sim.New(*build(t, fmt.Sprintf(text, most)), sim.Watch{Check: true}).Finish()
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range r.Jobs() {
			if j.Key.Name == "gang-0" && (j.Wait > 600) != waits {
				t.Errorf("with %d relocations per hour %s waited %g s", most, j.Key, j.Wait)
			}
		}
	}
	f, err := worldfile.Parse([]byte("teams: [{name: red, gpus: 8, relocationsPerHour: -1}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = worldfile.Build(f, nil)
	if err == nil || !strings.Contains(err.Error(), "relocationsPerHour: cannot be negative") {
		t.Errorf("a negative number: %v", err)
	}
}

// TestWorldsHaveRacks: a job that must be in one rack waits while no rack has room for it although the nodes together
// have, and one that asks for a label that no node has is warned of.
func TestWorldsHaveRacks(t *testing.T) {
	const text = `flavors: [{name: f, topology: [block, rack]}]
nodes: [{name: n, count: 8, gpus: 8, domains: {rack: 2, block: 4}}]
teams: [{name: red, gpus: 64, minimumRuntime: 10m}]
jobs:
- {name: small, team: red, count: 4, gpus: 8, duration: 2h, topology: {slices: [{level: rack, size: 1}]}}
- {name: rack, team: red, count: 3, from: 1m, gpus: 16, duration: 1h, topology: {required: %s}}
`
	r, err := sim.New(*build(t, fmt.Sprintf(text, "rack")), sim.Watch{Check: true}).Finish()
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range r.Jobs() {
		waits := j.Key.Name == "rack-2" // the four small ones share two racks, so that two are left
		if (j.Wait > 1800) != waits {
			t.Errorf("%s waited %g s", j.Key, j.Wait)
		}
	}
	f, err := worldfile.Parse([]byte(fmt.Sprintf(text, "row")))
	if err != nil {
		t.Fatal(err)
	}
	const want = "line 6: jobs[1] (rack).topology: no node has the label row: what asks for one domain of it waits for ever"
	if d := cmp.Diff(want, f.Unmatched().Error()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
