package workloadlifecycle

import (
	"time"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Pods is what is seen of the pods of an admitted job, whatever it consists of.
type Pods struct {
	// Ready: all run and are ready, or have succeeded; since ReadySince.
	Ready      bool
	ReadySince time.Time
	Refused    Refused
	// Behind: the scheduler was not heard of some that have no node, so that a node may turn out to refuse them.
	Behind bool
}

// WhileRunning says what is due of a Workload whose pods may run: a status to write, with the eviction in it
// if its planned nodes refuse the pods, or else, if anything is to come, how long until it is looked at
// again.
func WhileRunning(
	w *kueue.Workload,
	p Pods,
	c Config,
	now time.Time,
) (next *kueue.WorkloadStatus, evicted *Event, again time.Duration) {
	next, unsaid := ReadinessDue(w, p.Ready, c, p.ReadySince, now)
	if next != nil {
		return next, nil, 0
	}
	left, due := p.Refused.Due(now)
	switch {
	case due:
		next, event := Withdraw(w, p.Refused, now)
		return next, &event, 0
	case unsaid > 0:
		return nil, nil, unsaid
	case left > 0:
		return nil, nil, left
	case p.Behind:
		return nil, nil, RefusalPatience // by then a node may be what refuses it
	}
	return nil, nil, 0
}

// JobEnded is the status of the Workload of a job that has ended, in one write with that its pods were ready
// if nobody has written that yet.
func JobEnded( //nolint:revive // how the job ended
	w *kueue.Workload,
	success bool,
	message string,
	p Pods,
	c Config,
	now time.Time,
) *kueue.WorkloadStatus {
	reason := kueue.ReasonSucceeded
	if !success {
		reason = kueue.ReasonFailed
	}
	if next := ObservePods(w, p.Ready, c, p.ReadySince); next != nil && p.Ready {
		w = w.DeepCopy()
		w.Status = *next
	}
	return Ended(w, reason, message, now)
}
