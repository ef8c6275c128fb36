package history

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/view"
)

// ended is a job that ended, as it was found.
type ended struct {
	workload *kueue.Workload
	// pods are the pods that are left of it.
	pods []corev1.Pod
	// restarts is how often its pods were made anew.
	restarts int32
	// job is the job, nil if it is gone.
	job jobs.Object
	// within are the attempts that failed and cost it no quota, and trouble the state of a pod's node.
	within  api.Attempts
	trouble func(*corev1.Pod) core.NodeTrouble
}

// reasonDeleted is why a job ended that was deleted.
const reasonDeleted = "Deleted"

// mostMessage is how many bytes of a message are kept, and mostReason of a reason.
const (
	mostMessage = 512
	mostReason  = 316
)

// record is what is kept of a job that ended.
func (e *ended) record() api.JobRecord {
	w := e.workload
	r := api.JobRecord{
		UID:       w.UID,
		Kind:      "Pod",
		Name:      w.Name,
		Queue:     string(w.Spec.QueueName),
		User:      w.Annotations[api.UserAnnotation],
		Priority:  w.Spec.Priority,
		Submitted: w.CreationTimestamp,
		Evictions: evictions(w),
		Restarts:  e.restarts,
	}
	if owner := metav1.GetControllerOf(w); owner != nil {
		r.Kind, r.Name = owner.Kind, owner.Name
	}
	if at, err := time.Parse(time.RFC3339Nano, w.Annotations[kueue.SubmittedAtAnnotation]); err == nil {
		r.Submitted = metav1.NewTime(at.Truncate(time.Second))
	}
	r.Pods, r.GPUs = view.Size(w)
	r.Slices = some(view.SlicesOf(w))
	e.outcome(&r)
	e.quota(&r)
	last := view.LastAttempt(w, e.pods, e.trouble)
	if last != nil {
		view.NoteCheckpoint(last, w, r.Ended.Time)
	}
	if last != nil && e.job != nil {
		view.NoteCheckpoint(last, e.job, r.Ended.Time)
	}
	if all := view.AttemptsOf(w, e.within, last, r.Ended.Time); all != nil {
		r.Attempts, r.AttemptsTotal = all.Attempts.Attempts, &all.Total
		if len(r.Attempts) == 1 && all.Earlier == nil && r.State == api.Succeeded {
			r.Attempts = nil // the record says all of it
		}
	}
	return r
}

// mostSlices is of how many sorts of parts of GPUs is told.
const mostSlices = 16

// some are the sorts that there is room for: a job may name as many as it likes, and what is
// remembered of others does not depend on it.
func some(parts map[string]int64) map[string]int64 {
	for i, name := range slices.Sorted(maps.Keys(parts)) {
		if i >= mostSlices {
			delete(parts, name) // the map is a new one
		}
	}
	return parts
}

// outcome is how and why the job ended.
func (e *ended) outcome(r *api.JobRecord) {
	w := e.workload
	finished := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadFinished)
	if !convert.Finished(w) {
		r.State, r.Reason, r.Ended = api.Cancelled, reasonDeleted, ptr.Deref(
			w.DeletionTimestamp,
			w.CreationTimestamp,
		)
		if c := apimeta.FindStatusCondition(
			w.Status.Conditions,
			kueue.WorkloadEvicted,
		); c != nil &&
			c.Status == metav1.ConditionTrue {
			r.Reason, r.Message = shortened(c.Reason, mostReason), shortened(c.Message, mostMessage)
			return // pods that were deleted to stop them are all that there was of it, or nobody waited for its return
		}
		if c := apimeta.FindStatusCondition(
			w.Status.Conditions,
			kueue.WorkloadQuotaReserved,
		); w.Status.Admission == nil &&
			c != nil {
			r.Message = shortened("It waited: "+c.Message, mostMessage)
		}
		return
	}
	r.State, r.Reason, r.Message = api.Failed, shortened(
		finished.Reason,
		mostReason,
	), shortened(
		finished.Message,
		mostMessage,
	)
	if r.Ended = finished.LastTransitionTime; finished.Reason == kueue.ReasonSucceeded {
		r.State = api.Succeeded
		return
	}
	if p := view.FirstFailed(e.pods); p != nil {
		_, t := view.Culprit(p)
		r.FailedPod, r.FailedNode, r.ExitCode = p.Name, p.Spec.NodeName, new(t.ExitCode)
	} else if pod, node, code, said := view.FailedPod(finished.Message); said {
		r.FailedPod, r.FailedNode, r.ExitCode = pod, node, &code
	}
}

// quota is what the job had, and for how long. Runs before the last one are the runs that the
// Workload has summed up.
func (e *ended) quota(r *api.JobRecord) {
	w := e.workload
	r.RanSeconds = int64(ptr.Deref(w.Status.AccumulatedPastExecutionTimeSeconds, 0))
	a := w.Status.Admission
	if a == nil {
		return
	}
	r.ClusterQueue = string(a.ClusterQueue)
	var flavors []string
	for _, set := range a.PodSetAssignments {
		for _, f := range set.Flavors { // sorted below
			flavors = append(flavors, string(f))
		}
	}
	slices.Sort(flavors)
	r.Flavor = shortened(strings.Join(slices.Compact(flavors), ","), mostFlavors)
	if c := apimeta.FindStatusCondition(
		w.Status.Conditions,
		kueue.WorkloadAdmitted,
	); c != nil &&
		c.Status == metav1.ConditionTrue {
		r.Started = new(c.LastTransitionTime)
		r.RanSeconds += max(0, int64(r.Ended.Sub(c.LastTransitionTime.Time)/time.Second))
	}
}

// mostFlavors is how many bytes of the names of flavors are kept.
const mostFlavors = 1024

func evictions(w *kueue.Workload) (n int32) {
	if s := w.Status.SchedulingStats; s != nil {
		for _, e := range s.Evictions {
			n += e.Count
		}
	}
	return n
}

// shortened is a text of at most so many bytes, whole characters only.
func shortened(text string, most int) string {
	const dots = "…"
	if len(text) <= most {
		return text
	}
	text = text[:most-len(dots)]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + dots
}
