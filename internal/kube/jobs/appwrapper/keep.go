package appwrapper

import (
	"slices"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
)

// Keep returns a user's new state of a queued AppWrapper with what is not the
// user's as it was before: whether it is suspended and what was added to its
// pods, which the admission decides, who created it, and our finalizer. Clients
// that write a manifest again (kubectl apply, replace) leave these out or say
// what they said first.
func Keep(was, is *aw.AppWrapper) *aw.AppWrapper {
	out := is.DeepCopy()
	out.Spec.Suspend = was.Spec.Suspend
	for i := range out.Spec.Components {
		if i < len(was.Spec.Components) {
			out.Spec.Components[i].PodSetInfos = was.DeepCopy().Spec.Components[i].PodSetInfos
		}
	}
	for _, l := range []string{aw.AppWrapperUserLabel, aw.AppWrapperUserIDLabel} {
		keepEntry(was.Labels, &out.Labels, l)
	}
	if slices.Contains(was.Finalizers, aw.AppWrapperFinalizer) &&
		!slices.Contains(out.Finalizers, aw.AppWrapperFinalizer) {
		out.Finalizers = append(out.Finalizers, aw.AppWrapperFinalizer)
	}
	return out
}

// keepEntry makes a key of a map what it was before.
func keepEntry(was map[string]string, is *map[string]string, key string) {
	v, had := was[key]
	switch {
	case !had:
		delete(*is, key)
	case *is == nil:
		*is = map[string]string{key: v}
	default:
		(*is)[key] = v
	}
}
