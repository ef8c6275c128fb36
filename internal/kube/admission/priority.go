package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Priority is how important a job is, and which class says so.
type Priority struct {
	Value *int32
	Class *kueue.PriorityClassRef
	// Awaited is the WorkloadPriorityClass that the job names and that does not
	// exist, "" if there is none: the job is held until it does.
	Awaited string
}

// Renames reports whether a job whose Workload has a reservation was given another
// WorkloadPriorityClass. Whether it has one at all may not change then.
func (p *Priority) Renames(w *kueue.Workload) bool {
	was, is := w.Spec.PriorityClassRef, p.Class
	return was != nil && is != nil && was.Kind == kueue.WorkloadPriorityClassKind && is.Kind == was.Kind &&
		is.Name != was.Name
}

// Given is the spec of a Workload with this priority.
func (p *Priority) Given(w *kueue.Workload) *kueue.WorkloadSpec {
	out := w.Spec.DeepCopy()
	out.Priority, out.PriorityClassRef = p.Value, p.Class
	return out
}

// Waiting writes the priority into the spec that a waiting Workload is to have, and returns the
// WorkloadPriorityClass that its job waits for, "" for none. A class that is gone and was there when the
// Workload got its priority is not waited for: that priority stays.
func (p *Priority) Waiting(w *kueue.Workload, spec *kueue.WorkloadSpec) (awaited string) {
	if ref := w.Spec.PriorityClassRef; p.Awaited != "" && ref != nil &&
		ref.Kind == kueue.WorkloadPriorityClassKind &&
		ref.Name == p.Awaited {
		return ""
	}
	spec.Priority, spec.PriorityClassRef = p.Value, p.Class
	return p.Awaited
}

// PriorityOf resolves the priority of a job with these pod sets, in this order: the label for a
// WorkloadPriorityClass, the first pod set's PriorityClass, the cluster's default PriorityClass, 0. A
// PriorityClass that does not exist counts as the default: the webhook refuses it where it can.
func PriorityOf(
	ctx context.Context,
	cl client.Reader,
	o metav1.Object,
	podSets []kueue.PodSet,
) (Priority, error) {
	awaited := ""
	if name := o.GetLabels()[kueue.PriorityClassLabel]; name != "" {
		var c kueue.WorkloadPriorityClass
		err := cl.Get(ctx, types.NamespacedName{Name: name}, &c)
		if err == nil {
			return Priority{
				Value: &c.Value,
				Class: &kueue.PriorityClassRef{
					Group: kueue.WorkloadPriorityClassGroup,
					Kind:  kueue.WorkloadPriorityClassKind,
					Name:  name,
				},
			}, nil
		}
		if !apierrors.IsNotFound(err) {
			return Priority{}, fmt.Errorf("read WorkloadPriorityClass %s: %w", name, err)
		}
		awaited = name
	}
	var all schedulingv1.PriorityClassList
	if err := cl.List(ctx, &all); err != nil {
		return Priority{}, fmt.Errorf("list PriorityClasses: %w", err)
	}
	want := ""
	if len(podSets) > 0 {
		want = podSets[0].Template.Spec.PriorityClassName
	}
	slices.SortFunc(all.Items, func(a, b schedulingv1.PriorityClass) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Name, b.Name))
	})
	for _, c := range all.Items {
		if c.Name == want || (want == "" && c.GlobalDefault) {
			return Priority{
				new(c.Value),
				&kueue.PriorityClassRef{
					Group: kueue.PodPriorityClassGroup,
					Kind:  kueue.PodPriorityClassKind,
					Name:  c.Name,
				},
				awaited,
			}, nil
		}
	}
	return Priority{Value: ptr.To[int32](0), Awaited: awaited}, nil
}
