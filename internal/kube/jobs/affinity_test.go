package jobs

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A pod may keep away from others, and keep others of its namespace away; not those of other teams, which it
// would keep off for as long as it runs.
func TestValidateAffinity(t *testing.T) {
	required := func(terms ...corev1.PodAffinityTerm) *corev1.Affinity {
		return &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms},
		}
	}
	everywhere := corev1.PodAffinityTerm{TopologyKey: "zone", NamespaceSelector: &metav1.LabelSelector{}}
	in := func(namespaces ...string) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{TopologyKey: "zone", Namespaces: namespaces}
	}
	const at = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"
	for name, tc := range map[string]struct {
		affinity  *corev1.Affinity
		namespace string
		want      []string
	}{
		"nothing":                 {nil, "blue", nil},
		"pods of its own job":     {required(corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname"}), "blue", nil},
		"its own namespace":       {required(in("blue")), "blue", nil},
		"another namespace":       {required(in("blue"), in("blue", "red")), "blue", []string{at + "[1].namespaces"}},
		"a namespace, seen later": {required(in("blue")), "", nil},
		"all namespaces":          {required(everywhere), "blue", []string{at + "[0].namespaceSelector"}},
		"all, in a template":      {required(everywhere), "", []string{at + "[0].namespaceSelector"}},
		"rather not beside others": {&corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: everywhere}},
		}}, "blue", nil},
		"beside others": {&corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{everywhere},
		}}, "blue", nil},
	} {
		var got []string
		for _, e := range ValidateAffinity(tc.affinity, field.NewPath("spec", "affinity"), tc.namespace) {
			got = append(got, e.Field)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s (-want +got):\n%s", name, cmp.Diff(tc.want, got))
		}
	}
}
