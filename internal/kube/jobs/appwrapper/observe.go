package appwrapper

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
)

// Observe says what a component's object amounts to. object is nil if it does
// not exist or is not ours.
func (c Component) Observe(object *unstructured.Unstructured) lifecycle.Component {
	k, _ := kindOf(c.GVK)
	out := lifecycle.Component{
		Name:     c.Title(),
		Exists:   object != nil,
		Reports:  k.Outcome != nil,
		Deputies: !k.Direct && len(c.PodSets) > 0,
	}
	for _, ps := range c.PodSets {
		one := lifecycle.PodSet{Name: ps.Name, Expected: ps.Count}
		if object != nil && k.HeldBack != nil {
			one.HeldBack = k.HeldBack(object.Object, ps.Path)
		}
		out.PodSets = append(out.PodSets, one)
	}
	if object == nil {
		return out
	}
	out.Deleting, out.Finalizers = object.GetDeletionTimestamp() != nil, object.GetFinalizers()
	if k.Outcome != nil {
		out.Outcome, out.Message = k.Outcome(object.Object)
	}
	return out
}

// endsOnce reports whether no pod of the component follows one that succeeded. Of
// kinds that are not known to be so, it is not believed.
func (c Component) endsOnce() bool {
	k, _ := kindOf(c.GVK)
	return k.EndsOnce != nil && k.EndsOnce(c.template)
}

// waits reports whether the pods at a path are made only once others run, or are done.
func (c Component) waits(path string) bool {
	k, _ := kindOf(c.GVK)
	return k.HeldBack != nil && k.HeldBack(c.template, path)
}

func always(map[string]any) bool { return true }
