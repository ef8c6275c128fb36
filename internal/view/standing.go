package view

import (
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// State is where a job stands, in one word.
type State string

// The states of a job.
const (
	Held      State = "Held"      // it must not run, until that is changed
	Waiting   State = "Waiting"   // for quota or nodes
	Starting  State = "Starting"  // admitted, not all pods run yet
	Running   State = "Running"   // all pods run
	Resetting State = "Resetting" // its pods are made anew
	Stopping  State = "Stopping"  // evicted or suspended, its pods still end
	Succeeded State = "Succeeded"
	Failed    State = "Failed"
	Unmanaged State = "Unmanaged" // not ours to run
)

// States are all of them.
func States() []State {
	return []State{Held, Waiting, Starting, Running, Resetting, Stopping, Succeeded, Failed, Unmanaged}
}

// Stage is how far a job has come, and what says so.
type Stage string

// The stages. Those up to NotRecorded have no Workload to speak for them.
const (
	Ended       Stage = "Ended"       // for good, by its own account
	Foreign     Stage = "Foreign"     // another controller manages it
	Loose       Stage = "Loose"       // pods that belong to no job
	Unqueued    Stage = "Unqueued"    // it names no queue
	Refused     Stage = "Refused"     // its Workload may not be created
	NotRecorded Stage = "NotRecorded" // its Workload is not there yet
	Finished    Stage = "Finished"
	Evicted     Stage = "Evicted"     // and still has quota
	Checking    Stage = "Checking"    // it has quota, and admission checks are open
	Admitted    Stage = "Admitted"    // it may run
	Deactivated Stage = "Deactivated" // it is not to be queued
	Queued      Stage = "Queued"      // it waits
)

// Reasons of ours that no condition has.
const (
	ReasonManagedBy  = "ManagedBy"
	ReasonNotQueued  = "NotQueued"
	ReasonNoQueue    = "NoQueue"
	ReasonNoWorkload = "NoWorkload"
)

// Objects are what there is of a job. Those that do not exist, or that the reader
// may not read, are nil.
type Objects struct {
	AppWrapper *appwrapper.AppWrapper
	Job        *batchv1.Job // nil if it is part of an AppWrapper
	// Other is what a job of another kind says of itself, nil if it is part of an
	// AppWrapper.
	Other    *Other
	Workload *kueue.Workload
	Pods     []corev1.Pod
	// Deleted says that the object of the job is being deleted.
	Deleted bool
	// Loose says that none of the objects that make its pods is a job.
	Loose bool
	// Team says that only queued jobs may run in its namespace.
	Team bool
	// Refused is the event that says why it has no Workload.
	Refused *corev1.Event
	// Answer is what a controller says of a workload that waits.
	Answer *visibility.Explanation
}

// Other is what a job says of itself, in whatever words its kind has.
type Other struct {
	// Queue is that which it names, "" if none.
	Queue string
	// Manager is the controller that it names, "" if that is not another one.
	Manager string
	// Ended says that it did, Succeeded how, Message in its own words, and At when, as far
	// as that is known.
	Ended, Succeeded bool
	Message          string
	At               time.Time
}

// Standing is how a job stands.
type Standing struct {
	Stage Stage
	State State
	// Reason is the code of why it is in that state, stable for scripts.
	Reason string
	// Message says more about it; "" if nothing does.
	Message string
	// Since is when it came to that stage; zero if that is not known.
	Since time.Time
	// LocalQueue is the queue that it names, ClusterQueue the one that it has quota of;
	// "" for none.
	LocalQueue, ClusterQueue string
	// Manager is the controller of a Foreign job.
	Manager string
	// Eviction is its last one, as long as it is not admitted again; nil for none.
	Eviction *Eviction
	// Decision is why it waits; nil if it does not, or has not been looked at since it
	// came to its queue.
	Decision *Decision
	Pods     Pods
}

// Decision is why a workload waits.
type Decision struct {
	Code core.Code
	// Cause refines the code. Only the controller tells it.
	Cause   core.Cause
	Message string
	// At is the moment at which it was so.
	At time.Time
	// Live says that the controller said so when it was asked. Otherwise it is what was
	// written at that moment, and may not be true any more.
	Live bool
}

// StandingOf is how the job stands that has these objects. The first stage that fits is
// its own: what it says of itself goes before what its Workload says.
func StandingOf(o Objects) Standing {
	j := Standing{LocalQueue: queueOf(o), Pods: podsOf(o.Pods, o.Workload)}
	switch {
	case j.ended(o), j.foreign(o):
	case o.Workload == nil:
		j.unrecorded(o)
	default:
		j.recorded(o.Workload, o.Answer)
	}
	if j.Stage == Admitted {
		j.runs(o.AppWrapper)
		j.ends(o)
	}
	return j
}

// Reasons of ours for pods that still end though nobody stopped their job.
const (
	ReasonDeleted   = "Deleted"
	ReasonCompleted = "Completed"
)

// ends is an admitted job of which pods only still end: it was deleted, or it has ended by its own
// account, or all that it is waited for is over.
func (j *Standing) ends(o Objects) {
	over := j.Pods.Ended > 0 && j.Pods.Failed == 0 && len(j.Pods.Running)+len(j.Pods.Waiting) == 0
	switch {
	case o.Deleted:
		j.State, j.Reason = Stopping, ReasonDeleted
	case o.Other != nil && o.Other.Ended, over && len(j.Pods.Leaving) > 0:
		j.State, j.Reason = Stopping, ReasonCompleted
	}
}

func (j *Standing) is(stage Stage, state State, reason string) {
	j.Stage, j.State, j.Reason = stage, state, reason
}

func queueOf(o Objects) string {
	switch {
	case o.Workload != nil:
		return string(o.Workload.Spec.QueueName)
	case o.AppWrapper != nil:
		return o.AppWrapper.Labels[kueue.QueueNameLabel]
	case o.Job != nil:
		return o.Job.Labels[kueue.QueueNameLabel]
	case o.Other != nil:
		return o.Other.Queue
	}
	return ""
}

// ended reports whether a job has ended by its own account. That of a Job counts only
// where no Workload tells of it, and that of others as long as their Workload has not ended: it
// goes on for the pods that a job keeps.
func (j *Standing) ended(o Objects) bool {
	if aw := o.AppWrapper; aw != nil {
		switch aw.Status.Phase {
		case appwrapper.AppWrapperFailed:
			j.is(Ended, Failed, string(appwrapper.AppWrapperFailed))
			if c := apimeta.FindStatusCondition(
				aw.Status.Conditions,
				appwrapper.Unhealthy,
			); c != nil &&
				c.Message != "" {
				j.Reason, j.Message = c.Reason, c.Message
			}
			return true
		case appwrapper.AppWrapperSucceeded:
			j.is(Ended, Succeeded, string(appwrapper.AppWrapperSucceeded))
			return true
		default:
			// It goes on.
		}
	}
	if x := o.Other; x != nil && x.Ended && (o.Workload == nil || !convert.Finished(o.Workload)) {
		j.is(Ended, Failed, string(Failed))
		if x.Succeeded {
			j.is(Ended, Succeeded, string(Succeeded))
		}
		j.Message, j.Since = x.Message, x.At
		if w := o.Workload; w != nil && w.Status.Admission != nil {
			j.ClusterQueue = string(w.Status.Admission.ClusterQueue)
		}
		return true
	}
	if o.Job == nil || o.Workload != nil {
		return false
	}
	for _, c := range o.Job.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
			continue
		case c.Type == batchv1.JobComplete:
			j.is(Ended, Succeeded, string(batchv1.JobComplete))
		case c.Type == batchv1.JobFailed:
			j.is(Ended, Failed, c.Reason)
		default:
			continue
		}
		j.Message, j.Since = c.Message, c.LastTransitionTime.Time
		return true
	}
	return false
}

