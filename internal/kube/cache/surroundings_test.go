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

func limits(namespace, cpus string) cache.Change {
	o := &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "l"},
		Spec:       corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, DefaultRequest: cpu(cpus)}}},
	}
	return cache.Change{Ref: cache.Ref{Kind: cache.LimitRange, Namespace: namespace, Name: "l"}, Object: o}
}

func class(cpus string) cache.Change {
	o := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "kata"}, Overhead: &nodev1.Overhead{PodFixed: cpu(cpus)}}
	return cache.Change{Ref: cache.Ref{Kind: cache.RuntimeClass, Name: "kata"}, Object: o}
}

func TestRuntimeClassChooses(t *testing.T) {
	on := class("1")
	on.Object.(*nodev1.RuntimeClass).Scheduling = &nodev1.Scheduling{NodeSelector: map[string]string{"kata": "yes"}}
	w := cache.NewWorld(convert.Rules{})
	w.Translate([]cache.Change{class("1")})
	w.Translate([]cache.Change{workload(oneContainer, inKata)})
	events := w.Translate([]cache.Change{on})
	if len(events) != 1 {
		t.Fatalf("the waiting workload follows its class, told are %d", len(events))
	}
	filter := events[0].(core.WorkloadSet).Workload.PodSets[0].Filter
	if filter.Admits(&core.Node{}) || !filter.Admits(&core.Node{Labels: map[string]string{"kata": "yes"}}) {
		t.Errorf("its pods run where the class has its runtime, not by %+v", filter)
	}
}

func gone(c cache.Change) cache.Change { return cache.Change{Ref: c.Ref} }

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
		before []cache.Change
		then   cache.Change
		want   asked
	}{
		"before the workload": {"limits that exist apply", []cache.Change{limits("blue", "2")}, workload(oneContainer), asked{Told: true, CPU: 2000}},
		"after the workload":  {"a waiting workload follows", []cache.Change{workload(oneContainer)}, limits("blue", "2"), asked{Told: true, CPU: 2000}},
		"changed":             {"a waiting workload follows", []cache.Change{limits("blue", "2"), workload(oneContainer)}, limits("blue", "3"), asked{Told: true, CPU: 3000}},
		"gone":                {"a waiting workload follows", []cache.Change{limits("blue", "2"), workload(oneContainer)}, gone(limits("blue", "2")), asked{Told: true}},
		"another namespace":   {"limits are of one namespace", []cache.Change{workload(oneContainer)}, limits("red", "2"), asked{}},
		"admitted":            {"what was given stays as it is", []cache.Change{workload(oneContainer, admitted)}, limits("blue", "2"), asked{}},
		"finished":            {"nothing is asked for any more", []cache.Change{workload(oneContainer), workload(oneContainer, finished)}, limits("blue", "2"), asked{}},
		"class":               {"its overhead counts", []cache.Change{class("1")}, workload(oneContainer, inKata), asked{Told: true, CPU: 1000}},
		"class is missing":    {"its pods would be rejected", nil, workload(oneContainer, inKata), asked{Told: true, Invalid: true}},
		"class appears":       {"a waiting workload follows", []cache.Change{workload(oneContainer, inKata)}, class("1"), asked{Told: true, CPU: 1000}},
		"class goes":          {"a waiting workload follows", []cache.Change{class("1"), workload(oneContainer, inKata)}, gone(class("1")), asked{Told: true, Invalid: true}},
		"another's class":     {"it does not use it", []cache.Change{workload(oneContainer)}, class("1"), asked{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := cache.NewWorld(convert.Rules{})
			for _, b := range c.before {
				w.Translate([]cache.Change{b})
			}
			got := asked{}
			for _, e := range w.Translate([]cache.Change{c.then}) {
				if e, ok := e.(core.WorkloadSet); ok {
					got = asked{Told: true, CPU: e.Workload.PodSets[0].Requests.Of(core.CPU), Invalid: e.Workload.Invalid != ""}
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}
