package v1beta2

import (
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// RelocationsPerHourOf is how many workloads of a ClusterQueue its annotations let be relocated within an hour; 0 if
// they say nothing, or nothing that can be meant.
func RelocationsPerHourOf(annotations map[string]string) int32 {
	n, err := strconv.ParseInt(annotations[RelocationsPerHourAnnotation], 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int32(n)
}

func validateRelocationsPerHour(annotations map[string]string) field.ErrorList {
	text, has := annotations[RelocationsPerHourAnnotation]
	if n, err := strconv.ParseInt(text, 10, 32); !has || err == nil && n >= 0 {
		return nil
	}
	return field.ErrorList{
		field.Invalid(
			field.NewPath("metadata", "annotations").Key(RelocationsPerHourAnnotation),
			text,
			"it is how many workloads may be moved to other nodes within an hour: a whole number, 0 for none",
		),
	}
}
