package whatif_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/whatif"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/record"
	"github.com/mlbatch/mlbatch/internal/replay"
	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/worldfile"
	"github.com/mlbatch/mlbatch/internal/testkit"
)

// tape is a flight recorder of a simulated world.
type tape struct {
	t   testing.TB
	out *bytes.Buffer
	w   *record.Writer
}

func (x *tape) Began(o cycle.Options) {
	w, err := record.NewWriter(x.out, o, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	x.w = w
}

func (x *tape) Event(ev core.Event) {
	if err := x.w.Event(ev); err != nil {
		x.t.Fatal(err)
	}
}

func (x *tape) Decided(at time.Time, plan core.Plan) {
	if err := x.w.Decide(at, plan); err != nil {
		x.t.Fatal(err)
	}
}

// world is two teams that lend to each other: red asks for more than it has at once, and
// blue comes back for its own.
const world = `
name: two teams
horizon: 2d
cohorts: [{name: org}]
nodes: [{name: node, count: 4, gpus: 8, cpu: 96, memory: 1Ti}]
teams:
- {name: red, cohort: org, gpus: 16}
- {name: blue, cohort: org, gpus: 16}
clusterModel: {write: 0s, observe: 0s, start: 0s, stop: 0s}
jobs:
- {name: sweep, team: red, until: 2d, arrival: {every: 20m}, gpus: {fixed: 8}, duration: {uniform: {min: 30m, max: 3h}}}
- {name: train, team: blue, until: 2d, arrival: {poisson: 3h}, gpus: {fixed: 16}, duration: {fixed: 2h}}
events: [{at: 20h, node: node-0, state: Closed, for: 2h}]
`

// recordWorld runs a world and returns a recording of it, and what came of it.
func recordWorld(t testing.TB, text string) (path string, result *sim.Result) {
	t.Helper()
	f, err := worldfile.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	w, err := worldfile.Build(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := &tape{t: t, out: &bytes.Buffer{}}
	result, err = sim.New(*w, sim.Watch{Log: x}).Finish()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "flight-00000001.jsonl")
	if err := os.WriteFile(path, x.out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, result
}

func read(t *testing.T, path string) *replay.Past {
	t.Helper()
	p, err := replay.ReadPast(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// queue is the manifest of a team's ClusterQueue.
func queue(name string, gpus int, more string) string {
	return fmt.Sprintf(`apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %s}
spec:
  cohortName: org
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: default-flavor, resources: [{name: nvidia.com/gpu, nominalQuota: %d}]}]
%s`, name, gpus, more)
}

// asRecorded is the preemption that world's teams have.
const asRecorded = "  preemption: {withinClusterQueue: LowerPriority, reclaimWithinCohort: Any}\n"

func policy(t testing.TB, name, text string) *whatif.Policy {
	t.Helper()
	p, err := whatif.ReadPolicy(name, []byte(text), func(string, []byte) (*cycle.Options, error) {
		return &cycle.Options{FairSharing: core.DefaultFairSharing()}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func compare(t *testing.T, path string, policies ...*whatif.Policy) *whatif.Comparison {
	t.Helper()
	c, err := whatif.Compare(t.Context(), read(t, path), policies)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRecordedPolicyIsReproduced: a cluster that answers at once, as the simulator's does, is
// simulated exactly, job by job; and what is measured in its recording is what it measured.
func TestRecordedPolicyIsReproduced(t *testing.T) {
	path, was := recordWorld(t, world)
	c := compare(t, path)
	if c.Trust.Near != c.Trust.Jobs || c.Trust.Jobs == 0 || c.Trust.Used != 1 {
		t.Errorf("trust is %+v: every job must have quota when it really had it", c.Trust)
	}
	for _, d := range c.Differences {
		if d.Recorded != d.Values[0] {
			t.Errorf("%s, %s: recorded %v, simulated %v", d.Team, d.Measure, d.Recorded, d.Values[0])
		}
	}
	if was.Total.Preempted == 0 || was.Total.Preempted != c.Recorded.Total.Preempted ||
		was.Total.Wait != c.Recorded.Total.Wait {
		t.Errorf("recorded %+v\nbut it was %+v", c.Recorded.Total, was.Total)
	}
}

// TestSamePolicyChangesNothing: a policy that says what is, and a file of nothing new.
func TestSamePolicyChangesNothing(t *testing.T) {
	path, _ := recordWorld(t, world)
	same := queue("red", 16, asRecorded) + "---\n" + queue("blue", 16, asRecorded)
	c := compare(t, path, policy(t, "same.yaml", same), policy(t, "again.yaml", same))
	for _, d := range c.Differences {
		for i, change := range d.Changes {
			if change != 0 {
				t.Errorf("%s, %s changes by %v in %s", d.Team, d.Measure, change, c.Policies[i].World)
			}
		}
	}
	if len(c.Policies) != 3 {
		t.Errorf("%d policies, want 3", len(c.Policies))
	}
}

// TestPolicies: what is changed has the effect that it has in a cluster.
func TestPolicies(t *testing.T) {
	path, _ := recordWorld(t, world)
	at := func(c *whatif.Comparison, team, measure string) (was, is float64) {
		for _, d := range c.Differences {
			if d.Team == team && d.Measure == measure {
				return d.Values[0], d.Values[1]
			}
		}
		t.Fatalf("no %s of %s", measure, team)
		return 0, 0
	}
	tests := map[string]struct {
		why, text, team, measure string
		want                     func(was, is float64) bool
	}{
		"no preemption": {
			"nobody is evicted for another",
			queue("red", 16, "") + "---\n" + queue("blue", 16, ""),
			"all",
			"preemptions",
			func(was, is float64) bool { return was > 0 && is == 0 },
		},
		"more quota": {
			"blue waits less with what it asks for", queue("blue", 32, asRecorded), "blue", "wait p90",
			func(was, is float64) bool { return is <= was },
		},
		"less quota": {
			"red uses less when nothing is lent",
			queue("blue", 16, asRecorded+"  stopPolicy: Hold\n"),
			"blue",
			"GPU-hours used",
			func(was, is float64) bool { return was > 0 && is == 0 },
		},
		"no lending": {
			"red has only its own",
			strings.ReplaceAll(queue("red", 16, asRecorded), "cohortName: org", "cohortName: alone"),
			"red",
			"utilisation",
			func(was, is float64) bool { return was > 1 && is <= 1 },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := compare(t, path, policy(t, "p.yaml", tc.text))
			if was, is := at(c, tc.team, tc.measure); !tc.want(was, is) {
				t.Errorf("%s of %s was %v and is %v: %s", tc.measure, tc.team, was, is, tc.why)
			}
		})
	}
}

func TestReadPolicyRefuses(t *testing.T) {
	tests := map[string]struct{ why, text, says string }{
		"empty": {"nothing would differ", "", "has no object"},
		"other kind": {
			"a Job is no policy",
			"apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\n",
			"p.yaml:1: Job x: is of batch/v1",
		},
		"typo": {
			"the field is named",
			strings.Replace(queue("red", 16, ""), "cohortName", "cohrtName", 1),
			"cohrtName",
		},
		"no quota": {
			"a fragment is no queue",
			"apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: red}\nspec: {namespaceSelector: {}}\n",
			"spec.resourceGroups: is missing",
		},
		"no selector": {
			"it would admit nothing",
			strings.Replace(queue("red", 16, ""), "  namespaceSelector: {}\n", "", 1),
			"spec.namespaceSelector: is missing",
		},
		"twice": {
			"one would be lost",
			queue("red", 16, "") + "---\n" + queue("red", 8, ""),
			"is listed twice",
		},
		"workload": {
			"jobs are the recording's",
			"apiVersion: kueue.x-k8s.io/v1beta2\nkind: Workload\nmetadata: {name: x}\n",
			"is no policy",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := whatif.ReadPolicy(
				"p.yaml",
				[]byte(tc.text),
				func(string, []byte) (*cycle.Options, error) { return nil, errors.New("unused") },
			)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: got %v, want it to say %q", tc.why, err, tc.says)
			}
		})
	}
}

// TestPrints compares what is printed with files: at three widths, as a picture and a page.
func TestPrints(t *testing.T) {
	path, _ := recordWorld(t, world)
	c := compare(
		t,
		path,
		policy(t, "no-preemption.yaml", queue("red", 16, "")+"---\n"+queue("blue", 16, "")),
		policy(t, "more.yaml", queue("blue", 24, asRecorded)),
	)
	past, err := replay.Run(
		replay.Request{
			Path:     path,
			List:     true,
			Timeline: true,
			Summary:  true,
			Until:    replay.Time{At: time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC)},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	replayed := func(width int) func(io.Writer) error {
		return func(w io.Writer) error { return whatif.PrintReplay(w, past, cli.Layout{Width: width}) }
	}
	for name, show := range map[string]func(io.Writer) error{
		"replay-60": replayed(60), "replay-80": replayed(80), "replay-140": replayed(140),

		"text-60":  func(w io.Writer) error { return c.Text(w, 60) },
		"text-80":  func(w io.Writer) error { return c.Text(w, 80) },
		"text-140": func(w io.Writer) error { return c.Text(w, 140) },
		"svg":      c.SVG,
		"html":     c.HTML,
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := show(&b); err != nil {
				t.Fatal(err)
			}
			testkit.Golden(t, filepath.Join("testdata", name+".golden"), b.String())
		})
	}
}

// TestPagesAreHarmless: a policy's name, which is a file's, and a team's stay text.
func TestPagesAreHarmless(t *testing.T) {
	path, _ := recordWorld(t, world)
	c := compare(t, path, policy(t, `"><script>alert(1)</script>&.yaml`, queue("blue", 24, asRecorded)))
	for _, r := range append(c.Policies, c.Recorded) {
		for i := range r.Teams {
			r.Teams[i].Team += "<script>x</script>"
			r.Timeline.Teams[i].Team += "<script>x</script>"
		}
	}
	for i := range c.Differences {
		c.Differences[i].Team += "<script>x</script>"
	}
	var svg, page bytes.Buffer
	if err := errors.Join(c.SVG(&svg), c.HTML(&page)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page.String(), "<script") || strings.Contains(svg.String(), "<script") {
		t.Error("a name became an element")
	}
	for _, outside := range []string{"src=", "href=", "url(", "@import"} {
		if strings.Contains(page.String(), outside) {
			t.Errorf("the page refers to something else: %s", outside)
		}
	}
	d := xml.NewDecoder(&svg)
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
	}
}

// TestAssumed: what a recording does not say is counted, and a job that is there again under
// its name is another.
func TestAssumed(t *testing.T) {
	var b bytes.Buffer
	w, err := record.NewWriter(&b, cycle.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	engine, all := cycle.New(cycle.Options{}), core.Selector{}
	at := func(minute int, events ...core.Event) {
		now := time.Unix(1_000_000, 0).Add(time.Duration(minute) * time.Minute)
		for _, ev := range events {
			engine.Apply(ev)
			if err := w.Event(ev); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Decide(now, engine.Decide(now)); err != nil {
			t.Fatal(err)
		}
	}
	job := func(name, uid string) core.WorkloadSet {
		return core.WorkloadSet{Workload: core.Workload{
			Key: core.Key{
				Namespace: "blue",
				Name:      name,
			},
			UID:       uid,
			Queue:     "q",
			Created:   time.Unix(1_000_000, 0),
			QueueTime: time.Unix(1_000_000, 0),
			PodSets: []core.PodSet{
				{Name: "main", Count: 1, Requests: core.MakeResources(map[string]core.Amount{core.GPU: 8})},
			},
		}}
	}
	gone := func(name string) core.WorkloadGone {
		return core.WorkloadGone{Key: core.Key{Namespace: "blue", Name: name}}
	}
	at(
		0,
		core.FlavorSet{Flavor: core.Flavor{Name: "f"}},
		core.NodeSet{
			Node: core.Node{
				Name:        "n1",
				State:       core.NodeReady,
				Allocatable: core.MakeResources(map[string]core.Amount{core.GPU: 8, core.Pods: 100}),
			},
		},
		core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "blue", Name: "q", Queue: "blue-queue"}},
		core.QueueSet{Queue: core.Queue{Name: "blue-queue", Namespaces: &all, Groups: []core.ResourceGroup{
			{
				Covered: []string{
					core.GPU,
				},
				Flavors: []core.FlavorQuotas{{Flavor: "f", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 8}}}},
			},
		}}},
	)
	at(1, job("a", "1"))
	at(2, job("b", "2"))
	at(5, gone("b")) // it never ran
	at(11, gone("a"))
	at(12, job("a", "3")) // again under its name
	at(14, job("c", "4"))
	at(20)
	path := filepath.Join(t.TempDir(), "x.jsonl")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	c := compare(t, path)
	want := whatif.Assumed{Running: 1, Waiting: 1, TakenBack: 1}
	if d := cmp.Diff(want, c.Assumed); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if c.Jobs != 4 || c.Trust.Near != 2 {
		t.Errorf("%d jobs, trust %+v: want 4, and both that ran", c.Jobs, c.Trust)
	}
	data, err := json.Marshal(c)
	if err != nil || !bytes.Contains(data, []byte(`"stillRunning":1`)) {
		t.Errorf("%v: %s", err, data)
	}
}
