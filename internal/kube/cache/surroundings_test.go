package cache_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/cache"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

func cpu(n string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
}

func limits(namespace, cpus string) cache.ObjectUpdate {
	o := &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "l"},
		Spec: corev1.LimitRangeSpec{
			Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, DefaultRequest: cpu(cpus)}},
		},
	}
	return cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.LimitRange, Namespace: namespace, Name: "l"}, Object: o}
}

func class(cpus string) cache.ObjectUpdate {
	o := &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "kata"},
		Overhead:   &nodev1.Overhead{PodFixed: cpu(cpus)},
	}
	return cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.RuntimeClass, Name: "kata"}, Object: o}
}

func TestRuntimeClassChooses(t *testing.T) {
	on := class("1")
	on.Object.(*nodev1.RuntimeClass).Scheduling = &nodev1.Scheduling{
		NodeSelector: map[string]string{"kata": "yes"},
	}
	w := cache.NewWorld(convert.Rules{})
	w.Translate([]cache.ObjectUpdate{class("1")})
	w.Translate([]cache.ObjectUpdate{workload(oneContainer, inKata)})
	events := w.Translate([]cache.ObjectUpdate{on})
	if len(events) != 1 {
		t.Fatalf("the waiting workload follows its class, told are %d", len(events))
	}
	filter := events[0].(core.WorkloadSet).Workload.PodSets[0].Filter
	if filter.Admits(&core.Node{}) || !filter.Admits(&core.Node{Labels: map[string]string{"kata": "yes"}}) {
		t.Errorf("its pods run where the class has its runtime, not by %+v", filter)
	}
}

// volume is a PersistentVolume of the claim "data" of a namespace that only nodes with one of two
// labels reach.
func volume(name, namespace, label, or string, phase corev1.PersistentVolumePhase) cache.ObjectUpdate {
	has := func(key string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpExists}},
		}
	}
	o := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.PersistentVolumeStatus{Phase: phase},
	}
	o.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: "data"}
	if label != "" {
		o.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{
			Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{has(label), has(or)}},
		}
	}
	return cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Volume, Name: name}, Object: o}
}

func withData(w *kueue.Workload) {
	w.Spec.PodSets[0].Template.Spec.Volumes = []corev1.Volume{
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{
			Name: "data",
			VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			},
		},
	}
}

// TestPodsRunWhereTheirVolumesAreReached: of a claim that is bound, those nodes that its volume says.
func TestPodsRunWhereTheirVolumesAreReached(t *testing.T) {
	const bound, released = corev1.VolumeBound, corev1.VolumeReleased
	old, anew := volume("pv-b", "blue", "a", "b", bound), volume("pv-a", "blue", "c", "d", bound)
	for name, tc := range map[string]struct {
		why    string
		before []cache.ObjectUpdate
		then   []cache.ObjectUpdate
		told   bool
		nodes  string
	}{
		"before the workload":   {"what is bound counts", []cache.ObjectUpdate{old}, []cache.ObjectUpdate{workload(oneContainer, withData)}, true, "ab"},
		"bound while it waits":  {"it is told of anew", []cache.ObjectUpdate{workload(oneContainer, withData)}, []cache.ObjectUpdate{old}, true, "ab"},
		"reached from anywhere": {"nothing changes", []cache.ObjectUpdate{workload(oneContainer, withData)}, []cache.ObjectUpdate{volume("pv", "blue", "", "", bound)}, false, ""},
		"another namespace":     {"its claims are others", []cache.ObjectUpdate{workload(oneContainer, withData)}, []cache.ObjectUpdate{volume("pv", "red", "a", "b", bound)}, false, ""},
		"another workload":      {"it has no claim", []cache.ObjectUpdate{workload(oneContainer)}, []cache.ObjectUpdate{old}, false, ""},
		"released":              {"the claim is gone", []cache.ObjectUpdate{old, workload(oneContainer, withData)}, []cache.ObjectUpdate{volume("pv-b", "blue", "a", "b", released)}, true, "abcd"},
		"deleted":               {"it is gone", []cache.ObjectUpdate{old, workload(oneContainer, withData)}, []cache.ObjectUpdate{gone(old)}, true, "abcd"},
		"replaced":              {"the newer one counts, whichever is told of first", []cache.ObjectUpdate{old, workload(oneContainer, withData)}, []cache.ObjectUpdate{anew, volume("pv-b", "blue", "a", "b", released)}, true, "cd"},
	} {
		t.Run(name, func(t *testing.T) {
			w := cache.NewWorld(convert.Rules{})
			for _, c := range tc.before {
				w.Translate([]cache.ObjectUpdate{c})
			}
			events := w.Translate(tc.then)
			if (len(events) > 0) != tc.told {
				t.Fatalf("%s: told are %d events", tc.why, len(events))
			}
			nodes := ""
			for _, e := range events {
				for _, label := range []string{"a", "b", "c", "d"} {
					if e.(core.WorkloadSet).Workload.PodSets[0].Filter.Admits(
						&core.Node{Labels: map[string]string{label: ""}},
					) {
						nodes += label
					}
				}
			}
			if nodes != tc.nodes {
				t.Errorf("%s: its pods may run on nodes with %q, want %q", tc.why, nodes, tc.nodes)
			}
		})
	}
}

