package provisioning

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Reasons of an AdmissionCheck's Active condition.
const (
	reasonActive        = "Active"
	reasonBadParameters = "BadParametersRef"
	reasonNotServed     = "ProvisioningRequestNotServed"
)

// configKind is what spec.parameters of our checks refers to.
const configKind = "ProvisioningRequestConfig"

// configOf returns the name of the settings that a check refers to, "" if it
// refers to none that can be.
func configOf(c *kueue.AdmissionCheck) string {
	p := c.Spec.Parameters
	if p == nil || p.APIGroup != kueue.GroupVersion.Group || p.Kind != configKind {
		return ""
	}
	return p.Name
}

// active returns the Active condition of one of our checks. exists says whether
// the settings that it refers to do; served, whether the cluster knows
// ProvisioningRequests at all.
func active(c *kueue.AdmissionCheck, exists, served bool) metav1.Condition {
	out := metav1.Condition{
		Type:               kueue.AdmissionCheckActive,
		Status:             metav1.ConditionFalse,
		Reason:             reasonBadParameters,
		ObservedGeneration: c.Generation,
	}
	name := configOf(c)
	switch p := c.Spec.Parameters; {
	case !served:
		out.Reason = reasonNotServed
		out.Message = "The cluster has no kind ProvisioningRequest (autoscaling.x-k8s.io): install its definition and restart mlbatch's controller"
	case p == nil:
		out.Message = "spec.parameters is missing: name a " + configKind + " of " + kueue.GroupVersion.Group
	case name == "":
		out.Message = fmt.Sprintf(
			"spec.parameters names a %s of %q: it must be a %s of %s",
			p.Kind,
			p.APIGroup,
			configKind,
			kueue.GroupVersion.Group,
		)
	case !exists:
		out.Message = fmt.Sprintf(
			"The %s %s does not exist: create it, or name another in spec.parameters",
			configKind,
			name,
		)
	default:
		out.Status, out.Reason, out.Message = metav1.ConditionTrue, reasonActive, "The admission check is active"
	}
	return out
}
