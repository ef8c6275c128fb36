package convert

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/internal/core"
)

// nodeNameKey stands for the node's name where affinity matches on fields;
// core.Node carries it as a label through Node.
const nodeNameKey = "metadata.name"

// Filter says which nodes a pod with this spec may use.
func Filter(spec *corev1.PodSpec) core.Filter {
	f := core.Filter{Must: equals(spec.NodeSelector), Tolerations: Tolerations(spec.Tolerations)}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return f
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return f
	}
	f.Terms = alternatives(required)
	return f
}

// alternatives translates required node affinity: one alternative at least.
func alternatives(required *corev1.NodeSelector) []core.Selector {
	var out []core.Selector
	for _, t := range required.NodeSelectorTerms {
		var s core.Selector
		for _, e := range t.MatchExpressions {
			s = append(s, requirement(e.Key, string(e.Operator), e.Values))
		}
		for _, e := range t.MatchFields {
			s = append(s, requirement(nodeNameKey, string(e.Operator), e.Values))
		}
		if len(s) > 0 { // an empty term matches nothing, as in Kubernetes
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return []core.Selector{{{Key: nodeNameKey, Operator: core.DoesNotExist}}}
	}
	return out
}

// Tolerations translates tolerations.
func Tolerations(in []corev1.Toleration) []core.Toleration {
	out := make([]core.Toleration, 0, len(in))
	for _, t := range in {
		out = append(out, core.Toleration{
			Key:    t.Key,
			Exists: t.Operator == corev1.TolerationOpExists,
			Value:  t.Value,
			Effect: core.TaintEffect(t.Effect),
		})
	}
	return out
}

// Taints translates taints.
func Taints(in []corev1.Taint) []core.Taint {
	out := make([]core.Taint, 0, len(in))
	for _, t := range in {
		out = append(out, core.Taint{Key: t.Key, Value: t.Value, Effect: core.TaintEffect(t.Effect)})
	}
	return out
}

// selector translates a label selector; nil stays nil.
func selector(in *metav1.LabelSelector) *core.Selector {
	if in == nil {
		return nil
	}
	s := equals(in.MatchLabels)
	for _, e := range in.MatchExpressions {
		s = append(s, requirement(e.Key, string(e.Operator), e.Values))
	}
	return &s
}

func equals(labels map[string]string) core.Selector {
	s := make(core.Selector, 0, len(labels))
	for k, v := range labels {
		s = append(s, core.Requirement{Key: k, Operator: core.In, Values: []string{v}})
	}
	slices.SortFunc(s, func(a, b core.Requirement) int { return cmp.Compare(a.Key, b.Key) })
	return s
}

func requirement(key, op string, values []string) core.Requirement {
	return core.Requirement{Key: key, Operator: core.Operator(op), Values: slices.Sorted(slices.Values(values))}
}
