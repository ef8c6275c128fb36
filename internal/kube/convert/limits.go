package convert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
)

// whole is how much a node has of a limit of pods that keep others away: one of them takes all,
// and of the pods that they keep away a node has as many as it likes.
const whole = 1 << 16

// itsOwn stands for the name of a pod's job where a rule names it.
const itsOwn = "(its own)"

// role is as much of the pods of a pod set as decides which of them may share a node.
type role struct {
	namespace   string
	labels      labels.Set
	annotations map[string]string
	spec        *corev1.PodSpec
	count       int32
	// domain: each pod is in a ComputeDomain.
	domain bool
}

// jobLabels are those by which the controllers of job kinds tell whose a pod is; its template
// does not have them yet.
func jobLabels() []string {
	return []string{
		"job-name",
		"batch.kubernetes.io/job-name",
		"jobset.sigs.k8s.io/jobset-name",
		"training.kubeflow.org/job-name",
		"leaderworkerset.sigs.k8s.io/name",
		"ray.io/cluster",
		"mpi-job-name",
	}
}

// uidLabels are those by which it is told by its UID.
func uidLabels() []string { return []string{"controller-uid", "batch.kubernetes.io/controller-uid"} }

// roleLabels are the labels that say of which role of its job a pod is.
func roleLabels() []string {
	return []string{
		"jobset.sigs.k8s.io/replicatedjob-name",
		"training.kubeflow.org/replica-type",
		"training.kubeflow.org/job-role",
		"ray.io/group",
	}
}

// revisionLabels are those by which the pods of one revision of a Deployment or StatefulSet are told, which templates of
// their Workloads do not have. Pods that spread are counted with those of other revisions: these go.
func revisionLabels() []string { return []string{"pod-template-hash", "controller-revision-hash"} }

// rolesOf are the roles of a Workload's pods.
func rolesOf(w *kueue.Workload) []role {
	out, domains := make([]role, len(w.Spec.PodSets)), kueue.ComputeDomainClaims(w)
	for i := range w.Spec.PodSets {
		ps := &w.Spec.PodSets[i]
		out[i] = role{
			namespace: w.Namespace, spec: &ps.Template.Spec, count: ps.Count,
			labels: ps.Template.Labels, annotations: ps.Template.Annotations,
		}
		_, out[i].domain = domains[ps.Name]
	}
	if !slices.ContainsFunc(out, func(r role) bool { return bounded(r.spec) }) {
		return out
	}
	for i := range w.Spec.PodSets {
		out[i].labels = labelled(w, &w.Spec.PodSets[i])
	}
	return out
}

// labelled are the labels that pods of a pod set will have, as far as they decide anything here.
func labelled(w *kueue.Workload, ps *kueue.PodSet) labels.Set {
	out := labels.Set{}
	if owner := metav1.GetControllerOf(w); owner != nil {
		for _, key := range jobLabels() {
			out[key] = owner.Name
		}
		for _, key := range uidLabels() {
			out[key] = string(owner.UID)
		}
	}
	for _, key := range roleLabels() {
		out[key] = string(ps.Name)
	}
	maps.Copy(out, ps.Template.Labels)
	return out
}

// bounded reports whether pods may have rules about which of them share a node.
func bounded(spec *corev1.PodSpec) bool {
	return len(spec.TopologySpreadConstraints) > 0 ||
		spec.Affinity != nil && (spec.Affinity.PodAntiAffinity != nil || spec.Affinity.PodAffinity != nil)
}

// limitsOf are the limits of a role's pods among all roles of their job.
func limitsOf(roles []role, i int) []core.Limit {
	out := append(portsOf(roles[i].spec), asked(roles[i])...)
	if roles[i].domain {
		out = append(out, channel())
	}
	for _, carrier := range roles {
		if !bounded(carrier.spec) {
			continue
		}
		out = append(out, apart(roles, i, carrier)...)
	}
	if bounded(roles[i].spec) {
		out = append(out, spread(roles, i)...)
	}
	out = firstDomains(out)
	slices.SortFunc(out, func(a, b core.Limit) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(b.Count, a.Count))
	})
	return slices.CompactFunc(out, func(a, b core.Limit) bool { return a.Name == b.Name })
}

// mostDomainLevels is how many labels of nodes the limits of a pod set may be about, beside the hostname: each is a level
// of a tree of all nodes.
const mostDomainLevels = 3

// firstDomains leaves out limits of domains of more labels than are counted; the scheduler observes all.
func firstDomains(limits []core.Limit) []core.Limit {
	var levels []string
	return slices.DeleteFunc(limits, func(l core.Limit) bool {
		switch {
		case l.PerNode() || slices.Contains(levels, l.Level):
			return false
		case len(levels) == mostDomainLevels:
			return true
		}
		levels = append(levels, l.Level)
		return false
	})
}

