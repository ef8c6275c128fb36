package kubeflow

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
)

// Reading is a job with its defaults, role by role.
type Reading struct {
	// Job is a copy of the object with the defaults.
	Job api.Job
	// Roles are the roles of the job that the kind knows, in its order, each at most once.
	Roles []Replicas

	variant *Variant
	// all are also the roles that it does not know, or knows already under a name in other
	// letters: there is something to say about them.
	all []Replicas
}

// Replicas are the members of one role.
type Replicas struct {
	*Role
	// Spec with its defaults, and how many members there are.
	Spec  *api.ReplicaSpec
	Count int32
	// Member is the name of one, up to its index.
	Member string
	// Port on which one is found.
	Port int32

	key     api.ReplicaType  // as its author wrote it
	written *api.ReplicaSpec // as its author wrote it; nil if it is null
	twin    bool             // the role is there already, and is not the same
}

// Host is the name under which a member is found in its namespace.
func (r *Replicas) Host(index int32) string {
	if r.Alone {
		return r.Member
	}
	return r.Member + strconv.Itoa(int(index))
}

// members is the name of all of them, as in plans.
func (r *Replicas) members() string {
	if r.Alone {
		return r.Member
	}
	return r.Member + "{index}"
}

// Role returns the members of a role, nil if there are none.
func (r *Reading) Role(name api.ReplicaType) *Replicas {
	for i := range r.Roles {
		if r.Roles[i].Name == name && r.Roles[i].Count > 0 {
			return &r.Roles[i]
		}
	}
	return nil
}

// Total is how many members there are.
func (r *Reading) Total() int64 {
	n := int64(0)
	for i := range r.Roles {
		n += int64(r.Roles[i].Count)
	}
	return n
}

// read reads a job as it is, which it leaves so.
func (v *Variant) read(j api.Job) *Reading {
	r := &Reading{variant: v, Job: v.withDefaults(j)}
	with := *r.Job.Roles()
	for key, written := range *j.Roles() {
		known := v.role(key)
		one := Replicas{Role: known, key: key, written: written}
		if known != nil {
			one.twin = key != known.Name && with[key] != nil
			one.Spec = with[known.Name]
			if one.twin {
				one.Spec = with[key]
			}
			if one.Spec != nil && one.Spec.Replicas != nil {
				one.Count = *one.Spec.Replicas
			}
			one.Member = j.GetName() + "-" + strings.ToLower(string(known.Name))
			if !known.Alone {
				one.Member += "-"
			}
			one.Port = v.portOf(one.Spec)
		}
		r.all = append(r.all, one)
	}
	slices.SortFunc(r.all, func(a, b Replicas) int {
		return cmp.Or(cmp.Compare(v.position(a.Role), v.position(b.Role)), cmp.Compare(a.key, b.key))
	})
	seen := map[*Role]bool{}
	for i := range r.all {
		one := &r.all[i]
		if one.Role == nil || one.twin || one.Spec == nil || seen[one.Role] {
			continue
		}
		seen[one.Role] = true
		r.Roles = append(r.Roles, *one)
	}
	return r
}

// role finds the role of a name in any case, nil if there is none.
func (v *Variant) role(key api.ReplicaType) *Role {
	for i := range v.Roles {
		if strings.EqualFold(string(v.Roles[i].Name), string(key)) {
			return &v.Roles[i]
		}
	}
	return nil
}

// position of a role among those of the kind; what it does not know comes last.
func (v *Variant) position(r *Role) int {
	for i := range v.Roles {
		if &v.Roles[i] == r {
			return i
		}
	}
	return len(v.Roles)
}

// withDefaults returns a copy of a job with the defaults. Names of roles are spelled as
// the kind does; where that would make one of two that differ, both stay.
func (v *Variant) withDefaults(j api.Job) api.Job {
	out, ok := j.DeepCopyObject().(api.Job)
	if !ok {
		return j
	}
	roles := *out.Roles()
	for _, key := range sortedKeys(roles) {
		role := v.role(key)
		if role == nil || roles[key] == nil {
			continue
		}
		v.fill(role, roles[key])
		if key == role.Name {
			continue
		}
		if other, there := roles[role.Name]; there &&
			!equality.Semantic.DeepEqual(v.filled(role, other), roles[key]) {
			continue
		}
		roles[role.Name] = roles[key]
		delete(roles, key)
	}
	v.fillBounds(out)
	if v.Default != nil {
		v.Default(out)
	}
	return out
}

func sortedKeys(roles map[api.ReplicaType]*api.ReplicaSpec) []api.ReplicaType {
	keys := make([]api.ReplicaType, 0, len(roles))
	for key := range roles { // sorted below
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// filled returns a copy with the defaults.
func (v *Variant) filled(role *Role, r *api.ReplicaSpec) *api.ReplicaSpec {
	if r == nil {
		return nil
	}
	out := r.DeepCopy()
	v.fill(role, out)
	return out
}

// fill fills in the defaults of a role.
func (v *Variant) fill(role *Role, r *api.ReplicaSpec) {
	if r.Replicas == nil {
		r.Replicas = new(role.otherwise())
	}
	r.RestartPolicy = cmp.Or(r.RestartPolicy, role.RestartPolicy, v.RestartPolicy)
	c := container(&r.Template, v.Container)
	if c == nil || v.Port == "" || slices.ContainsFunc(c.Ports, v.isPort) {
		return
	}
	c.Ports = append(
		c.Ports,
		corev1.ContainerPort{Name: v.Port, ContainerPort: v.DefaultPort, Protocol: corev1.ProtocolTCP},
	)
}

// isPort finds the port of the kind: by its name, or else a port of its number, which
// has a name of the author's already.
func (v *Variant) isPort(p corev1.ContainerPort) bool {
	return p.Name == v.Port ||
		p.ContainerPort == v.DefaultPort && cmp.Or(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP
}

// portOf is the port on which a member of a role is found.
func (v *Variant) portOf(r *api.ReplicaSpec) int32 {
	if r == nil || v.Port == "" {
		return v.DefaultPort
	}
	if c := container(&r.Template, v.Container); c != nil {
		for _, p := range c.Ports {
			if p.Name == v.Port {
				return p.ContainerPort
			}
		}
	}
	return v.DefaultPort
}
