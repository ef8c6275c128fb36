package kubeflow

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// mostPods is more than any cluster has.
const mostPods = 1_000_000

// validate finds what is wrong with a job.
func (v *Variant) validate(j api.Job) field.ErrorList { return v.check(v.read(j)) }

// validateChange finds what is wrong with a change: of who manages the job, and of what
// it is. What was wrong before may stay so while its roles and its policy do; what was
// not may not become so, since a job that nobody understands cannot be stopped.
func (v *Variant) validateChange(was, is api.Job) field.ErrorList {
	var errs field.ErrorList
	if a, b := ptr.Deref(was.Policy().ManagedBy, ""), ptr.Deref(is.Policy().ManagedBy, ""); a != b {
		errs = append(
			errs,
			field.Forbidden(
				field.NewPath("spec", "runPolicy", "managedBy"),
				"it cannot be changed: delete the job and create it anew",
			),
		)
	}
	if a, b := queueOf(was), queueOf(is); a != b && !suspended(is) {
		errs = append(errs, field.Invalid(
			field.NewPath("spec", "runPolicy", "schedulingPolicy", "queue"),
			b,
			"it cannot be changed while the job is not suspended: delete the job and submit it anew; the queue of mlbatch is the label "+kueue.QueueNameLabel,
		))
	}
	wrong := v.validate(is)
	same := equality.Semantic.DeepEqual(*was.Roles(), *is.Roles()) &&
		equality.Semantic.DeepEqual(was.Policy(), is.Policy())
	if len(wrong) > 0 && same && len(v.validate(was)) > 0 {
		return errs
	}
	return append(errs, wrong...)
}

// queueOf is the queue of other schedulers that a job names.
func queueOf(j api.Job) string {
	if p := j.Policy().SchedulingPolicy; p != nil {
		return p.Queue
	}
	return ""
}

// check finds what is wrong with a job as it was read.
func (v *Variant) check(r *Reading) field.ErrorList {
	errs := append(v.checkPolicy(r.Job.Policy()), v.checkRoles(r)...)
	if len(errs) == 0 {
		errs = v.checkBounds(r)
	}
	if v.Validate != nil && len(errs) == 0 {
		errs = v.Validate(r)
	}
	if len(errs) == 0 {
		errs = v.checkNames(r)
	}
	return errs
}

func (v *Variant) checkPolicy(p *api.RunPolicy) field.ErrorList {
	at := field.NewPath("spec", "runPolicy")
	var errs field.ErrorList
	managers := append(slices.Clip(v.managers()), api.ManagedByMultiKueue)
	if m := ptr.Deref(p.ManagedBy, ""); p.ManagedBy != nil && !slices.Contains(managers, m) {
		errs = append(errs, field.NotSupported(at.Child("managedBy"), m, managers))
	}
	if c := p.CleanPodPolicy; c != nil {
		all := []api.CleanPodPolicy{
			api.CleanPodPolicyUndefined,
			api.CleanPodPolicyNone,
			api.CleanPodPolicyRunning,
			api.CleanPodPolicyAll,
		}
		if !slices.Contains(all, *c) {
			errs = append(errs, field.NotSupported(at.Child("cleanPodPolicy"), *c, all[1:]))
		}
	}
	for _, n := range []struct {
		name  string
		value int64
		least int64
	}{
		{"ttlSecondsAfterFinished", int64(ptr.Deref(p.TTLSecondsAfterFinished, 0)), 0},
		{"activeDeadlineSeconds", ptr.Deref(p.ActiveDeadlineSeconds, 1), 1},
		{"backoffLimit", int64(ptr.Deref(p.BackoffLimit, 0)), 0},
	} {
		if n.value < n.least {
			errs = append(errs, field.Invalid(at.Child(n.name), n.value, fmt.Sprintf("use a number from %d", n.least)))
		}
	}
	return errs
}

func (v *Variant) checkRoles(r *Reading) field.ErrorList {
	at := field.NewPath("spec", v.Field)
	if len(r.all) == 0 {
		return field.ErrorList{field.Required(at, "a job has pods: add the role "+string(v.main().Name))}
	}
	var errs field.ErrorList
	for i := range r.all {
		errs = append(errs, v.checkRole(&r.all[i], at.Child(string(r.all[i].key)))...)
	}
	for i := range v.Roles {
		role := &v.Roles[i]
		known := slices.ContainsFunc(r.all, func(x Replicas) bool { return x.Role == role })
		if role.Required && !known {
			errs = append(errs, field.Required(at.Child(string(role.Name)), fmt.Sprintf("a %s has one", v.Kind)))
		}
	}
	if n := r.Total(); len(errs) == 0 && (n < 1 || n > mostPods) {
		errs = append(
			errs,
			field.Invalid(at, n, fmt.Sprintf("the replicas of all roles are from 1 to %d together", mostPods)),
		)
	}
	return errs
}

