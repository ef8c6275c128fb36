package workloadlifecycle

import (
	"time"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
)

// checkpointPause is how often a checkpoint is noted at most while a job runs: some save every few seconds.
const checkpointPause = 30 * time.Second

// prompt is how long after a checkpoint it is noted at the latest for the time since the one before to be believed: the
// pause, and what it takes to be told. A job that tells of one much later could keep what it is said to lose high for ever.
const prompt = checkpointPause + 90*time.Second

// saved notes on a Workload when its job last saved what it has done, which pods may be the only ones to know, and they
// are gone when what was lost is told, and how often it does. What is no time of this admission is not believed.
func saved(f Facts) (Write, bool) {
	c := condition(f.Workload, kueue.WorkloadAdmitted)
	if !isTrue(f.Workload, kueue.WorkloadAdmitted) || f.Checkpoint.After(f.Now) ||
		!f.Checkpoint.After(c.LastTransitionTime.Time) {
		return Write{}, false
	}
	last := view.LastCheckpoint(f.Workload)
	if !f.Checkpoint.After(last) {
		return Write{}, false
	}
	// Counted from the write, and not from the time that is noted, which may be told late.
	if end := f.Noted.Add(checkpointPause); end.After(f.Now) && !isTrue(f.Workload, kueue.WorkloadEvicted) {
		return Write{Again: end}, false
	}
	every := time.Duration(0)
	if f.Now.Sub(f.Checkpoint) <= prompt {
		every = between(f.Workload, c.LastTransitionTime.Time, last, f.Checkpoint)
	}
	return Write{Checkpoint: f.Checkpoint, CheckpointInterval: every}, true
}

// between is the time from the last checkpoint to the next one. When the job started there was nothing to lose either.
// What follows within the pause is the same checkpoint as another pod tells of it, or one of many of which few are
// noted: the time between stays what it was.
func between(w *kueue.Workload, started, last, next time.Time) time.Duration {
	if !last.After(started) {
		return next.Sub(started)
	}
	every := next.Sub(last)
	if every >= checkpointPause {
		return every
	}
	was, err := time.ParseDuration(w.Annotations[kueue.CheckpointIntervalAnnotation])
	if err != nil {
		return every
	}
	return max(every, was)
}
