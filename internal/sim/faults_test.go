package sim

import (
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/engine/progress"
)

// TestStopsForHangsAreJustified: what the auditor asks of each stop of a job because it hangs.
func TestStopsForHangsAreJustified(t *testing.T) {
	const sec = int64(time.Second)
	steps := func(takes time.Duration) *Steps {
		return &Steps{Rule: progress.Rule{First: 20 * time.Second, Every: 10 * time.Second}, Takes: takes}
	}
	for name, c := range map[string]struct {
		steps                 *Steps
		stalled, watched, now int64
		ok                    bool
	}{
		"it takes its steps in time":         {steps(10 * time.Second), 0, 0, 100 * sec, false},
		"it is slower than it states":        {steps(11 * time.Second), 0, 0, 100 * sec, true},
		"it hung a while ago":                {steps(time.Second), 80 * sec, 0, 100 * sec, true},
		"it hung for long":                   {steps(time.Second), 50 * sec, 0, 100 * sec, false},
		"nobody looked while it hung before": {steps(time.Second), 10 * sec, 90 * sec, 100 * sec, true},
	} {
		j := &job{spec: &Job{Steps: c.steps}}
		j.stalled = c.stalled
		if err := inTime(j, c.watched, c.now); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
