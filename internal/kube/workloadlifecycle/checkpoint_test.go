package workloadlifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// The time since the checkpoint before, or since the admission, is noted with a checkpoint that is noted as soon as it can
// be: a job that tells late could keep what it is said to lose high for ever.
func TestTimeBetweenCheckpoints(t *testing.T) {
	for _, tc := range []struct {
		why          string
		noted, saved time.Duration // ago
		want         time.Duration
		silent       bool
	}{
		{"two of this admission", 11 * time.Minute, time.Minute, 10 * time.Minute, false},
		{"the first: since the start", 0, time.Minute, 59 * time.Minute, false},
		{"the one before is of an earlier admission", 2 * time.Hour, time.Minute, 59 * time.Minute, false},
		{"it is told long after", 30 * time.Minute, 10 * time.Minute, 0, false},
		{"a hundred years ago", 11 * time.Minute, 876000 * time.Hour, 0, true},
		{"in the future", 11 * time.Minute, -time.Minute, 0, true},
		{"each second", 10 * time.Second, time.Second, 0, true},
	} {
		w := &kueue.Workload{}
		w.Status.Conditions = []metav1.Condition{{
			Type: kueue.WorkloadAdmitted, Status: metav1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
		}}
		f := Facts{Workload: w, Checkpoint: now.Add(-tc.saved), Now: now}
		if tc.noted != 0 {
			f.Noted = now.Add(-tc.noted)
			w.Annotations = map[string]string{
				history.CheckpointAnnotation: now.Add(-tc.noted).UTC().Format(time.RFC3339),
			}
		}
		next, does := saved(f)
		if writes := does && !next.Checkpoint.IsZero(); writes == tc.silent || next.CheckpointInterval != tc.want {
			t.Errorf("%s: written %t, with %s between", tc.why, writes, next.CheckpointInterval)
		}
	}
}
