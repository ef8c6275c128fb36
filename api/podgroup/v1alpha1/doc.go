// Package v1alpha1 is the scheduling.x-k8s.io API: the PodGroup, a gang of pods
// that start together or not at all.
//
// +kubebuilder:object:generate=true
// +groupName=scheduling.x-k8s.io
package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

var (
	// GroupVersion names this version of the API.
	GroupVersion = schema.GroupVersion{Group: "scheduling.x-k8s.io", Version: "v1alpha1"}

	// SchemeBuilder adds the kinds of this version to a scheme.
	SchemeBuilder = (&scheme.Builder{GroupVersion: GroupVersion}).Register(&PodGroup{}, &PodGroupList{})

	// AddToScheme adds the kinds of this version to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)
