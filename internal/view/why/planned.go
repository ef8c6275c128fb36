package why

import (
	"strings"

	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/words"
)

// Planned says what would become of a job.
func Planned(job string, x *visibility.WorkloadPlanStatus) Explanation {
	e := Explanation{State: view.Waiting}
	in := ""
	if x.ClusterQueue != "" {
		in = " in ClusterQueue " + x.ClusterQueue
	}
	switch x.Outcome {
	case visibility.PlanStarts:
		e.say("%s would start at once%s, with priority %d", job, in, x.Priority)
	case visibility.PlanStartsAfterStops:
		e.say(
			"%s would start%s, with priority %d, as soon as other jobs are gone that are stopped",
			job,
			in,
			x.Priority,
		)
	case visibility.PlanWaits:
		e.say("%s would wait%s, with priority %d", job, in, x.Priority)
		if x.Explanation != nil {
			e.answered(x.Explanation)
			e.helps(x.Explanation)
		}
		e.starts(x.Start, x.At.Time)
	}
	if len(x.Preempts) > 0 {
		var names []string
		for _, r := range x.Preempts {
			names = append(names, refer(r))
		}
		e.say("For it %s would be stopped: %s", words.Count(len(names), "job"), strings.Join(names, "; "))
	}
	borrows := false
	for _, q := range x.Quotas {
		borrows = borrows || q.Borrowed.Sign() > 0
	}
	if borrows {
		e.say("Its queue would borrow from others of its cohort, who may take that back")
	}
	return e
}
