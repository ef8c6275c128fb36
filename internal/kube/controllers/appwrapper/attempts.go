package appwrapper

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awv1beta2 "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/view"
)

// told is the condition that tells of the attempts of an AppWrapper that resets ended, with that which the
// step ends; nil if it ends none. It goes into the write of the reset.
func (a *attempt) told(ctx context.Context) *metav1.Condition {
	deployed := meta.FindStatusCondition(a.w.Status.Conditions, string(awv1beta2.ResourcesDeployed))
	if a.step.ResetReason == "" || deployed == nil {
		return nil
	}
	now := a.clock.Now()
	ended := history.Attempt{Start: deployed.LastTransitionTime} // its GPUs are those of the admission
	if ready := a.ranSince(deployed.LastTransitionTime.Time); !ready.IsZero() {
		ended.Ready = new(metav1.NewTime(ready))
	}
	unhealthy := lifecycle.Condition{}
	if i := slices.IndexFunc(
		a.step.Conditions,
		func(c lifecycle.Condition) bool { return c.Type == lifecycle.Unhealthy },
	); i >= 0 {
		unhealthy = a.step.Conditions[i]
	}
	var nodes, left []string
	for i := range a.facts.Pods {
		p := &a.facts.Pods[i]
		if p.Node != "" {
			nodes = append(nodes, p.Node)
		}
		if p.OnBadNode != "" {
			left = append(left, p.Node)
		}
	}
	view.OnNodes(&ended, nodes)
	failed := a.firstFailed()
	switch a.step.ResetReason {
	case lifecycle.NodeGone, lifecycle.AutopilotNoExecute:
		slices.Sort(left)
		left = slices.Compact(left)
		e := core.Evidence{Node: core.NodeBad}
		if len(left) > 0 {
			e.Node = max(e.Node, a.trouble(ctx, left[0], nil))
		}
		ended.FailedNodes = view.SomeNodes(left)
		view.EndAttempt(&ended, now, core.CategoryOf(e), a.step.ResetReason, unhealthy.Message)
	case lifecycle.InsufficientPodsReady:
		e := core.Evidence{Evicted: kueue.ReasonPodsReadyTimeout} // by another clock
		view.EndAttempt(&ended, now, core.CategoryOf(e), a.step.ResetReason, unhealthy.Message)
	default:
		if failed != nil {
			view.FailPods(&ended, now, failed, nil, a.trouble(ctx, failed.Spec.NodeName, failed), unhealthy.Message)
			break
		}
		view.EndAttempt(&ended, now, core.CategoryUnknown, a.step.ResetReason, unhealthy.Message)
	}
	view.NoteCheckpoint(&ended, a.w, now)
	for i := range a.pods {
		view.NoteCheckpoint(&ended, &a.pods[i], now)
	}
	all := view.AddAttempt(view.RestartedAttempts(a.w), ended)
	return &metav1.Condition{
		Type: kueue.WorkloadAttempts, Status: metav1.ConditionTrue,
		Reason: cmp.Or(ended.Category, a.step.ResetReason), Message: view.AttemptsText(all),
		LastTransitionTime: metav1.NewTime(now),
	}
}

// trouble is what is wrong with a node, as far as that is seen. pod is one that failed there; nil says
// nothing of what health checks ask of it.
func (a *attempt) trouble(ctx context.Context, name string, pod *corev1.Pod) core.NodeTrouble {
	out, _ := view.TroubleAt(
		name,
		func(name string) (*corev1.Node, error) { return a.node(ctx, name) },
		func(node *corev1.Node) bool { return pod != nil && jobs.MustLeave(pod, node, a.inject.Avoid) != "" },
	)
	return out
}
