package nodehealth

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/view"
)

// LostIndex is the name of the cache indexes that have the Workloads, and the AppWrappers, which tell of attempts that ended
// since their nodes failed, all under Lost.
const (
	LostIndex = "mlbatch.dev/lost"
	Lost      = "lost"
)

// IndexLost is Lost for jobs that lost attempts to nodes.
func IndexLost(o client.Object) []string {
	if len(lostOf(o)) > 0 {
		return []string{Lost}
	}
	return nil
}

// lost are the jobs that a node failed under, by node.
type lost map[string][]nodehealth.LostJob

// lostOf are the attempts that a job lost to nodes. A Workload has the name of its job, so that both are one.
func lostOf(o client.Object) lost {
	var conditions []metav1.Condition
	name := o.GetName()
	switch o := o.(type) {
	case *kueue.Workload:
		conditions = o.Status.Conditions
		if owner := metav1.GetControllerOf(o); owner != nil {
			name = owner.Name
		}
	case *appwrapper.AppWrapper:
		conditions = o.Status.Conditions
	}
	c := apimeta.FindStatusCondition(conditions, kueue.WorkloadAttempts)
	if c == nil || !strings.Contains(c.Message, string(core.CategoryNodeFailure)) &&
		!strings.Contains(c.Message, string(core.CategoryNetworkFailure)) {
		return nil
	}
	var out lost
	for _, a := range view.ReadAttempts(c.Message).Attempts {
		switch core.Category(a.Category) {
		case core.CategoryNodeFailure, core.CategoryNetworkFailure:
		default:
			continue
		}
		if a.End == nil {
			continue
		}
		for _, node := range a.FailedNodes {
			if out == nil {
				out = lost{}
			}
			out[node] = append(out[node], nodehealth.LostJob{Job: o.GetNamespace() + "/" + name, At: a.End.UTC()})
		}
	}
	return out
}

// lost are all jobs that nodes failed under.
func (r *reconciler) lost(ctx context.Context) (lost, error) {
	all := lost{}
	add := func(o client.Object) {
		for node, jobs := range lostOf(o) { // each by itself, so order does not matter
			all[node] = append(all[node], jobs...)
		}
	}
	var workloads kueue.WorkloadList
	if err := r.Client.List(
		ctx, &workloads, client.MatchingFields{LostIndex: Lost}, client.UnsafeDisableDeepCopy,
	); err != nil {
		return nil, fmt.Errorf("list workloads that nodes failed under: %w", err)
	}
	for i := range workloads.Items {
		add(&workloads.Items[i])
	}
	var wrappers appwrapper.AppWrapperList
	if err := r.Client.List(
		ctx, &wrappers, client.MatchingFields{LostIndex: Lost}, client.UnsafeDisableDeepCopy,
	); err != nil {
		return nil, fmt.Errorf("list AppWrappers that nodes failed under: %w", err)
	}
	for i := range wrappers.Items {
		add(&wrappers.Items[i])
	}
	return all, nil
}

// lostChanged lets through jobs that lost other attempts to nodes than before. Those that go change nothing: what was
// counted stays.
func lostChanged[T client.Object]() predicate.TypedPredicate[T] {
	return predicate.TypedFuncs[T]{
		CreateFunc: func(e event.TypedCreateEvent[T]) bool { return len(lostOf(e.Object)) > 0 },
		UpdateFunc: func(e event.TypedUpdateEvent[T]) bool {
			return !reflect.DeepEqual(lostOf(e.ObjectOld), lostOf(e.ObjectNew))
		},
		DeleteFunc: func(event.TypedDeleteEvent[T]) bool { return false },
	}
}
