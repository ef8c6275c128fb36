// Package pytorchjob is the kind PyTorchJob: a master and workers, or workers alone,
// which may be elastic. Scripts find each other by the variables of torch.distributed,
// torchrun by variables that begin with PET.
package pytorchjob

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kubeflow"
)

// Kind is all that there is to know of PyTorchJobs.
func Kind() jobs.Kind {
	return kubeflow.Of(&kubeflow.Variant{
		Kind:          api.PyTorchJobKind,
		New:           func() api.Job { return &api.PyTorchJob{} },
		Field:         "pytorchReplicaSpecs",
		Roles:         []kubeflow.Role{{Name: api.RoleMaster, Least: 1, Most: 1}, {Name: api.RoleWorker}},
		Container:     "pytorch",
		Port:          "pytorchjob-port",
		DefaultPort:   23456,
		RestartPolicy: api.RestartPolicyOnFailure,
		Default:       fill,
		Validate:      validate,
		Plan:          plan,
		Elastic:       bounds,
	})
}

func spec(j api.Job) *api.PyTorchJobSpec {
	if p, ok := j.(*api.PyTorchJob); ok {
		return &p.Spec
	}
	return &api.PyTorchJobSpec{}
}

func bounds(j api.Job) *kubeflow.Bounds {
	e := spec(j).ElasticPolicy
	if e == nil {
		return nil
	}
	return &kubeflow.Bounds{Least: &e.MinReplicas, Most: &e.MaxReplicas, Metrics: e.Metrics}
}

// fill says how many processes a pod has, unless its older field does, and who keeps the
// rendezvous.
func fill(j api.Job) {
	s := spec(j)
	e := s.ElasticPolicy
	if s.NprocPerNode == nil && (e == nil || e.NProcPerNode == nil) {
		s.NprocPerNode = new("auto")
	}
	if e != nil && e.RDZVBackend == nil {
		e.RDZVBackend = new(api.BackendC10D)
	}
}

func validate(r *kubeflow.Reading) field.ErrorList {
	s := spec(r.Job)
	var errs field.ErrorList
	if n, err := strconv.Atoi(ptr.Deref(s.NprocPerNode, "auto")); err == nil && n < 1 {
		errs = append(
			errs,
			field.Invalid(field.NewPath("spec", "nprocPerNode"), n, "use auto, cpu, gpu or a number from 1"),
		)
	}
	if s.ElasticPolicy == nil {
		return errs
	}
	at := field.NewPath("spec", "elasticPolicy")
	if n := s.ElasticPolicy.NProcPerNode; n != nil && s.NprocPerNode != nil {
		errs = append(
			errs,
			field.Forbidden(at.Child("nProcPerNode"), "spec.nprocPerNode says it already: keep one of them"),
		)
	} else if n != nil && *n < 1 {
		errs = append(errs, field.Invalid(at.Child("nProcPerNode"), *n, "use a number from 1"))
	}
	if n := s.ElasticPolicy.RDZVPort; n != nil && (*n < 1 || *n > 65535) {
		errs = append(errs, field.Invalid(at.Child("rdzvPort"), *n, "use a number from 1 to 65535"))
	}
	if b := *s.ElasticPolicy.RDZVBackend; b != api.BackendC10D && b != api.BackendETCD &&
		b != api.BackendETCDV2 {
		errs = append(
			errs,
			field.NotSupported(
				at.Child("rdzvBackend"),
				b,
				[]api.RDZVBackend{api.BackendC10D, api.BackendETCD, api.BackendETCDV2},
			),
		)
	}
	return errs
}

// plan tells every container of every pod where the others are, and what it is itself.
func plan(r *kubeflow.Reading, p *jobs.Plan) {
	s, master, workers := spec(r.Job), r.Role(api.RoleMaster), r.Role(api.RoleWorker)
	processes := ptr.Deref(s.NprocPerNode, "")
	if e := s.ElasticPolicy; e != nil && e.NProcPerNode != nil {
		processes = strconv.Itoa(int(*e.NProcPerNode))
	}
	env := []podplan.Env{kubeflow.Var("PYTHONUNBUFFERED", "1"), kubeflow.Var("PET_NPROC_PER_NODE", processes)}
	if master != nil {
		each, err := strconv.Atoi(processes)
		if err != nil { // auto and such: torchrun finds out, and counts for itself
			each = 1
		}
		env = append(env,
			kubeflow.Number("MASTER_PORT", master.Port), kubeflow.Number("PET_MASTER_PORT", master.Port),
			kubeflow.Var("MASTER_ADDR", master.Host(0)), kubeflow.Var("PET_MASTER_ADDR", master.Host(0)),
			kubeflow.Number("WORLD_SIZE", r.Total()*int64(each)),
			kubeflow.Var("RANK", "{rank}"), kubeflow.Var("PET_NODE_RANK", "{rank}"))
	}
	if e := s.ElasticPolicy; e != nil {
		env = append(env, rendezvous(e, workers)...)
	} else {
		env = append(env, kubeflow.Number("PET_NNODES", r.Total()))
	}
	for i := range p.Roles {
		p.Roles[i].Env = env
	}
	switch {
	case master != nil:
		p.Success = podplan.Success{kubeflow.All(api.RoleMaster)}
		kubeflow.Leads(p, api.RoleMaster)
	case s.ElasticPolicy != nil: // the workers end together, however many they were
		one := kubeflow.All(api.RoleWorker)
		one.AtLeast = 1
		p.Success = podplan.Success{one}
	default:
		p.Success = podplan.Success{kubeflow.All(api.RoleWorker)}
	}
}

// rendezvous is how elastic workers find each other.
func rendezvous(e *api.ElasticPolicy, workers *kubeflow.Replicas) []podplan.Env {
	endpoint := fmt.Sprintf(
		"%s:%d",
		cmp.Or(ptr.Deref(e.RDZVHost, ""), workers.Host(0)),
		cmp.Or(ptr.Deref(e.RDZVPort, 0), workers.Port),
	)
	env := []podplan.Env{
		kubeflow.Var("PET_RDZV_ENDPOINT", endpoint),
		kubeflow.Var("PET_RDZV_BACKEND", string(*e.RDZVBackend)),
		kubeflow.Var("PET_NNODES", fmt.Sprintf("%d:%d", *e.MinReplicas, *e.MaxReplicas)),
	}
	if e.MaxRestarts != nil {
		env = append(env, kubeflow.Number("PET_MAX_RESTARTS", *e.MaxRestarts))
	}
	if e.RDZVID != nil {
		env = append(env, kubeflow.Var("PET_RDZV_ID", *e.RDZVID))
	}
	if len(e.RDZVConf) > 0 {
		settings := make([]string, len(e.RDZVConf))
		for i, c := range e.RDZVConf {
			settings[i] = c.Key + "=" + c.Value
		}
		env = append(env, kubeflow.Var("PET_RDZV_CONF", strings.Join(settings, ",")))
	}
	if ptr.Deref(e.Standalone, false) {
		env = append(env, kubeflow.Var("PET_STANDALONE", ""))
	}
	return env
}
