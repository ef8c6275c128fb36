package convert

import (
	"testing"
	"time"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// What was noted of checkpoints counts within the admission in which it was noted only.
func TestCheckpointsOfTheAdmission(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		why, at, every string
		reserved       time.Time
		saved          bool
		want           time.Duration
	}{
		{"noted with the time between", "2026-01-01T13:00:00Z", "10m0s", start, true, 10 * time.Minute},
		{"the first", "2026-01-01T13:00:00Z", "", start, true, 0},
		{"nonsense between", "2026-01-01T13:00:00Z", "-5m", start, true, 0},
		{"of an admission before", "2026-01-01T11:00:00Z", "10m", start, false, 0},
		{"it waits", "2026-01-01T13:00:00Z", "10m", time.Time{}, false, 0},
		{"no time", "soon", "10m", start, false, 0},
	} {
		w := &kueue.Workload{}
		w.Annotations = map[string]string{
			history.CheckpointAnnotation: tc.at, kueue.CheckpointIntervalAnnotation: tc.every,
		}
		if at, every := saves(w, tc.reserved); at.IsZero() == tc.saved || every != tc.want {
			t.Errorf("%s: %s, %s", tc.why, at, every)
		}
	}
}
