// Package workloadlifecycle holds the rules for the life of a Workload between the
// reservation of its quota and its end: admission checks, the readiness of its
// pods, limits of time, evictions and the way back into the queue, deactivation
// and retention, as in Kueue.
//
// Everything is pure: facts and the time in, the next write out. A rule looks
// at what the API says now and at nothing that was remembered, so that a
// process may die between any two writes; doing a step twice changes nothing.
// It decides nothing about quota or places. Whether the pods of a job that stops
// are gone is known to the job's reconciler, which calls Released then; that of a
// job that is gone, or about to go, is looked after here.
package workloadlifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// Config are the settings of the rules; the zero value waits for no pods and
// keeps every object.
type Config struct {
	// PodsReady makes workloads prove that their pods run; nil does not ask.
	PodsReady *PodsReady
	// Retention says when objects that ended are deleted.
	Retention Retention
	// KeepNodes is for how long a workload whose nodes failed keeps its quota and its healthy nodes.
	KeepNodes time.Duration
	// MaxStopNotice is for how long workloads that ask for it may run on at most after they are evicted.
	MaxStopNotice time.Duration
	// Explicit gives every Workload the conditions QuotaReserved and Admitted from
	// its beginning, which costs a write (UnadmittedWorkloadsExplicitStatus).
	Explicit bool
}

// PodsReady are the settings of waitForPodsReady.
type PodsReady struct {
	// Timeout is how long after its admission all pods of a workload must be
	// ready.
	Timeout time.Duration
	// RecoveryTimeout is how long a workload whose pods were ready may go on
	// with one that is not; 0 is for ever.
	RecoveryTimeout time.Duration
	// BackoffLimit is how often a workload may be put back for this before it is
	// deactivated; nil is without limit.
	BackoffLimit *int32
	// BackoffBase is the pause before the first return, doubled for each further
	// one; BackoffMax is the longest.
	BackoffBase, BackoffMax time.Duration
	// Awaited: others are not admitted before the pods are ready, so that it is written at once.
	Awaited bool
}

// Retention says how long objects are kept after their end; nil is for ever.
type Retention struct {
	// AfterFinished counts from the end of a Workload; its job stays.
	AfterFinished *time.Duration
	// AfterDeactivated counts from the deactivation of a Workload by one of these
	// rules, not by a user; its job is deleted with it.
	AfterDeactivated *time.Duration
}

// Facts are everything that the next step of one Workload depends on.
type Facts struct {
	Workload *kueue.Workload
	// Orphan is true if the job it was made for is gone, Owned if there is one whose
	// reconciler looks after it: one that is not being deleted.
	Orphan, Owned bool
	// JobDeleted is since when its job is being deleted, zero if it is not, and
	// JobMakes true while such a job may have pods made all the same.
	JobDeleted time.Time
	JobMakes   bool
	// LivePods counts its pods that hold quota: see core.PodState.
	LivePods int
	// Running counts those of them that run, Untold those that were not told when they are stopped, and Acknowledged is
	// true once one of them said that its job is ready for that. They are looked at while it is admitted.
	Running, Untold int
	Acknowledged    bool
	// Checkpoint is the last one that its job or a pod of it told of; zero is none.
	Checkpoint time.Time
	// Trouble is what keeps one of its pods from being ready, "" if nothing is known.
	Trouble string
	// Priority is the value of the WorkloadPriorityClass it refers to, if any.
	Priority *int32
	// ClusterQueue is the one that it waits for or has a reservation in, and
	// LocalQueue the one that it was submitted to; nil if there is none.
	ClusterQueue *kueue.ClusterQueue
	LocalQueue   *kueue.LocalQueue
	Config       Config
	// Watched is since when this controller watches; zero is always.
	Watched time.Time
	Now     time.Time
}

// Write is the one write that comes next; at most one of the first eight fields is
// set, and the zero value is none.
type Write struct {
	// Status is the status to give to the Workload.
	Status *kueue.WorkloadStatus
	// Priority is the spec.priority to give to it.
	Priority *int32
	// Deactivate sets spec.active to false.
	Deactivate bool
	// Unpin lets a deleted Workload go.
	Unpin bool
	// StopPods deletes its pods, which no job's controller would.
	StopPods bool
	// Tell writes into its pods when and why they are stopped; nil tells them nothing.
	Tell *StopNotice
	// Checkpoint notes on the Workload when its job last saved what it has done; zero notes nothing.
	Checkpoint time.Time
	// Delete says what to delete.
	Delete Deletion
	// Events are told once the write is done.
	Events []Event
	// Again is when to look again at the latest; zero is never.
	Again time.Time
}

