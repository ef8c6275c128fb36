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
	s := convert.Surroundings{
		RuntimeClasses: w.classes,
		Volumes:        w.volumes[o.Namespace],
		Priorities:     w.priorities,

		MinimumRuntimes: w.runtimes,
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		s.LimitRanges = append(s.LimitRanges, limits[name])
	}
	out := convert.Workload(o, w.rules, s)
	w.holding(o, &out)
	return out
}

// surroundings takes in a LimitRange or a RuntimeClass.
func (b *batch) surroundings(c ObjectUpdate) {
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

// volume takes in a PersistentVolume.
func (b *batch) volume(c ObjectUpdate) {
	w := b.world
	var claim core.Key
	var terms []core.Selector
	limited := false
	if v, there := c.Object.(*corev1.PersistentVolume); there {
		claim, terms, limited = convert.Reach(v)
	}
	if was, known := w.claims[c.Name]; known && (!limited || was != claim) {
		delete(w.claims, c.Name)
		b.claims[was] = true
		if !hasValue(w.claims, was) { // else it is bound to another by now
			delete(w.volumes[was.Namespace], was.Name)
		}
		if len(w.volumes[was.Namespace]) == 0 {
			delete(w.volumes, was.Namespace)
		}
	}
	if !limited {
		return
	}
	if w.volumes[claim.Namespace] == nil {
		w.volumes[claim.Namespace] = map[string][]core.Selector{}
	}
	w.claims[c.Name], w.volumes[claim.Namespace][claim.Name] = claim, terms
	b.claims[claim] = true
}

func hasValue[K, V comparable](m map[K]V, value V) bool {
	for _, v := range m {
		if v == value {
			return true
		}
	}
	return false
}

// retranslate translates the waiting workloads anew around which limits, classes or volumes
// changed.
func (b *batch) retranslate() {
	if len(b.limits)+len(b.classes)+len(b.claims) == 0 {
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
		return b.classes[ptr.Deref(ps.Template.Spec.RuntimeClassName, "")] ||
			len(b.claims) > 0 && slices.ContainsFunc(convert.Claims(&ps.Template.Spec), func(name string) bool {
				return b.claims[core.Key{Namespace: w.Namespace, Name: name}]
			})
	})
}
