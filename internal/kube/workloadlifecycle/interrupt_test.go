package workloadlifecycle

import (
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// interrupted is a workload that was admitted, and whose nodes failed at a moment.
func interrupted(c Config, at time.Time) *kueue.Workload {
	w := &kueue.Workload{}
	Reserve(w, &w.Status, &kueue.Admission{ClusterQueue: "a"}, nil, c, at.Add(-time.Hour))
	Interrupt(w, &w.Status, c, at, "node-3 failed", []string{"node-3"})
	return w
}

func stateOf(w *kueue.Workload, kind string) string {
	c := apimeta.FindStatusCondition(w.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

// TestInterruptedWorkloadsKeepWhatTheyHave: until its time is over an interrupted workload keeps its admission, first
// while its pods stop and then while it waits for nodes; then it waits in its queue as any that was evicted.
func TestInterruptedWorkloadsKeepWhatTheyHave(t *testing.T) {
	c, at := Config{KeepNodes: 5 * time.Minute}, time.Unix(1_000_000, 0)
	w := interrupted(c, at)
	if got := convert.Interruption(w); got != core.InterruptedStopping {
		t.Fatalf("before its pods have ended: %v", got)
	}
	next, again := Stopped(w, c, at.Add(time.Minute))
	if next == nil || next.Admission == nil || !again.Equal(at.Add(5*time.Minute)) {
		t.Fatalf("when its pods have ended it has %+v, and is looked at again at %s", next, again)
	}
	w.Status = *next
	for kind, want := range map[string]string{
		kueue.WorkloadNodesKept:     "True AwaitingNodes",
		kueue.WorkloadAdmitted:      "False AwaitingNodes",
		kueue.WorkloadQuotaReserved: "True QuotaReserved",
		kueue.WorkloadEvicted:       "True NodeFailures",
	} {
		if got := stateOf(w, kind); got != want {
			t.Errorf("%s is %q, want %q", kind, got, want)
		}
	}
	if used := *w.Status.AccumulatedPastExecutionTimeSeconds; used != 3660 {
		t.Errorf("it has run for %d s, want 3660", used)
	}
	if got := w.Status.UnhealthyNodes; len(got) != 1 || got[0].Name != "node-3" {
		t.Errorf("nodes that failed: %v", got)
	}
	if got := convert.Interruption(w); got != core.InterruptedStopped {
		t.Errorf("after its pods have ended: %v", got)
	}
	if next, again := Stopped(w, c, at.Add(2*time.Minute)); next != nil || !again.Equal(at.Add(5*time.Minute)) {
		t.Errorf("while it waits: %+v, again at %s", next, again)
	}
	next, _ = Stopped(w, c, at.Add(5*time.Minute))
	if next == nil || next.Admission != nil {
		t.Fatalf("when its time is over: %+v", next)
	}
	w.Status = *next
	if got := w.Status.UnhealthyNodes; got != nil {
		t.Errorf("then nodes failed still: %v", got)
	}
	for kind, want := range map[string]string{
		kueue.WorkloadNodesKept: "False GivenBack", kueue.WorkloadRequeued: "True NodeFailures",
		kueue.WorkloadAdmitted: "False NoReservation",
	} {
		if got := stateOf(w, kind); got != want {
			t.Errorf("then %s is %q, want %q", kind, got, want)
		}
	}
	if used := *w.Status.AccumulatedPastExecutionTimeSeconds; used != 3660 {
		t.Errorf("that it waited counts as run: %d s", used)
	}
}

// TestWhatEndsAnInterruption: whatever else takes a workload's quota lets it keep nothing, and so does its deletion.
func TestWhatEndsAnInterruption(t *testing.T) {
	c, at := Config{KeepNodes: 5 * time.Minute}, time.Unix(1_000_000, 0)
	for name, tc := range map[string]struct {
		why string
		do  func(*kueue.Workload)
	}{
		"evicted": {"it was preempted meanwhile", func(w *kueue.Workload) {
			Evict(w, &w.Status, at, Eviction{Reason: kueue.ReasonPreempted})
		}},
		"deactivated": {"its user wants it to stop", func(w *kueue.Workload) {
			w.Spec.Active = new(false)
			w.Status = *Next(Facts{Workload: w, Owned: true, Config: c, Now: at}).Status
		}},
		"deleted": {"nobody wants it any more", func(w *kueue.Workload) {
			w.DeletionTimestamp = &metav1.Time{Time: at}
		}},
		"admitted": {"it goes on", func(w *kueue.Workload) {
			Reserve(w, &w.Status, w.Status.Admission, nil, c, at)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := interrupted(c, at)
			tc.do(w)
			if got := convert.Interruption(w); got != core.NotInterrupted {
				t.Errorf("%s: it is interrupted still: %v", tc.why, got)
			}
		})
	}
	w := interrupted(c, at)
	Evict(w, &w.Status, at.Add(time.Minute), Eviction{Reason: kueue.ReasonPreempted})
	if since := condition(w, kueue.WorkloadEvicted).LastTransitionTime; !since.Time.Equal(at.Add(time.Minute)) {
		t.Errorf("it was preempted at %s, not when its nodes failed", since)
	}
	if all := w.Status.SchedulingStats.Evictions; len(all) != 1 || all[0].Count != 1 {
		t.Errorf("it was stopped once, and is told that it was so %+v", all)
	}
	w = interrupted(Config{}, at)
	if next, _ := Stopped(w, Config{}, at); next == nil || next.Admission != nil {
		t.Error("a configuration without time to keep nodes gives them back at once")
	}
}