func gone(c cache.ObjectUpdate) cache.ObjectUpdate { return cache.ObjectUpdate{Ref: c.Ref} }

func inKata(w *kueue.Workload) { w.Spec.PodSets[0].Template.Spec.RuntimeClassName = new("kata") }

func oneContainer(w *kueue.Workload) {
	w.Spec.PodSets[0].Template.Spec.Containers = []corev1.Container{{Name: "c"}}
}

// asked is what the engine was told last that the workload asks for.
type asked struct {
	Told    bool
	CPU     core.Amount
	Invalid bool
}

func TestSurroundings(t *testing.T) {
	cases := map[string]struct {
		why    string
		before []cache.ObjectUpdate
		then   cache.ObjectUpdate
		want   asked
	}{
		"before the workload": {
			"limits that exist apply",
			[]cache.ObjectUpdate{limits("blue", "2")},
			workload(oneContainer),
			asked{Told: true, CPU: 2000},
		},
		"after the workload": {
			"a waiting workload follows",
			[]cache.ObjectUpdate{workload(oneContainer)},
			limits("blue", "2"),
			asked{Told: true, CPU: 2000},
		},
		"changed": {
			"a waiting workload follows",
			[]cache.ObjectUpdate{limits("blue", "2"), workload(oneContainer)},
			limits("blue", "3"),
			asked{Told: true, CPU: 3000},
		},
		"gone": {
			"a waiting workload follows",
			[]cache.ObjectUpdate{limits("blue", "2"), workload(oneContainer)},
			gone(limits("blue", "2")),
			asked{Told: true},
		},
		"another namespace": {
			"limits are of one namespace",
			[]cache.ObjectUpdate{workload(oneContainer)},
			limits("red", "2"),
			asked{},
		},
		"admitted": {
			"what was given stays as it is",
			[]cache.ObjectUpdate{workload(oneContainer, admitted)},
			limits("blue", "2"),
			asked{},
		},
		"finished": {
			"nothing is asked for any more",
			[]cache.ObjectUpdate{workload(oneContainer), workload(oneContainer, finished)},
			limits("blue", "2"),
			asked{},
		},
		"class": {
			"its overhead counts",
			[]cache.ObjectUpdate{class("1")},
			workload(oneContainer, inKata),
			asked{Told: true, CPU: 1000},
		},
		"class is missing": {
			"its pods would be rejected",
			nil,
			workload(oneContainer, inKata),
			asked{Told: true, Invalid: true},
		},
		"class appears": {
			"a waiting workload follows",
			[]cache.ObjectUpdate{workload(oneContainer, inKata)},
			class("1"),
			asked{Told: true, CPU: 1000},
		},
		"class goes": {
			"a waiting workload follows",
			[]cache.ObjectUpdate{class("1"), workload(oneContainer, inKata)},
			gone(class("1")),
			asked{Told: true, Invalid: true},
		},
		"another's class": {
			"it does not use it",
			[]cache.ObjectUpdate{workload(oneContainer)},
			class("1"),
			asked{},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := cache.NewWorld(convert.Rules{})
			for _, b := range c.before {
				w.Translate([]cache.ObjectUpdate{b})
			}
			got := asked{}
			for _, e := range w.Translate([]cache.ObjectUpdate{c.then}) {
				if e, ok := e.(core.WorkloadSet); ok {
					got = asked{
						Told:    true,
						CPU:     e.Workload.PodSets[0].Requests.Of(core.CPU),
						Invalid: e.Workload.Invalid != "",
					}
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}
