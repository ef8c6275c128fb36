// Package v1alpha1 is the mlbatch.dev API: what is remembered of jobs whose pods mlbatch makes, and the
// labels and annotations of these pods.
//
// +kubebuilder:object:generate=true
// +groupName=mlbatch.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion names this version of the API.
var GroupVersion = schema.GroupVersion{Group: "mlbatch.dev", Version: "v1alpha1"}

// Resource is what the API calls JobRecoveries.
const Resource = "jobrecoveries"

// AddToScheme adds the kinds of this version to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &JobRecovery{}, &JobRecoveryList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
