// Package autoscaling is the part of the autoscaling.x-k8s.io API that mlbatch
// uses: ProvisioningRequest, by which Cluster Autoscaler and its kin are asked
// for nodes. The kind belongs to them; their clusters bring its definition.
// Versions v1 and v1beta1 have the same fields, so there is one set of types,
// which a scheme knows under the version that a cluster serves.
//
// +kubebuilder:object:generate=true
// +kubebuilder:skip
package autoscaling

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group; Versions are those that the types fit, best first.
const Group = "autoscaling.x-k8s.io"

// Versions returns the versions that the types fit, best first.
func Versions() []string { return []string{"v1", "v1beta1"} }

// Kind is the kind that asks for nodes.
const Kind = "ProvisioningRequest"

// AddToScheme returns a function that adds the kinds under one version.
func AddToScheme(version string) func(*runtime.Scheme) error {
	return func(s *runtime.Scheme) error {
		gv := schema.GroupVersion{Group: Group, Version: version}
		s.AddKnownTypes(gv, &ProvisioningRequest{}, &ProvisioningRequestList{})
		metav1.AddToGroupVersion(s, gv)
		return nil
	}
}
