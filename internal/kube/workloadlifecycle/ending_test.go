package workloadlifecycle_test

import (
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

func TestTimeToEnd(t *testing.T) {
	const day, most = 24 * time.Hour, 15 * time.Minute
	for name, c := range map[string]struct {
		grace, ago, longest, left time.Duration
		shorten                   bool
	}{
		"ADay":            {day, 0, most, most, true},
		"ADayAgo":         {day, 10*time.Minute + time.Millisecond, most, 4*time.Minute + 59*time.Second, true},
		"ADayTooLong":     {day, time.Hour, most, time.Second, true},
		"AsLongAsItMay":   {most, time.Minute, most, 14 * time.Minute, false},
		"Shorter":         {time.Minute, time.Hour, most, 0, false},
		"WithoutAnyLimit": {day, time.Hour, 0, 23 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			if left, shorten := workloadlifecycle.TimeToEnd(
				c.grace,
				c.ago,
				c.longest,
			); left != c.left ||
				shorten != c.shorten {
				t.Errorf("%s, %v; want %s, %v", left, shorten, c.left, c.shorten)
			}
		})
	}
}
