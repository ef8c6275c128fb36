package replay_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/whatif"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/record"
	"github.com/mlbatch/mlbatch/internal/replay"
)

// controller is a decision loop that is recorded.
type controller struct {
	t       *testing.T
	ring    *record.Ring
	engine  *cycle.Engine
	decided uint64
	second  int64
}

func start(t *testing.T, dir string) *controller {
	t.Helper()
	ring, err := record.OpenRing(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Close)
	c := &controller{t: t, ring: ring, engine: cycle.New(cycle.Options{}), second: 1000}
	if err := ring.Start(cycle.Options{}, nil, 0); err != nil {
		t.Fatal(err)
	}
	return c
}

// cycle tells the engine something, lets it decide, and records both.
func (c *controller) cycle(events ...core.Event) {
	c.t.Helper()
	c.second++
	for _, ev := range events {
		c.engine.Apply(ev)
	}
	now := time.Unix(c.second, 0)
	plan := c.engine.Decide(now)
	c.decided++
	if err := c.ring.Append(events, now, plan); err != nil {
		c.t.Fatal(err)
	}
}

// rotate goes on in a new recording.
func (c *controller) rotate() {
	c.t.Helper()
	s, err := c.engine.Dump()
	if err == nil {
		err = c.ring.Start(cycle.Options{}, s, c.decided)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func world() []core.Event {
	all := core.Selector{}
	return []core.Event{
		core.FlavorSet{Flavor: core.Flavor{Name: "f"}},
		core.NodeSet{
			Node: core.Node{
				Name:        "n1",
				State:       core.NodeReady,
				Allocatable: core.MakeResources(map[string]core.Amount{core.GPU: 8, core.Pods: 100}),
			},
		},
		core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "blue", Name: "q", Queue: "blue-queue"}},
		core.QueueSet{Queue: core.Queue{
			Name: "blue-queue", Namespaces: &all,
			Groups: []core.ResourceGroup{{
				Covered: []string{core.GPU},
				Flavors: []core.FlavorQuotas{{Flavor: "f", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 8}}}},
			}},
		}},
	}
}

func job(i int) core.Workload {
	at := time.Unix(int64(900+i), 0)
	return core.Workload{
		Key: core.Key{
			Namespace: "blue",
			Name:      fmt.Sprintf("job-%d", i),
		},
		UID:       fmt.Sprintf("u%03d", i),
		Queue:     "q",
		Created:   at,
		QueueTime: at,
		PodSets: []core.PodSet{
			{Name: "main", Count: 1, Requests: core.MakeResources(map[string]core.Amount{core.GPU: 4})},
		},
	}
}

// named is a job whose Workload has a name of its own.
func named(name string, i int) core.Workload {
	w := job(i)
	w.Key.Name = name
	return w
}

// of is the Workload of a job that people know by another name, with so many GPUs.
func of(owner, name string, i int, gpus core.Amount) core.Workload {
	w := named(name, i)
	w.Job = owner
	w.PodSets[0].Requests = core.MakeResources(map[string]core.Amount{core.GPU: gpus})
	return w
}

// day is a recorded history: jobs 0 and 1 run, 2 waits until 0 has ended.
func day(t *testing.T, dir string) *controller {
	t.Helper()
	c := start(t, dir)
	c.cycle(world()...)
	for i := range 3 {
		c.cycle(core.WorkloadSet{Workload: job(i)})
	}
	c.rotate()
	c.cycle(core.WorkloadGone{Key: job(0).Key})
	c.cycle()
	return c
}

func run(t *testing.T, r replay.Request) *replay.Report {
	t.Helper()
	report, err := replay.Run(r)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// text is a report with the names of directories taken out.
func text(t *testing.T, r *replay.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := whatif.PrintReplay(&b, r, cli.Layout{}); err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`\S*/flight-`).ReplaceAllString(b.String(), "DIR/flight-")
}

