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

// Each pod may tell of a checkpoint by its own clock: what comes a few seconds after another is the same, and the time
// between them is none between checkpoints.
func TestPodsThatTellOfOneCheckpoint(t *testing.T) {
	for _, tc := range []struct {
		why         string
		last, every string // as noted
		after, want time.Duration
	}{
		{"another pod tells of it", "11:59:00", "10m0s", 7 * time.Second, 10 * time.Minute},
		{"the next one", "11:59:00", "10m0s", 31 * time.Second, 31 * time.Second},
		{"it was not known", "11:59:00", "", 7 * time.Second, 7 * time.Second},
		{"nonsense was noted", "11:59:00", "-10m", 7 * time.Second, 7 * time.Second},
		{"the one before is of an earlier admission", "10:00:00", "10m0s", 119 * time.Minute, 59 * time.Minute},
	} {
		noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		w := &kueue.Workload{}
		w.Status.Conditions = []metav1.Condition{{
			Type: kueue.WorkloadAdmitted, Status: metav1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour)),
		}}
		w.Annotations = map[string]string{
			history.CheckpointAnnotation: "2026-03-01T" + tc.last + "Z", kueue.CheckpointIntervalAnnotation: tc.every,
		}
		last, err := time.Parse(time.RFC3339, w.Annotations[history.CheckpointAnnotation])
		if err != nil {
			t.Fatal(err)
		}
		next, does := saved(Facts{
			Workload: w, Checkpoint: last.Add(tc.after), Now: noon, Noted: noon.Add(-checkpointPause),
		})
		if !does || next.CheckpointInterval != tc.want {
			t.Errorf("%s: noted %t, with %s between, want %s", tc.why, does, next.CheckpointInterval, tc.want)
		}
	}
}
