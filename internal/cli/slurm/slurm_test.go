package slurm_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli/slurm"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/testkit"
	"github.com/mlbatch/mlbatch/internal/view"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // moments are told where people are
	os.Exit(m.Run())
}

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) *time.Time { return new(now.Add(-d)) }

// jobs are one of each state.
func jobs() []view.Job {
	all := []view.Job{
		{
			Name:          "train-12345",
			Title:         "train",
			State:         view.Running,
			Since:         ago(26 * time.Hour),
			Nodes:         []string{"node-0", "node-1"},
			Pods:          2,
			Running:       2,
			GPUs:          16,
			Priority:      new(int32(5)),
			PriorityClass: "urgent",
			User:          "alice",
			TimeLimit:     new(int32(48 * 3600)),
		},
		{
			Name:   "sweep-23456",
			Title:  "sweep",
			State:  view.Waiting,
			Reason: "WaitingForQuota",
			Pods:   10,
			GPUs:   10,
			Start:  &visibility.Start{P50: new(metav1.NewTime(now.Add(time.Hour)))},
		},
		{Name: "held", State: view.Held, Reason: "Deactivated", Pods: 1},
		{Name: "starts", State: view.Starting, Nodes: []string{"node-2"}, Pods: 1},
		{Name: "stops", State: view.Stopping, Nodes: []string{"node-2"}, Pods: 1},
		{Name: "good", State: view.Succeeded, Since: ago(time.Minute), Pods: 1, ExitCode: new(int32(0))},
		{Name: "bad", State: view.Failed, Since: ago(time.Minute), Pods: 1, ExitCode: new(int32(3))},
		{Name: "killed", State: view.Failed, Since: ago(time.Minute), Pods: 1, ExitCode: new(int32(137))},
		{Name: "gone", State: view.Failed, Since: ago(time.Minute), Pods: 1},
		{Name: "late", State: view.Held, Reason: "DeactivatedDueToMaximumExecutionTimeExceeded", Pods: 1},
		{Name: "evil\x1b[31m", State: view.Waiting, Reason: "R\x1b[0m", Pods: 1},
	}
	for i := range all {
		all[i].Namespace, all[i].Queue, all[i].Created = "blue", "default-queue", now.Add(-48*time.Hour)
	}
	return all
}

// golden compares what was printed with a file in testdata, and looks for what a terminal would obey.
func golden(t *testing.T, name, got string) {
	t.Helper()
	testkit.Golden(t, filepath.Join("testdata", name+".txt"), got)
	if strings.Contains(got, "\x1b") {
		t.Error("a terminal would obey a name")
	}
}

func TestSqueue(t *testing.T) {
	tests := map[string]slurm.Queue{
		"squeue-60":  {Width: 60},
		"squeue-80":  {Width: 80},
		"squeue-140": {Width: 140},
		"squeue-all": {
			All:   true,
			Width: 140,
		},
		"squeue-long":    {Long: true, Width: 140},
		"squeue-long-60": {Long: true, Width: 60},
		"squeue-start":   {Starts: true, Width: 140, Bare: true},
		"squeue-format": {
			Format: "%.18i|%9P|%.8j %.8u %.2t %.10M %.6D %R %S %V %Q %b",
		},
		"squeue-limits": {Format: "%i %l %L %e %a"},
	}
	for name, q := range tests {
		t.Run(name, func(t *testing.T) {
			q.Now = now
			var out bytes.Buffer
			if err := q.Print(&out, (&slurm.Filter{}).Select(jobs())); err != nil {
				t.Fatal(err)
			}
			golden(t, name, out.String())
		})
	}
}

func TestSacct(t *testing.T) {
	tests := map[string]slurm.Accounts{
		"sacct":          {},
		"sacct-parsable": {Fields: "jobid,state,exitcode,elapsed,end", Parsable: true, Ends: true},
		"sacct-width":    {Fields: "JobID%6,State", Bare: true},
	}
	for name, a := range tests {
		t.Run(name, func(t *testing.T) {
			a.Now = now
			var out bytes.Buffer
			if err := a.Print(&out, (&slurm.Filter{Ended: true}).Select(jobs())); err != nil {
				t.Fatal(err)
			}
			golden(t, name, out.String())
		})
	}
}

