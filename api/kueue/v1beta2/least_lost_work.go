package v1beta2

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxLeastLostWork is more than anybody lets pass between two checkpoints.
const maxLeastLostWork = 24 * time.Hour

// LeastLostWorkOf is how much of what a workload loses counts at most where its annotations have a ClusterQueue choose
// victims by that; 0 if they do not, or tell nothing that can be meant (see validateLeastLostWork).
func LeastLostWorkOf(annotations map[string]string) time.Duration {
	d, err := time.ParseDuration(annotations[LeastLostWorkAnnotation])
	if err != nil || d < 0 || d > maxLeastLostWork {
		return 0
	}
	return d
}

func validateLeastLostWork(annotations map[string]string) field.ErrorList {
	text, has := annotations[LeastLostWorkAnnotation]
	if d, err := time.ParseDuration(text); !has || err == nil && d >= 0 && d <= maxLeastLostWork {
		return nil
	}
	return field.ErrorList{
		field.Invalid(
			field.NewPath("metadata", "annotations").Key(LeastLostWorkAnnotation),
			text,
			"it is how much of what a job loses counts at most when jobs to stop are chosen: a duration up to 24h "+
				"like 1h, or 0s to stop the newest",
		),
	}
}
