package kubeflow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// compile makes the plan of a job.
func (v *Variant) compile(j api.Job) (*jobs.Plan, error) {
	r := v.read(j)
	if errs := v.check(r); len(errs) > 0 {
		return nil, fmt.Errorf("plan %s %s/%s: %w", v.Kind, j.GetNamespace(), j.GetName(), errs.ToAggregate())
	}
	policy := r.Job.Policy()
	p := &jobs.Plan{
		Plan: podplan.Plan{
			Suspended: suspended(j),
			Retries:   policy.BackoffLimit,
			CleanUp:   cleanUp(policy.CleanPodPolicy),
		},
		Own: policy.BackoffLimit != nil,
	}
	if s := policy.ActiveDeadlineSeconds; s != nil {
		p.Deadline = seconds(*s)
	}
	if s := policy.TTLSecondsAfterFinished; s != nil {
		p.TTL = new(seconds(int64(*s)))
	}
	rank := int32(0)
	for i := range r.Roles {
		x := &r.Roles[i]
		p.Own = p.Own || x.written != nil && x.written.RestartPolicy != ""
		p.Roles = append(p.Roles, podplan.Role{
			Name: podSet(x.Name), Count: x.Count, Rank: rank, Member: x.members(),
			Labels: v.labels(j, x), Ports: v.ports(x), OnFailure: onFailure(x.Spec.RestartPolicy),
		})
		p.Templates = append(p.Templates, template(x.Spec))
		rank += x.Count
	}
	p.First = make([]*corev1.PodTemplateSpec, len(p.Roles))
	v.Plan(r, p)
	return p, nil
}

// seconds is a time, the longest there is if it would be longer.
func seconds(n int64) time.Duration {
	const longest = 1<<63 - 1
	if n > longest/int64(time.Second) {
		return longest
	}
	return time.Duration(n) * time.Second
}

// cleanUp is what becomes of pods. What is not said removes pods that run although
// the job has ended, such as parameter servers: they would hold the quota of their
// queue until somebody notices.
func cleanUp(c *api.CleanPodPolicy) podplan.CleanUp {
	if c == nil {
		return podplan.RemoveRunning
	}
	switch *c {
	case api.CleanPodPolicyNone:
		return podplan.Keep
	case api.CleanPodPolicyAll:
		return podplan.RemoveAll
	case api.CleanPodPolicyUndefined, api.CleanPodPolicyRunning:
	}
	return podplan.RemoveRunning
}

// onFailure is what follows a pod that failed. Where the kubelet restarts containers, a
// pod fails because it was evicted or its node was lost, and another one takes its place.
func onFailure(r api.RestartPolicy) podplan.OnFailure {
	switch r {
	case api.RestartPolicyAlways, api.RestartPolicyOnFailure:
		return podplan.Replace
	case api.RestartPolicyExitCode:
		return podplan.ReplaceRetriable
	case api.RestartPolicyNever:
	}
	return podplan.FailJob
}

// template is that of a role's pods, with the restart policy of the role.
func template(r *api.ReplicaSpec) *corev1.PodTemplateSpec {
	t := &r.Template
	t.Spec.RestartPolicy = corev1.RestartPolicy(r.RestartPolicy)
	if r.RestartPolicy == api.RestartPolicyExitCode {
		t.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	return t
}

// labels are how people and services find pods, and how they are told their ranks who ask Sakkara for it.
func (v *Variant) labels(j api.Job, x *Replicas) map[string]string {
	out := map[string]string{
		api.OperatorNameLabel: v.operator(),
		api.JobNameLabel:      j.GetName(),
		api.ReplicaTypeLabel:  podSet(x.Name),
		api.ReplicaIndexLabel: "{index}",
	}
	if sakkara.ReadsRank(&x.Spec.Template.Spec) {
		out[sakkara.RankLabel] = "{rank}"
	}
	return out
}

// ports are those of the service of each pod: what the container that does the work
// listens on, by the author's names.
func (v *Variant) ports(x *Replicas) []podplan.Port {
	if v.Port == "" {
		return nil
	}
	var out []podplan.Port
	for _, p := range container(&x.Spec.Template, v.Container).Ports {
		if cmp.Or(p.Protocol, corev1.ProtocolTCP) != corev1.ProtocolTCP {
			continue
		}
		out = append(
			out,
			podplan.Port{Name: cmp.Or(p.Name, "port-"+strconv.Itoa(int(p.ContainerPort))), Port: p.ContainerPort},
		)
	}
	return out
}

// Leads marks a role as the one whose pods decide whether the job succeeds.
func Leads(p *jobs.Plan, role api.ReplicaType) {
	if r := p.Role(podSet(role)); r != nil {
		r.Labels[api.JobRoleLabel] = api.JobRoleMaster
	}
}

// First returns the template of the first pod of a role, apart from that of the others,
// to be changed.
func First(p *jobs.Plan, role api.ReplicaType) *corev1.PodTemplateSpec {
	for i := range p.Roles {
		if p.Roles[i].Name != podSet(role) {
			continue
		}
		if p.First[i] == nil {
			first := *p.Templates[i]
			first.Labels = maps.Clone(first.Labels)
			first.Spec.Containers = append([]corev1.Container(nil), first.Spec.Containers...)
			p.First[i] = &first
		}
		return p.First[i]
	}
	return nil
}

// FirstLeads marks the first pod of a role alone.
func FirstLeads(p *jobs.Plan, role api.ReplicaType) {
	if t := First(p, role); t != nil {
		if t.Labels == nil {
			t.Labels = map[string]string{}
		}
		t.Labels[api.JobRoleLabel] = api.JobRoleMaster
	}
}

// All is the end of a job with all members of a role.
func All(role api.ReplicaType) podplan.Term { return podplan.Term{Roles: []string{podSet(role)}} }

// Var is a variable of a pod.
func Var(name, value string) podplan.Env { return podplan.Env{Name: name, Value: value} }

// Number is a variable of a pod.
func Number[N int | int32 | int64](name string, value N) podplan.Env {
	return podplan.Env{Name: name, Value: strconv.FormatInt(int64(value), 10)}
}

// AppendList appends the names of all members, each between two texts, with commas.
func (r *Replicas) AppendList(b []byte, before, after string) []byte {
	b = slices.Grow(b, (len(before)+len(r.Host(r.Count))+len(after)+1)*int(r.Count))
	for i := range r.Count {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, before...), r.Member...)
		b = append(strconv.AppendInt(b, int64(i), 10), after...)
	}
	return b
}

// longestVar is what a process can be given in one variable.
const longestVar = 128*1024 - 1

// CheckLength refuses a variable that lists members, each with so many characters
// besides its name, if no process could be given it.
func CheckLength(r *Reading, name string, besides int, all ...*Replicas) field.ErrorList {
	length := int64(0)
	for _, x := range all {
		length += int64(x.Count) * int64(len(x.Host(x.Count-1))+besides)
	}
	if length < longestVar {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", r.variant.Field), r.Total(), fmt.Sprintf(
		"the variable %s, which lists them, would be longer than the %d bytes that a process can be given: use fewer replicas or shorter names",
		name,
		longestVar,
	))}
}
