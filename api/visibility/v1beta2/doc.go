// Package v1beta2 is the visibility.kueue.x-k8s.io API: who waits in a ClusterQueue
// or a LocalQueue, in which order. Nothing of it is stored; the controller
// answers from the engine.
//
// +kubebuilder:object:generate=true
package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion names this version of the API.
var GroupVersion = schema.GroupVersion{Group: "visibility.kueue.x-k8s.io", Version: "v1beta2"}

// AddToScheme adds the kinds of this version to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &PendingWorkloadsSummary{}, &Explanation{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
