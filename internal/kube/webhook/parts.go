package webhook

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// samePods refuses a change of the pods that a part of a job makes. The whole was
// admitted with the pods that it had, and further or larger ones would be counted by nobody.
func (h *jobHandler) samePods(was, is jobs.Object) field.ErrorList {
	owner := metav1.GetControllerOf(was)
	if !h.makes(owner) {
		return nil
	}
	before, errBefore := h.kind.Read(was)
	after, errAfter := h.kind.Read(is)
	if errBefore == nil && errAfter == nil && equality.Semantic.DeepEqual(before.PodSets, after.PodSets) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"), fmt.Sprintf(
		"it is a part of %s %s, which was admitted with the pods that it has: delete that, and create it with other ones",
		owner.Kind,
		owner.Name,
	))}
}

// adopted refuses an object that says of itself that it is one of the objects that a job is made of
// here. It would run with what was given to the job, whatever it asks for, so that only
// controllers are believed. was is nil for a new one.
func (h *jobHandler) adopted(
	ctx context.Context,
	req admission.Request,
	was, is jobs.Object,
) (field.ErrorList, error) {
	owner := metav1.GetControllerOf(is)
	if owner == nil {
		return nil, nil
	}
	whole := h.kinds.Find(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
	if whole == nil || whole.Running.Operator == nil || whole.Running.Operator.Child(h.kind.GVK()) == nil {
		return nil, nil
	}
	if was != nil && metav1.IsControlledBy(was, &metav1.ObjectMeta{UID: owner.UID}) {
		return nil, nil
	}
	if operator, err := h.cluster.byOperator(ctx, req); operator || err != nil {
		return nil, err
	}
	if admits, err := h.cluster.mayAdmit(ctx, req); admits || err != nil {
		return nil, err
	}
	return field.ErrorList{field.Forbidden(field.NewPath("metadata", "ownerReferences"), fmt.Sprintf(
		"only the controller of %s %s makes what belongs to it: remove the reference",
		owner.Kind,
		owner.Name,
	))}, nil
}
