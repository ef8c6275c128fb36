package operator

import (
	"context"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/view"
)

// defaultRetries is how many retries a policy allows if nobody says, as for AppWrappers.
const defaultRetries = 3

// retries adds to what was seen of a job how its members failed, and to its plan what its policy says of that, where
// its kind leaves it to one and somebody failed.
func (r *reconciler) retries(ctx context.Context, l *look) error {
	if !r.kind.Running.Retries || l.plan.Suspended || l.kept.Outcome != podplan.Open ||
		!l.failed() && l.left == nil {
		return nil
	}
	said, problem, err := admission.Retries(ctx, r.Client, l.job, r.Retries)
	if err != nil {
		return err
	}
	if problem != nil {
		r.event(l.job, corev1.EventTypeWarning, "InvalidAnnotation", "It is ignored: "+problem.Error())
	}
	said.Own = l.plan.Own
	if owner := metav1.GetControllerOf(l.job); owner != nil && r.Managed(owner.APIVersion, owner.Kind) {
		said.Own = true // what queues, file and defaults say is followed by the job that it is in: not by both
	}
	said.Limit = defaultRetries
	if l.plan.Retries != nil {
		said.Limit, said.Said = *l.plan.Retries, true
	}
	pods, err := r.ran(ctx, l)
	if err != nil {
		return err
	}
	began := l.began()
	saved := slices.ContainsFunc(pods, func(p ranPod) bool { return view.Saved(p, began, l.now) })
	for _, p := range slices.Backward(pods) { // of a member with several pods the first counts
		i := l.memberOf(p.Pod)
		if !p.failed || i < 0 || l.members[i].kind != nil && !another(l.seen[i].Reason) {
			continue
		}
		trouble, err := r.trouble(ctx, p.Pod)
		if err != nil {
			return err
		}
		l.seen[i].Failure = new(view.FailureOf(p.Pod, trouble, l.job, began, l.now))
		l.seen[i].Failure.Progress = l.seen[i].Failure.Progress || saved
	}
	if l.left != nil {
		trouble, err := r.trouble(ctx, l.left.pod)
		if err != nil {
			return err
		}
		f := view.FailureOf(l.left.pod, trouble, l.job, began, l.now)
		f.Progress = f.Progress || saved
		l.seen[l.left.member].InRound.Failure = &f
	}
	l.plan.Retry = new(said.Policy())
	l.plan.Earlier = view.RetryHistory(l.attempts, 0)
	return nil
}

// began is when the attempt began that is under way, as far as is known: what was saved before is no progress of it.
func (l *look) began() time.Time {
	if l.kept.LastFailure.After(l.kept.Started) {
		return l.kept.LastFailure
	}
	return l.kept.Started
}

// another reports whether a Job that failed for a reason may do better another time: not one that its own policy or
// deadline ended, which is its author's word.
func another(reason string) bool {
	switch reason {
	case batchv1.JobReasonBackoffLimitExceeded,
		batchv1.JobReasonFailedIndexes,
		batchv1.JobReasonMaxFailedIndexesExceeded:
		return true
	}
	return false
}

// failed reports whether a member failed that was not counted yet.
func (l *look) failed() bool {
	return slices.ContainsFunc(l.seen, func(s podplan.Seen) bool {
		return (s.Life == podplan.Failed || s.Failing) && !s.Leaving && !s.Disrupted &&
			s.Attempt >= l.kept.Attempt &&
			!slices.Contains(l.kept.Counted, s.ID)
	})
}

// memberOf is which member a pod is, or is of; -1 if none is known.
func (l *look) memberOf(pod *corev1.Pod) int {
	is := func(uid types.UID) func(member) bool { return func(m member) bool { return m.GetUID() == uid } }
	if i := slices.IndexFunc(l.members, is(pod.UID)); i >= 0 {
		return i
	}
	for _, o := range pod.OwnerReferences {
		if o.Controller != nil && *o.Controller {
			return slices.IndexFunc(l.members, is(o.UID))
		}
	}
	return -1
}
