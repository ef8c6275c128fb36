// Package kubeflow is what the training jobs of kubeflow.org have in common, which is
// nearly everything: roles with replicas, one policy for running them, one status. A
// Variant is what is special about a kind; the folders pytorchjob, tfjob, xgboostjob,
// paddlejob and jaxjob each have one.
//
// Defaults are never written into an object: it stays as its author wrote it, and
// whoever reads it here sees it with them. What an admission adds is left to the
// making of pods, too.
package kubeflow

import (
	"cmp"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Variant is what makes a kind different from the others.
type Variant struct {
	// Kind as in objects, and the version of its API, v1 if it is ""; New returns an empty
	// object of it.
	Kind, Version string
	New           func() api.Job
	// Operator is how pods name the controller that made them; "" is the name of the kind
	// with an ending. Others are what images of other controllers for the kind end with,
	// and Managers what managedBy may name besides: both "" and nil are those of the
	// training operator.
	Operator         string
	Others, Managers []string
	// Field of the spec with the roles, and these in the order in which they are told.
	Field string
	Roles []Role
	// Container of a pod that does the work, the first if it is "", with the port of the
	// name Port on which the others find it, if it is not "".
	Container   string
	Port        string
	DefaultPort int32
	// RestartPolicy is what follows the end of the container if the author does not say,
	// and RestartPolicies are all that there are; nil are the usual four.
	RestartPolicy   api.RestartPolicy
	RestartPolicies []api.RestartPolicy
	// Default fills in further fields of a copy; nil fills in none.
	Default func(api.Job)
	// Validate finds what is wrong beyond what holds for all variants; nil finds nothing.
	Validate func(*Reading) field.ErrorList
	// Plan adds to each role of a plan what its pods have to know, and when the job has
	// succeeded.
	Plan func(*Reading, *jobs.Plan)
	// Runs reports whether a job runs, as people say; nil is when a pod does that its end
	// depends on.
	Runs func(*jobs.Plan, *jobs.Progress) bool
	// Evicted is the reason why a job restarts of which a pod was evicted, if it has another one
	// then.
	Evicted string
	// Elastic are the bounds of the number of workers, nil for a job without; it is nil
	// itself for kinds without.
	Elastic func(api.Job) *Bounds
}

// Role is one of a kind's roles.
type Role struct {
	Name api.ReplicaType
	// Least and Most replicas, if there are any; a Most of 0 is without limit.
	Least, Most int32
	// Required: every job has it.
	Required bool
	// Alone: the role has one pod, whose name has no index.
	Alone bool
	// None: without a number of replicas there are none, and not one.
	None bool
	// RestartPolicy is that of the role if its author says none; "" is that of the kind.
	RestartPolicy api.RestartPolicy
}

// otherwise is how many replicas there are if the author does not say.
func (r *Role) otherwise() int32 {
	if r.None {
		return 0
	}
	return 1
}

func (v *Variant) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{
		Group:   api.GroupVersion.Group,
		Version: cmp.Or(v.Version, api.GroupVersion.Version),
		Kind:    v.Kind,
	}
}

// operator is how pods name the controller that made them.
func (v *Variant) operator() string {
	return cmp.Or(v.Operator, strings.ToLower(v.Kind)+"-controller")
}

// managers are what a job may name as the controller that there is.
func (v *Variant) managers() []string {
	if v.Managers == nil {
		return []string{api.ManagedByOperator}
	}
	return v.Managers
}

func (v *Variant) others() []string {
	if v.Others == nil {
		return []string{"training-operator"}
	}
	return v.Others
}