// foreign reports whether another controller manages a job.
func (j *Standing) foreign(o Objects) bool {
	if aw := o.AppWrapper; aw != nil &&
		ptr.Deref(aw.Spec.ManagedBy, appwrapper.AppWrapperControllerName) != appwrapper.AppWrapperControllerName {
		j.Manager = *aw.Spec.ManagedBy
	}
	if job := o.Job; job != nil &&
		ptr.Deref(job.Spec.ManagedBy, batchv1.JobControllerName) != batchv1.JobControllerName {
		j.Manager = *job.Spec.ManagedBy
	}
	if o.Other != nil {
		j.Manager = o.Other.Manager
	}
	if j.Manager == "" {
		return false
	}
	j.is(Foreign, Unmanaged, ReasonManagedBy)
	return true
}

// unrecorded is a job that no Workload stands for.
func (j *Standing) unrecorded(o Objects) {
	switch {
	case o.Loose:
		j.is(Loose, Unmanaged, ReasonNotQueued)
	case j.LocalQueue == "" && (o.Team || o.AppWrapper != nil):
		j.is(Unqueued, Held, ReasonNoQueue)
	case j.LocalQueue == "":
		j.is(Unqueued, Unmanaged, ReasonNoQueue)
	case o.Refused != nil:
		j.is(Refused, Held, o.Refused.Reason)
		j.Message = o.Refused.Message
	default:
		j.is(NotRecorded, Waiting, ReasonNoWorkload)
		if o.AppWrapper == nil {
			return
		}
		if c := apimeta.FindStatusCondition(
			o.AppWrapper.Status.Conditions,
			appwrapper.Unhealthy,
		); c != nil &&
			c.Status == metav1.ConditionTrue {
			j.Message = c.Message // it can never run
		}
	}
}

