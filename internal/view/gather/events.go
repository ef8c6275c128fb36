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
			return k.Running.Operator != nil && k.Running.Operator.FailedCreateReason != "" &&
				k.Running.Operator.FailedCreateReason == reason
		})
}

// HeldBy is the last event that tells why a group of held pods is in no queue; nil if none does. pods are all of them.
func HeldBy(events []corev1.Event, pods []corev1.Pod) (last *corev1.Event) {
	for i := range events {
		e := &events[i]
		of := func(p corev1.Pod) bool { return p.UID == e.InvolvedObject.UID && p.Name == e.InvolvedObject.Name }
		if (e.Reason == ReasonGroupIncomplete || e.Reason == ReasonGroupMismatch) &&
			slices.ContainsFunc(pods, of) && Later(e, last) {
			last = e
		}
	}
	return last
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
