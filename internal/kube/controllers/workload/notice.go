package workload

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
	"github.com/mlbatch/mlbatch/internal/view"
)

// longestReason is how much of the reason a pod is told: it is read by a program, or printed into a log.
const longestReason = 1024

// tellings lets through pods that say that their job may be stopped, or of a checkpoint.
func tellings() builder.Predicates { return builder.WithPredicates(telling()) }

func telling() predicate.Funcs {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, is := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
			const agreed, saved = kueue.StopAcknowledgedAnnotation, history.CheckpointAnnotation
			return is[agreed] == "true" && was[agreed] != "true" || is[saved] != was[saved]
		},
	}
}

// notLeaving are those of the pods of a Workload that hold quota and were not told to end.
func notLeaving(pods []corev1.Pod) (out []*corev1.Pod) {
	for i := range pods {
		if p := &pods[i]; p.DeletionTimestamp == nil && convert.PodState(p).HoldsQuota() {
			out = append(out, p)
		}
	}
	return out
}

// seeTold adds what the pods of a Workload say of their checkpoints and, if it runs on before it is stopped, of that.
func (r *reconciler) seeTold(ctx context.Context, f *workloadlifecycle.Facts, pods []corev1.Pod) error {
	if !convert.Admitted(f.Workload) {
		return nil
	}
	end := workloadlifecycle.RunsOnUntil(f.Workload, f.Config.MaxStopNotice, f.Now)
	at := end.UTC().Format(time.RFC3339)
	for _, p := range notLeaving(pods) {
		if t := view.LastCheckpoint(p); t.After(f.Checkpoint) && !t.After(f.Now) {
			f.Checkpoint = t
		}
		if end.IsZero() {
			continue
		}
		runs, err := r.runs(ctx, p)
		if err != nil {
			return err
		}
		if runs {
			f.Running++
		}
		told := p.Annotations[kueue.StopAtAnnotation] == at
		if !told {
			f.Untold++
		}
		if told && p.Annotations[kueue.StopAcknowledgedAnnotation] == "true" {
			f.Acknowledged = true
		}
	}
	return nil
}

// runs reports whether a pod runs, as far as is known: of one whose node is gone, or not heard of, only that it did.
func (r *reconciler) runs(ctx context.Context, p *corev1.Pod) (bool, error) {
	if p.Status.Phase != corev1.PodRunning {
		return false, nil
	}
	var node corev1.Node
	err := r.Client.Get(ctx, client.ObjectKey{Name: p.Spec.NodeName}, &node, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the node of pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	}), nil
}

// tellPods writes into the pods of a Workload when and why they are stopped, into as many as it can. An acknowledgement that
// a template of theirs has, or that was of an earlier time, is none of this one.
func (r *reconciler) tellPods(ctx context.Context, pods []corev1.Pod, n workloadlifecycle.StopNotice) error {
	at := n.At.UTC().Format(time.RFC3339)
	untold := slices.DeleteFunc(notLeaving(pods), func(p *corev1.Pod) bool {
		return p.Annotations[kueue.StopAtAnnotation] == at
	})
	return admission.InParallel(len(untold), func(i int) error { return r.tell(ctx, untold[i], at, n.Reason) })
}

// tell writes into a pod when and why it is stopped, unless it changed since it was read: then it may have been told
// already, and have answered.
func (r *reconciler) tell(ctx context.Context, p *corev1.Pod, at, reason string) error {
	told := p.DeepCopy()
	if told.Annotations == nil {
		told.Annotations = map[string]string{}
	}
	told.Annotations[kueue.StopAtAnnotation] = at
	told.Annotations[kueue.StopReasonAnnotation] = convert.Cut(reason, longestReason)
	delete(told.Annotations, kueue.StopAcknowledgedAnnotation)
	err := r.Client.Patch(ctx, told, client.MergeFromWithOptions(p, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		// Not wrapped: a conflict about a pod says nothing of the Workload, which has to be looked at again.
		return fmt.Errorf("tell pod %s/%s when it is stopped: %s", p.Namespace, p.Name, err.Error())
	}
	return nil
}
