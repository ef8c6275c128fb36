package webhook

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// samePods refuses a change of the pods that a part of a job makes. The whole was
// admitted with those that it had, and further or larger ones would be counted by nobody.
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
		"it is a part of %s %s, which was admitted with the pods that it has: delete that, and create it with other ones", owner.Kind, owner.Name))}
}
