package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mlbatch/mlbatch/config"
)

// TestServable runs the checks that an API server runs when it is given the
// definitions: structural schemas, and rules that compile and cost little
// enough.
func TestServable(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	crds, err := config.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		t.Run(crd.Name, func(t *testing.T) {
			for _, v := range crd.Spec.Versions {
				if v.Storage {
					crd.Status.StoredVersions = []string{v.Name}
				}
			}
			scheme.Default(crd)
			internal := &apiextensions.CustomResourceDefinition{}
			if err := scheme.Convert(crd, internal, nil); err != nil {
				t.Fatal(err)
			}
			for _, e := range validation.ValidateCustomResourceDefinition(t.Context(), internal) {
				t.Error(e)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	type version struct {
		Served, Storage, Status bool
	}
	both := func(status bool) map[string]version {
		return map[string]version{
			"v1beta1": {Served: true, Status: status},
			"v1beta2": {Served: true, Storage: true, Status: status},
		}
	}
	want := map[string]map[string]version{
		"admissionchecks.kueue.x-k8s.io":     both(true),
		"appwrappers.workload.codeflare.dev": {"v1beta2": {Served: true, Storage: true, Status: true}},
		"clusterqueues.kueue.x-k8s.io":       both(true),
		"cohorts.kueue.x-k8s.io":             both(true),
		"jobsets.jobset.x-k8s.io":            {"v1alpha2": {Served: true, Storage: true, Status: true}},
		"mpijobs.kubeflow.org": {
			"v1":      {Served: true, Status: true},
			"v2beta1": {Served: true, Storage: true, Status: true},
		},
		"paddlejobs.kubeflow.org":                   {"v1": {Served: true, Storage: true, Status: true}},
		"pytorchjobs.kubeflow.org":                  {"v1": {Served: true, Storage: true, Status: true}},
		"tfjobs.kubeflow.org":                       {"v1": {Served: true, Storage: true, Status: true}},
		"xgboostjobs.kubeflow.org":                  {"v1": {Served: true, Storage: true, Status: true}},
		"jaxjobs.kubeflow.org":                      {"v1": {Served: true, Storage: true, Status: true}},
		"jobevidences.mlbatch.dev":                  {"v1alpha1": {Served: true, Storage: true}},
		"jobhistories.mlbatch.dev":                  {"v1alpha1": {Served: true, Storage: true}},
		"jobrecoveries.mlbatch.dev":                 {"v1alpha1": {Served: true, Storage: true}},
		"leaderworkersets.leaderworkerset.x-k8s.io": {"v1": {Served: true, Storage: true, Status: true}},
		"localqueues.kueue.x-k8s.io":                both(true),
		"multikueueclusters.kueue.x-k8s.io":         both(true),
		"multikueueconfigs.kueue.x-k8s.io":          both(false),
		"podgroups.scheduling.x-k8s.io":             {"v1alpha1": {Served: true, Storage: true, Status: true}},
		"provisioningrequestconfigs.kueue.x-k8s.io": both(false),
		"rayclusters.ray.io": {
			"v1":       {Served: true, Storage: true, Status: true},
			"v1alpha1": {Served: true, Status: true},
		},
		"rayjobs.ray.io": {
			"v1":       {Served: true, Storage: true, Status: true},
			"v1alpha1": {Served: true, Status: true},
		},
		"rayservices.ray.io": {
			"v1":       {Served: true, Storage: true, Status: true},
			"v1alpha1": {Served: true, Status: true},
		},
		"resourceflavors.kueue.x-k8s.io":               both(false),
		"topologies.kueue.x-k8s.io":                    both(false),
		"clustertrainingruntimes.trainer.kubeflow.org": {"v1alpha1": {Served: true, Storage: true}},
		"trainingruntimes.trainer.kubeflow.org":        {"v1alpha1": {Served: true, Storage: true}},
		"trainjobs.trainer.kubeflow.org":               {"v1alpha1": {Served: true, Storage: true, Status: true}},
		"workloadpriorityclasses.kueue.x-k8s.io":       both(false),
		"workloads.kueue.x-k8s.io":                     both(true),
	}
	crds, err := config.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]version{}
	for _, crd := range crds {
		got[crd.Name] = map[string]version{}
		for _, v := range crd.Spec.Versions {
			got[crd.Name][v.Name] = version{v.Served, v.Storage, hasStatus(v)}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("both versions of Kueue's kinds must be served and v1beta2 stored (-want +got):\n%s", diff)
	}
}

func hasStatus(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
	return v.Subresources != nil && v.Subresources.Status != nil
}
