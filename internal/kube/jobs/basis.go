package jobs

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ErrIncomplete is what Read and Compile say of a job that has no basis yet. Its author is
// told by who looks for that, which also wakes the job once it is there.
var ErrIncomplete = errors.New("it is not read yet")

// Basis is another object that says what jobs of a kind consist of, such as a runtime for
// training. What it says is recorded in the job when the job is first looked at, so
// that everything else is a function of the job alone.
type Basis struct {
	// Kinds that it can be of.
	Kinds []BasisKind
	// Of is what a job names; of several, the first that is not recorded.
	Of func(Object) BasisRef
	// Missing reports whether a job waits for a basis to be recorded.
	Missing func(Object) bool
	// With returns the job with its basis recorded, whose pods have the scheduler of queued
	// ones.
	With func(job, basis Object, schedulers Schedulers) Object
	// Annotation is the annotation of a job in which it is recorded, as With does or, from what With wrote
	// into the status, Stored: the status is that of the controller which runs the job and may be another's,
	// whose definition of the kind drops what it does not know. Users do not write it. "" for kinds whose
	// definition is always ours, which record it in the status. Stored is nil where With does it.
	Annotation string
	Stored     func(Object) Object
	// Awaited: a job may be there before its basis, and waits for it.
	Awaited bool
}

// HasPods reports whether jobs of the kind take their pods from a basis.
func (b *Basis) HasPods() bool {
	return slices.ContainsFunc(b.Kinds, func(k BasisKind) bool { return k.Templates != nil })
}

// BasisKind is a kind of object that jobs are based on.
type BasisKind struct {
	GVK schema.GroupVersionKind
	// Resource is what the API server calls such objects.
	Resource string
	// Namespaced objects are for the jobs of their namespace. Users of a team may make them;
	// others they may look at.
	Namespaced bool
	New        func() Object
	// Templates are the pods that jobs of it have; nil if they have their own.
	Templates func(Object) []PodTemplate
}

// BasisRef names an object.
type BasisRef struct {
	Kind, Name string
	// At is where it is named.
	At *field.Path
}

// Kind finds the kind of what is named, nil if jobs cannot be based on it.
func (b *Basis) Kind(ref BasisRef) *BasisKind {
	for i := range b.Kinds {
		if b.Kinds[i].GVK.Kind == ref.Kind {
			return &b.Kinds[i]
		}
	}
	return nil
}

// Bases are the kinds of objects that jobs of the kinds are based on and that have pods. Others are
// kinds of jobs themselves, with rights and rules of their own.
func (all Kinds) Bases() []BasisKind {
	var out []BasisKind
	for i := range all {
		if all[i].Queueing.Basis == nil {
			continue
		}
		for _, b := range all[i].Queueing.Basis.Kinds {
			if b.Templates == nil {
				continue
			}
			if !slices.ContainsFunc(
				out,
				func(x BasisKind) bool { return x.GVK == b.GVK },
			) { // one may be that of several kinds
				out = append(out, b)
			}
		}
	}
	return out
}
