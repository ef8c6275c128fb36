package jobs

import (
	"errors"
	"io"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mlbatch/mlbatch/internal/engine/podplan"
)

// ErrOutgrown says that a job asks for more pods than it was admitted with. It is about to be
// stopped, and queued again.
var ErrOutgrown = errors.New("it asks for more pods than it was admitted with")

// Make returns the object of a member of a role that is not made of pods directly, as it is to
// run: its name is that of the member (podplan.Role), its kind one of Operator.Children.
// admitted is what the admission gives its pods; nil for a job that needs none. Namespace,
// owner and the labels that say whose it is are added to what is returned.
type Make func(x podplan.Member, m *podplan.RetryState, admitted Admitted) (Object, error)

// Admitted is what an admission gives the pods of a job, by pod set.
type Admitted map[string]PodSetInfo

// ChildKind is a kind of object that members of jobs can be, such as Job.
type ChildKind struct {
	GVK schema.GroupVersionKind
	// New returns an empty object of the kind.
	New func() Object
	// See reads how far one is. Identity, attempt and whether it is being deleted are filled
	// in by who asks.
	See func(Object) podplan.Seen
	// Hold returns one held back, and Release one that runs as wanted is to, from what it is.
	// nil for kinds whose members go instead (podplan.Role.Holds).
	Hold    func(is Object) Object
	Release func(is, wanted Object) Object
	// Adjust returns one that runs with what may change while it does as in wanted; nil for
	// kinds that stay as they were made.
	Adjust func(is, wanted Object) Object
}

// Artifact is an object that a job has beside its members, which are made only once it is
// there. Its namespace and owner are filled in. It is there until the job is deleted.
type Artifact struct {
	Object Object
	// Fill completes an object that is made once, by chance, and then stays as it is: keys.
	// nil for one that is kept as it is here.
	Fill func(random io.Reader, o Object) error
	// Stays: it is there while the job is suspended, too.
	Stays bool
	// Yields: where another's has its name the job goes on without it.
	Yields bool
	// Outlives: it belongs to nobody, so that it stays when the job is deleted, and one of its
	// name that is there already is the same.
	Outlives bool
}
