package leaderworkerset

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
)

// Identity is what a pod of a group has to have, and its template, being that of all,
// cannot say.
type Identity struct {
	Labels map[string]string
	// Role is the pod set of the pod; "" leaves that of its template.
	Role string
	// Env is for all containers, and TPUEnv, by name, for containers that ask for TPUs as well.
	Env       []corev1.EnvVar
	TPUEnv    map[string][]corev1.EnvVar
	Subdomain string
	// Affinity is all of it, with what the pod had; nil adds none.
	Affinity *corev1.Affinity
}

// place is where a pod is in its set.
type place struct {
	set, leader   string
	group, worker int
}

// placeOf reads it from the pod's name; false if it has none.
func placeOf(p *corev1.Pod) (place, bool) {
	at := place{set: p.Labels[api.NameLabel], leader: p.Annotations[api.LeaderNameAnnotation]}
	if p.Annotations[Ours] != "true" && p.Labels[Ours] != "true" || at.set == "" {
		return at, false
	}
	var ok bool
	if at.leader == "" {
		at.leader = p.Name
	} else if at.worker, ok = ordinal(at.leader, p.Name); !ok {
		return at, false
	}
	at.group, ok = ordinal(at.set, at.leader)
	return at, ok
}

// ordinal is the number after the name of a StatefulSet in that of its pod.
func ordinal(set, name string) (int, bool) {
	rest, found := strings.CutPrefix(name, set+"-")
	n, err := strconv.ParseInt(rest, 10, 32)
	return int(n), found && err == nil && n >= 0
}

// groupKey is the same for all pods of a group, and for no others in the cluster.
func groupKey(namespace, leader string) string {
	const length = 40
	return fingerprint(namespace+"/"+leader, length)
}

// Identify says what a new pod of a set has to have; nil for other pods.
func Identify(p *corev1.Pod, namespace string) *Identity {
	at, ok := placeOf(p)
	if !ok {
		return nil
	}
	size := p.Annotations[api.SizeAnnotation]
	key := groupKey(namespace, at.leader)
	id := &Identity{Labels: map[string]string{
		api.GroupIndexLabel: strconv.Itoa(
			at.group,
		),
		api.WorkerIndexLabel: strconv.Itoa(at.worker),
		api.GroupKeyLabel:    key,
	}}
	queued := p.Annotations[kueue.PodSuspendingParentAnnotation] == Framework
	if queued {
		id.Labels[kueue.PodGroupNameLabel] = GroupName(at.set, int32(at.group)) //nolint:gosec // read as 32 bits
	}
	domain := at.set
	if p.Annotations[api.SubdomainPolicyAnnotation] == string(api.UniqueSubdomainPerReplica) {
		domain, id.Subdomain = at.leader, at.leader
	}
	id.Env = []corev1.EnvVar{
		{Name: api.LeaderAddressVariable, Value: at.leader + "." + domain + "." + namespace},
		{Name: api.GroupSizeVariable, Value: size},
		{Name: api.WorkerIndexVariable, Value: strconv.Itoa(at.worker)},
	}
	id.TPUEnv = forTPUs(p, at, domain)
	affinity := p.Spec.Affinity
	if topology := p.Annotations[api.ExclusiveTopologyAnnotation]; topology != "" {
		affinity = exclusive{topology, api.GroupKeyLabel, key, queued, false}.of(affinity)
	}
	if part, is := subGroup(p, at.worker); is {
		partKey := groupKey(namespace, at.leader+"/"+part)
		id.Labels[api.SubGroupIndexLabel], id.Labels[api.SubGroupKeyLabel] = part, partKey
		if topology := p.Annotations[api.SubGroupExclusiveTopologyAnnotation]; topology != "" {
			affinity = exclusive{topology, api.SubGroupKeyLabel, partKey, queued, queued}.of(affinity)
		}
	}
	if c, is := cutOf(p); is && queued {
		given := p.Annotations[kueue.RoleHashAnnotation]
		role, index := c.role(at.worker, given != roleMain)
		id.Role, id.Labels[PartIndexLabel] = role, strconv.Itoa(index)
	}
	if affinity != p.Spec.Affinity {
		id.Affinity = affinity
	}
	return id
}

