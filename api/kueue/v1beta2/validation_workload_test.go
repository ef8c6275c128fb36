package v1beta2_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

func TestValidateWorkloadUpdate(t *testing.T) {
	const (
		assignment = "status.admission.podSetAssignments[0]."
		update     = "status.admissionChecks[0].podSetUpdates"
	)
	workload := func(change ...func(*v1beta2.Workload)) *v1beta2.Workload {
		w := &v1beta2.Workload{Spec: v1beta2.WorkloadSpec{PodSets: []v1beta2.PodSet{{Name: "main", Count: 4}}}}
		for _, c := range change {
			c(w)
		}
		return w
	}
	assigned := func(name string, count int32, cpu, memory string) func(*v1beta2.Workload) {
		return func(w *v1beta2.Workload) {
			w.Status.Admission = &v1beta2.Admission{ClusterQueue: "q", PodSetAssignments: []v1beta2.PodSetAssignment{{
				Name: v1beta2.PodSetReference(name), Count: &count,
				ResourceUsage: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)},
			}}}
		}
	}
	answered := func(updates ...v1beta2.PodSetUpdate) func(*v1beta2.Workload) {
		return func(w *v1beta2.Workload) {
			w.Status.AdmissionChecks = []v1beta2.AdmissionCheckState{
				{Name: "c", State: v1beta2.CheckStateReady, PodSetUpdates: updates},
			}
		}
	}
	negative := func(w *v1beta2.Workload) {
		w.Spec.PodSets[0].Template.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("-1")},
		}}}
	}
	cases := map[string]struct {
		why     string
		was, is *v1beta2.Workload
		want    []finding
	}{
		"Admitted": {
			why: "half a core for each pod",
			was: workload(),
			is:  workload(assigned("main", 4, "2", "4Gi")),
		},
		"Millicores": {
			why: "cores are counted in thousandths",
			was: workload(),
			is:  workload(assigned("main", 3, "1500m", "3")),
		},
		"Uneven": {
			why: "no pod could have its share",
			was: workload(),
			is:  workload(assigned("main", 4, "2001m", "4097")),
			want: []finding{
				{assignment + "resourceUsage[cpu]", field.ErrorTypeInvalid},
				{assignment + "resourceUsage[memory]", field.ErrorTypeInvalid},
			},
		},
		"NoPods": {why: "nothing to divide", was: workload(), is: workload(assigned("main", 0, "1", "1"))},
		"OtherPodSet": {
			why:  "there is no such pod set",
			was:  workload(),
			is:   workload(assigned("other", 4, "4", "4")),
			want: []finding{{assignment + "name", field.ErrorTypeNotSupported}},
		},
		"Updates": {
			why: "what a check adds must be something that pods can have", was: workload(),
			is: workload(answered(v1beta2.PodSetUpdate{
				Name: "main", Labels: map[string]string{"a": "b c"}, Annotations: map[string]string{"a b": "c"},
				NodeSelector: map[string]string{"a b": "c"}, Tolerations: []corev1.Toleration{{Key: "a b"}},
			}, v1beta2.PodSetUpdate{Name: "main"}, v1beta2.PodSetUpdate{Name: "other"})),
			want: []finding{
				{update + "[0].labels", field.ErrorTypeInvalid},
				{update + "[0].annotations", field.ErrorTypeInvalid},
				{update + "[0].nodeSelector", field.ErrorTypeInvalid},
				{update + "[0].tolerations[0].key", field.ErrorTypeInvalid},
				{update + "[1].name", field.ErrorTypeDuplicate},
				{update + "[2].name", field.ErrorTypeNotSupported},
			},
		},
		"SpecChanged": {
			why: "requests are checked again",
			was: workload(),
			is:  workload(negative),
			want: []finding{
				{"spec.podSets[0].template.spec.containers[0].resources.requests[cpu]", field.ErrorTypeInvalid},
			},
		},
		"SpecKept": {
			why: "an old fault may not keep a status from being written",
			was: workload(negative),
			is:  workload(negative, assigned("main", 4, "4", "4")),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			errs := v1beta2.ValidateWorkloadUpdate(tc.was, tc.is)
			if diff := cmp.Diff(tc.want, findings(errs)); diff != "" {
				t.Errorf("%s (-want +got):\n%s\n%v", tc.why, diff, errs)
			}
		})
	}
}

func TestElasticWorkload(t *testing.T) {
	w := &v1beta2.Workload{
		Spec: v1beta2.WorkloadSpec{PodSets: []v1beta2.PodSet{{Name: "main", Count: 4, MinCount: new(int32(2))}}},
	}
	if errs := v1beta2.ValidateWorkload(w); len(errs) > 0 {
		t.Errorf("it may start with fewer pods: %v", errs)
	}
	w.Annotations = map[string]string{v1beta2.ElasticJobAnnotation: "true"}
	if diff := cmp.Diff(
		[]finding{{"spec.podSets", field.ErrorTypeForbidden}},
		findings(v1beta2.ValidateWorkload(w)),
	); diff != "" {
		t.Errorf("two ways of having fewer pods contradict each other (-want +got):\n%s", diff)
	}
}
