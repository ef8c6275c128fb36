package mpijob_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mlbatch/mlbatch/api/kubeflow/v2beta1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/mpijob"
)

// TestProject: the conditions and reasons that people know, as one thing follows the other.
func TestProject(t *testing.T) {
	start := time.Unix(1000, 0)
	counts := func(launcher, workers podplan.Tally) map[string]podplan.Tally {
		return map[string]podplan.Tally{"launcher": launcher, "worker": workers}
	}
	one, two := podplan.Tally{Active: 1, Ready: 1}, podplan.Tally{Active: 2, Ready: 2}
	for _, j := range []*v2beta1.MPIJob{decode(t, "PAIR"), decode(t, "PAIR", "v1")} {
		p, before := compile(t, j), ""
		for _, step := range []struct {
			why     string
			suspend bool
			s       jobs.Progress
			want    string
		}{
			{"it was created", false, jobs.Progress{}, "Created MPIJobCreated True"},
			{"mpirun alone is no job", false, jobs.Progress{Counts: counts(one, podplan.Tally{Active: 2, Ready: 1})}, "Created MPIJobCreated True"},
			{"nor are workers alone", false, jobs.Progress{Counts: counts(podplan.Tally{Active: 1}, two)}, "Created MPIJobCreated True"},
			{"launcher and all workers run", false, jobs.Progress{Counts: counts(one, two)}, "Running MPIJobRunning True"},
			{"a worker that is lost ends nothing", false, jobs.Progress{Counts: counts(one, one)}, "Running MPIJobRunning True"},
			{"one that was evicted has a reason of its own", false, jobs.Progress{Restarting: true, Disrupted: true, Counts: counts(one, one)}, "Restarting MPIJobEvicted True"},
			{"it runs on", false, jobs.Progress{Counts: counts(one, two)}, "Running MPIJobRunning True"},
			{"a worker failed", false, jobs.Progress{Restarting: true, Counts: counts(one, one)}, "Restarting MPIJobRestarting True"},
			{"it runs on", false, jobs.Progress{Counts: counts(one, two)}, "Running MPIJobRunning True"},
			{"its pods are gone", true, jobs.Progress{Suspended: true}, "Suspended MPIJobSuspended True"},
			{"it was resumed", false, jobs.Progress{}, "Suspended MPIJobResumed False"},
			{"it runs again", false, jobs.Progress{Counts: counts(one, two)}, "Running MPIJobRunning True"},
			{"mpirun ended", false, jobs.Progress{RetryState: podplan.RetryState{Outcome: podplan.JobSucceeded, Ended: start.Add(time.Minute)}, Counts: counts(podplan.Tally{Succeeded: 1}, two)}, "Succeeded MPIJobSucceeded True"},
		} {
			j.Spec.RunPolicy.Suspend = &step.suspend
			if step.s.Started.IsZero() && !step.suspend {
				step.s.Started = start
			}
			step.s.Now = start
			o, _ := mpijob.Kind().Running.Operator.Project(j, p, &step.s).(*v2beta1.MPIJob)
			told := ""
			for _, e := range mpijob.Kind().Running.Operator.StatusEvents(j, o) {
				told += e.Reason
				if bad := strings.HasSuffix(e.Reason, "Evicted") ||
					strings.HasSuffix(e.Reason, "Restarting"); e.Warning != bad ||
					e.Message == "" {
					t.Errorf("%s: %+v", step.why, e)
				}
			}
			if want := strings.Fields(step.want)[1]; told != want && told != "" || told == "" && want != before {
				t.Errorf("%s: the events %s are told, want %s", step.why, told, want)
			}
			before = strings.Fields(step.want)[1]
			j = o
			last := j.Status.Conditions[len(j.Status.Conditions)-1]
			if got := string(last.Type) + " " + last.Reason + " " + string(last.Status); got != step.want {
				t.Errorf("%s: %s, want %s", step.why, got, step.want)
			}
			if step.suspend {
				j.Status.StartTime = nil
			}
		}
		for _, c := range j.Status.Conditions {
			if string(c.Type) == "Running" && c.Status != corev1.ConditionFalse {
				t.Error("a job that ended still runs")
			}
		}
		if r := j.Status.ReplicaStatuses["Worker"]; r == nil || r.Active != 2 {
			t.Errorf("workers: %+v", r)
		}
		if r := j.Status.ReplicaStatuses["Launcher"]; r == nil || r.Succeeded != 1 ||
			j.Status.CompletionTime == nil {
			t.Errorf("launcher: %+v", r)
		}
	}
	failed, _ := mpijob.Kind().Running.Operator.Project(decode(t, "PAIR"), compile(t, decode(t, "PAIR")), &jobs.Progress{
		RetryState: podplan.RetryState{Started: start, Outcome: podplan.JobFailed, Message: "a-launcher failed: it was tried too often"}, Now: start,
	}).(*v2beta1.MPIJob)
	last := failed.Status.Conditions[len(failed.Status.Conditions)-1]
	if last.Reason != "MPIJobFailed" || !strings.Contains(last.Message, "it was tried too often") {
		t.Errorf("%+v", last)
	}
}

