// Package xgboostjob is the kind XGBoostJob: a master, which trains as well, and workers.
// XGBoost's rabit and LightGBM find each other by the same variables.
package xgboostjob

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kubeflow"
)

// Kind is all that there is to know of XGBoostJobs.
func Kind() jobs.Kind {
	return kubeflow.Of(&kubeflow.Variant{
		Kind:  api.XGBoostJobKind,
		New:   func() api.Job { return &api.XGBoostJob{} },
		Field: "xgbReplicaSpecs",
		Roles: []kubeflow.Role{
			{Name: api.RoleMaster, Least: 1, Most: 1, Required: true},
			{Name: api.RoleWorker},
		},
		Container:     "xgboost",
		Port:          "xgboostjob-port",
		DefaultPort:   9999,
		RestartPolicy: api.RestartPolicyNever,
		Validate:      validate,
		Plan:          plan,
	})
}

func validate(r *kubeflow.Reading) field.ErrorList {
	if workers := r.Role(api.RoleWorker); workers != nil {
		return kubeflow.CheckLength(r, "WORKER_ADDRS", 1, workers)
	}
	return nil
}

func plan(r *kubeflow.Reading, p *jobs.Plan) {
	master := r.Role(api.RoleMaster)
	env := []podplan.Env{
		kubeflow.Number("MASTER_PORT", master.Port),
		kubeflow.Var("MASTER_ADDR", master.Host(0)),
		kubeflow.Number("WORLD_SIZE", r.Total()),
		kubeflow.Var("RANK", "{rank}"),
		kubeflow.Var("PYTHONUNBUFFERED", "1"),
	}
	if workers := r.Role(api.RoleWorker); workers != nil {
		env = append(
			env,
			kubeflow.Number("WORKER_PORT", workers.Port),
			kubeflow.Var("WORKER_ADDRS", string(workers.AppendList(nil, "", ""))),
		)
	}
	for i := range p.Roles {
		p.Roles[i].Env = env
	}
	p.Success = podplan.Success{kubeflow.All(api.RoleMaster)}
	kubeflow.Leads(p, api.RoleMaster)
}
