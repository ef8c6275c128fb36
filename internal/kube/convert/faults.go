package convert

import (
	"fmt"
	"strings"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Fault is why a ClusterQueue cannot admit.
type Fault struct {
	// Reason of the condition Active, and the part of its message.
	Reason, Message string
}

// CheckFault is set if a ClusterQueue asks more AdmissionChecks of a workload with
// one of its flavors than a Workload can have. A workload that gets several
// flavors may have to pass more; that is seen when it is decided.
func CheckFault(q *kueue.ClusterQueue) *Fault {
	if q.Spec.AdmissionChecksStrategy == nil {
		return nil
	}
	var always int
	perFlavor := map[kueue.ResourceFlavorReference]int{}
	for _, c := range q.Spec.AdmissionChecksStrategy.AdmissionChecks {
		if len(c.OnFlavors) == 0 {
			always++
		}
		for _, f := range c.OnFlavors {
			perFlavor[f]++
		}
	}
	for _, g := range q.Spec.ResourceGroups {
		for _, f := range g.Flavors {
			if n := always + perFlavor[f.Name]; n > kueue.MostAdmissionChecks {
				return &Fault{
					ReasonTooManyAdmissionChecks,
					fmt.Sprintf(
						"asks %d AdmissionChecks of workloads with flavor %s, and a Workload can have %d",
						n,
						f.Name,
						kueue.MostAdmissionChecks,
					),
				}
			}
		}
	}
	return nil
}

// ReasonTooManyAdmissionChecks is a reason of the Active condition of a
// ClusterQueue.
const ReasonTooManyAdmissionChecks = "TooManyAdmissionChecks"

// RemoteFaults says which rules a ClusterQueue breaks about checks that send
// workloads to other clusters: there is one of them at most, it is for all
// flavors, and no check makes nodes here at the same time. controller names the
// one that answers a check, "" if there is no such check.
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
		out = append(
			out,
			Fault{
				kueue.ReasonMultipleMultiKueueAdmissionChecks,
				"references more than one MultiKueue AdmissionCheck: " + strings.Join(remote, ","),
			},
		)
	}
	if len(perFlavor) > 0 {
		out = append(
			out,
			Fault{
				kueue.ReasonMultiKueueAdmissionCheckAppliedPerFlavor,
				"applies the MultiKueue AdmissionCheck(s) to single flavors: " + strings.Join(perFlavor, ","),
			},
		)
	}
	if len(remote) > 0 && len(provisioning) > 0 {
		out = append(out, Fault{
			kueue.ReasonMultiKueueWithProvisioningRequest,
			"references MultiKueue and ProvisioningRequest AdmissionCheck(s) together: " + strings.Join(
				append(remote, provisioning...),
				",",
			),
		})
	}
	return out
}
