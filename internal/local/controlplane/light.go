//go:build !noembed

package controlplane

import (
	"context"
	"errors"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// light is an admission plugin that lets the API server keep no record of which
// client wrote which field of a Workload. Once an object has none, the record's
// upkeep is skipped in all later writes, a tenth of what each costs, and it is
// not read: Workloads are made by controllers, or by users in one piece. Who
// applies one from the server's side (kubectl apply --server-side) gets the
// record, as that cannot work without it.
//
// A MutatingAdmissionPolicy could say the same, but whatever its failure policy
// it answers 503 to every creation while it does not know the kind's schema: up
// to ten seconds after each start of an API server.
type light struct{ *admission.Handler }

func newLight(io.Reader) (admission.Interface, error) {
	return light{admission.NewHandler(admission.Create)}, nil
}

// Admit implements admission.MutationInterface.
func (light) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().
		GroupResource() !=
		(schema.GroupResource{Group: "kueue.x-k8s.io", Resource: "workloads"}) ||
		a.GetSubresource() != "" {
		return nil
	}
	object, err := meta.Accessor(a.GetObject())
	if err != nil {
		return admission.NewForbidden(a, errors.New("not an object"))
	}
	for _, m := range object.GetManagedFields() {
		if m.Operation == metav1.ManagedFieldsOperationApply {
			return nil
		}
	}
	object.SetManagedFields(nil)
	return nil
}
