// Package v1alpha2 is the jobset.x-k8s.io API as far as mlbatch runs it: a JobSet, which
// is made of Jobs of several roles that know each other and end together.
//
// The package holds types and names only. What the kind means is known to
// the packages below internal/kube/jobs.
//
// +kubebuilder:object:generate=true
// +groupName=jobset.x-k8s.io
package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion names this version of the API.
var GroupVersion = schema.GroupVersion{Group: "jobset.x-k8s.io", Version: "v1alpha2"}

// JobSetKind is the kind.
const JobSetKind = "JobSet"

// AddToScheme adds the kinds of this version to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &JobSet{}, &JobSetList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