// TestQueueing: what a queue counts, and what it is given.
func TestQueueing(t *testing.T) {
	for _, j := range []*v2beta1.MPIJob{
		decode(t, "runPolicy: {suspend: true, schedulingPolicy: {priorityClass: high}}, ROLES: {worker: {replicas: 3, POD}, Launcher: {POD}}"),
		decode(t, "runPolicy: {suspend: true, schedulingPolicy: {priorityClass: high}}, ROLES: {worker: {replicas: 3, POD}, Launcher: {POD}}", "v1"),
	} {
		k := mpijob.Kind()
		f, err := k.Read(j)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.PodSets) != 2 || f.PodSets[0].Name != "launcher" || f.PodSets[0].Count != 1 ||
			f.PodSets[1].Name != "worker" ||
			f.PodSets[1].Count != 3 ||
			!f.Suspended {
			t.Errorf("%+v", f)
		}
		if got := f.PodSets[0].Template.Spec.PriorityClassName; got != "high" {
			t.Errorf("priority %s", got)
		}
		started, err := k.Start(j, []jobs.PodSetInfo{{Name: "launcher"}, {Name: "worker"}})
		if err != nil || k.Queueing.Suspended(started) {
			t.Errorf("it was not started: %v", err)
		}
		if _, err := k.Start(j, nil); err == nil {
			t.Error("it started with an admission that is not its own")
		}
	}
}

// TestGangs: workers do not wait for a launcher that waits for them.
func TestGangs(t *testing.T) {
	for name, tc := range map[string]struct {
		why  string
		j    *v2beta1.MPIJob
		want bool
	}{
		"at startup": {"all start together", decode(t, "PAIR"), false},
		"waits":      {"", decode(t, "launcherCreationPolicy: WaitForWorkersReady, PAIR"), true},
		"v1":         {"it does always", decode(t, "PAIR", "v1"), true},
		"alone":      {"there is nobody to wait for", decode(t, "ROLES: {Launcher: {POD}, Worker: {replicas: 0, POD}}", "v1"), false},
	} {
		f, err := mpijob.Kind().Read(tc.j)
		if err != nil || slices.Equal(f.Later, []string{"launcher"}) != tc.want {
			t.Errorf("%s: %s: %v, %v", name, tc.why, f.Later, err)
		}
		if after := compile(t, tc.j).Role("launcher").After; (len(after) > 0) != tc.want {
			t.Errorf("%s: the plan says otherwise: %v", name, after)
		}
	}
}

// TestWrapped: both versions in an AppWrapper, with all that can become pods.
func TestWrapped(t *testing.T) {
	k := mpijob.Kind()
	v1 := k.Queueing.Wraps[0]
	if v1.GVK.Version != "v1" || v1.Resource != "mpijobs" || !v1.RunsPods || k.Queueing.Wrapped == nil {
		t.Fatalf("%+v", v1)
	}
	if k.Queueing.Wrapped.Direct || v1.Wrapping.Direct {
		t.Error("an AppWrapper takes the pods of a launcher that is a Job for its own members'")
	}
	for name, tc := range map[string]struct {
		spec   string
		want   []int32
		v2, v1 bool
	}{
		"usual":  {"PAIR", []int32{1, 2}, false, true},
		"waits":  {"launcherCreationPolicy: WaitForWorkersReady, PAIR", []int32{1, 2}, true, true},
		"unsaid": {"ROLES: {Launcher: {POD}, Worker: {POD}}", []int32{1, 0}, false, true},
	} {
		o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(decode(t, tc.spec))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range []*jobs.Wrapping{k.Queueing.Wrapped, v1.Wrapping} {
			sets, err := w.PodSets(o)
			if err != nil || len(sets) != 2 || *sets[0].Replicas != tc.want[0] || *sets[1].Replicas != tc.want[1] {
				t.Errorf("%s: %v, %v", name, sets, err)
			}
			held := w.HeldBack(o, sets[0].Path)
			if want := map[bool]bool{true: tc.v2, false: tc.v1}[w == k.Queueing.Wrapped]; held != want ||
				w.HeldBack(o, sets[1].Path) {
				t.Errorf("%s: the launcher is held back: %v, want %v", name, held, want)
			}
		}
	}
}
