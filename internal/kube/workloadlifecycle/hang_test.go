package workloadlifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
)

// hanging is a workload that was admitted an hour ago and hangs, for a reason of the condition Progressing.
func hanging(reason string) *kueue.Workload {
	w := onNodes(core.Place{Node: "n1", Count: 2})
	w.Status.Conditions = append(w.Status.Conditions, metav1.Condition{
		Type: kueue.WorkloadProgressing, Status: metav1.ConditionFalse, Reason: reason,
		Message: view.ProgressText(&view.Progress{
			Step: 3, At: now.Add(-time.Minute), Expected: 30 * time.Second,
			Slowest: &view.Slowest{Rank: 1, Pod: "p", Node: "n1"}, Evidence: "e",
		}),
	})
	return w
}

// TestHang: what hangs is evicted only once that is due, and says which pod was behind; then it is queued again at
// once, and begins anew.
func TestHang(t *testing.T) {
	f := facts()
	for reason, why := range map[string]string{
		kueue.ReasonNoProgress: "it is observed, or what there is to know is not kept yet",
		kueue.ReasonProgress:   "it goes on",
	} {
		f.Workload = hanging(reason)
		if step := Next(f); step.Status != nil {
			t.Errorf("%s: %s, and yet it writes %+v", reason, why, step.Status)
		}
	}
	f.Workload = hanging(kueue.ReasonRestartDue)
	step := Next(f)
	if step.Status == nil || len(step.Events) != 1 || step.Events[0].Reason != "EvictedDueToHang" {
		t.Fatalf("the next step is %+v", step)
	}
	f.Workload.Status = *step.Status
	told := view.StoppedAttempts(f.Workload).Attempts
	if len(told) != 1 || told[0].Category != string(core.CategoryHang) || told[0].Pod != "p" ||
		told[0].Rank == nil || *told[0].Rank != 1 || told[0].FailedNodes[0] != "n1" {
		t.Errorf("told of %+v", told)
	}
	if n := HangRestarts(f.Workload); n != 1 {
		t.Errorf("it was restarted %d times", n)
	}
	if again := Next(f); again.Status != nil {
		t.Errorf("it is evicted twice: %+v", again)
	}
	next, _ := Stopped(f.Workload, Config{}, now.Add(time.Second))
	f.Workload.Status = *next
	if !isTrue(f.Workload, kueue.WorkloadRequeued) || condition(f.Workload, kueue.WorkloadProgressing) != nil {
		t.Errorf("once its pods are gone it is %+v", next.Conditions)
	}
}
