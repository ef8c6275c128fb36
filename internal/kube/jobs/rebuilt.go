package jobs

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
)

// Rebuilt is what can be told of a job whose memory is lost, or was never kept where it is kept now: by
// its status, and by the labels and annotations of its members. seen are the members, in their order. It
// is the zero value for a job that has not begun.
//
// A member that failed and is still there counts as a failure that follows, and one that succeeded as
// done: both are found anew by the next look. Members that another controller made are of the first
// attempt, whatever that one counted: they go on.
func (o *Operator) Rebuilt(job Object, members []metav1.Object, seen []podplan.Seen) podplan.RetryState {
	m := o.StateOfStatus(job)
	if m.Outcome != podplan.Open {
		return m
	}
	runs, others, attempt := false, false, int32(0)
	for i := range seen {
		x := &seen[i]
		runs = runs || !x.Over
		others = others || x.Role != "" && !x.Leaving && members[i].GetLabels()[recovery.JobLabel] == ""
		attempt = max(attempt, x.Attempt)
		n, _ := strconv.ParseInt(members[i].GetAnnotations()[recovery.FailuresAnnotation], 10, 32)
		m.Failures = max(m.Failures, int32(n))
	}
	if m.Attempt = max(m.Attempt, attempt); others {
		m.Attempt = attempt
	}
	if made := job.GetCreationTimestamp().Time; m.Started.IsZero() && runs ||
		m.Started.Equal(made) && !m.Started.IsZero() {
		m.Started = earliest(members, seen, 0, made)
	}
	if m.Attempt > 0 && !m.Started.IsZero() {
		m.LastFailure = earliest(members, seen, m.Attempt, m.Started)
	}
	return m
}

// CaughtUp is what is remembered of a job by what was stored and by what can be told of it now: whoever
// stored it had not seen the last.
func CaughtUp(stored, told podplan.RetryState) podplan.RetryState {
	m := stored
	if told.Attempt > m.Attempt {
		m.Attempt, m.Done, m.Counted, m.LastFailure = told.Attempt, nil, nil, told.LastFailure
	}
	m.Failures, m.Free = max(m.Failures, told.Failures), max(m.Free, told.Free)
	if told.Rounds.Begun && (!m.Rounds.Begun || told.Rounds.Current > m.Rounds.Current) {
		failures, free := m.Rounds.Failures, m.Rounds.Free
		m.Rounds = told.Rounds
		m.Rounds.Failures, m.Rounds.Free = max(failures, told.Rounds.Failures), max(free, told.Rounds.Free)
	}
	if m.Started.IsZero() {
		m.Started = told.Started
	}
	if m.Outcome == podplan.Open && told.Outcome != podplan.Open {
		m.Outcome, m.Ended = told.Outcome, told.Ended
	}
	return m
}

// earliest is when the first of the members of an attempt, or of a later one, was made; otherwise if there
// is none.
func earliest(members []metav1.Object, seen []podplan.Seen, attempt int32, otherwise time.Time) time.Time {
	var first time.Time
	for i := range seen {
		if made := members[i].GetCreationTimestamp().Time; seen[i].Attempt >= attempt &&
			(first.IsZero() || made.Before(first)) {
			first = made
		}
	}
	if first.IsZero() {
		return otherwise
	}
	return first
}

// Begun is when a job began by its status: at the time that the status says, or else, for kinds whose
// status says none, when the job was made, which Rebuilt corrects; zero if it has not begun.
func Begun(job Object, said *metav1.Time, active bool) time.Time {
	switch {
	case !active:
		return time.Time{}
	case said != nil:
		return said.Time
	}
	return job.GetCreationTimestamp().Time
}

// EndedAs is what is remembered of a job that ended so, at some time.
func EndedAs(how *Outcome, at *metav1.Time) podplan.RetryState {
	m := podplan.RetryState{Outcome: podplan.JobFailed}
	if how.Success {
		m.Outcome = podplan.JobSucceeded
	}
	if at != nil {
		m.Ended = at.Time
	}
	return m
}
