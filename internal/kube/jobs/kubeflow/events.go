package kubeflow

import (
	corev1 "k8s.io/api/core/v1"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// tells are the events of a change, as the operators of these kinds tell them: each condition that came
// to hold, by its reason, and that a suspended job was resumed.
func tells(was, is jobs.Object) []jobs.Event {
	before, err := cast(was)
	if err != nil {
		return nil
	}
	after, err := cast(is)
	if err != nil {
		return nil
	}
	var out []jobs.Event
	for _, c := range after.State().Conditions {
		old := condition(before.State(), c.Type)
		same := old != nil && old.Status == c.Status && old.Reason == c.Reason
		if same || c.Status != corev1.ConditionTrue && c.Type != api.JobSuspended {
			continue
		}
		out = append(
			out,
			jobs.Event{
				Reason:  c.Reason,
				Message: c.Message,
				Warning: c.Type == api.JobFailed || c.Type == api.JobRestarting,
			},
		)
	}
	return out
}
