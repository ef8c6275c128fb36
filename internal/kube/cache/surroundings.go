package cache

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// Workload returns a known workload as the engine was told of it, an empty one if
// there is none. The caller only reads it.
func (w *World) Workload(k core.Key) core.Workload { return w.workloads[k].workload }

func (w *World) translate(o *kueue.Workload) core.Workload {
	limits := w.limits[o.Namespace]
	s := convert.Surroundings{RuntimeClasses: w.classes, Priorities: w.priorities}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		s.LimitRanges = append(s.LimitRanges, limits[name])
	}
	out := convert.Workload(o, w.rules, s)
	w.holding(o, &out)
	return out
}

// surroundings takes in a LimitRange or a RuntimeClass.
func (b *batch) surroundings(c Change) {
	w := b.world
	switch o := c.Object.(type) {
	case *corev1.LimitRange:
		if w.limits[c.Namespace] == nil {
			w.limits[c.Namespace] = map[string]*corev1.LimitRange{}
		}
		w.limits[c.Namespace][c.Name] = o
	case *nodev1.RuntimeClass:
		w.classes[c.Name] = convert.RuntimeClassOf(o)
	case nil:
		if c.Kind == LimitRange {
			delete(w.limits[c.Namespace], c.Name)
			if len(w.limits[c.Namespace]) == 0 {
				delete(w.limits, c.Namespace)
			}
		} else {
			delete(w.classes, c.Name)
		}
	}
	if c.Kind == LimitRange {
		b.limits[c.Namespace] = true
	} else {
		b.classes[c.Name] = true
	}
}

// retranslate translates the waiting workloads anew around which limits or
// classes changed.
func (b *batch) retranslate() {
	if len(b.limits)+len(b.classes) == 0 {
		return
	}
	for k, o := range b.world.workloads {
		if o.object == nil || o.leaving || !b.affects(o.object) {
			continue
		}
		o.workload = b.world.translate(o.object)
		b.world.workloads[k] = o
		b.workloads[k] = true
	}
}

func (b *batch) affects(w *kueue.Workload) bool {
	return b.limits[w.Namespace] || slices.ContainsFunc(w.Spec.PodSets, func(ps kueue.PodSet) bool {
		return b.classes[ptr.Deref(ps.Template.Spec.RuntimeClassName, "")]
	})
}
