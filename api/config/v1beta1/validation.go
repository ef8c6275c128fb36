package v1beta1

import "k8s.io/apimachinery/pkg/util/validation/field"

// Validate says what is wrong with what v1beta2 has no counterpart for. The
// rest is validated after Convert.
func Validate(c *Configuration) field.ErrorList {
	var errs field.ErrorList
	if v := c.QueueVisibility; v != nil {
		at := field.NewPath("queueVisibility")
		if v.UpdateIntervalSeconds < 0 {
			errs = append(
				errs,
				field.Invalid(at.Child("updateIntervalSeconds"), v.UpdateIntervalSeconds, "must be 1 or more"),
			)
		}
		if q := v.ClusterQueues; q != nil && (q.MaxCount < 0 || q.MaxCount > 4000) {
			errs = append(
				errs,
				field.Invalid(at.Child("clusterQueues", "maxCount"), q.MaxCount, "must be between 0 and 4000"),
			)
		}
	}
	return errs
}
