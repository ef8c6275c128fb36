package appwrapper

import (
	"testing"

	"github.com/mlbatch/mlbatch/internal/kube/jobs/native"
	"github.com/mlbatch/mlbatch/test/toy"
)

// What AppWrappers know of a native kind comes from the kind's own folder, without a
// line here.
func TestNewKindIsWrapped(t *testing.T) {
	const train = `{apiVersion: toys.example.com/v1, kind: Toy, metadata: {name: x}, spec: {pods: 3, template: {spec: {containers: [{name: c}]}}}}`
	if _, err := Components(wrap(t, train)); err == nil {
		t.Fatal("an unknown kind has to declare its pods")
	}
	t.Cleanup(func() { wraps = tableOf(native.All(), foreign()) })
	wraps = tableOf(append(native.All(), toy.Kind()), foreign())
	components, err := Components(wrap(t, train))
	if err != nil {
		t.Fatal(err)
	}
	if sets := components[0].PodSets; len(sets) != 1 || sets[0].Count != 3 {
		t.Errorf("its pods are %+v", sets)
	}
}
