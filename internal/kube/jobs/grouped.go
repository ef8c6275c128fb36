package jobs

import (
	"reflect"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// GroupedKind is everything that mlbatch knows of a kind whose objects consist of groups of pods, as
// LeaderWorkerSets do. StatefulSets of Kubernetes make the pods: one, which has the object's name and is
// controlled by it, makes the leader of each group, and one for each leader makes its workers. Each group
// is queued as a pod group of its own; nothing suspends the object. Such a kind is made in its folder
// and listed in package serving.
type GroupedKind struct {
	GVK schema.GroupVersionKind
	// New returns an empty object of the kind.
	New func() Object
	// Resource, ShortNames, Framework and AddToScheme are as in Naming; Framework is also the mark on the
	// pods of queued groups.
	Resource, Framework string
	ShortNames          []string
	AddToScheme         func(*runtime.Scheme) error
	// NameLabel is a label of everything that is made for an object: the object's name. GroupIndexLabel and
	// PodIndexLabel are labels of pods: the number of the group, and that of the pod in it, with the leader.
	NameLabel, GroupIndexLabel, PodIndexLabel string

	Queueing  GroupQueueing
	Running   GroupRunning
	Admission GroupAdmission
	Viewing   GroupViewing
	// Wrapped is what AppWrappers have to know of the kind.
	Wrapped *Wrapping
}

// GroupQueueing is what queueing the groups of a kind takes.
type GroupQueueing struct {
	// Group reads from the labels of a pod, or of a pod template in a Workload of ours, of which object
	// and which group of it that is; false if they say none.
	Group func(labels map[string]string) (name string, index int32, ok bool)
	// WorkloadName names the Workload of a group, and its pod group.
	WorkloadName func(name string, index int32) string
	// Size is what a group asks for of which one is a pod. A group keeps the template that it was made from:
	// if the object has another one by now, kept names the ControllerRevision that has it, for Kept. o is an
	// empty object if there is none any more.
	Size func(o Object, name string, index int32, one *corev1.Pod) (size *GroupSize, kept string)
	// Kept is the same by what a ControllerRevision keeps.
	Kept func(r *appsv1.ControllerRevision, name string, index int32, one *corev1.Pod) (*GroupSize, error)
}

// GroupSize is what one group asks for.
type GroupSize struct {
	// Pods is how many pods it has, one or more; PodSets are what they ask for.
	Pods    int32
	PodSets []kueue.PodSet
	// Later are the pod sets whose pods may come once the leader is ready only, with commas; "" if there are none.
	Later string
}

// GroupShapeAnnotation is the fingerprint of what a group asks for, on its pods and on the pod sets of its
// Workload: a group with another one needs another admission.
const GroupShapeAnnotation = "mlbatch.dev/group-shape"

// GroupRunning is how objects of a kind are run.
type GroupRunning struct {
	// Others are as in Operator.
	Others []string
	// Next says what has to be done for an object. The error is for its author.
	Next func(*Groups) (*GroupActions, error)
}

// Groups is what there is of one object of a GroupedKind.
type Groups struct {
	Object Object
	// Leaders is the StatefulSet of the leaders, nil if there is none.
	Leaders *appsv1.StatefulSet
	// Sets are the StatefulSets of workers, by name.
	Sets map[string]*appsv1.StatefulSet
	// Services has the names of Services that there are; false are about to go.
	Services map[string]bool
	Pods     []*corev1.Pod
	// Revisions are the templates that are kept.
	Revisions []*appsv1.ControllerRevision
	// NotMade is why pods that are missing may not be made, "" if nobody knows of a reason.
	NotMade string
	Now     time.Time
}

// GroupActions is what has to be done for an object. All of it may be done at once, in this order.
type GroupActions struct {
	Create []Object
	Change []GroupChange
	Delete []GroupDeletion
	// Is is the object with its status as it has to be.
	Is Object
	// Again is when to look again if nothing happens; 0 is never.
	Again time.Duration
}

// GroupChange is a StatefulSet as it was seen, and as it has to be.
type GroupChange struct{ Was, Is *appsv1.StatefulSet }

// GroupDeletion is an object that has to go.
type GroupDeletion struct {
	Object Object
	// WithParts: what the object controls goes first.
	WithParts bool
	// Why is told in an event of the object of the kind; "" tells nothing.
	Why string
}

// GroupAdmission is what webhooks know of a kind: who may write what.
type GroupAdmission struct {
	// Bulk is as in Admission.
	Bulk string
	// Mark is an annotation, or a label of an earlier version, of pods that mlbatch runs: "true". Identify
	// says what such a pod has to have from its making on and its template cannot say; nil for other pods.
	Mark     string
	Identify func(p *corev1.Pod, namespace string) *PodIdentity
	// Templates are the pod templates of an object, and Claims the volumes of which each pod gets its own.
	Templates func(Object) []PodTemplate
	Claims    func(Object) []string
	// Replicas is how many groups an object has, and PodSets what the first asks for.
	Replicas func(Object) int32
	PodSets  func(Object) []kueue.PodSet
	// Part reports whether an object is a part of a job that is queued as a whole.
	Part func(Object) bool
	// Validate, ValidateChange and Warnings are as in Admission.
	Validate       func(Object) field.ErrorList
	ValidateChange func(was, is Object) field.ErrorList
	Warnings       func(Object) []string
	// GroupSize is the path of the field with the number of pods of a group; left out it is 1.
	GroupSize []string
}

// GroupViewing is what people are told of objects of a kind, beside what their groups tell.
type GroupViewing struct {
	// Pods is how many pods an object is to have, in all groups, and what most of them are like.
	Pods func(Object) (int32, *corev1.PodTemplateSpec)
	// NotMade is what the status says of pods that could not be made; "" if nothing.
	NotMade func(Object) string
}

// Is reports whether an object is of the kind.
func (k *GroupedKind) Is(o any) bool { return reflect.TypeOf(o) == reflect.TypeOf(k.New()) }

// Names are all that people call the kind, in lower case.
func (k *GroupedKind) Names() []string {
	return append([]string{strings.ToLower(k.GVK.Kind), k.Resource}, k.ShortNames...)
}

// PodIdentity is what one pod of a group has to have.
type PodIdentity struct {
	Labels map[string]string
	// Role is the pod set of the pod where its template does not tell; "" leaves it.
	Role string
	// Subdomain is that of the pod; "" leaves it.
	Subdomain string
	// Affinity is all of it, with what the pod had; nil leaves it.
	Affinity *corev1.Affinity
	// EnvOf is all of the environment of a container, with what it had.
	EnvOf func(*corev1.Container) []corev1.EnvVar
}
