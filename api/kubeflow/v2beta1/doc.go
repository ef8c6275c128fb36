// Package v2beta1 is the version of the kubeflow.org API that only MPIJob has. Its fields
// are in package v1, with which it shares one definition: the API server changes nothing
// but the name of the version between the two, and stores this one.
//
// +kubebuilder:object:generate=true
// +groupName=kubeflow.org
package v2beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion names this version of the API.
var GroupVersion = schema.GroupVersion{Group: "kubeflow.org", Version: "v2beta1"}

// MPIJobKind is the kind.
const MPIJobKind = "MPIJob"

// ManagedByOperator is the value of runPolicy.managedBy that means the same as none.
const ManagedByOperator = "kubeflow.org/mpi-operator"

// AddToScheme adds the kind of this version to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &MPIJob{}, &MPIJobList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
