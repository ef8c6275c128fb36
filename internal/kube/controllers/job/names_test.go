package job

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// TestNamesOfOthersAreTold: whatever object that a job of any kind needs is there already and another's,
// the job is held with its kind, its name and what helps; its own objects keep nothing from running.
func TestNamesOfOthersAreTold(t *testing.T) {
	// What is made for jobs of each kind, whose names are those of the job or follow from it. That of
	// a RayService's and a RayJob's cluster is drawn.
	needs := map[string][]string{
		"JobSet":     {"Job x-a-0"},
		"PyTorchJob": {"Pod x-worker-0"},
		"TFJob":      {"Pod x-worker-0"},
		"XGBoostJob": {
			"Pod x-master-0",
			"Pod x-worker-0",
		},
		"PaddleJob":  {"Pod x-worker-0"},
		"JAXJob":     {"Pod x-worker-0"},
		"MPIJob":     {"Job x-launcher", "Pod x-worker-0", "Service x", "ConfigMap x-config", "Secret x-ssh"},
		"RayCluster": {"Pod x-head", "Service x-head-svc"},
		"RayJob":     {"RayCluster", "Job x"},
		"RayService": {"RayCluster"},
		"TrainJob":   {"JobSet x"},
	}
	for _, k := range kinds.All() {
		if k.Running.Operator == nil {
			continue
		}
		kind := k.GVK().Kind
		o := sample(t, &k, 2, "i", false)
		all := (&reconciler{kind: &k, opts: Options{Client: kindWorld(t, k).c}}).needed(&facts{job: o, now: now})
		var got []string
		for _, x := range all {
			name := x.gvk.Kind + " " + x.name
			if x.gvk.Kind == "RayCluster" {
				name = x.gvk.Kind
			}
			got = append(got, name)
		}
		want := slices.Clone(needs[kind])
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("a %s needs %v, want %v", kind, got, want)
		}
		for _, x := range all {
			for _, own := range []bool{false, true} {
				there := objectOf(t, x.gvk)
				there.SetNamespace("blue")
				there.SetName(x.name)
				owner := metav1.NewControllerRef(o, k.GVK())
				if !own {
					owner.UID = types.UID("another")
				}
				there.SetOwnerReferences([]metav1.OwnerReference{*owner})
				said, err := kindWorld(t, k, there).r.nameTaken(t.Context(), &facts{job: o, now: now})
				switch {
				case err != nil:
					t.Errorf("%s, %s %s: %v", kind, x.gvk.Kind, x.name, err)
				case own && said != "":
					t.Errorf("%s: its own %s %s is in its way: %s", kind, x.gvk.Kind, x.name, said)
				case !own && (!strings.Contains(said, x.gvk.Kind+" "+x.name) || !strings.Contains(said, "delete it, or give the job another name")):
					t.Errorf("%s, another's %s %s: %q", kind, x.gvk.Kind, x.name, said)
				}
			}
		}
	}
}

// objectOf is an empty object of a kind.
func objectOf(t *testing.T, gvk schema.GroupVersionKind) client.Object {
	t.Helper()
	made, err := scheme.For(kinds.All()).New(gvk)
	o, is := made.(client.Object)
	if err != nil || !is {
		t.Fatalf("make a %s: %v", gvk.Kind, err)
	}
	return o
}
