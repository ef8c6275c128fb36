package jobs

import "slices"

// SchedulerName is that of mlbatch's scheduler.
const SchedulerName = "mlbatch-scheduler"

// SchedulerNames are the names that mlbatch's scheduler answers to: its own, and names that
// manifests of MLBatch carry.
func SchedulerNames() []string {
	return []string{SchedulerName, "scheduler-plugins-scheduler", "sakkara-scheduler", "sakkara"}
}

// Schedulers says which scheduler the pods of queued jobs have. The zero value leaves what
// they name, and takes all for schedulers of others.
type Schedulers struct {
	// Given is the scheduler of jobs that name none of Ours; "" leaves what they name.
	Given string
	// Ours are the names that mlbatch's scheduler answers to; none where it does not run.
	Ours []string
}

// Of is the scheduler of a queued job's pods, of which one may be asked for. Ours places
// them where their admission says, under every name that it answers to. Another does so only
// if it is the one that is given, since its pods are held until they have a node.
func (s Schedulers) Of(asked string) string {
	if s.Given == "" || s.Own(asked) {
		return asked
	}
	return s.Given
}

// Own reports whether mlbatch's scheduler answers to a name.
func (s Schedulers) Own(name string) bool { return slices.Contains(s.Ours, name) }
