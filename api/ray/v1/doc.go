// Package v1 is the ray.io API as far as mlbatch runs it: RayCluster, a head and groups
// of workers, RayJob, a command that is run in one, and RayService, applications that one serves.
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
	RayServiceKind = "RayService"
)

// AddToScheme adds the kinds of this version to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(
		GroupVersion,
		&RayCluster{},
		&RayClusterList{},
		&RayJob{},
		&RayJobList{},
		&RayService{},
		&RayServiceList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
