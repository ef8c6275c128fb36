//go:build !noembed

package controlplane

import (
	"fmt"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	serveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/server/resourceconfig"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	_ "k8s.io/kubernetes/pkg/features" // Kubernetes' own gates
)

// CheckFeatureGates says what is wrong with feature gates of Kubernetes (A=true,B=false): a component
// that is given such ones does not start.
func CheckFeatureGates(gates string) error {
	if gates == "" {
		return nil
	}
	known := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	if err := known.Set(gates); err != nil {
		return err
	}
	return utilerrors.NewAggregate(known.Validate())
}

// CheckRuntimeConfig says what is wrong with a choice of APIs (group/version=true,...).
func CheckRuntimeConfig(apis string) error {
	if apis == "" {
		return nil
	}
	choice := cliflag.ConfigurationMap{}
	if err := choice.Set(apis); err != nil {
		return fmt.Errorf("write group/version=true: %w", err)
	}
	for api, on := range choice {
		if on != "" && on != "true" && on != "false" {
			return fmt.Errorf("%s=%s: must be true or false", api, on)
		}
	}
	options := serveroptions.APIEnablementOptions{RuntimeConfig: choice}
	if errs := options.Validate(legacyscheme.Scheme, apiextensions.Scheme, aggregator.Scheme); len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	_, err := resourceconfig.MergeAPIResourceConfigs(
		controlplane.DefaultAPIResourceConfigSource(),
		choice,
		legacyscheme.Scheme,
	)
	return err
}
