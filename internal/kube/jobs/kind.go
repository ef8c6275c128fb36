package jobs

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is everything that mlbatch knows of one kind of job. It is made in the
// folder of the kind and listed in package kinds; the scheme, the webhooks, the
// reconcilers, the roles and the names in configurations and on the command line
// follow from the list.
type Kind struct {
	Adapter
	// Resource is what the API server calls objects of the kind, in the plural.
	Resource string
	// ShortNames are other names that people use for the kind, as kubectl knows them.
	ShortNames []string
	// Framework is the kind's name in the section integrations of a configuration.
	Framework string
	// AddToScheme registers the kind's Go types; nil for those of Kubernetes itself.
	AddToScheme func(*runtime.Scheme) error
	// OnlyQueued: no controller but ours would ever start an object of the kind, so
	// that it is queued wherever it is, and whatever configurations leave out.
	OnlyQueued bool
	// MadeHere: our controllers make what the job consists of, and need their rights
	// in a namespace until the last such job is gone.
	MadeHere bool
	// TeamsCreate: users of a team may create and change such jobs. Others they may
	// look at and delete, since they make them in AppWrappers.
	TeamsCreate bool
}

// GroupKind is the kind without its version.
func (k *Kind) GroupKind() schema.GroupKind { return k.GVK().GroupKind() }

// Names are all that people call the kind, in lower case.
func (k *Kind) Names() []string {
	return append([]string{strings.ToLower(k.GVK().Kind), k.Resource}, k.ShortNames...)
}

// ListGVK is the kind of a list of such objects.
func (k *Kind) ListGVK() schema.GroupVersionKind {
	gvk := k.GVK()
	gvk.Kind += "List"
	return gvk
}

// Kinds are kinds of jobs, in the order in which they are told.
type Kinds []Kind

// Frameworks are the names of the kinds in configurations.
func (all Kinds) Frameworks() []string {
	var out []string
	for i := range all {
		out = append(out, all[i].Framework)
	}
	return out
}

// Where returns the kinds for which a condition holds.
func (all Kinds) Where(holds func(*Kind) bool) Kinds {
	var out Kinds
	for i := range all {
		if holds(&all[i]) {
			out = append(out, all[i])
		}
	}
	return out
}

// Find returns a kind of the list, nil if it is not in it.
func (all Kinds) Find(gvk schema.GroupVersionKind) *Kind {
	i := slices.IndexFunc(all, func(k Kind) bool { return k.GVK() == gvk })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// Wholes are the kinds that say themselves what their parts are.
func (all Kinds) Wholes() map[schema.GroupVersionKind]Whole {
	out := map[schema.GroupVersionKind]Whole{}
	for i := range all {
		adapter := all[i].Adapter
		if w, is := adapter.(wholeOnly); is {
			adapter = w.Adapter
		}
		if w, says := adapter.(Whole); says {
			out[all[i].GVK()] = w
		}
	}
	return out
}

// WholeOnly returns the kinds such that jobs start with all their pods, whatever
// they say that they can do with.
func (all Kinds) WholeOnly() Kinds {
	out := slices.Clone(all)
	for i := range out {
		out[i].Adapter = wholeOnly{out[i].Adapter}
	}
	return out
}

type wholeOnly struct{ Adapter }

// Read leaves out how few pods would do.
func (w wholeOnly) Read(o Object) (Facts, error) {
	f, err := w.Adapter.Read(o)
	for i := range f.PodSets {
		f.PodSets[i].MinCount = nil
	}
	return f, err
}