// recorded is a job as its Workload says.
func (j *Standing) recorded(w *kueue.Workload, answer *visibility.Explanation) {
	find := func(kind string) *metav1.Condition { return apimeta.FindStatusCondition(w.Status.Conditions, kind) }
	if w.Status.Admission != nil {
		j.ClusterQueue = string(w.Status.Admission.ClusterQueue)
	}
	evicted, reserved, admitted := find(
		kueue.WorkloadEvicted,
	), find(
		kueue.WorkloadQuotaReserved,
	), find(
		kueue.WorkloadAdmitted,
	)
	j.Eviction = EvictionOf(w)
	finished := find(kueue.WorkloadFinished)
	switch {
	case isTrue(finished):
		j.is(Finished, Failed, finished.Reason)
		if finished.Reason == kueue.ReasonSucceeded {
			j.State = Succeeded
		}
		j.Message, j.Since = finished.Message, finished.LastTransitionTime.Time
	case convert.Interruption(w) == core.InterruptedStopped:
		j.is(Evicted, Waiting, kueue.ReasonAwaitingNodes)
		j.Message, j.Since = evicted.Message+". "+find(
			kueue.WorkloadNodesKept,
		).Message, evicted.LastTransitionTime.Time
	case w.Status.Admission != nil && j.Eviction != nil:
		j.is(Evicted, Stopping, evicted.Reason)
		j.Message, j.Since = evicted.Message, evicted.LastTransitionTime.Time
	case w.Status.Admission != nil:
		j.is(Admitted, Starting, kueue.ReasonAdmitted)
		if !isTrue(admitted) {
			j.is(Checking, Waiting, kueue.ReasonUnsatisfiedAdmissionChecks)
		}
		if reserved != nil {
			j.Since = reserved.LastTransitionTime.Time
		}
	case !ptr.Deref(w.Spec.Active, true):
		j.is(Deactivated, Held, kueue.ReasonDeactivated)
		if evicted != nil && strings.HasPrefix(evicted.Reason, kueue.ReasonDeactivatedDueTo) {
			j.Reason, j.Message = evicted.Reason, evicted.Message
		}
	default:
		j.queued(w, answer)
	}
}