// PodLimits is what one pod, of whatever job, takes of limits that it shares with others.
func PodLimits(p *corev1.Pod) []core.Limit {
	r := role{
		namespace: p.Namespace, spec: &p.Spec, count: 1, labels: p.Labels,
		domain: inDomain(p),
	}
	return slices.DeleteFunc(limitsOf([]role{r}, 0), func(l core.Limit) bool { return l.Own })
}

// inDomain reports whether a pod has the claim that its annotation names: anybody may write an annotation.
func inDomain(p *corev1.Pod) bool {
	template := p.Annotations[kueue.ComputeDomainClaimAnnotation]
	return template != "" && slices.ContainsFunc(p.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool {
		return ptr.Deref(c.ResourceClaimTemplateName, "") == template
	})
}

// channel is what the pods of a ComputeDomain have one of per node, whichever domain it is: NVIDIA's DRA
// driver gives out channel 0 of a node only, to one pod at a time.
func channel() core.Limit {
	return core.Limit{Name: "ComputeDomain channel", Count: 1, Most: 1}
}

// portsOf are the ports that pods have on their node. Those of one number are told apart by
// protocol, and not by address: most pods name none.
func portsOf(spec *corev1.PodSpec) []core.Limit {
	var out []core.Limit
	take := func(c *corev1.Container) {
		for _, p := range c.Ports {
			number := p.HostPort
			if number == 0 && spec.HostNetwork {
				number = p.ContainerPort
			}
			if number > 0 {
				out = append(
					out,
					core.Limit{
						Name:  fmt.Sprintf("host port %d/%s", number, cmp.Or(p.Protocol, corev1.ProtocolTCP)),
						Count: 1,
						Most:  1,
					},
				)
			}
		}
	}
	for i := range spec.Containers {
		take(&spec.Containers[i])
	}
	for i := range spec.InitContainers { // others have ended when its pod runs
		if c := &spec.InitContainers[i]; c.RestartPolicy != nil &&
			*c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			take(c)
		}
	}
	return out
}

// asked are the limits of domains that a role's pods ask for themselves. The scheduler does not know them, so that they
// have to be among those that are counted.
func asked(r role) []core.Limit {
	var out []core.Limit
	for _, m := range kueue.MaxPerDomainOf(r.annotations) {
		l := core.Limit{Name: fmt.Sprintf("at most %d of its pods", m.Most), Own: true, Count: 1, Most: m.Most}
		if m.Level == core.HostnameLabel {
			l.Name += " per node"
		} else {
			l = perDomain(l, m.Level)
		}
		out = append(out, l)
	}
	return out
}

// apart are the limits of a role's pods by the anti-affinity of a role that keeps away pods like
// its own.
func apart(roles []role, i int, carrier role) []core.Limit {
	r, affinity := roles[i], carrier.spec.Affinity
	if affinity == nil || affinity.PodAntiAffinity == nil {
		return nil
	}
	var out []core.Limit
	for _, t := range affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if !inOwnNamespace(&t, carrier.namespace) {
			continue
		}
		s, ok := selects(t.LabelSelector, carrier, t.MatchLabelKeys, t.MismatchLabelKeys)
		if !ok || !s.Matches(carrier.labels) || !s.Matches(r.labels) {
			continue
		}
		count := int32(1)
		if carries(r, &t) {
			count = whole
		}
		text, own := worded(s, carrier)
		name := "the required podAntiAffinity over " + text
		if !own {
			name += " in namespace " + carrier.namespace
		}
		l := core.Limit{Name: name, Own: own, Count: count, Most: whole}
		if t.TopologyKey != core.HostnameLabel {
			if own && selected(roles, s) < 2 {
				continue // one pod is apart from itself
			}
			l = perDomain(l, t.TopologyKey)
		}
		out = append(out, l)
	}
	return out
}

// perDomain is a limit as one of the domains of a label in place of nodes.
func perDomain(l core.Limit, label string) core.Limit {
	l.Level = label
	l.Name += " per " + label
	return l
}

// carries reports whether a role's pods have a term of anti-affinity themselves.
func carries(r role, t *corev1.PodAffinityTerm) bool {
	if r.spec.Affinity == nil || r.spec.Affinity.PodAntiAffinity == nil {
		return false
	}
	return slices.ContainsFunc(
		r.spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		func(o corev1.PodAffinityTerm) bool { return sameTerm(&o, t) },
	)
}

// sameTerm reports whether two terms are about the same pods and domains.
func sameTerm(a, b *corev1.PodAffinityTerm) bool {
	return a.TopologyKey == b.TopologyKey &&
		metav1.FormatLabelSelector(a.LabelSelector) == metav1.FormatLabelSelector(b.LabelSelector) &&
		slices.Equal(a.MatchLabelKeys, b.MatchLabelKeys) && slices.Equal(a.MismatchLabelKeys, b.MismatchLabelKeys)
}

