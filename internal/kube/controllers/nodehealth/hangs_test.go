package nodehealth

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/view"
)

// hanging is a Workload that says that it hangs, and that a rank on a node is behind.
func hanging(namespace, node string, at time.Time) *kueue.Workload {
	p := view.Progress{Step: 7, At: at.Add(-time.Hour), Expected: time.Minute}
	if node != "" {
		p.Slowest = &view.Slowest{Rank: 3, Pod: "train-3", Node: node}
	}
	return &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "train"},
		Status: kueue.WorkloadStatus{Conditions: []metav1.Condition{{
			Type: kueue.WorkloadProgressing, Status: metav1.ConditionFalse, Reason: kueue.ReasonNoProgress,
			Message: view.ProgressText(&p), LastTransitionTime: metav1.NewTime(at),
		}}},
	}
}

// restarted is a Workload that was restarted since it hung.
func restarted(namespace, node string, at time.Time) *kueue.Workload {
	end := metav1.NewTime(at)
	return &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "train"},
		Status: kueue.WorkloadStatus{Conditions: []metav1.Condition{{
			Type: kueue.WorkloadAttempts, Status: metav1.ConditionTrue, Reason: "Stopped",
			Message: view.AttemptsText(history.Attempts{Attempts: []history.Attempt{{
				Start: metav1.NewTime(at.Add(-time.Hour)), End: &end, Category: string(core.CategoryHang),
				Reason: "Hang", FailedNodes: []string{node},
			}}}),
		}}},
	}
}

// Jobs of one tenant say nothing of a node, those of two make it suspect for a day, and it is never closed by that.
func TestNodesOnWhichJobsHang(t *testing.T) {
	by := func(user string, w *kueue.Workload) *kueue.Workload {
		jobs.SetUser(w, user)
		return w
	}
	for name, c := range map[string]struct {
		second *kueue.Workload
		want   nodehealth.State
	}{
		"of one tenant":       {restarted("blue", "a", noon.Add(-2*time.Hour)), nodehealth.Healthy},
		"of two":              {restarted("red", "a", noon.Add(-2*time.Hour)), nodehealth.Suspect},
		"both hang":           {hanging("red", "a", noon.Add(-2*time.Hour)), nodehealth.Suspect},
		"of one who has both": {by("ann", restarted("red", "a", noon.Add(-2*time.Hour))), nodehealth.Healthy},
		"elsewhere":           {restarted("red", "b", noon.Add(-2*time.Hour)), nodehealth.Healthy},
		"nobody was behind":   {hanging("red", "", noon.Add(-2*time.Hour)), nodehealth.Healthy},
		"more than a day ago": {restarted("red", "a", noon.Add(-25*time.Hour)), nodehealth.Healthy},
	} {
		t.Run(name, func(t *testing.T) {
			first := by("ann", hanging("blue", "a", noon.Add(-time.Hour)))
			c.second.Name = "other"
			w := newWorld(t, node("a", ""), node("b", ""), first, c.second)
			next := w.look()
			if got := nodehealth.State(w.state("a")[0]); got != c.want {
				t.Fatalf("it is %s, not %s", got, c.want)
			}
			if c.want != nodehealth.Suspect {
				return
			}
			if next.RequeueAfter <= 0 || next.RequeueAfter > 24*time.Hour {
				t.Errorf("it is looked at again after %s", next.RequeueAfter)
			}
			w.clock.Step(23 * time.Hour)
			w.look()
			if got := nodehealth.State(w.state("a")[0]); got != nodehealth.Back {
				t.Errorf("a day later it is %s", got)
			}
		})
	}
}
