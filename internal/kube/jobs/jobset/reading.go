package jobset

import (
	"cmp"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
)

// reading is a JobSet with its defaults, role by role.
type reading struct {
	// js is a copy with the defaults.
	js    *api.JobSet
	roles []role
	// jobs is how many there are, of all roles.
	jobs int64
}

// role is a replicated job.
type role struct {
	*api.ReplicatedJob
	// count is how many Jobs it has, and pods how many pods each of these has at the same
	// time.
	count, pods int32
	// first is the index of its first Job among all, groupFirst among those of its group,
	// which has groupCount.
	first, groupFirst, groupCount int64
}

// read reads a JobSet as it is, which it leaves so.
func read(js *api.JobSet) *reading {
	r := &reading{js: withDefaults(js)}
	groups := map[string]int64{}
	for i := range r.js.Spec.ReplicatedJobs {
		x := &r.js.Spec.ReplicatedJobs[i]
		one := role{
			ReplicatedJob: x,
			count:         *x.Replicas,
			pods:          podsOf(&x.Template.Spec),
			first:         r.jobs,
			groupFirst:    groups[x.GroupName],
		}
		r.jobs += int64(one.count)
		groups[x.GroupName] += int64(one.count)
		r.roles = append(r.roles, one)
	}
	for i := range r.roles {
		r.roles[i].groupCount = groups[r.roles[i].GroupName]
	}
	return r
}

// role finds one by its name, nil if there is none.
func (r *reading) role(name string) *role {
	for i := range r.roles {
		if r.roles[i].Name == name {
			return &r.roles[i]
		}
	}
	return nil
}

// podsOf is how many pods a Job has at the same time.
func podsOf(s *batchv1.JobSpec) int32 {
	n := ptr.Deref(s.Parallelism, 1)
	return min(n, ptr.Deref(s.Completions, n))
}

func indexed(s *batchv1.JobSpec) bool { return *s.CompletionMode == batchv1.IndexedCompletion }

// member is the name of a role's Jobs, up to their index.
func (r *reading) member(x *role) string { return r.js.Name + "-" + x.Name + "-" }

// withDefaults returns a copy of a JobSet with the defaults.
func withDefaults(js *api.JobSet) *api.JobSet {
	out := js.DeepCopy()
	s := &out.Spec
	for i := range s.ReplicatedJobs {
		x := &s.ReplicatedJobs[i]
		x.GroupName = cmp.Or(x.GroupName, api.DefaultGroup)
		if x.Replicas == nil {
			x.Replicas = new(int32(1))
		}
		if x.Template.Spec.CompletionMode == nil {
			x.Template.Spec.CompletionMode = new(batchv1.IndexedCompletion)
		}
		pod := &x.Template.Spec.Template.Spec
		pod.RestartPolicy = cmp.Or(pod.RestartPolicy, corev1.RestartPolicyOnFailure)
	}
	if s.SuccessPolicy == nil {
		s.SuccessPolicy = &api.SuccessPolicy{Operator: api.OperatorAll}
	}
	if s.StartupPolicy == nil {
		s.StartupPolicy = &api.StartupPolicy{StartupPolicyOrder: api.AnyOrder}
	}
	if s.Network == nil {
		s.Network = &api.Network{}
	}
	n := s.Network
	n.Subdomain = cmp.Or(n.Subdomain, out.Name)
	n.EnableDNSHostnames = new(ptr.Deref(n.EnableDNSHostnames, true))
	n.PublishNotReadyAddresses = new(ptr.Deref(n.PublishNotReadyAddresses, true))
	if f := s.FailurePolicy; f != nil {
		f.RestartStrategy = cmp.Or(f.RestartStrategy, api.Recreate)
		for i := range f.Rules {
			f.Rules[i].Name = cmp.Or(f.Rules[i].Name, "failurePolicyRule"+strconv.Itoa(i))
		}
	}
	for i := range s.VolumeClaimPolicies {
		v := &s.VolumeClaimPolicies[i]
		if v.RetentionPolicy == nil {
			v.RetentionPolicy = &api.VolumeRetentionPolicy{}
		}
		v.RetentionPolicy.WhenDeleted = new(ptr.Deref(v.RetentionPolicy.WhenDeleted, api.RetentionDelete))
	}
	return out
}
