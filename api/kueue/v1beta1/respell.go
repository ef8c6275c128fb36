package v1beta1

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Respell tells errors about an object of the hub in the words of this version,
// so that users find the fields they wrote.
func Respell(errs field.ErrorList) field.ErrorList {
	words := strings.NewReplacer(
		"spec.cohortName",
		"spec.cohort",
		"spec.priorityClassRef",
		"spec.priorityClassName",
	)
	out := make(field.ErrorList, len(errs))
	for i, e := range errs {
		e := *e
		e.Field, e.Detail = words.Replace(e.Field), words.Replace(e.Detail)
		out[i] = &e
	}
	return out
}
