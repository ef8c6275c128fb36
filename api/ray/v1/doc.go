// Package v1 is the ray.io API as far as mlbatch runs it: RayCluster, a head and groups
// of workers, and RayJob, a command that is run in one.
//
// The package holds types and names only. What the kinds mean is known to the
// packages below internal/kube/jobs.
//
// +kubebuilder:object:generate=true
// +groupName=ray.io
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion names this version of the API.
var GroupVersion = schema.GroupVersion{Group: "ray.io", Version: "v1"}

// The kinds.
const (
	RayClusterKind = "RayCluster"
	RayJobKind     = "RayJob"
)

// AddToScheme adds the kinds of this version to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &RayCluster{}, &RayClusterList{}, &RayJob{}, &RayJobList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
