package cache_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/cache"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

func priorityClass(value int32) cache.ObjectUpdate {
	return cache.ObjectUpdate{
		Ref:    cache.Ref{Kind: cache.PriorityClass, Name: "urgent"},
		Object: &kueue.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: value},
	}
}

// urgent is a Workload of that class, with the copy of its value that was written last.
func urgent(name string, copied int32, more ...func(*kueue.Workload)) cache.ObjectUpdate {
	c := workload(append(more, func(w *kueue.Workload) {
		w.Name, w.Spec.Priority = name, new(copied)
		w.Spec.PriorityClassRef = &kueue.PriorityClassRef{
			Group: "kueue.x-k8s.io",
			Kind:  kueue.WorkloadPriorityClassKind,
			Name:  "urgent",
		}
	})...)
	c.Name = name
	return c
}

// A class's value is the priority of all of its workloads from the same event on, whatever
// copies of it say.
func TestClassesDecidePriorities(t *testing.T) {
	cases := map[string]struct {
		why    string
		before []cache.ObjectUpdate
		then   cache.ObjectUpdate
		want   map[string]int64
	}{
		"changed": {
			"those that run and those that wait together",
			[]cache.ObjectUpdate{priorityClass(10), urgent("runs", 10, admitted), urgent("waits", 10)},
			priorityClass(20),
			map[string]int64{"runs": 20, "waits": 20},
		},
		"lowered": {
			"the same",
			[]cache.ObjectUpdate{priorityClass(10), urgent("runs", 10, admitted), urgent("waits", 10)},
			priorityClass(-5),
			map[string]int64{"runs": -5, "waits": -5},
		},
		"copied": {
			"the copy that comes later changes nothing",
			[]cache.ObjectUpdate{priorityClass(20), urgent("waits", 10)},
			urgent("waits", 20),
			map[string]int64{"waits": 20},
		},
		"old copy": {
			"nor does one that comes before",
			[]cache.ObjectUpdate{priorityClass(20)},
			urgent("waits", 10),
			map[string]int64{"waits": 20},
		},
		"same": {
			"a class that is told again is none that changed",
			[]cache.ObjectUpdate{priorityClass(10), urgent("waits", 10)},
			priorityClass(10),
			map[string]int64{},
		},
		"gone": {
			"what was written last is left",
			[]cache.ObjectUpdate{priorityClass(10), urgent("waits", 10)},
			gone(priorityClass(10)),
			map[string]int64{"waits": 10},
		},
		"unknown": {
			"a class that is not there yet says nothing",
			nil,
			urgent("waits", 10),
			map[string]int64{"waits": 10},
		},
		"others": {
			"those of no class stay",
			[]cache.ObjectUpdate{priorityClass(10), workload(oneContainer)},
			priorityClass(20),
			map[string]int64{},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := cache.NewWorld(convert.Rules{})
			for _, x := range c.before {
				w.Translate([]cache.ObjectUpdate{x})
			}
			got := map[string]int64{}
			for _, ev := range w.Translate([]cache.ObjectUpdate{c.then}) {
				if set, ok := ev.(core.WorkloadSet); ok {
					got[set.Workload.Key.Name] = set.Workload.Priority
				}
			}
			if diff := cmp.Diff(c.want, maps.Clone(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}