// subGroup is the part of its group that a pod is in; false if it is in none.
func subGroup(p *corev1.Pod, worker int) (string, bool) {
	of, err := strconv.Atoi(p.Annotations[api.SubGroupSizeAnnotation])
	size, sizeErr := strconv.Atoi(p.Annotations[api.SizeAnnotation])
	if err != nil || sizeErr != nil || of < 1 {
		return "", false
	}
	excluded := p.Annotations[api.SubGroupPolicyAnnotation] == string(api.LeaderExcluded)
	switch {
	case worker == 0:
		return "0", !excluded
	case excluded || (size-1)%of == 0: // the leader is one more in the first
		return strconv.Itoa((worker - 1) / of), true
	}
	return strconv.Itoa(worker / of), true
}

// exclusive is what pods want that have a domain for themselves: those with the same key are in
// it, and no others that have such a key.
type exclusive struct {
	topology, label, key string
	// shy pods want no others there without insisting, and loose ones to be together: who plans their nodes does not
	// know of it, and a planned node that it refuses would keep them waiting for ever. Pods of a group that insist on
	// being together are planned so.
	shy, loose bool
}

// of adds to an affinity.
func (x exclusive) of(in *corev1.Affinity) *corev1.Affinity {
	out := in.DeepCopy()
	if out == nil {
		out = &corev1.Affinity{}
	}
	if out.PodAffinity == nil {
		out.PodAffinity = &corev1.PodAffinity{}
	}
	if out.PodAntiAffinity == nil {
		out.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	where := func(op metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: x.label, Operator: op, Values: values}
	}
	term := func(rules ...metav1.LabelSelectorRequirement) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{
			TopologyKey:   x.topology,
			LabelSelector: &metav1.LabelSelector{MatchExpressions: rules},
		}
	}
	own := term(where(metav1.LabelSelectorOpIn, x.key))
	others := term(where(metav1.LabelSelectorOpExists), where(metav1.LabelSelectorOpNotIn, x.key))
	const most = 100
	if near := out.PodAffinity; x.loose {
		near.PreferredDuringSchedulingIgnoredDuringExecution = append(
			slices.Clone(near.PreferredDuringSchedulingIgnoredDuringExecution),
			corev1.WeightedPodAffinityTerm{Weight: most, PodAffinityTerm: own},
		)
	} else {
		near.RequiredDuringSchedulingIgnoredDuringExecution = append(
			slices.Clone(near.RequiredDuringSchedulingIgnoredDuringExecution),
			own,
		)
	}
	if away := out.PodAntiAffinity; x.shy {
		away.PreferredDuringSchedulingIgnoredDuringExecution = append(
			slices.Clone(away.PreferredDuringSchedulingIgnoredDuringExecution),
			corev1.WeightedPodAffinityTerm{Weight: most, PodAffinityTerm: others},
		)
	} else {
		away.RequiredDuringSchedulingIgnoredDuringExecution = append(
			slices.Clone(away.RequiredDuringSchedulingIgnoredDuringExecution),
			others,
		)
	}
	return out
}

// EnvOf are the variables of a container, with the variables for TPUs if it asks for some.
func (id *Identity) EnvOf(c *corev1.Container) []corev1.EnvVar {
	return WithEnv(c.Env, slices.Concat(id.Env, id.TPUEnv[c.Name]))
}

// WithEnv puts variables before the ones that a container has, so that these may refer to
// them, instead of any of the same names.
func WithEnv(has, more []corev1.EnvVar) []corev1.EnvVar {
	return append(slices.Clone(more), slices.DeleteFunc(slices.Clone(has), func(v corev1.EnvVar) bool {
		return slices.ContainsFunc(more, func(m corev1.EnvVar) bool { return m.Name == v.Name })
	})...)
}
