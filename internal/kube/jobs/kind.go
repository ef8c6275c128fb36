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
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
)

// Kind is everything that mlbatch knows of one kind of job. It is made in the
// folder of the kind and listed in package kinds; the scheme, the webhooks, the
// reconcilers, the roles and the names in configurations and on the command line
// follow from the list.
type Kind struct {
	Adapter
	Naming    Naming
	Queueing  Queueing
	Running   Running
	Admission Admission
}

// Naming is what the API, people and configurations call a kind.
type Naming struct {
	// Resource is what the API server calls objects of the kind, in the plural.
	Resource string
	// Versions are further versions of its API that are served with the same fields. Objects are
	// stored in one version only, so that an object which was submitted in a further one keeps the
	// name of that version in an annotation (VersionAnnotation).
	Versions []string
	// ShortNames are other names that people use for the kind, as kubectl knows them.
	ShortNames []string
	// Framework is the kind's name in the section integrations of a configuration.
	Framework string
	// AddToScheme registers the kind's Go types; nil for those of Kubernetes itself.
	AddToScheme func(*runtime.Scheme) error
}

// Queueing is what queueing jobs of a kind takes: where a job is held, what its pods are, what happens when
// it must leave.
type Queueing struct {
	// OnlyQueued: no controller but ours would ever start an object of the kind, so
	// that it is queued wherever it is, and whatever configurations leave out.
	OnlyQueued bool
	// Mode says what is done here with jobs of the kind in this installation.
	Mode Mode
	// SuspendPath leads to the field that holds an object of the kind back, and
	// Suspended reads it.
	SuspendPath []string
	Suspended   func(Object) bool
	// Templates finds the pod templates of an object; nil for kinds whose pods are
	// those of their components.
	Templates func(Object) []PodTemplate
	// Components are the objects that a job creates from templates in its spec, as far as those
	// templates can be read; the error names the ones that cannot. The pods of components get the
	// scheduler of queued pods. nil for kinds that create pods only.
	Components func(o Object, schedulers Schedulers) ([]Component, error)
	// Replaces returns how many more of a job's pods can be evicted such that the job's controller
	// replaces each of them and the job does not fail. pods are all pods of the job. open says that
	// n may change soon: a pod is terminating or has failed, and its controller has not counted the
	// failure yet. nil is for kinds whose jobs are requeued with all their pods instead.
	Replaces func(o Object, pods []corev1.Pod) (n int32, open bool)
	// Resets returns how often all pods of a job were replaced while it kept its quota. Kinds that
	// have an Operator leave it nil: their JobRecoveries have the number.
	Resets func(Object) int32
	// Basis is another object that a job names and takes its pods from, such as a training runtime;
	// nil for kinds whose jobs carry all of their pod templates.
	Basis *Basis
	// Wrapped is what AppWrappers have to know of the kind to wrap its jobs; nil if they must not
	// wrap them. Wraps are kinds of other programs that jobs of this kind can have as components.
	Wrapped *Wrapping
	Wraps   []Wrappable
}

// Running is how jobs of a kind run that mlbatch runs, or lets another controller run.
type Running struct {
	// RunsJobs: our controllers make the pods or objects that a job consists of, and need their
	// rights in a namespace until the last job of the kind there is gone. Kinds that have an Operator
	// need not set it.
	RunsJobs bool
	// Operator is how jobs of the kind are run here; nil for kinds that another
	// controller runs.
	Operator *Operator
	// Retries: what follows failures of its jobs is as their policy of retries says, as far as their authors leave that
	// open (kueue.RetryPolicyAnnotation).
	Retries bool
	// Injection is how the node selectors, tolerations, labels and annotations of an admission get
	// into the pods of jobs that another controller runs; nil for kinds whose adapter writes them
	// in Start.
	Injection *Injection
	// Finalizer is the finalizer that our controllers put on an object; "" is none.
	Finalizer string
}

