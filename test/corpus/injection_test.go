package corpus_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// TestInjection: where another controller runs jobs, whatever the manifest, the admission of
// each pod set is in the object that this controller reads, stays there when the author applies
// the manifest again, and is gone when it is taken out.
func TestInjection(t *testing.T) {
	all, kinds := played()
	bases := runtimesOf(t)
	for _, m := range all {
		t.Run(m.Kind+"/"+m.Name, func(t *testing.T) {
			w := newLife(t, kinds, m, bases)
			in := w.kind.Running.Injection
			if in == nil {
				t.Fatal("there is no way to leave it to another controller")
			}
			author, facts := w.job, w.facts()
			var infos []jobs.PodSetInfo
			for _, set := range facts.PodSets {
				info := w.admitted()[string(set.Name)]
				info.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
				infos = append(infos, info)
			}
			added, err := in.Add(author, infos)
			if err != nil {
				t.Fatal(err)
			}
			w.store(added)
			added = w.job
			carried(t, w.facts().PodSets, facts.PodSets)

			again, _ := author.DeepCopyObject().(jobs.Object)
			if kept := in.Keep(added, again, facts.PodSets); !equality.Semantic.DeepEqual(kept, added) {
				t.Errorf("applied again (-is +was):\n%s", cmp.Diff(kept, added, cmpopts.EquateEmpty()))
			}
			if twice := in.Keep(added, added, facts.PodSets); !equality.Semantic.DeepEqual(twice, added) {
				t.Errorf("written as it is (-is +was):\n%s", cmp.Diff(twice, added, cmpopts.EquateEmpty()))
			}
			if kept := in.Keep(author, again, facts.PodSets); !equality.Semantic.DeepEqual(kept, author) {
				t.Errorf(
					"a job that has nothing was given something (-is +was):\n%s",
					cmp.Diff(kept, author, cmpopts.EquateEmpty()),
				)
			}
			if out := in.Remove(added, facts.PodSets); !equality.Semantic.DeepEqual(out, author) {
				t.Errorf("taken out (-is +was):\n%s", cmp.Diff(out, author, cmpopts.EquateEmpty()))
			}
			if out := in.Remove(author, facts.PodSets); !equality.Semantic.DeepEqual(out, author) {
				t.Error("taken out of a job that has nothing")
			}
		})
	}
}

// carried checks that pods have what their admission gives them, and are otherwise as they were.
func carried(t *testing.T, is, was []kueue.PodSet) {
	t.Helper()
	if len(is) != len(was) {
		t.Fatalf("%d pod sets became %d", len(was), len(is))
	}
	for i := range is {
		name, pods := is[i].Name, &is[i].Template
		switch {
		case name != was[i].Name || is[i].Count != was[i].Count:
			t.Errorf("%s, %d pods, became %s, %d", was[i].Name, was[i].Count, name, is[i].Count)
		case pods.Labels[kueue.PodSetLabel] != string(name) || pods.Annotations[kueue.WorkloadAnnotation] != "w" || pods.Spec.NodeSelector["pool"] != "a":
			t.Errorf("pods %s have %v, %v, %v", name, pods.Labels, pods.Annotations, pods.Spec.NodeSelector)
		case !slices.ContainsFunc(pods.Spec.Tolerations, func(x corev1.Toleration) bool { return x.Key == "spot" }):
			t.Errorf("pods %s tolerate %v", name, pods.Spec.Tolerations)
		}
		for _, x := range was[i].Template.Spec.Tolerations {
			if !slices.Contains(pods.Spec.Tolerations, x) {
				t.Errorf("pods %s do not tolerate %v any more", name, x)
			}
		}
	}
}
