package operator

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/test/toy"
)

// TestChangesAreTold: a kind tells of a change of the status in its own events, once that is written, and
// of one that was not written nothing.
func TestChangesAreTold(t *testing.T) {
	b := newBench(t, aToy("lab"))
	kind, operated := *b.r.kind, *b.r.kind.Running.Operator
	operated.StatusEvents = func(was, is jobs.Object) []jobs.Event {
		before, _ := was.(*toy.Toy)
		after, _ := is.(*toy.Toy)
		if !before.Status.Runs && after.Status.Runs {
			return []jobs.Event{
				{Reason: "ToyBegan", Message: "It began."},
				{Reason: "ToyWarned", Message: "It is new.", Warning: true},
			}
		}
		return nil
	}
	kind.Running.Operator, b.r.kind = &operated, &kind
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "toys"}, "x", nil)
	b.before = func(verb string, _ client.Object) error {
		if verb == "status" {
			return conflict
		}
		return nil
	}
	if _, err := b.step(); err != nil {
		t.Fatal(err)
	}
	if said := b.said(); strings.Contains(said, "Toy") {
		t.Errorf("nothing is written, and it says %s", said)
	}
	b.before = nil
	b.run()
	if said := b.said(); strings.Count(said, "Normal ToyBegan It began.") != 1 ||
		strings.Count(said, "Warning ToyWarned It is new.") != 1 {
		t.Errorf("it says %s", said)
	}
}
