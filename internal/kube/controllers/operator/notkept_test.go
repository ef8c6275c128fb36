package operator

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/test/toy"
)

// TestNothingIsMadeThatIsNotRemembered: where the definition of a kind has no place for what is to be
// remembered, as others' of the same version have not, no pods are made and it is said once. When the
// definition is back the job goes on.
func TestNothingIsMadeThatIsNotRemembered(t *testing.T) {
	b := newBench(t, aToy("lab"))
	refusal := `Toy in version "v1" cannot be handled as a Toy: strict decoding error: unknown field "status.recovery"`
	b.before = func(verb string, _ client.Object) error {
		if verb == "status" {
			return apierrors.NewBadRequest(refusal)
		}
		return nil
	}
	for range 3 {
		result, err := b.step()
		if err != nil || result.RequeueAfter == 0 {
			t.Fatalf("it is looked at again after %v: %v", result.RequeueAfter, err)
		}
	}
	expect(t, "pods", b.podNames(), []string(nil))
	if said := b.said(); strings.Count(said, "DefinitionNotOurs") != 1 || !strings.Contains(said, "the definition of Toy is not this program's") || !strings.Contains(said, "mlbatch install") {
		t.Errorf("it says %q", said)
	}
	b.before = nil
	b.run()
	expect(t, "once the definition is back", b.podNames(), three)
}

// TestOtherFieldsAreNotMissed: a definition that lacks another field of ours keeps no job from running.
func TestOtherFieldsAreNotMissed(t *testing.T) {
	b := newBench(t, aToy("lab"))
	strict := true
	b.before = func(verb string, o client.Object) error {
		if _, is := o.(*toy.Toy); !is || verb != "status" {
			return nil
		}
		if strict = !strict; strict {
			return nil // the second attempt takes what is known
		}
		return apierrors.NewBadRequest(`strict decoding error: unknown field "status.done"`)
	}
	b.run()
	expect(t, "pods", b.podNames(), three)
}
