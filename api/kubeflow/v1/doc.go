// Package v1 is the kubeflow.org API as far as mlbatch runs it: PyTorchJob, TFJob,
// XGBoostJob, PaddleJob and JAXJob. Each is a map of roles to replicas, with one
// policy for running them and one status for how they stand; only the settings of
// the framework differ.
//
// The package holds types and names only. What the kinds mean is known to the
// packages below internal/kube/jobs.
//
// +kubebuilder:object:generate=true
// +groupName=kubeflow.org
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion names this version of the API.
var GroupVersion = schema.GroupVersion{Group: "kubeflow.org", Version: "v1"}

// The kinds.
const (
	PyTorchJobKind = "PyTorchJob"
	TFJobKind      = "TFJob"
	XGBoostJobKind = "XGBoostJob"
	PaddleJobKind  = "PaddleJob"
	JAXJobKind     = "JAXJob"
)

// AddToScheme adds the kinds of this version to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&PyTorchJob{}, &PyTorchJobList{},
		&TFJob{}, &TFJobList{},
		&XGBoostJob{}, &XGBoostJobList{},
		&PaddleJob{}, &PaddleJobList{},
		&JAXJob{}, &JAXJobList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
