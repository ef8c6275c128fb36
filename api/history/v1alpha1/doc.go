// Package v1alpha1 is the mlbatch.dev API: what is kept of jobs that ended.
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

// What the API calls JobHistories and JobEvidences.
const (
	Resource         = "jobhistories"
	EvidenceResource = "jobevidences"
)

// AddToScheme adds the kinds of this version to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &JobHistory{}, &JobHistoryList{}, &JobEvidence{}, &JobEvidenceList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
