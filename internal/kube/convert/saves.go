package convert

import (
	"time"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// saves is when the job of a Workload that got its quota at some time saved last what it does since, and the time between
// its last two checkpoints: what was noted of them. Both are zero if nothing is known, and what was noted within an
// earlier admission is nothing.
func saves(w *kueue.Workload, reserved time.Time) (at time.Time, every time.Duration) {
	at, err := time.Parse(time.RFC3339, w.Annotations[history.CheckpointAnnotation])
	if err != nil || reserved.IsZero() || !at.After(reserved) {
		return time.Time{}, 0
	}
	return at, interval(w)
}

// interval is the time between its last two checkpoints that was noted with the last; 0 if none was, or is nonsense.
func interval(w *kueue.Workload) time.Duration {
	every, err := time.ParseDuration(w.Annotations[kueue.CheckpointIntervalAnnotation])
	if err != nil {
		return 0
	}
	return max(0, every)
}

// TellsInterval reports whether the time between the checkpoints of a Workload's job is known.
func TellsInterval(w *kueue.Workload) bool { return interval(w) > 0 }