// TestWithPast: what was deleted is listed, what is there once, and one that is made again is
// another.
func TestWithPast(t *testing.T) {
	row := func(name string, state view.State, submitted time.Duration) view.Job {
		return view.Job{
			Kind:      "Job",
			Namespace: "blue",
			Name:      name,
			State:     state,
			Created:   *ago(submitted),
			Since:     ago(time.Minute),
		}
	}
	remembered := func(name string, state history.JobState, submitted time.Duration) view.PastJob {
		return view.PastJob{
			Kind:      "Job",
			Namespace: "blue",
			Name:      name,
			State:     state,
			Submitted: *ago(submitted),
			Started:   ago(submitted - time.Minute),
			Ended:     *ago(time.Minute),
			ExitCode:  new(int32(3)),
			Queue:     "default-queue",
			Pods:      2,
			GPUs:      8,
			User:      "alice",
			Reason:    "Deleted",
		}
	}
	before := remembered("again", history.Cancelled, 5*time.Hour)
	before.Ended = *ago(time.Hour) // in the second in which it was made again
	rows := slurm.WithPast([]view.Job{
		row(
			"there",
			view.Failed,
			9*time.Hour,
		),
		row("again", view.Running, time.Hour),
		row("early", view.Failed, 6*time.Hour),
	}, []view.PastJob{
		remembered(
			"there",
			history.Failed,
			9*time.Hour-time.Second,
		),
		before,
		remembered("early", history.Failed, 6*time.Hour+time.Second),
		remembered("deleted", history.Failed, 7*time.Hour),
		remembered("good", history.Succeeded, 8*time.Hour),
	})
	var out bytes.Buffer
	a := slurm.Accounts{Now: now, Fields: "all", Parsable: true}
	if err := a.Print(&out, (&slurm.Filter{Ended: true}).Select(rows)); err != nil {
		t.Fatal(err)
	}
	golden(t, "sacct-past", out.String())
}

func TestSinfo(t *testing.T) {
	node := func(n int, state core.NodeState, gpus int64, free int64, pods int) view.Node {
		return view.Node{Name: "node-" + strconv.Itoa(n), State: state, GPUs: gpus, Free: &free, Pods: &pods}
	}
	all := []slurm.Partition{
		{Name: "blue", Up: true, Nodes: []view.Node{
			node(
				0,
				core.NodeReady,
				8,
				8,
				1,
			),
			node(1, core.NodeReady, 8, 3, 1),
			node(2, core.NodeWarned, 8, 0, 1),
			node(3, core.NodeClosed, 8, 8, 0),
			node(
				4,
				core.NodeEvicted,
				8,
				4,
				1,
			),
			node(5, core.NodeLost, 8, 4, 1),
			node(6, core.NodeReady, 8, 2, 2),
			node(7, core.NodeReady, 0, 0, 2),
		}},
		{Name: "tenant", Up: true},
		{Name: "stopped", Nodes: []view.Node{}},
	}
	tests := map[string]slurm.Nodes{
		"sinfo-60": {
			Width: 60,
		},
		"sinfo-80":     {Width: 80},
		"sinfo-140":    {Width: 140},
		"sinfo-each":   {Each: true, Width: 140},
		"sinfo-format": {Format: "%P %.5D %6T %N %G", States: []string{"mixed", "idle"}},
	}
	for name, n := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := n.Print(&out, all); err != nil {
				t.Fatal(err)
			}
			golden(t, name, out.String())
		})
	}
}

