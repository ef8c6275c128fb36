package webhook

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta1"
	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// newConverter converts objects between the versions that are served.
func newConverter(scheme *runtime.Scheme) (http.Handler, error) {
	registry := conversion.NewRegistry()
	for kind, build := range map[string]func(*runtime.Scheme) (conversion.Converter, error){
		"AdmissionCheck":            between(&v1beta1.AdmissionCheck{}, &v1beta2.AdmissionCheck{}),
		"ClusterQueue":              between(&v1beta1.ClusterQueue{}, &v1beta2.ClusterQueue{}),
		"Cohort":                    between(&v1beta1.Cohort{}, &v1beta2.Cohort{}),
		"LocalQueue":                between(&v1beta1.LocalQueue{}, &v1beta2.LocalQueue{}),
		"MultiKueueCluster":         between(&v1beta1.MultiKueueCluster{}, &v1beta2.MultiKueueCluster{}),
		"MultiKueueConfig":          between(&v1beta1.MultiKueueConfig{}, &v1beta2.MultiKueueConfig{}),
		"ProvisioningRequestConfig": between(&v1beta1.ProvisioningRequestConfig{}, &v1beta2.ProvisioningRequestConfig{}),
		"ResourceFlavor":            between(&v1beta1.ResourceFlavor{}, &v1beta2.ResourceFlavor{}),
		"Topology":                  between(&v1beta1.Topology{}, &v1beta2.Topology{}),
		"Workload":                  between(&v1beta1.Workload{}, &v1beta2.Workload{}),
		"WorkloadPriorityClass":     between(&v1beta1.WorkloadPriorityClass{}, &v1beta2.WorkloadPriorityClass{}),
	} {
		c, err := build(scheme)
		if err != nil {
			return nil, err
		}
		if err := registry.RegisterConverter(v1beta2.GroupVersion.WithKind(kind).GroupKind(), c); err != nil {
			return nil, err
		}
	}
	return conversion.NewWebhookHandler(scheme, registry), nil
}

// convertible is a kind of v1beta1 whose hub is H.
type convertible[H any] interface {
	client.Object
	ConvertTo(H) error
	ConvertFrom(H) error
}

func between[S convertible[H], H client.Object](spoke S, hub H) func(*runtime.Scheme) (conversion.Converter, error) {
	return conversion.NewHubSpokeConverter(hub, conversion.NewSpokeConverter(spoke,
		func(_ context.Context, src H, dst S) error { return dst.ConvertFrom(src) },
		func(_ context.Context, src S, dst H) error { return src.ConvertTo(dst) },
	))
}