// main is the role that does the work.
func (v *Variant) main() *Role { return v.role(api.RoleWorker) }

func (v *Variant) checkRole(x *Replicas, at *field.Path) field.ErrorList {
	switch {
	case x.Role == nil:
		return field.ErrorList{field.NotSupported(at, x.key, v.roleNames())}
	case x.written == nil:
		return field.ErrorList{field.Required(at, "say what its pods are, or remove the role")}
	case x.twin:
		return field.ErrorList{
			field.Duplicate(at, fmt.Sprintf("%s: letters in capitals make no other role of it, keep one", x.key)),
		}
	}
	var errs field.ErrorList
	if n := x.Count; n < x.Least || x.Most > 0 && n > x.Most {
		cure := fmt.Sprintf("use at least %d", x.Least)
		if x.Most > 0 {
			cure = fmt.Sprintf(
				"use %d: there is one %s, and further pods are of the role %s",
				x.Most,
				x.Name,
				v.main().Name,
			)
		}
		errs = append(errs, field.Invalid(at.Child("replicas"), n, cure))
	}
	policies := v.RestartPolicies
	if policies == nil {
		policies = []api.RestartPolicy{
			api.RestartPolicyAlways,
			api.RestartPolicyOnFailure,
			api.RestartPolicyNever,
			api.RestartPolicyExitCode,
		}
	}
	if !slices.Contains(policies, x.Spec.RestartPolicy) {
		errs = append(errs, field.NotSupported(at.Child("restartPolicy"), x.Spec.RestartPolicy, policies))
	}
	in := at.Child("template", "spec", "containers")
	c := container(&x.written.Template, v.Container)
	if c == nil && v.Container == "" {
		return append(errs, field.Required(in, "a pod has one: say what it runs"))
	}
	if c == nil {
		return append(
			errs,
			field.Required(in, fmt.Sprintf("one of them is named %s: it does the work", v.Container)),
		)
	}
	return append(errs, v.checkPorts(c, in.Key(c.Name).Child("ports"))...)
}

func (v *Variant) roleNames() []string {
	var out []string
	for i := range v.Roles {
		out = append(out, string(v.Roles[i].Name))
	}
	return out
}

// checkPorts refuses what no service and no pod could have.
func (*Variant) checkPorts(c *corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	names, numbers := map[string]bool{}, map[string]bool{}
	for i, p := range c.Ports {
		number := fmt.Sprintf("%d/%s", p.ContainerPort, cmp.Or(p.Protocol, corev1.ProtocolTCP))
		switch {
		case p.ContainerPort < 1 || p.ContainerPort > 65535:
			errs = append(
				errs,
				field.Invalid(at.Index(i).Child("containerPort"), p.ContainerPort, "use a number from 1 to 65535"),
			)
		case p.Name != "" && names[p.Name]:
			errs = append(errs, field.Duplicate(at.Index(i).Child("name"), p.Name))
		case numbers[number]:
			errs = append(errs, field.Duplicate(at.Index(i).Child("containerPort"), p.ContainerPort))
		}
		names[p.Name], numbers[number] = true, true
	}
	return errs
}

// checkNames refuses a name that is too long, or no name, for the pods and services
// that have it with their role and number.
func (v *Variant) checkNames(r *Reading) field.ErrorList {
	name, at := r.Job.GetName(), field.NewPath("metadata", "name")
	if name == "" {
		name, at = r.Job.GetGenerateName()+"xxxxx", field.NewPath("metadata", "generateName")
	}
	longest := ""
	for i := range r.Roles {
		most := r.Roles[i].Count
		if b := v.bounds(r.Job); b != nil && r.Roles[i].Name == api.RoleWorker {
			most = max(most, **b.Most)
		}
		suffix := "-" + podSet(r.Roles[i].Name)
		if !r.Roles[i].Alone {
			suffix += "-" + strconv.Itoa(int(max(most, 1)-1))
		}
		if len(suffix) > len(longest) {
			longest = suffix
		}
	}
	if n := len(name) + len(longest); n > validation.DNS1035LabelMaxLength {
		return field.ErrorList{field.Invalid(at, name, fmt.Sprintf(
			"its pods and services are called %s%s, which is longer than 63 characters: use at most %d",
			"NAME",
			longest,
			validation.DNS1035LabelMaxLength-len(longest),
		))}
	}
	if wrong := validation.IsDNS1035Label(name + longest); len(wrong) > 0 {
		return field.ErrorList{
			field.Invalid(at, name, "its services have it in their names: "+strings.Join(wrong, ", ")),
		}
	}
	return nil
}
