package scheme_test

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mlbatch/mlbatch/config"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// TestEveryServedKindIsKnown finds a definition whose Go type was forgotten.
func TestEveryServedKindIsKnown(t *testing.T) {
	s := scheme.New()
	crds, err := config.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		converted := crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter
		for _, v := range crd.Spec.Versions {
			if !v.Storage && !converted {
				continue // the same object under another name, which nobody here reads by it
			}
			for _, kind := range []string{crd.Spec.Names.Kind, crd.Spec.Names.ListKind} {
				gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: kind}
				if !s.Recognizes(gvk) {
					t.Errorf("%s is served but not in the scheme", gvk)
				}
			}
		}
	}
}
