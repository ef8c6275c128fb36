package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/view"
)

// ranPod is a pod of a job, with its rank there.
type ranPod struct {
	*corev1.Pod
	// rank is nil if only the object that it belongs to knows.
	rank *int32
	// failed: its failure, or that of the member that it is of, was not counted before.
	failed bool
}

// ended are the attempts of a job once what is to be remembered is m: pods failed that are made anew, all of
// them or some. They are noted in the write that remembers the failure.
func (r *reconciler) ended(ctx context.Context, l *look, m *podplan.RetryState) (history.Attempts, error) {
	all := m.Attempt > l.kept.Attempt
	if m.Rounds.Over > l.kept.Rounds.Over && l.left != nil {
		return r.endedInPlace(ctx, l)
	}
	if !all && m.Failures+m.Free <= l.kept.Failures+l.kept.Free {
		return l.attempts, nil
	}
	pods, err := r.ran(ctx, l)
	if err != nil {
		return l.attempts, err
	}
	if len(pods) == 0 {
		return l.attempts, nil // as of a member that was stopped before: what stopped it is told
	}
	failed := slices.DeleteFunc(slices.Clone(pods), func(p ranPod) bool { return !p.failed })
	a := history.Attempt{Start: metav1.NewTime(l.kept.Started)} // its GPUs are those of the admission
	if l.plan.InPlace != nil {
		a.Start = metav1.NewTime(l.began())
	}
	lost := pods
	if !all {
		if len(failed) == 0 {
			return l.attempts, nil // they were removed meanwhile
		}
		lost, a.ReplacedPods = failed, int32(min(len(failed), 1<<30))
		a.Start = failed[0].CreationTimestamp
		for _, p := range failed {
			a.GPUs += view.GPUs(&p.Spec)
		}
	}
	var nodes []string
	for _, p := range lost {
		if p.Spec.NodeName != "" {
			nodes = append(nodes, p.Spec.NodeName)
		}
	}
	view.OnNodes(&a, nodes)
	if len(failed) == 0 { // as where a rule or a new version has all made anew
		category := core.CategoryStopped
		if m.Failures+m.Free > l.kept.Failures+l.kept.Free {
			category = core.CategoryUnknown
		}
		reason, message := l.whyAll(m)
		if m.Rounds.Failures > l.kept.Rounds.Failures {
			category = core.CategoryUnknown
		}
		view.EndAttempt(&a, l.now, category, cmp.Or(m.Rule, reason), message)
		return view.AddAttempt(l.attempts, a), nil
	}
	first := failed[0]
	trouble, err := r.trouble(ctx, first.Pod)
	if err != nil {
		return l.attempts, err
	}
	view.FailPods(&a, l.now, first.Pod, first.rank, trouble, "")
	view.NoteCheckpoint(&a, l.job, l.now)
	for _, p := range pods {
		view.NoteCheckpoint(&a, p, l.now)
	}
	return view.AddAttempt(l.attempts, a), nil
}

// ran are the pods of the attempt of a job that is under way, those whose failure is new first, and of these
// the first to fail.
func (r *reconciler) ran(ctx context.Context, l *look) ([]ranPod, error) {
	var out []ranPod
	for i := range l.members {
		s := &l.seen[i]
		role := l.plan.Role(s.Role)
		if role == nil || s.Attempt < l.kept.Attempt {
			continue
		}
		failed := (s.Life == podplan.Failed || s.Failing) && !s.Leaving && !s.Disrupted &&
			!slices.Contains(l.kept.Counted, s.ID)
		if pod, is := l.members[i].Object.(*corev1.Pod); is {
			out = append(out, ranPod{pod, new(role.Rank + s.Index), failed})
			continue
		}
		var pods corev1.PodList
		if err := r.Client.List(ctx, &pods, client.InNamespace(l.job.GetNamespace()),
			client.MatchingFields{Index: string(l.members[i].GetUID())}); err != nil {
			return nil, fmt.Errorf("list pods of %s: %w", l.members[i].GetName(), err)
		}
		for k := range pods.Items {
			p := &pods.Items[k]
			out = append(out, ranPod{p, nil, failed && lost(p)})
		}
	}
	slices.SortStableFunc(out, func(a, b ranPod) int {
		switch {
		case a.failed != b.failed && a.failed:
			return -1
		case a.failed != b.failed:
			return 1
		}
		return cmp.Or(view.FailedAt(a.Pod).Compare(view.FailedAt(b.Pod)), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// lost reports whether a pod failed, or was told to go for a reason that is none of its job: it counts as failed then,
// also while its node does not say that it has ended.
func lost(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed ||
		p.DeletionTimestamp != nil && view.EvidenceOf(p, core.NodeFine).Disruption != ""
}

// trouble is what is wrong with the node of a pod.
func (r *reconciler) trouble(ctx context.Context, pod *corev1.Pod) (core.NodeTrouble, error) {
	return view.TroubleAt(pod.Spec.NodeName, func(name string) (*corev1.Node, error) {
		var node corev1.Node
		err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &node, client.UnsafeDisableDeepCopy)
		return &node, err
	}, func(node *corev1.Node) bool { return jobs.MustLeave(pod, node, jobs.AvoidBadGPUs()) != "" })
}