func TestReplay(t *testing.T) {
	key := func(i int) *core.Key { return &core.Key{Namespace: "blue", Name: fmt.Sprintf("job-%d", i)} }
	tests := map[string]struct {
		why     string
		change  func(t *testing.T, dir string, c *controller)
		request replay.Request
		want    string
	}{
		"all": {
			why: "what was decided is decided again",
			want: `2 recordings of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:46.000Z
8 events, 6 cycles, 4 decisions reproduced
`,
		},
		"until, waiting": {
			why:     "before its turn it waits",
			request: replay.Request{Until: replay.Time{At: time.Unix(1004, 0)}, Why: true, Job: key(2)},
			want: `2 recordings of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:44.000Z
7 events, 4 cycles, 3 decisions reproduced

blue/job-2 waits, number 1 in blue-queue. Couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor f, 4 more needed. Held by: blue/job-1, blue/job-0.
`,
		},
		"running": {
			why: "in the end it runs", request: replay.Request{Why: true, Job: key(2)},
			want: `2 recordings of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:46.000Z
8 events, 6 cycles, 4 decisions reproduced

blue/job-2 holds quota of blue-queue: 1 of main on n1.
`,
		},
		"gone": {
			why: "what has ended is forgotten", request: replay.Request{Why: true, Job: key(0)},
			want: `2 recordings of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:46.000Z
8 events, 6 cycles, 4 decisions reproduced

blue/job-0 has ended, or was deleted, before this time.
`,
		},
		"by job": {
			why: "people know their job and not its Workload",
			change: func(t *testing.T, _ string, c *controller) {
				t.Helper()
				c.cycle(core.WorkloadSet{Workload: named("appwrapper-train-1a2b3", 7)})
			},
			request: replay.Request{Why: true, Job: &core.Key{Namespace: "blue", Name: "train"}},
			want: `2 recordings of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:47.000Z
9 events, 7 cycles, 5 decisions reproduced

blue/appwrapper-train-1a2b3 waits, number 1 in blue-queue. Couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor f, 4 more needed. Held by: blue/job-2, blue/job-1.
`,
		},
		"unknown": {
			why:     "no recording names it",
			request: replay.Request{Why: true, Job: &core.Key{Namespace: "blue", Name: "x"}},
			want: `2 recordings of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:46.000Z
8 events, 6 cycles, 4 decisions reproduced

blue/x is not known at this time: no job or Workload of that name was recorded until then. In its namespace: blue/job-0, blue/job-1, blue/job-2. --list shows all.
`,
		},
		"list": {
			why: "which ones there are", request: replay.Request{List: true},
			want: `2 recordings of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:46.000Z
8 events, 6 cycles, 4 decisions reproduced

JOB         QUEUE       FIRST SEEN                STATE        SINCE                     ADMITTED  EVICTED
blue/job-0  blue-queue  1970-01-01T00:16:42.000Z  gone         1970-01-01T00:16:45.000Z  1         0
blue/job-1  blue-queue  1970-01-01T00:16:43.000Z  holds quota  1970-01-01T00:16:43.000Z  1         0
blue/job-2  blue-queue  1970-01-01T00:16:44.000Z  holds quota  1970-01-01T00:16:45.000Z  1         0
`,
		},
		"list from": {
			why:     "what was over before is left out",
			request: replay.Request{List: true, From: replay.Time{At: time.Unix(1006, 0)}},
			want: `2 recordings of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:46.000Z
8 events, 6 cycles, 4 decisions reproduced

JOB         QUEUE       FIRST SEEN                STATE        SINCE                     ADMITTED  EVICTED
blue/job-1  blue-queue  1970-01-01T00:16:43.000Z  holds quota  1970-01-01T00:16:43.000Z  1         0
blue/job-2  blue-queue  1970-01-01T00:16:44.000Z  holds quota  1970-01-01T00:16:45.000Z  1         0
`,
		},
		"names of jobs": {
			why: "people know their job, in what others wait for, too; its Workload's name will do",
			change: func(t *testing.T, _ string, c *controller) {
				t.Helper()
				c.cycle(core.WorkloadGone{Key: job(1).Key}, core.WorkloadGone{Key: job(2).Key})
				c.cycle(core.WorkloadSet{Workload: of("PyTorchJob/train", "pytorchjob-train-1a2b3", 7, 8)})
				c.cycle(core.WorkloadSet{Workload: of("Job/eval", "job-eval-4c5d6", 8, 8)})
			},
			request: replay.Request{Timeline: true, Why: true, Job: &core.Key{Namespace: "blue", Name: "eval"}},
			want: `2 recordings of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:49.000Z
12 events, 9 cycles, 6 decisions reproduced

Job blue/eval waits, number 1 in blue-queue. Couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor f, 8 more needed. Held by: blue/train.

Job blue/eval
  1970-01-01T00:16:49.000Z  is submitted to local queue q, priority 0
  1970-01-01T00:16:49.000Z  waits: couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor f, 8 more needed
`,
		},
		"a job of a recorded state": {
			why: "its name is in the state with which a recording begins",
			change: func(t *testing.T, dir string, c *controller) {
				t.Helper()
				c.cycle(core.WorkloadSet{Workload: of("Job/eval", "job-eval-4c5d6", 8, 4)})
				c.rotate()
				c.cycle(core.WorkloadGone{Key: job(1).Key})
				for _, old := range []int{1, 2} {
					if err := os.Remove(filepath.Join(dir, fmt.Sprintf("flight-%08d.jsonl", old))); err != nil {
						t.Fatal(err)
					}
				}
			},
			request: replay.Request{Timeline: true},
			want: `1 recording of 1 run, 1970-01-01T00:16:48.000Z to 1970-01-01T00:16:48.000Z
1 event, 1 cycle, 1 decision reproduced

1970-01-01T00:16:48.000Z  blue/job-1 is known
1970-01-01T00:16:48.000Z  blue/job-2 is known
1970-01-01T00:16:48.000Z  Job blue/eval is known
1970-01-01T00:16:48.000Z  blue/job-1 is gone: it finished or was deleted, and holds nothing any more
1970-01-01T00:16:48.000Z  Job blue/eval is admitted to blue-queue: 1 of main on n1
`,
		},
		"timeline between two times": {
			why: "of all that there is, what it began with left out",
			change: func(t *testing.T, _ string, c *controller) {
				t.Helper()
				c.cycle(core.NodeSet{Node: core.Node{Name: "n2", State: "Down", Why: "cordoned"}})
				c.cycle(core.FlavorSet{Flavor: core.Flavor{Name: "f"}}, core.FlavorSet{Flavor: core.Flavor{Name: "g"}})
				c.cycle(core.FlavorGone{Name: "g"}, core.FlavorGone{Name: "h"})
			},
			request: replay.Request{
				Timeline: true,
				From:     replay.Time{At: time.Unix(1005, 0)},
				Until:    replay.Time{At: time.Unix(1009, 0)},
			},
			want: `2 recordings of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:49.000Z
13 events, 9 cycles, 4 decisions reproduced

1970-01-01T00:16:45.000Z  blue/job-0 is gone: it finished or was deleted, and holds nothing any more
1970-01-01T00:16:45.000Z  blue/job-2 is admitted to blue-queue: 1 of main on n1
1970-01-01T00:16:47.000Z  Node n2 is Down: cordoned
1970-01-01T00:16:48.000Z  ResourceFlavor g is there
1970-01-01T00:16:49.000Z  ResourceFlavor g is gone
`,
		},
		"timeline of a queue": {
			why: "its jobs, and what was done to it",
			change: func(t *testing.T, _ string, c *controller) {
				t.Helper()
				q := world()[3].(core.QueueSet)
				q.Queue.Stop = core.Hold
				c.cycle(q, core.NodeSet{Node: core.Node{Name: "n2", State: core.NodeReady}})
				q.Queue.Stop = ""
				c.cycle(q)
			},
			request: replay.Request{Timeline: true, From: replay.Time{At: time.Unix(1006, 0)}, Queue: "blue-queue"},
			want: `2 recordings of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:48.000Z
11 events, 8 cycles, 4 decisions reproduced

ClusterQueue blue-queue
  1970-01-01T00:16:47.000Z  is stopped: Hold
  1970-01-01T00:16:48.000Z  is resumed
`,
		},
		"unknown queue": {
			why: "the ones that there are", request: replay.Request{Timeline: true, Queue: "red"},
			want: `2 recordings of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:46.000Z
8 events, 6 cycles, 4 decisions reproduced

ClusterQueue red is not known at this time. There are: blue-queue.
`,
		},
		"summary": {
			why:     "job-2 waited from its creation at 00:15:02 on",
			request: replay.Request{Summary: true, From: replay.Time{At: time.Unix(1003, 0)}},
			want: `2 recordings of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:46.000Z
8 events, 6 cycles, 4 decisions reproduced

From 1970-01-01T00:16:43.000Z to 1970-01-01T00:16:46.000Z:
QUEUE       SUBMITTED  ADMITTED  EVICTED  ENDED  WAIT P50  WAIT P90  WAITING  HOLDING
blue-queue  2          2         0        1      1m42s     1m43s     0        2
all         2          2         0        1      1m42s     1m43s     0        2
`,
		},
		"a job that went while nothing was recorded": {
			why: "the next controller is not told of it, so it is gone",
			change: func(t *testing.T, dir string, _ *controller) {
				t.Helper()
				c := start(t, dir)
				c.second = 2000
				c.cycle(append(world(), core.WorkloadSet{Workload: job(1)})...)
			},
			request: replay.Request{Timeline: true, From: replay.Time{At: time.Unix(1006, 0)}},
			want: `3 recordings of 2 runs, 1970-01-01T00:16:41.000Z to 1970-01-01T00:33:21.000Z
13 events, 7 cycles, 5 decisions reproduced

1970-01-01T00:33:21.000Z  blue/job-1 is admitted to blue-queue: 1 of main on n1
1970-01-01T00:33:21.000Z  blue/job-2 is gone: it finished or was deleted, and holds nothing any more
`,
		},
		"timeline": {
			why: "what happened to one", request: replay.Request{Timeline: true, Job: key(2)},
			want: `2 recordings of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:46.000Z
8 events, 6 cycles, 4 decisions reproduced

blue/job-2
  1970-01-01T00:16:44.000Z  is submitted to local queue q, priority 0
  1970-01-01T00:16:44.000Z  waits: couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor f, 4 more needed
  1970-01-01T00:16:45.000Z  is admitted to blue-queue: 1 of main on n1
`,
		},
		"time of day": {
			why: "the last in the recordings",
			request: replay.Request{
				Until: replay.Time{Clock: new(16*time.Minute + 44*time.Second)},
				Why:   true,
				Job:   key(2),
			},
			want: `2 recordings of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:44.000Z
7 events, 4 cycles, 3 decisions reproduced

blue/job-2 waits, number 1 in blue-queue. Couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor f, 4 more needed. Held by: blue/job-1, blue/job-0.
`,
		},
		"restart": {
			why:    "a new process begins with an engine that knows nothing",
			change: func(t *testing.T, dir string, _ *controller) { t.Helper(); day(t, dir) },
			want: `4 recordings of 2 runs, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:46.000Z
16 events, 12 cycles, 8 decisions reproduced
`,
		},
		"gap": {
			why: "after a gap the recorded state is where it goes on",
			change: func(t *testing.T, _ string, c *controller) {
				t.Helper()
				c.engine.Apply(core.WorkloadGone{Key: job(1).Key}) // left out
				c.engine.Decide(time.Unix(1010, 0))
				c.decided++
				c.rotate()
				c.cycle(core.WorkloadSet{Workload: job(3)})
			},
			want: `3 recordings of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:47.000Z
9 events, 7 cycles, 5 decisions reproduced
1 gap between recordings, where writing was too slow
`,
		},
		"killed": {
			why: "the line that was being written is not there",
			change: func(t *testing.T, dir string, _ *controller) {
				t.Helper()
				edit(t, dir, 2, func(s string) string { return s[:len(s)-10] })
			},
			want: `2 recordings of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:45.000Z
8 events, 5 cycles, 4 decisions reproduced
a recording ends within a line: its writer was stopped there
`,
		},
		"killed at the start of a recording": {
			why: "all that came before counts",
			change: func(t *testing.T, dir string, _ *controller) {
				t.Helper()
				edit(t, dir, 2, func(string) string { return `{"recording":1,"dec` })
			},
			want: `1 recording of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:44.000Z
7 events, 4 cycles, 3 decisions reproduced
a recording ends within a line: its writer was stopped there
`,
		},
		"other decision": {
			why: "the first difference is shown with what led to it",
			change: func(t *testing.T, dir string, _ *controller) {
				t.Helper()
				edit(t, dir, 2, func(s string) string {
					return strings.Replace(s, `"Places":[{"Node":"n1"`, `"Places":[{"Node":"n2"`, 1)
				})
			},
			want: `2 recordings of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:44.000Z
7 events, 4 cycles, 3 decisions reproduced

DIFFERENT: the state of the engine at 1970-01-01T00:16:44.000Z, DIR/flight-00000002.jsonl line 1
`,
		},
		"lost decision": {
			why: "a decision that was not recorded",
			change: func(t *testing.T, dir string, _ *controller) {
				t.Helper()
				edit(t, dir, 1, func(s string) string {
					return regexp.MustCompile(`(?m)^(\{"decide":"1970-01-01T00:16:43Z").*$`).ReplaceAllString(s, "$1}")
				})
			},
			want: `1 recording of 1 run, 1970-01-01T00:16:41.000Z to 1970-01-01T00:16:43.000Z
6 events, 3 cycles, 1 decision reproduced

DIFFERENT: decision 1 of 1970-01-01T00:16:43.000Z, DIR/flight-00000001.jsonl line 10
  told      {"WorkloadSet":{"Workload":{"Key":"blue/job-1","UID":"u001","Queue":"q","Created":"1970-01-01T00:15:01Z","QueueTime":"1970-01-01T00:15:01Z","PodSets":[{"Name":"main","Count":1,"Requests":[{"Resource":"nvidia.com/gpu","Amount":4}]}]}}}
  recorded  (nothing more)
  replayed  {"Admit":{"Key":"blue/job-1","Admission":{"Queue":"blue-queue","PodSets":[{"Name":"main","Count":1,"Flavors":[{"Resource":"nvidia.com/gpu","Flavor":"f"}],"Usage":[{"Resource":"nvidia.com/gpu","Amount":4}],"Places":[{"Node":"n1","Count":1}]}]}}}
`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := day(t, dir)
			if tc.change != nil {
				tc.change(t, dir, c)
			}
			tc.request.Path = dir
			got := text(t, run(t, tc.request))
			if i := strings.Index(got, "line 1\n"); i >= 0 { // states are long
				got = got[:i+len("line 1\n")]
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

// edit changes the text of a recording.
func edit(t *testing.T, dir string, number int, change func(string) string) {
	t.Helper()
	path := filepath.Join(dir, fmt.Sprintf("flight-%08d.jsonl", number))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(change(string(b))), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestJSON(t *testing.T) {
	dir := t.TempDir()
	day(t, dir)
	r := run(
		t,
		replay.Request{
			Path:    filepath.Join(dir, "flight-00000002.jsonl"),
			Why:     true,
			Job:     &core.Key{Namespace: "blue", Name: "job-2"},
			Summary: true,
		},
	)
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back replay.Report
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, &back, cmpopts.IgnoreUnexported(replay.QueueSummary{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if back.Cycles != 2 || back.Decisions != 1 || back.Difference != nil || back.Why.Queue != "blue-queue" {
		t.Errorf("a recording can be read alone: %s", b)
	}
}

// A recording of a program whose states had other names for some fields: with a
// reservation, a group that others' reservations block, and past usage.
func TestRecordingsOfStateVersion2(t *testing.T) {
	r := run(t, replay.Request{Path: "testdata/version-2"})
	if r.Difference != nil || r.Decisions == 0 {
		t.Errorf("%s", text(t, r))
	}
}

func TestUnreadable(t *testing.T) {
	tests := map[string]struct {
		why, says string
		change    func(string) string
	}{
		"unknown field": {
			"names file and line",
			"flight-00000002.jsonl: line 2: WorkloadGone: Kee",
			func(s string) string {
				return strings.Replace(s, `{"WorkloadGone":{"Key"`, `{"WorkloadGone":{"Kee"`, 1)
			},
		},
		"options of a newer program": {"it would decide otherwise", "line 1: options: Luck", func(s string) string {
			return strings.Replace(s, `"options":{}`, `"options":{"Luck":1}`, 1)
		}},
		"state of another version": {
			"it would be loaded with another meaning",
			"state has version 7",
			func(s string) string {
				return strings.Replace(
					s,
					fmt.Sprintf(`"state":{"Version":%d`, cycle.StateVersion),
					`"state":{"Version":7`,
					1,
				)
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			day(t, dir)
			edit(t, dir, 2, tc.change)
			if _, err := replay.Run(replay.Request{Path: dir}); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: got %v, want %q", tc.why, err, tc.says)
			}
		})
	}
}

// TestRecordings lists files, those that cannot be replayed as well.
func TestRecordings(t *testing.T) {
	dir := t.TempDir()
	c := day(t, dir)
	c.decided++ // something was not written
	c.rotate()
	c = start(t, dir)
	c.cycle(world()...)
	c.rotate()
	edit(t, dir, 2, func(s string) string {
		return strings.Replace(s, `{"WorkloadGone":{"Key"`, `{"WorkloadGone":{"Kee"`, 1)
	})
	edit(t, dir, 4, func(s string) string { return s[:len(s)-5] })
	list := func() string {
		t.Helper()
		all, err := replay.Recordings(dir)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := whatif.PrintRecordings(&b, all, cli.Layout{}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	want := `FILE                   FROM                      TO                        BEGINS     MB   EVENTS  CYCLES  DECISIONS  ENDS
flight-00000001.jsonl  1970-01-01T00:16:41.000Z  1970-01-01T00:16:44.000Z  start      0.0  7       4       3          whole
`
	if got := list(); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant it to begin with\n%s", got, want)
	}
	for _, row := range []string{
		`flight-00000002.jsonl  -  -  continued .* cannot be read: line 2`,
		`flight-00000003.jsonl  -  -  gap .* whole`,
		`flight-00000004.jsonl  -  -  start .* within a line`,
		`flight-00000005.jsonl  -  -  gap .* whole`,
	} {
		if !regexp.MustCompile(`(?m)^` + strings.ReplaceAll(row, "  ", " +") + `.*$`).MatchString(list()) {
			t.Errorf("no row like %s in\n%s", row, list())
		}
	}
}
