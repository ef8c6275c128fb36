package appwrapper

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/native"
)

// basis is what the components of an AppWrapper are based on, such as the runtimes of
// TrainJobs. Each is recorded beside its component, once, before anything is counted. The
// component is given the same when it is created, so that its pods are the ones that were
// admitted, whatever becomes of the other object.
func basis() *jobs.Basis {
	return &jobs.Basis{
		Kinds: native.All().Bases(),
		Of: jobs.Of(func(w *aw.AppWrapper) jobs.BasisRef {
			_, ref := missing(w)
			return ref
		}),
		Missing: jobs.Of(func(w *aw.AppWrapper) bool {
			at, _ := missing(w)
			return at >= 0
		}),
		With: record,
	}
}

// missing finds the first component that waits for its basis; -1 is none.
func missing(w *aw.AppWrapper) (int, jobs.BasisRef) {
	switch w.Status.Phase {
	case aw.AppWrapperEmpty, aw.AppWrapperSuspended:
	case aw.AppWrapperResuming, aw.AppWrapperRunning, aw.AppWrapperResetting, aw.AppWrapperSuspending,
		aw.AppWrapperSucceeded, aw.AppWrapperFailed, aw.AppWrapperTerminating:
		return -1, jobs.BasisRef{}
	}
	for i := range w.Spec.Components {
		if job, k := basedComponent(w, i); job != nil {
			ref := k.Basis.Of(job)
			ref.At = field.NewPath("spec", "components").Index(i).Child("template", ref.At.String())
			return i, ref
		}
	}
	return -1, jobs.BasisRef{}
}

// basedComponent reads a component that waits for its basis; nil if it does not.
func basedComponent(w *aw.AppWrapper, i int) (jobs.Object, *jobs.Wrapping) {
	raw := w.Spec.Components[i].Template
	var is metav1.TypeMeta
	if json.Unmarshal(raw.Raw, &is) != nil {
		return nil, nil
	}
	gvk := schema.FromAPIVersionAndKind(is.APIVersion, is.Kind)
	k, _ := kindOf(gvk)
	if k.Basis == nil || recordedBasis(w, i, gvk) != nil {
		return nil, nil
	}
	template, err := decodeTemplate(raw)
	if err != nil {
		return nil, nil
	}
	delete(template, "status")
	return waiting(&k, template), &k
}

// waiting reads an object that waits for its basis; nil if it names none that there could be,
// which is for its kind to say.
func waiting(k *jobs.Wrapping, template map[string]any) jobs.Object {
	job := k.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, job); err != nil {
		return nil
	}
	ref := k.Basis.Of(job)
	if !k.Basis.Missing(job) || ref.Name == "" || k.Basis.Kind(ref) == nil {
		return nil
	}
	return job
}

// recordedBasis is what was recorded for a component, nil if nothing was.
func recordedBasis(w *aw.AppWrapper, i int, gvk schema.GroupVersionKind) *runtime.RawExtension {
	if i >= len(w.Status.ComponentStatus) {
		return nil
	}
	s := &w.Status.ComponentStatus[i]
	if s.Basis == nil || schema.FromAPIVersionAndKind(s.APIVersion, s.Kind) != gvk {
		return nil
	}
	return s.Basis
}

// base gives a component's template the status that was recorded for it; false if it waits for
// that. What its author says of a status is nothing.
func base(k *jobs.Wrapping, template map[string]any, recorded *runtime.RawExtension) bool {
	delete(template, "status")
	if recorded == nil {
		return waiting(k, template) == nil
	}
	if status, err := decodeTemplate(*recorded); err == nil {
		template["status"] = status
	}
	return true
}

// record writes what an object says into the status of an AppWrapper, for the component that
// waits for it.
func record(job, basis jobs.Object, schedulers jobs.Schedulers) jobs.Object {
	w, err := cast(job)
	if err != nil {
		return job
	}
	at, _ := missing(w)
	if at < 0 {
		return job
	}
	one, k := basedComponent(w, at)
	one.SetNamespace(w.Namespace)
	based, err := runtime.DefaultUnstructuredConverter.ToUnstructured(k.Basis.With(one, basis, schedulers))
	if err != nil {
		return job
	}
	status, err := json.Marshal(based["status"])
	if err != nil {
		return job
	}
	components, _ := parse(w) // what is wrong with them is told elsewhere
	out := w.DeepCopy()
	for i := len(out.Status.ComponentStatus); i < len(components); i++ {
		out.Status.ComponentStatus = append(out.Status.ComponentStatus, components[i].Status())
	}
	out.Status.ComponentStatus[at].Basis = &runtime.RawExtension{Raw: status}
	return out
}

// WrapperOf is the name of the AppWrapper that an object says it is a component of, if that may
// have recorded what the object is based on; "" otherwise.
func WrapperOf(gvk schema.GroupVersionKind, part jobs.Object) string {
	k, _ := kindOf(gvk)
	owner := metav1.GetControllerOf(part)
	if k.Basis == nil || owner == nil ||
		schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind() != (Adapter{}).GVK().GroupKind() {
		return ""
	}
	return owner.Name
}

// Inherit gives an object that is a component of an AppWrapper the basis that was recorded
// for it there. The second result is false if it is none, and has to be read where it says.
func Inherit(w *aw.AppWrapper, gvk schema.GroupVersionKind, part jobs.Object) (jobs.Object, bool, error) {
	k, _ := kindOf(gvk)
	i := slices.IndexFunc(w.Status.ComponentStatus, func(s aw.AppWrapperComponentStatus) bool {
		return s.Basis != nil && s.Name == part.GetName() &&
			schema.FromAPIVersionAndKind(s.APIVersion, s.Kind) == gvk
	})
	if WrapperOf(gvk, part) != w.Name || !metav1.IsControlledBy(part, w) || i < 0 {
		return part, false, nil
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(part)
	if err != nil {
		return nil, false, fmt.Errorf("read %s %s: %w", gvk.Kind, part.GetName(), err)
	}
	base(&k, object, w.Status.ComponentStatus[i].Basis)
	out := k.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, out); err != nil {
		return nil, false, fmt.Errorf("read the basis of %s %s: %w", gvk.Kind, part.GetName(), err)
	}
	return out, true, nil
}