// Deletion is what the end of a retention deletes.
type Deletion string

// What is deleted.
const (
	DeleteNothing  Deletion = ""
	DeleteWorkload Deletion = "Workload"
	// DeleteJob deletes the job, and the Workload with it.
	DeleteJob Deletion = "Job"
)

// Reasons of events that are no reasons of conditions.
const (
	EventAdmissionCheckRejected = "AdmissionCheckRejected"
	// EventEvictedDueTo is followed by the reason of the eviction.
	EventEvictedDueTo = "EvictedDueTo"
)

// Event is a change of state, told once.
type Event struct {
	Reason, Message string
	Warning         bool
	// Eviction is set if the workload was evicted.
	Eviction *Eviction
}

// rules of a Workload that waits or runs. The first one that has something to
// write wins.
func rules() []func(Facts) (Write, bool) {
	return []func(Facts) (Write, bool){
		orphaned,     // without a job it has ended
		deactivated,  // spec.active is false
		deactivating, // it shall be false
		followClass,  // the priority class changed
		saved,        // its job told of a checkpoint
		noticed,      // its pods run on for a while
		release,      // no job's reconciler gives back its quota
		abandoned,    // its job is being deleted, and does nothing any more
		refusals,     // a check said no
		stopped,      // its queue was stopped before it was admitted
		admission,    // checks came, went or said yes
		executionTime,
		hung, // it takes no steps any more
		podsTimeout,
		requeue,
		lapse,
		forgive,
		explicit,
	}
}

// Next returns the next step of one Workload.
func Next(f Facts) Write {
	w := f.Workload
	switch {
	case w.DeletionTimestamp != nil:
		return leave(f)
	case convert.Finished(w):
		if f.Owned && condition(w, kueue.WorkloadFinished).Reason == kueue.ReasonFailedToStart {
			return Write{} // its job, which has not run, would be queued anew and fail again
		}
		if f.Orphan && f.LivePods == 0 {
			return retain(
				f,
				w,
				kueue.WorkloadFinished,
				shorter(f.Config.Retention.AfterFinished, orphanKept),
				DeleteWorkload,
			)
		}
		return retain(f, w, kueue.WorkloadFinished, f.Config.Retention.AfterFinished, DeleteWorkload)
	}
	var again time.Time
	for _, rule := range rules() {
		step, acts := rule(f)
		if acts {
			return step
		}
		again = sooner(again, step.Again)
	}
	return Write{Again: again}
}

// sooner is the first of two moments; zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// patience is how long others get to do what is theirs to do: the garbage
// collector deletes the pods of a deleted job by itself.
const patience = 10 * time.Second

// orphanKept is how long a Workload is kept that has ended and whose job is gone. Nothing is left to
// look it up by, its author may not delete it, and a job deleted without its dependents takes no
// second one along.
const orphanKept = time.Minute

// shorter is the shorter of two times; nil is for ever.
func shorter(a *time.Duration, b time.Duration) *time.Duration {
	if a != nil && *a < b {
		return a
	}
	return &b
}

// leave lets a deleted Workload go when its pods are gone. While its job exists,
// the job's reconciler knows when all has stopped.
func leave(f Facts) Write {
	switch {
	case f.Owned && !convert.Finished(f.Workload), f.JobMakes:
		return Write{}
	case f.LivePods == 0:
		return Write{Unpin: true}
	}
	step, _ := stopPods(f, f.Workload.DeletionTimestamp.Time)
	return step
}

// stopPods deletes pods whose job is gone or about to go, if they have to go and
// no job's controller sees to it: a job may be deleted without its pods, or be kept by a
// finalizer while they go on.
func stopPods(f Facts, since time.Time) (Write, bool) {
	theirs := f.Orphan || metav1.GetControllerOf(f.Workload) != nil
	if !theirs {
		return Write{}, false
	}
	if end := since.Add(patience); end.After(f.Now) {
		return Write{Again: end}, false
	}
	return Write{StopPods: true, Again: f.Now.Add(patience)}, true
}

// abandoned ends a workload whose job is being deleted and has no pods any more:
// what keeps the job keeps no quota.
func abandoned(f Facts) (Write, bool) {
	if f.JobDeleted.IsZero() || f.JobMakes || f.LivePods > 0 {
		return Write{}, false
	}
	if end := f.JobDeleted.Add(patience); end.After(f.Now) {
		return Write{Again: end}, false
	}
	return Write{
		Status: Ended(
			f.Workload,
			kueue.ReasonOwnerNotFound,
			"The job that this workload was made for is being deleted, and none of its pods is left",
			f.Now,
		),
	}, true
}

