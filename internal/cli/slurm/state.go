package slurm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mlbatch/mlbatch/internal/view"
)

// State is one of a job, in Slurm's words.
type State struct{ Code, Word string }

// states are the states that jobs have here.
func states() []State {
	return []State{pending, configuring, running, completing, completed, failed, cancelled, timeout}
}

var (
	pending     = State{"PD", "PENDING"}     //nolint:gochecknoglobals // constants
	configuring = State{"CF", "CONFIGURING"} //nolint:gochecknoglobals // constants
	running     = State{"R", "RUNNING"}      //nolint:gochecknoglobals // constants
	completing  = State{"CG", "COMPLETING"}  //nolint:gochecknoglobals // constants
	completed   = State{"CD", "COMPLETED"}   //nolint:gochecknoglobals // constants
	failed      = State{"F", "FAILED"}       //nolint:gochecknoglobals // constants
	cancelled   = State{"CA", "CANCELLED"}   //nolint:gochecknoglobals // constants
	timeout     = State{"TO", "TIMEOUT"}     //nolint:gochecknoglobals // constants
)

// StateOf is that of a job.
func StateOf(r view.Job) State {
	switch r.State {
	case view.Running:
		return running
	case view.Starting, view.Resetting:
		return configuring
	case view.Stopping:
		return completing
	case view.Succeeded:
		return completed
	case view.Failed:
		if r.Reason == cancelledReason {
			return cancelled
		}
		return failed
	case view.Unmanaged:
		if r.Running > 0 {
			return running
		}
	case view.Held:
		if strings.Contains(r.Reason, "MaximumExecutionTime") {
			return timeout
		}
	case view.Waiting:
	}
	return pending
}

// Ended reports whether a job is over.
func (s State) Ended() bool { return s == completed || s == failed || s == cancelled || s == timeout }

// Filter says which jobs are wanted. Empty lists are no condition.
type Filter struct {
	Users, Partitions, Names, Jobs, Nodes []string
	// QOS are WorkloadPriorityClasses.
	QOS    []string
	States []State
	// Ended wants jobs that are over, too, if no states are named.
	Ended bool
}

// ParseStates reads a list of codes or words; all is every state.
func ParseStates(text string) (out []State, err error) {
	for word := range strings.SplitSeq(text, ",") {
		if strings.EqualFold(word, "all") {
			return states(), nil
		}
		i := slices.IndexFunc(
			states(),
			func(s State) bool { return strings.EqualFold(word, s.Code) || strings.EqualFold(word, s.Word) },
		)
		if i < 0 {
			var all []string
			for _, s := range states() {
				all = append(all, s.Code+" "+s.Word)
			}
			return nil, fmt.Errorf(
				"there is no state %q here: use all, or of these: %s",
				word,
				strings.Join(all, ", "),
			)
		}
		out = append(out, states()[i])
	}
	return out, nil
}

// Select are the jobs that are wanted.
func (f *Filter) Select(rows []view.Job) []view.Job {
	return slices.DeleteFunc(slices.Clone(rows), func(r view.Job) bool {
		state := StateOf(r)
		return len(f.Users) > 0 && !slices.Contains(f.Users, r.User) ||
			len(f.Partitions) > 0 && !slices.Contains(f.Partitions, r.Queue) &&
				!slices.Contains(f.Partitions, r.ClusterQueue) ||
			len(f.Names) > 0 && !slices.Contains(f.Names, title(r)) ||
			len(f.Jobs) > 0 && !slices.Contains(f.Jobs, r.Name) && !slices.Contains(f.Jobs, r.Namespace+"/"+r.Name) ||
			len(f.Nodes) > 0 &&
				!slices.ContainsFunc(f.Nodes, func(n string) bool { return slices.Contains(r.Nodes, n) }) ||
			len(f.QOS) > 0 && !slices.Contains(f.QOS, r.PriorityClass) ||
			len(f.States) > 0 && !slices.Contains(f.States, state) ||
			len(f.States) == 0 && !f.Ended && state.Ended()
	})
}

// title is what people call a job.
func title(r view.Job) string {
	if r.Title != "" {
		return r.Title
	}
	return r.Name
}
