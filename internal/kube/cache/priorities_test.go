package cache_test

import (
	"maps"
	"testing"
	"time"

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

// The minimum runtime of a class is that of all of its workloads, those that run included, as soon as it is said.
func TestClassesSayMinimumRuntimes(t *testing.T) {
	says := func(text string) cache.ObjectUpdate {
		c := priorityClass(10)
		o := c.Object.(*kueue.WorkloadPriorityClass).DeepCopy()
		o.Annotations = map[string]string{kueue.MinimumRuntimeAnnotation: text}
		c.Object = o
		return c
	}
	w := cache.NewWorld(convert.Rules{})
	w.Translate([]cache.ObjectUpdate{priorityClass(10), urgent("runs", 10, admitted)})
	for _, step := range []struct {
		then cache.ObjectUpdate
		want *time.Duration
		told bool
	}{
		{says("30m"), new(30 * time.Minute), true},
		{says("30m"), new(30 * time.Minute), false},
		{says("0s"), new(time.Duration(0)), true},
		{says("soon"), nil, true},
		{says("1h"), new(time.Hour), true},
		{gone(priorityClass(10)), nil, true},
	} {
		events := w.Translate([]cache.ObjectUpdate{step.then})
		if told := len(events) > 0; told != step.told {
			t.Errorf("%+v: told %t, want %t", step.then.Object, told, step.told)
		}
		got := w.Workload(core.Key{Namespace: "blue", Name: "runs"}).MinimumRuntime
		if (got == nil) != (step.want == nil) || got != nil && *got != *step.want {
			t.Errorf("%+v: minimum runtime %v, want %v", step.then.Object, got, step.want)
		}
	}
}
