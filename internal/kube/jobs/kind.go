package jobs

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
)

// Kind is everything that mlbatch knows of one kind of job. It is made in the
// folder of the kind and listed in package kinds; the scheme, the webhooks, the
// reconcilers, the roles and the names in configurations and on the command line
// follow from the list.
type Kind struct {
	Adapter
	// Resource is what the API server calls objects of the kind, in the plural.
	Resource string
	// Versions are further versions of its API that are served with the same fields. What
	// was submitted in one of them says so (VersionAnnotation), since it is stored without.
	Versions []string
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
	// in a namespace until the last such job is gone. It goes without saying of kinds that
	// are Operated.
	MadeHere bool
	// TeamsCreate: users of a team may create and change such jobs. Others they may
	// look at and delete, since they make them in AppWrappers.
	TeamsCreate bool

	// Wrapped is what AppWrappers have to know of the kind to wrap it, nil if they may
	// not. Wraps are further kinds, of others, that jobs of this kind can have as
	// components.
	Wrapped *Wrapping
	Wraps   []Wrappable

	// Replaces is how many more of a job's pods, which are all that there are, can be
	// taken away one by one, each of which its controller makes anew without giving the
	// job up; open says that it may be more when those that end now are counted. nil is
	// for kinds whose jobs their controllers move as a whole.
	Replaces func(o Object, pods []corev1.Pod) (n int32, open bool)

	// Operated is how jobs of the kind are run here; nil for kinds that another
	// controller runs.
	Operated *Operated

	// Injection is how an admission gets into the pods of jobs that another controller runs;
	// nil for kinds whose adapter sees to that.
	Injection *Injection
	// Mode says what is done here with jobs of the kind in this installation.
	Mode Mode

	// Basis is another object that says what a job consists of; nil for kinds whose jobs say it
	// themselves.
	Basis *Basis

	// SuspendPath leads to the field that holds an object of the kind back, and
	// Suspended reads it.
	SuspendPath []string
	Suspended   func(Object) bool
	// Bulk is the path of what an object mostly is, for one that is too large.
	Bulk string
	// Templates finds the pod templates of an object; nil for kinds whose pods are
	// those of their components.
	Templates func(Object) []PodTemplate
	// Components are the objects that a job makes of what its author wrote, as far as
	// that can be understood; the error says what cannot. Their pods have the scheduler
	// of queued ones. nil for kinds that make pods only.
	Components func(o Object, schedulers Schedulers) ([]Component, error)
	// Validate says what is wrong with a new object that is left to us, beyond what
	// holds for every kind; nil finds nothing.
	Validate func(Object) field.ErrorList
	// ValidateChange says what of a change is wrong, beyond what holds for every kind;
	// nil finds nothing. Of kinds that are made here it is asked also about objects
	// that others manage.
	ValidateChange func(was, is Object) field.ErrorList
	// Admits tells the author of a change that does what the admission decides, starting
	// a job or saying where its pods go, what to leave alone; "" if it does not. nil
	// where Keep undoes all of that.
	Admits func(was, is Object) string
	// Keep returns a user's new state of a queued object with what is not the user's
	// as it was before: what the admission wrote, above all. original are the pod sets
	// as the job's Workload has them, nil if it has none.
	Keep func(was, is Object, original []kueue.PodSet) Object
	// Warnings tell the author of an object of what has no effect in it; nil never
	// does. p is what holds if the object says nothing.
	Warnings func(o Object, p lifecycle.Policy) []string
	// UserLabel and UserIDLabel name labels that say who made an object, whatever its
	// author wrote there; "" are none.
	UserLabel, UserIDLabel string
	// Resets is how often all pods of a job were made anew within its quota; of kinds that are
	// Operated, Recall says it.
	Resets func(Object) int32
	// Finalizer is what our controllers put on an object; "" is none.
	Finalizer string
	// Fixed is true, in the API server's CEL, of an update that changes what may never
	// change; "" never is.
	Fixed string
}

// Mode is what is done here with jobs of a kind.
type Mode int

