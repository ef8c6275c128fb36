package admission_test

import (
	"testing"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// Pods name the PodGroup of their Workload once it is there, and no other.
func TestPodGroupOf(t *testing.T) {
	controlledBy := func(version, kind, name, uid string) []metav1.OwnerReference {
		return []metav1.OwnerReference{
			{APIVersion: version, Kind: kind, Name: name, UID: types.UID(uid), Controller: new(true)},
		}
	}
	w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{
		Namespace: "blue", Name: "w", UID: "uid-w", OwnerReferences: controlledBy("batch/v1", "Job", "j", "uid-j"),
	}}
	w.Spec.PodSets = []kueue.PodSet{{Name: "main", Count: 2}}
	group := func(name string, owner []metav1.OwnerReference, change ...func(*schedulingv1beta1.PodGroup)) client.Object {
		g := &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name, OwnerReferences: owner},
		}
		for _, c := range change {
			c(g)
		}
		return g
	}
	ours := controlledBy(kueue.GroupVersion.String(), "Workload", "w", "uid-w")
	for name, tc := range map[string]struct {
		why  string
		is   []client.Object
		want admission.PodGroup
	}{
		"none yet":   {"it is written soon", nil, admission.Awaited},
		"there":      {"pods may name it", []client.Object{group("w", ours)}, admission.Written},
		"a user's":   {"pods would be in a group of others", []client.Object{group("w", nil)}, admission.Taken},
		"a Job's":    {"it is another job's", []client.Object{group("w", controlledBy("batch/v1", "Job", "k", "uid-k"))}, admission.Taken},
		"an earlier": {"it goes with that Workload", []client.Object{group("w", controlledBy(kueue.GroupVersion.String(), "Workload", "w", "earlier"))}, admission.Awaited},
		"leaving": {
			"it is made anew",
			[]client.Object{group("w", ours, func(g *schedulingv1beta1.PodGroup) {
				g.DeletionTimestamp, g.Finalizers = new(metav1.NewTime(time.Unix(1, 0))), []string{"example.com/x"}
			})},
			admission.Awaited,
		},
		"the Job has its own": {"Kubernetes' controller names that in the pods", []client.Object{group("x", controlledBy("batch/v1", "Job", "j", "uid-j"))}, admission.NoPodGroup},
	} {
		c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(tc.is...).
			WithIndex(&schedulingv1beta1.PodGroup{}, admission.JobIndex, admission.IndexWorkload).Build()
		got, err := admission.PodGroupOf(t.Context(), c, w, admission.Labels{PodGroups: true})
		if err != nil || got != tc.want {
			t.Errorf("%s (%s): %v, %v, want %v", name, tc.why, got, err, tc.want)
		}
		if got, err := admission.PodGroupOf(
			t.Context(),
			nil,
			w,
			admission.Labels{},
		); err != nil ||
			got != admission.NoPodGroup {
			t.Errorf("%s: where none are written it is %v, %v", name, got, err)
		}
		w := w.DeepCopy()
		w.Status.Admission = &kueue.Admission{PodSetAssignments: []kueue.PodSetAssignment{{Name: "main"}}}
		infos, err := admission.Infos(t.Context(), c, w, admission.Labels{PodGroups: true})
		if err != nil ||
			(infos[0].Annotations[kueue.NativePodGroupAnnotation] == "w") != (tc.want == admission.Written) {
			t.Errorf("%s: its pods get %v, %v", name, infos, err)
		}
	}
}
