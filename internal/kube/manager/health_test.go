package manager

import (
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mlbatch/mlbatch/internal/kube/controllers/deeptest"
)

// OpenShift refuses pods that name a user, and elsewhere an image may be of root.
func TestDeepTestsOnOpenShiftNameNoUser(t *testing.T) {
	version := schema.GroupVersion{Group: "security.openshift.io", Version: "v1"}
	mapper := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{version})
	for _, want := range []bool{false, true} {
		if want {
			mapper.Add(version.WithKind("SecurityContextConstraints"), apimeta.RESTScopeRoot)
		}
		got, err := templateFor(mapper, deeptest.Template{Image: "i"})
		if err != nil || got.AnyUser != want || got.Image != "i" {
			t.Errorf("it is %+v, %v; want that it leaves the user open: %t", got, err, want)
		}
	}
}
