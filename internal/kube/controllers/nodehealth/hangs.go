package nodehealth

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/view"
)

// HangIndex is the name of the cache index that has the Workloads of jobs that hung, all under Hung.
const (
	HangIndex = "mlbatch.dev/hangs"
	Hung      = "hung"
)

// IndexHangs is Hung for Workloads of jobs that hung while a rank was behind.
func IndexHangs(o client.Object) []string {
	if w, is := o.(*kueue.Workload); is && len(hangsOf(w)) > 0 {
		return []string{Hung}
	}
	return nil
}

// hangsOf are the hangs that a Workload tells of: that which lasts, and those that it was restarted for.
func hangsOf(w *kueue.Workload) []nodehealth.HangReport {
	var out []nodehealth.HangReport
	add := func(node string, at time.Time) {
		out = append(out, nodehealth.HangReport{
			Node: node, Namespace: w.Namespace, User: jobs.User(nil, w), Job: w.Name, At: at,
		})
	}
	c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadProgressing)
	if c != nil && c.Status == metav1.ConditionFalse {
		if p, ok := view.ReadProgress(c.Message); ok && p.Slowest != nil {
			add(p.Slowest.Node, c.LastTransitionTime.Time)
		}
	}
	c = apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadAttempts)
	if c == nil || !strings.Contains(c.Message, string(core.CategoryHang)) {
		return out
	}
	for _, a := range view.ReadAttempts(c.Message).Attempts {
		if a.Category == string(core.CategoryHang) && a.End != nil && len(a.FailedNodes) == 1 {
			add(a.FailedNodes[0], a.End.Time)
		}
	}
	return out
}

// hangs are the findings that hangs of jobs make, by node, and when the first of them lapses.
func (r *reconciler) hangs(
	ctx context.Context,
	now time.Time,
) (map[string]nodehealth.Finding, time.Time, error) {
	var all kueue.WorkloadList
	if err := r.Client.List(
		ctx, &all, client.MatchingFields{HangIndex: Hung}, client.UnsafeDisableDeepCopy,
	); err != nil {
		return nil, time.Time{}, fmt.Errorf("list workloads of jobs that hung: %w", err)
	}
	var reports []nodehealth.HangReport
	for i := range all.Items {
		reports = append(reports, hangsOf(&all.Items[i])...)
	}
	found, next := nodehealth.Hangs(reports, now)
	return found, next, nil
}

// hangsChanged lets through Workloads that tell of other hangs than before.
func hangsChanged() predicate.TypedPredicate[*kueue.Workload] {
	return predicate.TypedFuncs[*kueue.Workload]{
		CreateFunc: func(e event.TypedCreateEvent[*kueue.Workload]) bool { return len(hangsOf(e.Object)) > 0 },
		UpdateFunc: func(e event.TypedUpdateEvent[*kueue.Workload]) bool {
			return !reflect.DeepEqual(hangsOf(e.ObjectOld), hangsOf(e.ObjectNew))
		},
		DeleteFunc: func(e event.TypedDeleteEvent[*kueue.Workload]) bool { return len(hangsOf(e.Object)) > 0 },
	}
}
