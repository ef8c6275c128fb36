package cycle

import (
	"testing"
	"time"
)

// A decision after many admissions were seen does not pass their deadlines one by one: that
// was done as they were seen.
func TestDeadlinesTakenBackInOrderAreBehind(t *testing.T) {
	var d deadlines
	var all []*timer
	for i := range 10 {
		x := &timer{workload: &workload{}, at: time.Unix(int64(i), 0)}
		all = append(all, x)
		d.add(x)
	}
	steps := []struct {
		why                string
		cancel             int
		wantDone, wantIdle int
	}{
		{"the first is behind", 0, 1, 0},
		{"one before it is still awaited", 2, 1, 1},
		{"both are behind", 1, 3, 0},
	}
	for _, s := range steps {
		d.cancel(all[s.cancel])
		if d.done != s.wantDone || d.idle != s.wantIdle {
			t.Errorf("%s: %d are behind and %d idle, want %d and %d", s.why, d.done, d.idle, s.wantDone, s.wantIdle)
		}
	}
	if d.first() != all[3] {
		t.Error("the first that was not taken back is not the first")
	}
}
