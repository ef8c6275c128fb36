package workloadlifecycle

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Attempts of a job are told of in a condition of its Workload, in the write that ends one: then admission,
// nodes and since when are still there, and nothing has to be remembered until a later one. The API server
// drops no conditions, whoever's definition it has.

// mostConditions is how many conditions a Workload may have for another one to be added: the API takes 16, and
// those that say how it stands come first.
const mostConditions = 12

// endAttempt writes that an eviction ended the attempt of a workload, if it was admitted.
func endAttempt(w *kueue.Workload, next *kueue.WorkloadStatus, now time.Time, e Eviction) {
	a := view.BeginAttempt(w)
	if a == nil || e.Unbegun {
		return
	}
	reason, cause := statistics(e)
	if c := apimeta.FindStatusCondition(
		next.Conditions,
		kueue.WorkloadPreempted,
	); reason == kueue.ReasonPreempted &&
		cause == "" &&
		c != nil {
		cause = c.Reason
	}
	a.FailedNodes, a.Pod, a.Rank = view.SomeNodes(e.Nodes), e.Pod, e.Rank
	category := core.CategoryOf(core.Evidence{Evicted: reason, Cause: cause})
	if cause != "" {
		reason = cause
	}
	view.EndAttempt(a, now, category, reason, e.Message)
	tellAttempt(w, next, now, a)
}

// NodesReplaced writes that pods of a workload that runs get other nodes, in place of those that do not take
// them any more, while its other pods run on. Those that have not run yet lose nothing.
func NodesReplaced(w *kueue.Workload, next *kueue.WorkloadStatus, now time.Time) {
	a := view.BeginAttempt(w)
	ready := condition(w, kueue.WorkloadPodsReady)
	if a == nil || ready != nil && ready.Reason == kueue.ReasonWaitForStart {
		return
	}
	var left []string
	a.GPUs = 0
	for i := range w.Status.Admission.PodSetAssignments {
		was, is := &w.Status.Admission.PodSetAssignments[i], next.Admission.PodSetAssignments[i]
		has := map[string]int32{}
		for _, p := range convert.Places(is.TopologyAssignment) {
			has[p.Node] += p.Count
		}
		for _, p := range convert.Places(was.TopologyAssignment) {
			if gone := p.Count - has[p.Node]; gone > 0 {
				left = append(left, p.Node)
				a.ReplacedPods += gone
				a.GPUs += int64(gone) * gpusEach(w, string(was.Name))
			}
		}
	}
	if a.ReplacedPods == 0 {
		return
	}
	a.Ready = nil
	view.OnNodes(a, left)
	a.FailedNodes = a.Nodes
	view.EndAttempt(a, now, core.CategoryNodeFailure, kueue.ReasonNodeFailures,
		view.ReplacedText(a.ReplacedPods, a.Nodes))
	tellAttempt(w, next, now, a)
}

// gpusEach is how many GPUs a pod of a pod set asks for.
func gpusEach(w *kueue.Workload, podSet string) int64 {
	for i := range w.Spec.PodSets {
		if string(w.Spec.PodSets[i].Name) == podSet {
			return view.GPUs(&w.Spec.PodSets[i].Template.Spec)
		}
	}
	return 0
}

func tellAttempt(w *kueue.Workload, next *kueue.WorkloadStatus, now time.Time, a *history.Attempt) {
	known := apimeta.FindStatusCondition(next.Conditions, kueue.WorkloadAttempts) != nil
	if !known && len(next.Conditions) > mostConditions {
		return
	}
	all := view.AddAttempt(view.StoppedAttempts(w), *a)
	NewConditions(
		w,
		next,
		now,
	).Set(kueue.WorkloadAttempts, metav1.ConditionTrue, a.Category, view.AttemptsText(all))
}

// NoteCheckpoint adds to the attempt that an eviction ended what its job and its Workload say of its last checkpoint, once its
// pods are gone: a job may save what it has done when it is told to stop. It goes into the write of Stopped.
func NoteCheckpoint(w *kueue.Workload, next *kueue.WorkloadStatus, now time.Time, said ...metav1.Object) {
	c := apimeta.FindStatusCondition(next.Conditions, kueue.WorkloadAttempts)
	if c == nil || !isTrue(w, kueue.WorkloadAdmitted) {
		return
	}
	all := view.StoppedAttempts(w)
	for i := len(all.Attempts) - 1; i >= 0; i-- {
		if a := &all.Attempts[i]; a.ReplacedPods == 0 {
			for _, o := range said {
				view.NoteCheckpoint(a, o, now)
			}
			NewConditions(w, next, now).Set(c.Type, c.Status, c.Reason, view.AttemptsText(all))
			return
		}
	}
}