// Modes.
const (
	// Run queues jobs and, of kinds that are Operated, makes their pods.
	Run Mode = iota
	// Queue leaves them to another controller once they are admitted.
	Queue
	// Ignore leaves them alone.
	Ignore
)

// RunHere reports whether what jobs of the kind consist of is made here.
func (k *Kind) RunHere() bool { return (k.MadeHere || k.Operated != nil) && k.Mode == Run }

// PodTemplate is a template of pods in an object, at a path like spec.template.
type PodTemplate struct {
	Path     string
	Template *corev1.PodTemplateSpec
}

// Component is an object that a job makes of what its author wrote.
type Component struct {
	GVK  schema.GroupVersionKind
	Name string
	// Path is where the author wrote it.
	Path *field.Path
	// Object is what will be created; nil if that cannot be known.
	Object *unstructured.Unstructured
	Pods   []ComponentPods
}

// ComponentPods are equal pods that a component makes.
type ComponentPods struct {
	PodTemplate
	// Pod is one of them, to be tried and not to be kept; nil if it cannot be known.
	Pod *unstructured.Unstructured
}

// VersionAnnotation of an object is the version of its API that it was submitted in, if it is
// one of Kind.Versions.
const VersionAnnotation = "mlbatch.dev/submitted-version"

// SubmittedIn reports whether an object was submitted in a version other than the one that
// it is stored in.
func SubmittedIn(o metav1.Object, version string) bool {
	return o.GetAnnotations()[VersionAnnotation] == version
}

// Restarts is how often pods of a job were made anew within its quota, because they failed.
func (k *Kind) Restarts(o Object) int32 {
	if k.Resets != nil {
		return k.Resets(o)
	}
	if k.Operated == nil {
		return 0
	}
	if r := k.Operated.Recall(o); r != nil {
		return max(r.Attempt, r.Failures+r.FreeFailures)
	}
	return 0
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

// Operated reports whether pods of any of the kinds are made here.
func (all Kinds) Operated() bool {
	return slices.ContainsFunc(all, func(k Kind) bool { return k.Operated != nil })
}

// Children are the kinds of objects that jobs of the kinds are made of besides pods, each
// once.
func (all Kinds) Children() []ChildKind {
	var out []ChildKind
	for i := range all {
		if all[i].Operated == nil {
			continue
		}
		for _, c := range all[i].Operated.Children {
			if !slices.ContainsFunc(out, func(has ChildKind) bool { return has.GVK == c.GVK }) {
				out = append(out, c)
			}
		}
	}
	return out
}

// Others are what images of other controllers for the kinds end with, each once.
func (all Kinds) Others() []string {
	var out []string
	for i := range all {
		if o := all[i].Operated; o != nil {
			out = append(out, o.Others...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Makes are the resources that jobs of the kinds have beside their members, each once.
func (all Kinds) Makes() []schema.GroupResource {
	var out []schema.GroupResource
	for i := range all {
		if all[i].Operated == nil {
			continue
		}
		for _, r := range all[i].Operated.Makes {
			if !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// Child reports whether jobs of a kind are made of others of this one.
func (all Kinds) Child(gvk schema.GroupVersionKind) bool {
	return slices.ContainsFunc(all, func(k Kind) bool {
		return k.Operated != nil && slices.ContainsFunc(k.Operated.Children, func(c ChildKind) bool { return c.GVK == gvk })
	})
}

// Find returns a kind of the list, nil if it is not in it.
func (all Kinds) Find(gvk schema.GroupVersionKind) *Kind {
	i := slices.IndexFunc(all, func(k Kind) bool { return k.GVK() == gvk })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// Make reports whether an owner is of a kind that is made of other objects than pods.
func (all Kinds) Make(owner *metav1.OwnerReference) bool {
	return owner != nil && slices.ContainsFunc(all, func(k Kind) bool { return k.Whole() && k.GVK().Kind == owner.Kind })
}

// Whole reports whether jobs of the kind are made of other objects, which are no jobs of their
// own.
func (k *Kind) Whole() bool {
	return k.Components != nil || k.Operated != nil && len(k.Operated.Children) > 0
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
