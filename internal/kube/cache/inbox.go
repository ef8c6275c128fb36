package cache

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mlbatch/mlbatch/internal/core"
)

// RefKind says what a Ref points at. Kinds are told to the engine in this order
// when they change together.
type RefKind int

// The kinds of objects that the engine learns about.
const (
	Topology RefKind = iota
	Flavor
	Cohort
	AdmissionCheck
	Queue
	LocalQueue
	Namespace
	LimitRange
	RuntimeClass
	Volume
	PriorityClass
	// NodeHealth is the ConfigMap with what is remembered of nodes.
	NodeHealth
	Node
	Pod
	Workload
	// Rejection is about a Workload: an admission of it can never be written.
	Rejection
)

// Ref names one object.
type Ref struct {
	Kind      RefKind
	Namespace string
	Name      string
}

// ObjectUpdate is the newest known form of one object; a nil Object was deleted.
type ObjectUpdate struct {
	Ref
	Object Object
	// Why tells of a Rejection.
	Why string
}

// Object is anything that a watch shows. It is what controller-runtime calls a
// client.Object, said here because that package links clients, which the cache must not.
type Object interface {
	metav1.Object
	runtime.Object
}

// Inbox collects changes from many watches for one reader. Changes of the same
// object coalesce: only the newest is kept. It is safe for concurrent use.
type Inbox struct {
	mu      sync.Mutex
	changes map[Ref]Object
	refused map[core.Key]string
	applied map[core.Key]uint64
	wake    chan struct{}
}

// NewInbox returns an empty inbox.
func NewInbox() *Inbox {
	return &Inbox{
		changes: map[Ref]Object{},
		refused: map[core.Key]string{},
		applied: map[core.Key]uint64{},
		wake:    make(chan struct{}, 1),
	}
}

// Put records the newest form of an object; nil means deleted. The object must
// not be changed afterwards.
func (b *Inbox) Put(r Ref, o Object) {
	b.mu.Lock()
	b.changes[r] = o
	b.mu.Unlock()
	b.notify()
}

// Newest is what was put in of an object and not yet taken; a nil Object was deleted.
func (b *Inbox) Newest(r Ref) (o Object, there bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, there = b.changes[r]
	return o, there
}

// Refused records that a decision about a workload could not be carried out. why
// says what is wrong with an admission that can never be written, and is a
// Rejection; "" is none.
func (b *Inbox) Refused(k core.Key, why string) {
	b.mu.Lock()
	b.refused[k] = why
	b.mu.Unlock()
	b.notify()
}

// Applied records that an admission was written, as the state seq of its workload. It
// wakes nothing: the state itself will, and until then whatever else changes finds it.
func (b *Inbox) Applied(k core.Key, seq uint64) {
	b.mu.Lock()
	b.applied[k] = max(b.applied[k], seq)
	b.mu.Unlock()
}

// Wake is readable when there may be something to take.
func (b *Inbox) Wake() <-chan struct{} { return b.wake }

// Take empties the inbox. Changes come sorted by kind, namespace and name, answers
// to decisions by key, so that the same changes always give the same events. What
// was written comes before what was refused: that was decided on top of it.
func (b *Inbox) Take() ([]ObjectUpdate, []core.Event) {
	b.mu.Lock()
	changes, refused, applied := b.changes, b.refused, b.applied
	b.changes, b.refused, b.applied = map[Ref]Object{}, map[core.Key]string{}, map[core.Key]uint64{}
	b.mu.Unlock()

	cs := make([]ObjectUpdate, 0, len(changes))
	for r, o := range changes {
		cs = append(cs, ObjectUpdate{Ref: r, Object: o})
	}
	for k, why := range refused {
		if why != "" {
			cs = append(cs, ObjectUpdate{Ref: Ref{Rejection, k.Namespace, k.Name}, Why: why})
		}
	}
	slices.SortFunc(cs, func(a, b ObjectUpdate) int {
		return cmp.Or(
			cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name),
		)
	})
	es := make([]core.Event, 0, len(applied)+len(refused))
	for _, k := range slices.SortedFunc(maps.Keys(applied), core.Key.Compare) {
		es = append(es, core.Applied{Key: k, Seq: applied[k]})
	}
	for _, k := range slices.SortedFunc(maps.Keys(refused), core.Key.Compare) {
		es = append(es, core.Refused{Key: k})
	}
	return cs, es
}

func (b *Inbox) notify() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}
