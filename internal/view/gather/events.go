package gather

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
)

// Reasons of events that say what no status says.
const (
	FailedCreate = "FailedCreate" // with what it was behind it: a pod, or what makes pods, could not be made
	NameTaken    = "NameTaken"    // another object has the name of what was to be made
	Moved        = "Moved"        // planned nodes went away
	// NotEvacuated: a pod should leave its node, and does not since its job would not survive it.
	NotEvacuated = "NotEvacuated"
)

// Unmade reports whether events of a reason tell that something of a job could not be made.
func Unmade(reason string) bool {
	return strings.HasPrefix(reason, FailedCreate) || reason == NameTaken ||
		slices.ContainsFunc(kinds.All(), func(k jobs.Kind) bool {
			return k.Running.Operated != nil && k.Running.Operated.Unmade != "" && k.Running.Operated.Unmade == reason
		})
}

// When is when an event happened last.
func When(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

// Later reports whether an event happened after another one, which may be nil.
func Later(e, than *corev1.Event) bool {
	return than == nil || When(e).After(When(than))
}
