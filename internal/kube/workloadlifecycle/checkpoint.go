package workloadlifecycle

import (
	"time"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
)

// checkpointPause is how often a checkpoint is noted at most while a job runs: some save every few seconds.
const checkpointPause = 30 * time.Second

// saved notes on a Workload when its job last saved what it has done, which pods may be the only ones to know, and they
// are gone when what was lost is told. What is no time of this admission is not believed.
func saved(f Facts) (Write, bool) {
	c := condition(f.Workload, kueue.WorkloadAdmitted)
	if !isTrue(f.Workload, kueue.WorkloadAdmitted) || f.Checkpoint.After(f.Now) ||
		!f.Checkpoint.After(c.LastTransitionTime.Time) {
		return Write{}, false
	}
	noted := view.LastCheckpoint(f.Workload)
	if !f.Checkpoint.After(noted) {
		return Write{}, false
	}
	// By the clock: of one that is told soon after the one that is noted, the pause is over some time, too.
	if end := noted.Add(checkpointPause); end.After(f.Now) && !isTrue(f.Workload, kueue.WorkloadEvicted) {
		return Write{Again: end}, false
	}
	return Write{Checkpoint: f.Checkpoint}, true
}