func orphaned(f Facts) (Write, bool) {
	if !f.Orphan || f.LivePods > 0 {
		return Write{}, false
	}
	return Write{
		Status: Ended(
			f.Workload,
			kueue.ReasonOwnerNotFound,
			"The job that this workload was made for is gone",
			f.Now,
		),
	}, true
}

func followClass(f Facts) (Write, bool) {
	if f.Priority == nil || *f.Priority == ptr.Deref(f.Workload.Spec.Priority, 0) {
		return Write{}, false
	}
	return Write{Priority: f.Priority}, true
}

// explicit says of a workload that nothing was decided about yet that it has
// neither quota nor admission.
func explicit(f Facts) (Write, bool) {
	w := f.Workload
	if !f.Config.Explicit ||
		(condition(w, kueue.WorkloadQuotaReserved) != nil && condition(w, kueue.WorkloadAdmitted) != nil) {
		return Write{}, false
	}
	next := w.Status.DeepCopy()
	set := NewConditions(w, next, f.Now)
	if condition(w, kueue.WorkloadQuotaReserved) == nil {
		set.Set(
			kueue.WorkloadQuotaReserved,
			metav1.ConditionFalse,
			kueue.ReasonPendingEvaluation,
			"The workload was not looked at yet",
		)
	}
	if condition(w, kueue.WorkloadAdmitted) == nil {
		set.Unreserved()
	}
	return Write{Status: next}, true
}

// release gives back the quota of an evicted workload that no job owns, once its
// pods are gone.
func release(f Facts) (Write, bool) {
	w := f.Workload
	if f.Owned || f.JobMakes || w.Status.Admission == nil || !isTrue(w, kueue.WorkloadEvicted) {
		return Write{}, false
	}
	if f.LivePods > 0 {
		return stopPods(f, condition(w, kueue.WorkloadEvicted).LastTransitionTime.Time)
	}
	next, again := Stopped(w, f.Config, f.Now)
	return Write{Status: next, Again: again}, next != nil
}

// stopped takes the reservation of a workload that is not admitted from a queue
// that is stopped, with either policy, or being deleted. What was never admitted has no pods, so
// that it is no eviction. One that a check no longer agrees to may still have
// some: it is evicted. What is admitted is the engine's to drain.
func stopped(f Facts) (Write, bool) {
	w := f.Workload
	if w.Status.Admission == nil || isTrue(w, kueue.WorkloadEvicted) || isTrue(w, kueue.WorkloadAdmitted) {
		return Write{}, false
	}
	var what, reason string
	was, why := "stopped", kueue.ReasonSuspended
	switch {
	case f.ClusterQueue != nil && f.ClusterQueue.DeletionTimestamp != nil:
		// It goes when no workload holds its quota, and no new one is to run in it.
		what, reason = "ClusterQueue "+f.ClusterQueue.Name, kueue.ReasonClusterQueueStopped
		was, why = "deleted", kueue.ReasonInadmissible
	case f.ClusterQueue != nil && !open(f.ClusterQueue.Spec.StopPolicy):
		what, reason = "ClusterQueue "+f.ClusterQueue.Name, kueue.ReasonClusterQueueStopped
	case f.LocalQueue != nil && !open(f.LocalQueue.Spec.StopPolicy):
		what, reason = "LocalQueue "+f.LocalQueue.Name, kueue.ReasonLocalQueueStopped
	default:
		return Write{}, false
	}
	next := w.Status.DeepCopy()
	if !neverAdmitted(w) || f.LivePods > 0 {
		told := Evict(
			w,
			next,
			f.Now,
			Eviction{Reason: reason, Message: "The " + what + " was " + was + " while a check did not agree"},
		)
		return Write{Status: next, Events: []Event{told}}, true
	}
	message := "The " + what + " was " + was + " before the workload was admitted"
	unreserve(w, next, f.Now, why, message)
	next.AdmissionChecks = resetChecks(next.AdmissionChecks, f.Now)
	return Write{Status: next, Events: []Event{{Reason: why, Message: message, Warning: true}}}, true
}

func open(p *kueue.StopPolicy) bool {
	return ptr.Deref(p, kueue.StopPolicyNone) == kueue.StopPolicyNone
}

// neverAdmitted reports whether a workload was not admitted with the reservation
// it has: then it cannot have pods.
func neverAdmitted(w *kueue.Workload) bool {
	admitted, reserved := condition(w, kueue.WorkloadAdmitted), condition(w, kueue.WorkloadQuotaReserved)
	if admitted == nil {
		return true
	}
	return admitted.Status != metav1.ConditionTrue && reserved != nil &&
		!admitted.LastTransitionTime.After(reserved.LastTransitionTime.Time)
}
