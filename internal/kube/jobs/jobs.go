// Package jobs says what mlbatch needs to know of a kind of job: a Kind, which
// each kind has in a folder of its own below, listed in package kinds. The Adapter
// in it is a pure translation between objects of the kind and the values here. It
// gets no client and no context; fetching and writing belong to package
// controllers.
package jobs

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
)

// Object is any Kubernetes object with metadata.
type Object interface {
	metav1.Object
	runtime.Object
}

// Facts are what an object of some kind says about its job.
type Facts struct {
	// Suspended is true while the job may not have pods.
	Suspended bool
	// PodSets are the pods it would run if started now, as the user wrote them.
	PodSets []kueue.PodSet
	// Indexes are the labels by which pods of sets tell their numbers in them, for sets of which nothing else says how
	// near they are (kueue.PodSetTopologyRequest.PodIndexLabel); left out are sets whose pods tell none.
	Indexes map[kueue.PodSetReference]string
	// Reclaimable are pods that ended well and will not be replaced.
	Reclaimable []kueue.ReclaimablePod
	// Active is true while the job may still own unfinished pods.
	Active bool
	// Ready is true while all its pods run, or ran and succeeded.
	Ready bool
	// EndsOnce is true if no pod follows one that succeeded.
	EndsOnce bool
	// Rigid is true if the job cannot have another number of pods while it runs, not even fewer: it
	// is stopped and queued anew for them.
	Rigid bool
	// Later are the names of pod sets whose pods are made only once the pods of others run, or
	// are done.
	Later []string
	// ComputeDomain are the names of pod sets that are in a ComputeDomain because a part of the job says so; those of
	// which the job or the pods say it need not be named.
	ComputeDomain []kueue.PodSetReference
	// Finished is nil until the job ended for good.
	Finished *Outcome
}

// Outcome is how a job ended.
type Outcome struct {
	Success bool
	Message string
}

// PodSetInfo is what an admission adds to the pods of one pod set.
type PodSetInfo struct {
	Name string
	// Count is how many pods were admitted, and Asked how many the job asked for then, with the
	// pods that were done already.
	Count, Asked int32
	Annotations  map[string]string
	Labels       map[string]string
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
}

// Adapter translates one kind. Every method returns new values and leaves its
// arguments as they are.
type Adapter interface { //nolint:interfacebloat // one kind of job is one value
	// GVK names the kind, e.g. batch/v1 Job.
	GVK() schema.GroupVersionKind
	// New returns an empty object of the kind.
	New() Object
	// Ours is false for an object that names another controller as the one that
	// manages it (spec.managedBy). Such an object is left wholly alone: it gets no
	// Workload, no default and no finalizer.
	Ours(Object) bool
	// Read extracts the facts. An error means that the object can never run and
	// is shown to the user.
	Read(Object) (Facts, error)
	// Maker is what decides whether more pods of the job may come, of any object of
	// the kind, also of one that can never run.
	Maker(Object) core.MakerState
	// Start returns the object allowed to run with what was assigned, one
	// PodSetInfo per pod set. Starting a started object changes nothing. An
	// error is permanent: the job cannot run with this admission.
	Start(Object, []PodSetInfo) (Object, error)
	// Stop returns the object suspended, with the pods it had before Start;
	// original are the pod sets recorded in its Workload.
	Stop(o Object, original []kueue.PodSet) (Object, error)
}

// Parent is implemented by adapters of kinds that have parts which are jobs too.
type Parent interface {
	// PartOf says whether an object is a part of a job by the job's own account.
	PartOf(whole Object, gvk schema.GroupVersionKind, part metav1.Object) Part
}

// Part is what a job says of an object that says it is a part of it.
type Part int

// The answers. An owner reference can be written by any user.
const (
	// Stranger is not a part, whatever it says.
	Stranger Part = iota
	// Expected is what a part will be called; whether it is this one is not known
	// yet.
	Expected
	// Own is a part.
	Own
)
