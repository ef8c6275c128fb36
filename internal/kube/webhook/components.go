package webhook

import (
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// components are what a job makes of what its author wrote.
type components struct {
	list []jobs.Component
	err  error // not all can be understood
}

// notCreatedYet stands for the UID of a new job, which owners have.
const notCreatedYet = "not-created-yet"

// components reads what a new job will make.
func (h *jobHandler) components(job jobs.Object) components {
	if job.GetUID() == "" {
		job.SetUID(notCreatedYet)
	}
	list, err := h.kind.Queueing.Components(job, h.schedulers)
	return components{list, err}
}

// templates are the pod templates of all components.
func (c components) templates() []jobs.PodTemplate {
	var out []jobs.PodTemplate
	for _, one := range c.list {
		for _, p := range one.Pods {
			out = append(out, p.PodTemplate)
		}
	}
	return out
}
