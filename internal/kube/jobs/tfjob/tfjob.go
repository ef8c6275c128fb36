// Package tfjob is the kind TFJob: a chief, workers, parameter servers and evaluators
// that find each other in TF_CONFIG.
package tfjob

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kubeflow"
)

// container is the one that is told of the others.
const container = "tensorflow"

// Kind is all that there is to know of TFJobs.
func Kind() jobs.Kind {
	return kubeflow.Of(&kubeflow.Variant{
		Kind:  api.TFJobKind,
		New:   func() api.Job { return &api.TFJob{} },
		Field: "tfReplicaSpecs",
		Roles: []kubeflow.Role{
			{Name: api.RoleChief, Least: 1, Most: 1},
			{Name: api.RoleMaster, Least: 1, Most: 1},
			{Name: api.RolePS},
			{Name: api.RoleWorker},
			{Name: api.RoleEvaluator},
		},
		Container:     container,
		Port:          "tfjob-port",
		DefaultPort:   2222,
		RestartPolicy: api.RestartPolicyNever,
		Default:       fill,
		Validate:      validate,
		Plan:          plan,
	})
}

func spec(j api.Job) *api.TFJobSpec {
	if t, ok := j.(*api.TFJob); ok {
		return &t.Spec
	}
	return &api.TFJobSpec{}
}

// fill fills in what is said in an older place.
func fill(j api.Job) {
	if s := spec(j); s.RunPolicy.CleanPodPolicy == nil {
		s.RunPolicy.CleanPodPolicy = s.CleanPodPolicy
	}
}

// chief is the role that decides about the job by itself, nil if there is none.
func chief(r *kubeflow.Reading) *kubeflow.Replicas {
	if c := r.Role(api.RoleChief); c != nil {
		return c
	}
	return r.Role(api.RoleMaster)
}

func validate(r *kubeflow.Reading) field.ErrorList {
	at := field.NewPath("spec", "tfReplicaSpecs")
	var errs field.ErrorList
	if r.Role(api.RoleChief) != nil && r.Role(api.RoleMaster) != nil {
		errs = append(
			errs,
			field.Forbidden(at.Child(string(api.RoleMaster)), "it is an older name of Chief: keep one of them"),
		)
	}
	if chief(r) == nil && r.Role(api.RoleWorker) == nil {
		errs = append(
			errs,
			field.Required(
				at.Child(string(api.RoleWorker)),
				"a job ends with its chief or its workers: add one of them",
			),
		)
	}
	if s := spec(
		r.Job,
	).SuccessPolicy; s != nil && *s != api.SuccessPolicyDefault &&
		*s != api.SuccessPolicyAllWorkers {
		errs = append(
			errs,
			field.NotSupported(
				field.NewPath("spec", "successPolicy"),
				*s,
				[]api.SuccessPolicy{api.SuccessPolicyAllWorkers},
			),
		)
	}
	return append(
		errs,
		kubeflow.CheckLength(r, "TF_CONFIG", len(`"..svc:65535",`)+len(r.Job.GetNamespace()), listed(r)...)...)
}

func plan(r *kubeflow.Reading, p *jobs.Plan) {
	s := spec(r.Job)
	if r.Total() != 1 {
		tell(r, p)
	}
	if w := p.Role("worker"); w != nil && s.EnableDynamicWorker && w.OnFailure == podplan.FailJob {
		w.OnFailure = podplan.Ignore
	}
	if c := chief(r); c != nil {
		p.Success = podplan.Success{kubeflow.All(c.Name)}
		kubeflow.Leads(p, c.Name)
		return
	}
	end := kubeflow.All(api.RoleWorker)
	end.First = ptr.Deref(s.SuccessPolicy, api.SuccessPolicyDefault) != api.SuccessPolicyAllWorkers
	p.Success = podplan.Success{end}
	kubeflow.FirstLeads(p, api.RoleWorker)
}

// listed are the roles that all members are told of. Evaluators are none of the cluster:
// nobody talks to them. Where workers come and go they are not told of each other.
func listed(r *kubeflow.Reading) []*kubeflow.Replicas {
	var out []*kubeflow.Replicas
	if r.Total() == 1 {
		return nil // one that is alone has nobody to be told of
	}
	for _, name := range []api.ReplicaType{api.RoleChief, api.RoleMaster, api.RolePS, api.RoleWorker} {
		if x := r.Role(name); x != nil && (!spec(r.Job).EnableDynamicWorker || name == api.RolePS) {
			out = append(out, x)
		}
	}
	return out
}

// tell gives each role its TF_CONFIG, in which only the index differs between members.
func tell(r *kubeflow.Reading, p *jobs.Plan) {
	dynamic := spec(r.Job).EnableDynamicWorker
	begin, end := "", `,"environment":"cloud"}`
	if !dynamic {
		begin = whole(r, listed(r))
	}
	for i := range r.Roles {
		if dynamic {
			begin, end = sparse(r, &r.Roles[i]), "}"
		}
		p.Roles[i].Container = container
		p.Roles[i].Env = []podplan.Env{
			kubeflow.Var("TF_CONFIG", begin+`,"task":{"type":"`+p.Roles[i].Name+`","index":{index}}`+end),
		}
	}
}

// address is what follows the name of a member where it is found from anywhere in the
// cluster.
func address(r *kubeflow.Reading, x *kubeflow.Replicas) string {
	return "." + r.Job.GetNamespace() + ".svc:" + strconv.Itoa(int(x.Port)) + `"`
}

// whole begins with all members by role, in the order of the roles' names.
func whole(r *kubeflow.Reading, all []*kubeflow.Replicas) string {
	b := []byte(`{"cluster":`)
	separator := byte('{')
	for _, x := range all {
		b = append(append(b, separator, '"'), strings.ToLower(string(x.Name))...)
		b = x.AppendList(append(b, `":[`...), `"`, address(r, x))
		b = append(b, ']')
		separator = ','
	}
	return string(append(b, '}'))
}

// sparse begins with what a member knows where workers come and go: itself, and a
// worker the parameter servers, too.
func sparse(r *kubeflow.Reading, x *kubeflow.Replicas) string {
	workers, servers := "", ""
	self := `"` + x.Member + "{index}" + address(r, x)
	switch x.Name { //nolint:exhaustive // others know nobody
	case api.RolePS:
		servers = self
	case api.RoleWorker:
		workers = `"{index}":` + self
		if ps := r.Role(api.RolePS); ps != nil {
			servers = string(ps.AppendList(nil, `"`, address(r, ps)))
		}
	}
	return `{"sparseCluster":{"worker":{` + workers + `},"ps":[` + servers + "]}"
}