// Of makes a kind of job of a variant.
func Of(v *Variant) jobs.Kind {
	k := jobs.Kind{
		Adapter: adapter{v},
		Naming: jobs.Naming{
			Resource:    strings.ToLower(v.Kind) + "s",
			Framework:   "kubeflow.org/" + strings.ToLower(v.Kind),
			AddToScheme: api.AddToScheme,
		},
		Queueing: jobs.Queueing{
			Wrapped:     v.wrapped(),
			SuspendPath: []string{"spec", "runPolicy", "suspend"},
			Suspended:   jobs.Of(suspended),
			Templates:   jobs.Of(v.templates),
		},
		Running: jobs.Running{
			RunsJobs: true,
			Retries:  true,
			Operator: &jobs.Operator{
				Compile:       of(v.compile),
				Others:        v.others(),
				StateOfStatus: jobs.Of(told),
				Project:       v.project,
				StatusEvents:  tells,
			},
			Injection: jobs.InTemplates(v.places),
		},
		Admission: jobs.Admission{
			TeamsCreate:    true,
			Bulk:           "spec." + v.Field,
			Validate:       jobs.Of(v.validate),
			ValidateChange: jobs.OfBoth(v.validateChange),
			Keep:           jobs.Keeping(keep),
			Fixed:          "object.spec.?runPolicy.?managedBy.orValue('') != oldObject.spec.?runPolicy.?managedBy.orValue('')",
		},
	}
	if v.Elastic != nil {
		all := of(v.artifacts)
		k.Running.Operator.Artifacts = func(o jobs.Object, _ *jobs.Plan, _ *jobs.Progress) ([]jobs.Artifact, error) { return all(o) }
		k.Running.Operator.Makes = []schema.GroupResource{
			{Group: autoscalingv2.GroupName, Resource: "horizontalpodautoscalers"},
		}
	}
	return k
}

func suspended(j api.Job) bool { return ptr.Deref(j.Policy().Suspend, false) }

// templates are those of an object as it is. A class of the job's priority is shown as
// one of the first pods, which it is for, so that it is looked at like theirs.
func (v *Variant) templates(j api.Job) []jobs.PodTemplate {
	var out []jobs.PodTemplate
	for _, r := range v.read(j).all {
		if r.written == nil {
			continue
		}
		out = append(
			out,
			jobs.PodTemplate{
				Path:     "spec." + v.Field + "." + string(r.key) + ".template",
				Template: &r.written.Template,
			},
		)
	}
	if p := j.Policy().SchedulingPolicy; p != nil && p.PriorityClass != "" && len(out) > 0 {
		shown := *out[0].Template
		shown.Spec.PriorityClassName = p.PriorityClass
		out[0].Template = &shown
	}
	return out
}

// places are the templates of an object's roles.
func (v *Variant) places(j api.Job) []jobs.Place {
	var out []jobs.Place
	for _, r := range v.read(j).all {
		if r.Role != nil && !r.twin && r.written != nil {
			out = append(out, jobs.Place{PodSet: kueue.PodSetReference(podSet(r.Name)), Template: &r.written.Template})
		}
	}
	return out
}

// keep returns a user's new state with what is not the user's as it was: whether the
// job is suspended, and the scheduler of its pods.
func keep(was, is api.Job, _ []kueue.PodSet) api.Job {
	out, ok := is.DeepCopyObject().(api.Job)
	if !ok {
		return is
	}
	out.Policy().Suspend = was.Policy().Suspend
	before := map[api.ReplicaType]*api.ReplicaSpec{}
	for key, r := range *was.Roles() {
		if r != nil {
			before[folded(key)] = r
		}
	}
	for key, r := range *out.Roles() {
		if old := before[folded(key)]; r != nil && old != nil {
			r.Template.Spec.SchedulerName = old.Template.Spec.SchedulerName
		}
	}
	return out
}

func folded(key api.ReplicaType) api.ReplicaType {
	return api.ReplicaType(strings.ToLower(string(key)))
}

// container finds one by name, the first if it is ""; nil if there is none.
func container(t *corev1.PodTemplateSpec, name string) *corev1.Container {
	for i := range t.Spec.Containers {
		if name == "" || t.Spec.Containers[i].Name == name {
			return &t.Spec.Containers[i]
		}
	}
	return nil
}
