package livetest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/local"
)

// An API server that finds definitions in its store serves them, has nothing to change in them, and takes
// them for applied by us: with the record they are not written, and without it they are written as they were.
func TestDefinitionsInTheStoreAreAsApplied(t *testing.T) {
	var x *install.Installation
	lc, err := local.Start(t.Context(), local.Config{
		DataDir: t.TempDir(), Parts: local.APIOnly, UnsafeNoFsync: true,
		Initial: func(a local.Access) ([]*unstructured.Unstructured, error) {
			var err error
			if x, err = install.Prepare(
				install.Options{WebhookURL: a.WebhookURL, CABundle: a.CABundle, ControllerUser: controllerUser},
			); err != nil {
				return nil, err
			}
			return x.Initial(time.Now())
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lc.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	admin := connect(t, lc.RESTConfig(), "")
	api, err := discovery.NewDiscoveryClientForConfig(lc.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Wait(t.Context(), admin, api); err != nil {
		t.Fatal(err)
	}
	stored := definitions(t, admin)
	if len(stored) < 28 {
		t.Fatalf("only %d definitions are there", len(stored))
	}
	for name, crd := range stored {
		if crd.Generation != 1 || len(crd.Status.StoredVersions) != 1 || crd.Status.AcceptedNames.Plural == "" {
			t.Errorf("%s was changed, or is not served: generation %d, status %+v", name, crd.Generation, crd.Status)
		}
	}
	for _, why := range []string{"with the record", "without it"} {
		if err := x.Apply(t.Context(), admin); err != nil {
			t.Fatalf("%s: %v", why, err)
		}
		for name, crd := range definitions(t, admin) {
			if why == "without it" {
				crd.ResourceVersion = stored[name].ResourceVersion // an API server orders fields otherwise
			}
			if diff := cmp.Diff(stored[name].ObjectMeta, crd.ObjectMeta); diff != "" {
				t.Errorf("%s: %s was changed (-stored +now):\n%s", why, name, diff)
			}
		}
		record := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: install.DefaultNamespace, Name: install.RecordName},
		}
		if err := client.IgnoreNotFound(admin.Delete(t.Context(), record)); err != nil {
			t.Fatal(err)
		}
	}
}

// definitions are all that the API server has, by name.
func definitions(t *testing.T, c client.Client) map[string]apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	out := map[string]apiextensionsv1.CustomResourceDefinition{}
	for _, crd := range list.Items {
		out[crd.Name] = crd
	}
	return out
}
