package install_test

import (
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mlbatch/mlbatch/config"
	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// late serves nothing, then all but Workloads, then all, a second each.
type late struct {
	since time.Time
	all   map[string][]string
}

func (l late) ServerResourcesForGroupVersion(gv string) (*metav1.APIResourceList, error) {
	out := &metav1.APIResourceList{GroupVersion: gv}
	for _, name := range l.all[gv] {
		if name != "workloads" || time.Since(l.since) >= 2*time.Second {
			out.APIResources = append(out.APIResources, metav1.APIResource{Name: name})
		}
	}
	if time.Since(l.since) < time.Second {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, gv)
	}
	return out, nil
}

func TestWaitUntilTheServerSaysWhatItServes(t *testing.T) {
	crds, err := config.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	served := late{all: map[string][]string{}}
	b := fake.NewClientBuilder().WithScheme(scheme.New())
	for _, crd := range crds {
		crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
		b.WithObjects(crd)
		for _, v := range crd.Spec.Versions {
			gv := crd.Spec.Group + "/" + v.Name
			served.all[gv] = append(served.all[gv], crd.Spec.Names.Plural)
		}
	}
	c := b.Build()
	synctest.Test(t, func(t *testing.T) {
		served.since = time.Now()
		if err := install.Wait(t.Context(), c, served); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(served.since); took < 2*time.Second {
			t.Errorf("waited %v, and Workloads are served after two seconds", took)
		}
	})
}
