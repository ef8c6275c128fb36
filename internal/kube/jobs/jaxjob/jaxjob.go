// Package jaxjob is the kind JAXJob: workers of which the first coordinates the others.
package jaxjob

import (
	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kubeflow"
)

// Kind is all that there is to know of JAXJobs.
func Kind() jobs.Kind {
	return kubeflow.Of(&kubeflow.Variant{
		Kind:          api.JAXJobKind,
		New:           func() api.Job { return &api.JAXJob{} },
		Field:         "jaxReplicaSpecs",
		Roles:         []kubeflow.Role{{Name: api.RoleWorker, Least: 1, Required: true}},
		Container:     "jax",
		Port:          "jaxjob-port",
		DefaultPort:   6666,
		RestartPolicy: api.RestartPolicyNever,
		Plan:          plan,
	})
}

// plan tells every worker where the first is. The first finds itself under its own name,
// too: it listens on all its addresses.
func plan(r *kubeflow.Reading, p *jobs.Plan) {
	workers := r.Role(api.RoleWorker)
	p.Roles[0].Env = []podplan.Env{
		kubeflow.Var("PYTHONUNBUFFERED", "1"),
		kubeflow.Number("COORDINATOR_PORT", workers.Port),
		kubeflow.Var("COORDINATOR_ADDRESS", workers.Host(0)),
		kubeflow.Number("NUM_PROCESSES", workers.Count),
		kubeflow.Var("PROCESS_ID", "{index}"),
	}
	p.Success = podplan.Success{kubeflow.All(api.RoleWorker)}
	kubeflow.FirstLeads(p, api.RoleWorker)
}
