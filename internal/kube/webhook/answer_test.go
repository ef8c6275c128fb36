package webhook

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Each refusal names a field: people look there.
func TestRefusalsNameAField(t *testing.T) {
	r := answer(admission.Request{}, field.ErrorList{
		field.Forbidden(
			nil,
			"a",
		),
		{Type: field.ErrorTypeInvalid, Detail: "b"},
		field.Required(field.NewPath("metadata", "name"), "c"),
	})
	for i, want := range []string{"spec", "spec", "metadata.name"} {
		if got := r.Result.Details.Causes[i].Field; got != want {
			t.Errorf("the refusal is about %q, want %q", got, want)
		}
	}
}