// TestPartsOfGPUs: each sort of them is told by itself, beside GPUs or alone, as a type of gpu.
func TestPartsOfGPUs(t *testing.T) {
	rows := []view.Job{
		{
			Name:   "both",
			State:  view.Running,
			Since:  ago(time.Hour),
			GPUs:   2,
			Slices: map[string]int64{"mig-3g.20gb": 1, "mig-1g.5gb": 4},
		},
		{Name: "parts", State: view.Waiting, Slices: map[string]int64{"mig-1g.5gb": 7}},
		{Name: "none", State: view.Waiting},
	}
	var out bytes.Buffer
	q := slurm.Queue{Now: now, Format: "%i %b", Bare: true}
	if err := q.Print(&out, rows); err != nil {
		t.Fatal(err)
	}
	a := slurm.Accounts{Now: now, Fields: "JobID,AllocTRES", Parsable: true, Bare: true}
	rows = slurm.WithPast(
		rows,
		[]view.PastJob{
			{
				Name:      "gone",
				State:     history.Succeeded,
				Submitted: *ago(time.Hour),
				Ended:     *ago(time.Minute),
				Slices:    map[string]int64{"mig-1g.5gb": 2},
			},
		},
	)
	if err := a.Print(&out, rows); err != nil {
		t.Fatal(err)
	}
	free, pods := int64(0), 3
	part := func(name string, left int64) view.Node {
		return view.Node{
			Name:       name,
			State:      core.NodeReady,
			Free:       &free,
			Pods:       &pods,
			Slices:     map[string]int64{"mig-1g.5gb": 7},
			FreeSlices: map[string]int64{"mig-1g.5gb": left},
		}
	}
	n := slurm.Nodes{Format: "%P %N %t %G", Bare: true}
	if err := n.Print(&out, []slurm.Partition{
		{Name: "blue", Up: true, Nodes: []view.Node{part("some", 3), part("full", 0), part("free", 7)}},
		{Name: "red", Up: true, Nominal: map[string]int64{"nvidia.com/gpu": 8, "nvidia.com/mig-1g.5gb": 14}},
	}); err != nil {
		t.Fatal(err)
	}
	want := `both gres/gpu:2,gres/gpu:mig-1g.5gb:4,gres/gpu:mig-3g.20gb:1
parts gres/gpu:mig-1g.5gb:7
none N/A
gone|gres/gpu:mig-1g.5gb=2
both|gres/gpu=2,gres/gpu:mig-1g.5gb=4,gres/gpu:mig-3g.20gb=1
parts|gres/gpu:mig-1g.5gb=7
none|
blue full alloc gpu:mig-1g.5gb:7
blue free idle gpu:mig-1g.5gb:7
blue some mix gpu:mig-1g.5gb:7
red  n/a gpu:8,gpu:mig-1g.5gb:14
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestPartitionsWithoutNodes: whoever may not read nodes is told the quota of GPUs of each queue.
func TestPartitionsWithoutNodes(t *testing.T) {
	var out bytes.Buffer
	n := slurm.Nodes{Width: 80}
	if err := n.Print(
		&out,
		[]slurm.Partition{
			{Name: "default-queue", Up: true, Nominal: map[string]int64{"nvidia.com/gpu": 8}},
			{Name: "cores", Up: true},
		},
	); err != nil {
		t.Fatal(err)
	}
	const unread = "n/a    " + "n/a    " // as many nodes, in as many states
	want := "PARTITION      AVAIL  TIMELIMIT  NODES  STATE  GRES\n" +
		"default-queue  up     infinite   " + unread + "gpu:8\n" +
		"cores          up     infinite   " + unread + "(null)\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFilter(t *testing.T) {
	states := func(text string) []slurm.State {
		out, err := slurm.ParseStates(text)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	tests := map[string]struct {
		why  string
		f    slurm.Filter
		want string
	}{
		"usual": {
			"what is over is not listed",
			slurm.Filter{},
			"train-12345 sweep-23456 held starts stops evil\x1b[31m",
		},
		"ended": {"one state", slurm.Filter{States: states("f,TIMEOUT")}, "bad killed gone late"},
		"all": {
			"every state",
			slurm.Filter{States: states("all"), Names: []string{"train", "good"}},
			"train-12345 good",
		},
		"user":  {"who made them", slurm.Filter{Users: []string{"alice"}}, "train-12345"},
		"node":  {"where they are", slurm.Filter{Nodes: []string{"node-1", "node-9"}}, "train-12345"},
		"job":   {"by either name", slurm.Filter{Ended: true, Jobs: []string{"good", "blue/bad"}}, "good bad"},
		"other": {"of another queue", slurm.Filter{Partitions: []string{"red"}}, ""},
		"qos":   {"of a class of priority", slurm.Filter{QOS: []string{"urgent"}}, "train-12345"},
		"partition": {
			"of this one",
			slurm.Filter{Partitions: []string{"default-queue"}, Names: []string{"held"}},
			"held",
		},
		"other name": {"titles count", slurm.Filter{Names: []string{"train-12345"}}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range tc.f.Select(jobs()) {
				got = append(got, r.Name)
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

func TestWrongFormats(t *testing.T) {
	for format, says := range map[string]string{"%.18z": "%z is not known", "%i %": "a field is missing", "%99999i": "no width"} {
		q := slurm.Queue{Format: format}
		if err := q.Print(&bytes.Buffer{}, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", format, err, says)
		}
	}
	for fields, says := range map[string]string{"JobID,Foo": `no field "Foo"`, "JobID%x": "no width"} {
		a := slurm.Accounts{Fields: fields}
		if err := a.Print(&bytes.Buffer{}, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", fields, err, says)
		}
	}
	if _, err := slurm.ParseStates("PD,XX"); err == nil || !strings.Contains(err.Error(), `no state "XX"`) {
		t.Errorf("XX is a state: %v", err)
	}
}

func TestToStart(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	later := metav1.NewTime(at.Add(90 * time.Minute))
	for name, tc := range map[string]struct {
		why, want string
		status    visibility.WorkloadPlanStatus
	}{
		"now": {"there is room, on these nodes", "sbatch: Job a to start at 2026-03-01T12:00:00 using 3 pods on nodes node-0,node-1 in partition q", visibility.WorkloadPlanStatus{
			Outcome: visibility.PlanStarts, At: at, PodSets: []visibility.PlannedAdmission{
				{Name: "x", Count: 2, Nodes: []visibility.PlannedNode{{Name: "node-1", Count: 1}, {Name: "node-0", Count: 1}}},
				{Name: "y", Count: 1, Nodes: []visibility.PlannedNode{{Name: "node-1", Count: 1}}},
			},
		}},
		"later":   {"as likely as not", "sbatch: Job a to start at 2026-03-01T13:30:00 in partition q", visibility.WorkloadPlanStatus{Outcome: visibility.PlanWaits, At: at, Start: &visibility.Start{P50: &later}}},
		"unknown": {"no promise is made", "sbatch: Job a would wait in partition q; when it would start cannot be foreseen", visibility.WorkloadPlanStatus{Outcome: visibility.PlanWaits, At: at, Start: &visibility.Start{}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := slurm.ToStart(
				"a",
				&visibility.WorkloadPlan{Spec: visibility.WorkloadPlanSpec{QueueName: "q"}, Status: &tc.status},
			)
			if got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.why, got, tc.want)
			}
		})
	}
}

func TestSort(t *testing.T) {
	rows := func() []view.Job {
		at := func(minutes int) *time.Time {
			return new(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Duration(minutes) * time.Minute))
		}
		return []view.Job{
			{
				Name:     "a",
				Queue:    "q",
				Priority: new(int32(10)),
				State:    view.Running,
				Since:    at(90),
				Nodes:    []string{"n"},
			},
			{
				Name:     "b",
				Queue:    "p",
				Priority: new(int32(9)),
				State:    view.Running,
				Since:    at(3000),
				Nodes:    []string{"n"},
			},
			{Name: "c", Queue: "q", Priority: new(int32(9)), State: view.Running, Since: at(5), Nodes: []string{"n"}},
		}
	}
	for keys, tc := range map[string]struct{ why, want string }{
		"":      {"as they come", "a b c"},
		"p":     {"9 is less than 10", "b c a"},
		"-p":    {"the other way round, and those alike as they come", "a b c"},
		"P,-p":  {"by several", "b a c"},
		"+M":    {"minutes are less than hours, and these than days", "c a b"},
		"-i":    {"by name", "c b a"},
		"P,-M":  {"the longest first in each", "b a c"},
		"x":     {"there is no such letter", `"x" is no letter of formats (-o)`},
		"p,":    {"nor none", `"" is no letter of formats (-o)`},
		"-,P,p": {"nor a sign alone", `"-" is no letter of formats (-o)`},
	} {
		q := slurm.Queue{Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Sort: keys, Format: "%i", Bare: true}
		var b bytes.Buffer
		err := q.Print(&b, rows())
		got := strings.Join(strings.Fields(b.String()), " ")
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%q: %s: got %s, want %s", keys, tc.why, got, tc.want)
		}
	}
}
