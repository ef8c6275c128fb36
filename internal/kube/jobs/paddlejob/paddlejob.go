// Package paddlejob is the kind PaddleJob: workers that compute together, or masters,
// which are parameter servers, with workers that train.
package paddlejob

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kubeflow"
)

// Kind is all that there is to know of PaddleJobs.
func Kind() jobs.Kind {
	return kubeflow.Of(&kubeflow.Variant{
		Kind:          api.PaddleJobKind,
		New:           func() api.Job { return &api.PaddleJob{} },
		Field:         "paddleReplicaSpecs",
		Roles:         []kubeflow.Role{{Name: api.RoleMaster, Least: 1}, {Name: api.RoleWorker}},
		Container:     "paddle",
		Port:          "master",
		DefaultPort:   36543,
		RestartPolicy: api.RestartPolicyOnFailure,
		Plan:          plan,
		Elastic:       bounds,
	})
}

func bounds(j api.Job) *kubeflow.Bounds {
	p, ok := j.(*api.PaddleJob)
	if !ok || p.Spec.ElasticPolicy == nil {
		return nil
	}
	e := p.Spec.ElasticPolicy
	return &kubeflow.Bounds{Least: &e.MinReplicas, Most: &e.MaxReplicas, Metrics: e.Metrics}
}

// plan tells every pod where the first is: of the masters if there are any, of the
// workers otherwise. Paddle has the first one keep the meeting point, which it
// recognizes by its own address.
func plan(r *kubeflow.Reading, p *jobs.Plan) {
	first := r.Role(api.RoleMaster)
	servers := first != nil
	if !servers {
		first = r.Role(api.RoleWorker)
	}
	env := []podplan.Env{
		kubeflow.Var("PYTHONUNBUFFERED", "1"),
		kubeflow.Var("PADDLE_JOB_ID", r.Job.GetName()),
		kubeflow.Number("PADDLE_NNODES", r.Total()),
		kubeflow.Var("PADDLE_MASTER", fmt.Sprintf("%s:%d", first.Host(0), first.Port)),
	}
	for i := range p.Roles {
		p.Roles[i].Env = slices.Clone(env)
		if servers {
			p.Roles[i].Env = append(
				p.Roles[i].Env,
				kubeflow.Var(
					map[bool]string{true: "PADDLE_SERVER_NUM", false: "PADDLE_TRAINER_NUM"}[p.Roles[i].Name == "master"],
					"1",
				),
			)
		}
	}
	p.Success = podplan.Success{kubeflow.All(first.Name)}
	if servers {
		kubeflow.Leads(p, api.RoleMaster)
	}
	keepMeetingPoint(kubeflow.First(p, first.Name), first.Port)
}

// keepMeetingPoint gives the first pod its own address, unless the author says another.
func keepMeetingPoint(t *corev1.PodTemplateSpec, port int32) {
	for i := range t.Spec.Containers {
		c := &t.Spec.Containers[i]
		if slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "PADDLE_MASTER" }) {
			continue
		}
		c.Env = append(
			slices.Clip(c.Env),
			corev1.EnvVar{
				Name:      "POD_IP_DUMMY",
				ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}},
			},
			corev1.EnvVar{Name: "PADDLE_MASTER", Value: fmt.Sprintf("$(POD_IP_DUMMY):%d", port)},
		)
	}
}