// queued is a job that waits in its queue, if it names one.
func (j *Standing) queued(w *kueue.Workload, answer *visibility.Explanation) {
	if j.is(Queued, Waiting, kueue.ReasonPendingEvaluation); w.Spec.QueueName == "" {
		j.is(Unqueued, Held, ReasonNoQueue)
		return
	}
	j.Since = w.CreationTimestamp.Time
	evicted := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadEvicted)
	reserved := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadQuotaReserved)
	if evicted != nil { // since it gave back its quota
		for _, c := range []*metav1.Condition{evicted, reserved} {
			if c != nil && c.LastTransitionTime.After(j.Since) {
				j.Since = c.LastTransitionTime.Time
			}
		}
	}
	switch {
	case answer != nil && answer.Waiting:
		j.Decision = &Decision{
			Code: core.Code(
				answer.Reason,
			),
			Cause:   core.Cause(answer.Cause),
			Message: answer.Message,
			At:      answer.At.Time,
			Live:    true,
		}
	case reserved == nil || evicted != nil && reserved.Message == evicted.Message:
		return // that is from its eviction
	default:
		j.Decision = &Decision{
			Code:    core.Code(reserved.Reason),
			Message: reserved.Message,
			At:      reserved.LastTransitionTime.Time,
		}
	}
	j.Reason, j.Message = string(j.Decision.Code), j.Decision.Message
}

// runs adds what an admitted job does: its AppWrapper knows why its pods are not
// all there.
func (j *Standing) runs(aw *appwrapper.AppWrapper) {
	if aw != nil {
		switch aw.Status.Phase {
		case appwrapper.AppWrapperResetting:
			j.State, j.Reason = Resetting, string(appwrapper.AppWrapperResetting)
		case appwrapper.AppWrapperSuspending:
			j.State, j.Reason = Stopping, string(appwrapper.AppWrapperSuspending)
		default:
			// What the other phases mean is told by the pods.
		}
		if c := apimeta.FindStatusCondition(aw.Status.Conditions, appwrapper.Unhealthy); isTrue(c) {
			j.Reason = c.Reason
		}
	}
	if j.State == Starting && j.Pods.AllRun() {
		j.State = Running
	}
}

func isTrue(c *metav1.Condition) bool { return c != nil && c.Status == metav1.ConditionTrue }

// Pods are the pods of a job by what they do, each in its place among those given.
type Pods struct {
	// Wanted is how many pods there are to be at least, ended ones included.
	Wanted int
	// Running ones may still start; Leaving ones are being removed; Waiting ones do not
	// run yet.
	Running, Waiting, Leaving []corev1.Pod
	// Ended is how many have ended, well or not, and Failed how many of them not.
	Ended, Failed int
}

func podsOf(pods []corev1.Pod, w *kueue.Workload) Pods {
	var out Pods
	for i := range pods {
		switch p := pods[i]; {
		case p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed:
			out.Ended++
			if p.Status.Phase == corev1.PodFailed {
				out.Failed++
			}
		case p.DeletionTimestamp != nil:
			out.Leaving = append(out.Leaving, p)
		case p.Status.Phase == corev1.PodRunning:
			out.Running = append(out.Running, p)
		default:
			out.Waiting = append(out.Waiting, p)
		}
	}
	if w != nil && w.Status.Admission != nil {
		fewer := convert.Fewer(w)
		for _, a := range w.Status.Admission.PodSetAssignments {
			n := ptr.Deref(a.Count, 0)
			if asks, is := fewer[string(a.Name)]; is { // it was made smaller, and keeps its quota
				n = min(n, asks)
			}
			out.Wanted += int(n)
		}
	}
	out.Wanted = max(out.Wanted, out.Live())
	return out
}

// Live is how many have not ended.
func (p *Pods) Live() int { return len(p.Running) + len(p.Waiting) + len(p.Leaving) }

// None says that there are no pods.
func (p *Pods) None() bool { return p.Live()+p.Ended == 0 }

// AllRun says that pods run, and all that are wanted do or have ended.
func (p *Pods) AllRun() bool {
	return len(p.Running) > 0 && len(p.Waiting)+len(p.Leaving) == 0 && len(p.Running)+p.Ended >= p.Wanted
}
