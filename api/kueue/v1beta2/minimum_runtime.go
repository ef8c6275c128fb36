package v1beta2

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MinimumRuntimeOf is the minimum runtime that annotations tell; false if they tell none, or none that can be meant
// (see validateMinimumRuntime).
func MinimumRuntimeOf(annotations map[string]string) (time.Duration, bool) {
	d, err := time.ParseDuration(annotations[MinimumRuntimeAnnotation])
	return d, err == nil && d >= 0
}

func validateMinimumRuntime(annotations map[string]string) field.ErrorList {
	text, has := annotations[MinimumRuntimeAnnotation]
	if _, ok := MinimumRuntimeOf(annotations); !has || ok {
		return nil
	}
	return field.ErrorList{
		field.Invalid(
			field.NewPath("metadata", "annotations").Key(MinimumRuntimeAnnotation),
			text,
			"it is how long workloads run before they are stopped for others: a duration like 30m or 4h, or 0s for no time",
		),
	}
}

// ValidateWorkloadPriorityClass says what is wrong with a WorkloadPriorityClass.
func ValidateWorkloadPriorityClass(c *WorkloadPriorityClass) field.ErrorList {
	return validateMinimumRuntime(c.Annotations)
}
