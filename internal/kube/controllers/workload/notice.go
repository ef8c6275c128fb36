package workload

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// podsOf lists the pods of a Workload that hold quota and were not told to end.
func (r *reconciler) podsOf(ctx context.Context, w *kueue.Workload) ([]*corev1.Pod, error) {
	var pods corev1.PodList
	if err := r.Client.List(
		ctx,
		&pods,
		client.InNamespace(w.Namespace),
		client.MatchingFields{admission.PodIndex: w.Name},
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return nil, fmt.Errorf("list pods of workload %s/%s: %w", w.Namespace, w.Name, err)
	}
	var out []*corev1.Pod
	for i := range pods.Items {
		if p := &pods.Items[i]; p.DeletionTimestamp == nil && convert.PodState(p).HoldsQuota() {
			out = append(out, p)
		}
	}
	return out, nil
}

// seeTold adds what the pods of a Workload say of their checkpoints and, if it runs on before it is stopped, of that.
func (r *reconciler) seeTold(ctx context.Context, f *workloadlifecycle.Facts) error {
	if !convert.Admitted(f.Workload) {
		return nil
	}
	pods, err := r.podsOf(ctx, f.Workload)
	if err != nil {
		return err
	}
	at := workloadlifecycle.RunsOnUntil(f.Workload, f.Config.MaxStopNotice, f.Now).UTC().Format(time.RFC3339)
	for _, p := range pods {
		if t := view.LastCheckpoint(p); t.After(f.Checkpoint) && !t.After(f.Now) {
			f.Checkpoint = t
		}
		if p.Status.Phase == corev1.PodRunning {
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

// tellPods writes into the pods of a Workload when and why they are stopped. An acknowledgement that a template
// of theirs has, or that was of an earlier time, is none of this one.
func (r *reconciler) tellPods(ctx context.Context, w *kueue.Workload, n workloadlifecycle.StopNotice) error {
	pods, err := r.podsOf(ctx, w)
	if err != nil {
		return err
	}
	at := n.At.UTC().Format(time.RFC3339)
	for _, p := range pods {
		if p.Annotations[kueue.StopAtAnnotation] == at {
			continue
		}
		if err := r.tell(ctx, p, at, n.Reason); err != nil {
			return err
		}
	}
	return nil
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
