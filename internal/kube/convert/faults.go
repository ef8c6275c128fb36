package convert

import (
	"strings"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Fault is why a ClusterQueue cannot admit.
type Fault struct {
	// Reason of the condition Active, and the part of its message.
	Reason, Message string
}

// RemoteFaults says which rules a ClusterQueue breaks about checks that send
// workloads to other clusters: there is one of them at most, it is for all
// flavors, and no check makes nodes here at the same time. controller names who
// answers a check, "" if there is no such check.
func RemoteFaults(q *kueue.ClusterQueue, controller func(check string) string) []Fault {
	if q.Spec.AdmissionChecksStrategy == nil {
		return nil
	}
	var remote, perFlavor, provisioning []string
	for _, c := range q.Spec.AdmissionChecksStrategy.AdmissionChecks {
		name := string(c.Name)
		switch controller(name) {
		case kueue.MultiKueueControllerName:
			remote = append(remote, name)
			if len(c.OnFlavors) > 0 {
				perFlavor = append(perFlavor, name)
			}
		case kueue.ProvisioningRequestControllerName:
			provisioning = append(provisioning, name)
		}
	}
	var out []Fault
	if len(remote) > 1 {
		out = append(out, Fault{kueue.ReasonMultipleMultiKueueAdmissionChecks, "references more than one MultiKueue AdmissionCheck: " + strings.Join(remote, ",")})
	}
	if len(perFlavor) > 0 {
		out = append(out, Fault{kueue.ReasonMultiKueueAdmissionCheckAppliedPerFlavor, "applies the MultiKueue AdmissionCheck(s) to single flavors: " + strings.Join(perFlavor, ",")})
	}
	if len(remote) > 0 && len(provisioning) > 0 {
		out = append(out, Fault{
			kueue.ReasonMultiKueueWithProvisioningRequest,
			"references MultiKueue and ProvisioningRequest AdmissionCheck(s) together: " + strings.Join(append(remote, provisioning...), ","),
		})
	}
	return out
}