// Admission is what webhooks and roles know of a kind: who may write what.
type Admission struct {
	// TeamsCreate: users of a team may create and change jobs of the kind. Where it is false they
	// may only look at such jobs and delete them, since they create them inside AppWrappers.
	TeamsCreate bool
	// Bulk is the path of the field that takes most of an object's bytes: the refusal of an object
	// that is too large names it.
	Bulk string
	// Validate says what is wrong with a new object that mlbatch manages, beyond the rules that
	// hold for every kind; nil for kinds without rules of their own.
	Validate func(Object) field.ErrorList
	// ValidateChange says what is wrong with an update, beyond the rules that hold for every kind;
	// nil for kinds without rules of their own. Where mlbatch makes the pods of a kind, it is asked
	// about objects that name another controller as their manager, too.
	ValidateChange func(was, is Object) field.ErrorList
	// Admits returns "" for an update that leaves an admission's decisions alone. An update that
	// makes them itself, by starting the job or by choosing its nodes, is refused with the text
	// that Admits returns, which names the fields to leave alone, unless its author has the right to
	// admit. nil for kinds whose Keep reverts all such fields.
	Admits func(was, is Object) string
	// Keep returns a user's update of a queued object in which the fields that users must not
	// change, above all the fields that the admission wrote, have their old values again. original are
	// the pod sets in the job's Workload, nil if it has none.
	Keep func(was, is Object, original []kueue.PodSet) Object
	// Warnings name the fields of an object that have no effect; nil for kinds without such fields.
	// p has the values that apply where the object sets none.
	Warnings func(o Object, p lifecycle.Policy) []string
	// UserLabel and UserIDLabel name labels that say who made an object, whatever its
	// author wrote there; "" are none.
	UserLabel, UserIDLabel string
	// Fixed is a CEL expression, true of an update that changes an immutable field: the webhook that
	// validates is asked about such updates whoever makes them. "" for kinds without such fields.
	Fixed string
}

// Mode says what an installation of mlbatch does with jobs of a kind.
type Mode int

// Modes.
const (
	// Run queues jobs and, if their kind has an Operator, makes their pods.
	Run Mode = iota
	// Queue queues jobs; another controller makes the pods of admitted ones.
	Queue
	// Ignore neither queues nor runs jobs.
	Ignore
)

// RunHere reports whether mlbatch makes the pods, or the objects with the pods, of jobs of the kind.
func (k *Kind) RunHere() bool {
	return (k.Running.RunsJobs || k.Running.Operator != nil) && k.Queueing.Mode == Run
}

// PodTemplate is a template of pods in an object, at a path like spec.template.
type PodTemplate struct {
	Path     string
	Template *corev1.PodTemplateSpec
}

// Component is an object that a job creates from a template in its spec.
type Component struct {
	GVK  schema.GroupVersionKind
	Name string
	// Path is that of the template in the job's spec.
	Path *field.Path
	// Object is the object as it will be created; nil if the template cannot be read.
	Object *unstructured.Unstructured
	Pods   []ComponentPods
}

