package jobs

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
)

// Wrapping is what an AppWrapper has to know of a kind to have it as a component. It
// reads objects as their authors wrote them, and as the API server has them.
type Wrapping struct {
	// PodSets finds the pod templates of an object, with how many pods each makes.
	PodSets func(template map[string]any) ([]aw.AppWrapperPodSet, error)
	// Level is the label of nodes of which those of all its pods have one value, as the object says by a field
	// of its own; nil for kinds that have none.
	Level func(template map[string]any) string
	// Validate says what of an object cannot be kept; nil for kinds of which the API server says all that is wrong.
	Validate func(template map[string]any) field.ErrorList
	// Outcome reads how far the object is by its own account; nil for kinds that
	// do not say, which are judged by their pods.
	Outcome func(object map[string]any) (lifecycle.Outcome, string)
	// SameOutcome reports whether a change of an object surely does not change its outcome;
	// nil is never. It is asked about native kinds, which are watched.
	SameOutcome func(was, is Object) bool
	// HeldBack reports whether the object starts the pods at path later on
	// purpose; nil for kinds that start all at once.
	HeldBack func(object map[string]any, path string) bool
	// Direct is true for kinds whose controllers make the pods themselves: none come
	// once the object is being deleted.
	Direct bool
	// EndsOnce reports whether no pod follows one that succeeded; nil is never.
	EndsOnce func(template map[string]any) bool
	// Dropped are fields that are the AppWrapper's to say: whether the object is
	// suspended, which nothing else would lift, and when it deletes itself, which
	// would look as if it had been taken away.
	Dropped [][]string
	// Written fills in what the kind's controller would, where pods come of it:
	// they can be counted and placed only if they are in the object. nil for kinds
	// that add none.
	Written func(template map[string]any)
	// Basis is another object that says what pods there are; nil if the object says all by
	// itself. What it says is under status of the object as it will be recorded there.
	Basis *Basis
	// New is an empty object of a kind with a Basis.
	New func() Object
	// Injected puts what was written into pod templates under status, which are none of the
	// object, into the object itself; nil for kinds whose templates are theirs.
	Injected func(object map[string]any) error
	// Unbounded says of an object which of its fields make more pods than can be
	// known now, and the cure; nil for kinds that never do.
	Unbounded func(template map[string]any) []Growth
}

// Growth is a field that makes pods which cannot be counted.
type Growth struct {
	// Path of the field, as that of a pod set.
	Path  string
	Value any
	Cure  string
}

// Wrappable is a kind that may be a component of a job.
type Wrappable struct {
	GVK      schema.GroupVersionKind
	Resource string
	// RunsPods: objects of the kind make pods. Users of a team may wrap them, and look
	// at and delete what comes of it; others they may make themselves, too.
	RunsPods bool
	// NotByTeams: only those who may create such objects directly may wrap them.
	NotByTeams bool
	// Wrapping is what is known of the kind; nil if nothing is, as of kinds that make
	// no pods.
	Wrapping *Wrapping
}

// Wrappable are the kinds that users of a team may wrap: those of the list, and
// those of others that kinds of the list can have as components.
func (all Kinds) Wrappable() []Wrappable {
	var out []Wrappable
	for i := range all {
		k := &all[i]
		if k.Queueing.Wrapped != nil {
			out = append(
				out,
				Wrappable{GVK: k.GVK(), Resource: k.Naming.Resource, RunsPods: true, Wrapping: k.Queueing.Wrapped},
			)
		}
		out = append(out, k.Queueing.Wraps...)
	}
	return slices.DeleteFunc(out, func(w Wrappable) bool { return w.NotByTeams })
}

// SuspendAndTTL are the fields of these names at a path, for Wrapping.Dropped.
func SuspendAndTTL(at ...string) [][]string {
	return [][]string{append(slices.Clip(at), "suspend"), append(slices.Clip(at), "ttlSecondsAfterFinished")}
}

// ConditionsOutcome reads kinds that end with one of two conditions.
func ConditionsOutcome(good, bad string) func(map[string]any) (lifecycle.Outcome, string) {
	return func(o map[string]any) (lifecycle.Outcome, string) {
		conditions, err := Objects(o, "status", "conditions")
		if err != nil {
			return lifecycle.Undecided, ""
		}
		for _, c := range conditions {
			if c["status"] != "True" {
				continue
			}
			message := cmp.Or(Text(c, "message"), Text(c, "reason"))
			switch c["type"] {
			case good:
				return lifecycle.Completed, message
			case bad:
				// The user's own policy said that trying again is useless.
				if Text(c, "reason") == "PodFailurePolicy" {
					return lifecycle.NonRetryable, message
				}
				return lifecycle.Broken, message
			}
		}
		return lifecycle.Undecided, ""
	}
}

// Number reads a count; absent and null mean otherwise.
func Number(o map[string]any, otherwise int32, fields ...string) (int32, error) {
	v, ok, err := unstructured.NestedFieldNoCopy(o, fields...)
	if err != nil {
		return 0, fmt.Errorf("read a number: %w", err)
	}
	if !ok || v == nil {
		return otherwise, nil
	}
	n, isInt := v.(int64)
	if !isInt || n < 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("%s must be a whole number from 0, not %v", fields[len(fields)-1], v)
	}
	return int32(n), nil
}

// Times multiplies two counts.
func Times(a, b int32) (int32, error) {
	n := int64(a) * int64(b)
	if n < 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("%d times %d pods are too many", a, b)
	}
	return int32(n), nil
}

// Objects reads a list of objects; absent and null are an empty one.
func Objects(o map[string]any, fields ...string) ([]map[string]any, error) {
	v, ok, err := unstructured.NestedFieldNoCopy(o, fields...)
	if err != nil {
		return nil, fmt.Errorf("read a list: %w", err)
	}
	if !ok || v == nil {
		return nil, nil
	}
	list, isList := v.([]any)
	if !isList {
		return nil, fmt.Errorf("%s must be a list", fields[len(fields)-1])
	}
	out := make([]map[string]any, 0, len(list))
	for i, item := range list {
		m, isMap := item.(map[string]any)
		if !isMap {
			return nil, fmt.Errorf("%s[%d] must be an object", fields[len(fields)-1], i)
		}
		out = append(out, m)
	}
	return out, nil
}

// Text reads a field that is text, "" if it is not.
func Text(o map[string]any, field string) string {
	s, _ := o[field].(string)
	return s
}