// inOwnNamespace reports whether a term is about pods of the namespace of the pod that has it.
func inOwnNamespace(t *corev1.PodAffinityTerm, namespace string) bool {
	switch {
	case len(t.Namespaces) == 0 && t.NamespaceSelector == nil, slices.Contains(t.Namespaces, namespace):
		return true
	}
	return t.NamespaceSelector != nil &&
		len(t.NamespaceSelector.MatchLabels)+len(t.NamespaceSelector.MatchExpressions) == 0
}

// spread are the limits of a role's pods by the constraints on how they spread over nodes or domains. A node
// with none of them may always be there, so that no other may have more than maxSkew. Of several constraints over
// domains the first counts; the scheduler observes all. Where pods of other workloads are selected, too, as those of a
// Deployment of which each is a workload, these count.
func spread(roles []role, i int) []core.Limit {
	var out []core.Limit
	for _, c := range roles[i].spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != corev1.DoNotSchedule || c.MaxSkew < 1 {
			continue
		}
		same := slices.DeleteFunc(slices.Clone(c.MatchLabelKeys), func(key string) bool {
			return slices.Contains(revisionLabels(), key) && roles[i].labels[key] == ""
		})
		s, ok := selects(c.LabelSelector, roles[i], same, nil)
		if !ok || !s.Matches(roles[i].labels) {
			continue
		}
		text, own := worded(s, roles[i])
		alone := selected(roles, s) <= c.MaxSkew
		if own && alone { // wherever they are
			continue
		}
		l := core.Limit{Name: "the topologySpreadConstraint over " + text, Own: own, Count: 1}
		if c.TopologyKey == core.HostnameLabel && !alone {
			l.Name += fmt.Sprintf(" (maxSkew %d)", c.MaxSkew)
			l.Own, l.Most = true, min(c.MaxSkew, whole)
			out = append(out, l)
			continue
		}
		if !own {
			l.Name += " in namespace " + roles[i].namespace
		}
		rule := fmt.Sprintf("maxSkew %d", c.MaxSkew)
		if l.Skew = c.MaxSkew; ptr.Deref(c.MinDomains, 1) > 1 {
			l.MinDomains = *c.MinDomains
			rule += fmt.Sprintf(", minDomains %d", l.MinDomains)
		}
		l.Name += " (" + rule + ")"
		l.Unselected = ptr.Deref(
			c.NodeAffinityPolicy,
			corev1.NodeInclusionPolicyHonor,
		) == corev1.NodeInclusionPolicyIgnore
		l.Tolerated = ptr.Deref(
			c.NodeTaintsPolicy,
			corev1.NodeInclusionPolicyIgnore,
		) == corev1.NodeInclusionPolicyHonor
		out = append(out, perDomain(l, c.TopologyKey))
	}
	return out
}

// selected is how many pods of all roles a selector selects.
func selected(roles []role, s labels.Selector) (pods int32) {
	for _, r := range roles {
		if s.Matches(r.labels) {
			pods += r.count
		}
	}
	return pods
}

// selects is a label selector with what it takes from the pods themselves; false for one that
// selects nothing, is no selector or depends on a label of which it is not known whether pods have it.
func selects(in *metav1.LabelSelector, of role, same, other []string) (labels.Selector, bool) {
	if in == nil {
		return nil, false
	}
	full := in.DeepCopy()
	take := func(keys []string, operator metav1.LabelSelectorOperator) bool {
		for _, key := range keys {
			value, has := of.labels[key]
			if !has {
				return false
			}
			full.MatchExpressions = append(
				full.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}},
			)
		}
		return true
	}
	if !take(same, metav1.LabelSelectorOpIn) || !take(other, metav1.LabelSelectorOpNotIn) {
		return nil, false
	}
	s, err := metav1.LabelSelectorAsSelector(full)
	return s, err == nil
}

// worded is a selector in words, and whether it selects pods of one job alone: then the words are
// the same for every job.
func worded(s labels.Selector, of role) (text string, own bool) {
	requirements, _ := s.Requirements()
	parts := make([]string, 0, len(requirements))
	for _, r := range requirements {
		values := r.Values()
		if (slices.Contains(jobLabels(), r.Key()) || slices.Contains(uidLabels(), r.Key())) && values.Len() == 1 &&
			values.Has(of.labels[r.Key()]) {
			parts, own = append(parts, r.Key()+"="+itsOwn), true
			continue
		}
		parts = append(parts, r.String())
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		return "all pods", false
	}
	return strings.Join(parts, ","), own
}