// ComponentPods are equal pods that a component makes.
type ComponentPods struct {
	PodTemplate
	// Pod is one of the pods, for a dry run against the API server; nil if the template cannot be
	// read.
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

// Restarts is how often failed pods of a job were replaced while the job kept its quota; r is what
// is remembered of the job, nil if nothing is.
func (k *Kind) Restarts(o Object, r *recovery.Recovery) int32 {
	if k.Queueing.Resets != nil {
		return k.Queueing.Resets(o)
	}
	if k.Running.Operator == nil || r == nil {
		return 0
	}
	return max(r.Attempt, r.Failures+r.FreeFailures)
}

// GroupKind is the kind without its version.
func (k *Kind) GroupKind() schema.GroupKind { return k.GVK().GroupKind() }

// Names are all that people call the kind, in lower case.
func (k *Kind) Names() []string {
	return append([]string{strings.ToLower(k.GVK().Kind), k.Naming.Resource}, k.Naming.ShortNames...)
}

// ListGVK is the kind of a list of such objects.
func (k *Kind) ListGVK() schema.GroupVersionKind {
	gvk := k.GVK()
	gvk.Kind += "List"
	return gvk
}

// Kinds are kinds of jobs, in the order in which messages and pages list them.
type Kinds []Kind

// Frameworks are the names of the kinds in configurations.
func (all Kinds) Frameworks() []string {
	var out []string
	for i := range all {
		out = append(out, all[i].Naming.Framework)
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

// HasOperator reports whether pods of any of the kinds are made here.
func (all Kinds) HasOperator() bool {
	return slices.ContainsFunc(all, func(k Kind) bool { return k.Running.Operator != nil })
}

// Children are the kinds of objects that jobs of the kinds are made of besides pods, each
// once.
func (all Kinds) Children() []ChildKind {
	var out []ChildKind
	for i := range all {
		if all[i].Running.Operator == nil {
			continue
		}
		for _, c := range all[i].Running.Operator.Children {
			if !slices.ContainsFunc(out, func(has ChildKind) bool { return has.GVK == c.GVK }) {
				out = append(out, c)
			}
		}
	}
	return out
}

// Others are the ends of the image names by which other controllers for the kinds are recognised,
// each once.
func (all Kinds) Others() []string {
	var out []string
	for i := range all {
		if o := all[i].Running.Operator; o != nil {
			out = append(out, o.Others...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Makes are the resources, such as services, that jobs of the kinds have besides pods and children,
// each once.
func (all Kinds) Makes() []schema.GroupResource {
	var out []schema.GroupResource
	for i := range all {
		if all[i].Running.Operator == nil {
			continue
		}
		for _, r := range all[i].Running.Operator.Makes {
			if !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// Child reports whether jobs of any of the kinds consist of objects of the kind gvk.
func (all Kinds) Child(gvk schema.GroupVersionKind) bool {
	return slices.ContainsFunc(all, func(k Kind) bool {
		return k.Running.Operator != nil &&
			slices.ContainsFunc(k.Running.Operator.Children, func(c ChildKind) bool { return c.GVK == gvk })
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

// Make reports whether an owner is a job of one of the kinds whose jobs consist of other objects
// than pods.
func (all Kinds) Make(owner *metav1.OwnerReference) bool {
	return owner != nil &&
		slices.ContainsFunc(all, func(k Kind) bool { return k.IsParent() && k.GVK().Kind == owner.Kind })
}

// IsParent reports whether jobs of the kind consist of other objects, which are not queued as jobs of
// their own.
func (k *Kind) IsParent() bool {
	return k.Queueing.Components != nil || k.Running.Operator != nil && len(k.Running.Operator.Children) > 0
}

// Parents are the adapters that can say whether an object is a part of one of their jobs, by kind.
func (all Kinds) Parents() map[schema.GroupVersionKind]Parent {
	out := map[schema.GroupVersionKind]Parent{}
	for i := range all {
		adapter := all[i].Adapter
		if w, is := adapter.(allOrNothing); is {
			adapter = w.Adapter
		}
		if w, says := adapter.(Parent); says {
			out[all[i].GVK()] = w
		}
	}
	return out
}

// NoPartialAdmission returns the kinds without partial admission: jobs start with all their pods, even if
// they allow fewer.
func (all Kinds) NoPartialAdmission() Kinds {
	out := slices.Clone(all)
	for i := range out {
		out[i].Adapter = allOrNothing{out[i].Adapter}
	}
	return out
}

type allOrNothing struct{ Adapter }

// Read drops the smallest number of pods with which a pod set could start.
func (w allOrNothing) Read(o Object) (Facts, error) {
	f, err := w.Adapter.Read(o)
	for i := range f.PodSets {
		f.PodSets[i].MinCount = nil
	}
	return f, err
}
