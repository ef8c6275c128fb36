package job

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Kind is all that there is to know of Jobs.
func Kind() jobs.Kind {
	return jobs.Kind{
		Adapter: Adapter{},
		Naming: jobs.Naming{
			Resource:  "jobs",
			Framework: "batch/job",
		},
		Queueing: jobs.Queueing{
			Wrapped:     wrapped(),
			Replaces:    replacesPods,
			SuspendPath: []string{"spec", "suspend"},
			Suspended:   jobs.Of(suspended),
			Templates:   jobs.Of(templates),
		},
		Admission: jobs.Admission{
			TeamsCreate:    true,
			Bulk:           "spec.template",
			Validate:       jobs.Of(validate),
			ValidateChange: jobs.OfBoth(validateChange),
			Keep:           jobs.Keeping(Keep),
		},
	}
}

func suspended(j *batchv1.Job) bool { return ptr.Deref(j.Spec.Suspend, false) }

func templates(j *batchv1.Job) []jobs.PodTemplate {
	return []jobs.PodTemplate{{Path: "spec.template", Template: &j.Spec.Template}}
}
