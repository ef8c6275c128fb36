package install_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mlbatch/mlbatch/config"
	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// late serves nothing, then all but Workloads, then all, a second each.
type late struct {
	since time.Time
	all   map[schema.GroupVersion]*metav1.APIResourceList
}

func (l late) GroupsAndMaybeResources() (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	if time.Since(l.since) < time.Second {
		return nil, nil, nil, apierrors.NewServiceUnavailable("it comes up")
	}
	out := map[schema.GroupVersion]*metav1.APIResourceList{}
	for gv, list := range l.all {
		out[gv] = list.DeepCopy()
		if time.Since(l.since) < 2*time.Second {
			out[gv].APIResources = slices.DeleteFunc(
				out[gv].APIResources,
				func(r metav1.APIResource) bool { return r.Name == "workloads" },
			)
		}
	}
	return nil, out, nil, nil
}

// list notes that versions of a kind are served.
func (l late) list(crd *apiextensionsv1.CustomResourceDefinition) {
	for _, v := range crd.Spec.Versions {
		gv := schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name}
		if l.all[gv] == nil {
			l.all[gv] = &metav1.APIResourceList{}
		}
		l.all[gv].APIResources = append(l.all[gv].APIResources, metav1.APIResource{Name: crd.Spec.Names.Plural})
	}
}

func TestWaitUntilTheServerSaysWhatItServes(t *testing.T) {
	crds, err := config.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	served := late{all: map[schema.GroupVersion]*metav1.APIResourceList{}}
	for _, crd := range crds {
		served.list(crd)
	}
	c := fake.NewClientBuilder().WithScheme(scheme.New()).Build()
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

// An API server that was stopped between two steps of a definition never takes the second by itself: its
// successor needs to see the definition change.
func TestWaitTouchesDefinitionsThatAreStuck(t *testing.T) {
	crds, err := config.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	is := func(t apiextensionsv1.CustomResourceDefinitionConditionType) apiextensionsv1.CustomResourceDefinitionCondition {
		return apiextensionsv1.CustomResourceDefinitionCondition{Type: t, Status: apiextensionsv1.ConditionTrue}
	}
	served := late{all: map[schema.GroupVersion]*metav1.APIResourceList{}}
	b := fake.NewClientBuilder().WithScheme(scheme.New())
	for _, crd := range crds {
		crd.Status.Conditions = append(crd.Status.Conditions, is(apiextensionsv1.NamesAccepted))
		if crd.Name != "workloads.kueue.x-k8s.io" {
			crd.Status.Conditions = append(crd.Status.Conditions, is(apiextensionsv1.Established))
			served.list(crd)
		}
		b.WithObjects(crd)
	}
	var touched []string
	c := interceptor.NewClient(
		b.Build(),
		interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				touched = append(touched, o.GetName())
				for _, crd := range crds {
					if crd.Name == o.GetName() {
						served.list(crd) // it is seen now
					}
				}
				return c.Patch(ctx, o, p, opts...)
			},
		},
	)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := install.Wait(ctx, c, served); err != nil {
			t.Fatal(err)
		}
	})
	if diff := cmp.Diff([]string{"workloads.kueue.x-k8s.io"}, touched); diff != "" {
		t.Errorf("touched (-want +got):\n%s", diff)
	}
}
