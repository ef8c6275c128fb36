package appwrapper

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awv1beta2 "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	"github.com/mlbatch/mlbatch/internal/view"
)

// retries finds out what follows failures of the AppWrapper: who said what of it, how its attempt fails, and what
// became of those before.
func (a *attempt) retries(ctx context.Context) error {
	if _, problem := jobs.RetryTextOf(a.w, jobs.RetryFromJob); problem != nil {
		a.warnings = append(a.warnings, appwrapper.Warning{
			Annotation: kueue.RetryPolicyAnnotation,
			Value:      a.w.Annotations[kueue.RetryPolicyAnnotation],
			Problem:    "is ignored: " + problem.Error(),
		})
	}
	switch a.facts.Phase {
	case lifecycle.Resuming, lifecycle.Running, lifecycle.Resetting:
	case lifecycle.New, lifecycle.Suspended, lifecycle.Suspending, lifecycle.Succeeded, lifecycle.Failed,
		lifecycle.Terminating:
		return nil // nothing follows
	}
	said, _, err := admission.Retries(ctx, a.client, a.w, a.said)
	if err != nil {
		return err
	}
	said.Own, said.Said = appwrapper.SaysRetries(a.w.Annotations)
	said.Limit = a.facts.Policy.RetryLimit
	p := said.Policy()
	a.facts.Policy.RetryLimit, a.facts.Policy.RetryRules, a.facts.Policy.Disruptions = p.Limit, p.Rules, p.Disruptions
	a.facts.Earlier = view.RetryHistory(view.RestartedAttempts(a.w), a.w.Status.Retries)
	if a.facts.Phase != lifecycle.Running {
		return nil
	}
	now := a.clock.Now()
	began := a.trueSince(awv1beta2.ResourcesDeployed, now)
	ready := a.ranSince(began)
	saved := view.Saved(a.w, began, now) ||
		slices.ContainsFunc(a.pods, func(p corev1.Pod) bool { return view.Saved(&p, began, now) })
	if failed := a.firstFailed(); failed != nil {
		a.facts.Failure = view.FailureOf(failed, a.trouble(ctx, failed.Spec.NodeName, failed), a.w, began, now)
		a.facts.Failure.Progress = a.facts.Failure.Progress || saved
		return nil
	}
	a.facts.Failure = core.Failure{
		Category: core.CategoryUnknown,
		Progress: saved || !ready.IsZero() && now.Sub(ready) > core.ProgressTime,
	}
	return nil
}

// firstFailed is the pod that failed first; of those that were ended from outside, with no container that tells, the
// first by name. nil if none failed.
func (a *attempt) firstFailed() *corev1.Pod {
	if p := view.FirstFailed(a.pods); p != nil {
		return p
	}
	var first *corev1.Pod
	for i := range a.pods {
		if p := &a.pods[i]; p.Status.Phase == corev1.PodFailed && (first == nil || p.Name < first.Name) {
			first = p
		}
	}
	return first
}

// trueSince is from when on a condition has been true; now if it is not.
func (a *attempt) trueSince(t string, now time.Time) time.Time {
	if c := meta.FindStatusCondition(a.w.Status.Conditions, t); c != nil && c.Status == metav1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return now
}

// ranSince is since when all pods of the attempt that began then ran; zero if they never did. Once one of them is missing
// the condition tells until when they did: then it is since when the last of those that are left runs, or since the
// beginning where none is. An attempt begins with a condition that is False.
func (a *attempt) ranSince(began time.Time) time.Time {
	c := meta.FindStatusCondition(a.w.Status.Conditions, awv1beta2.PodsReady)
	switch {
	case c == nil || c.LastTransitionTime.Time.Before(began):
		return time.Time{}
	case c.Status == metav1.ConditionTrue:
		return c.LastTransitionTime.Time
	case !c.LastTransitionTime.After(began):
		return time.Time{}
	}
	ran := began
	for i := range a.pods {
		// Those that began later are in place of others.
		if at := view.StartedAt(&a.pods[i]); at.After(ran) && !at.After(c.LastTransitionTime.Time) {
			ran = at
		}
	}
	return ran
}
