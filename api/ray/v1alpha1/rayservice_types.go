package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/mlbatch/mlbatch/api/ray/v1"
)

// RayService serves applications from a cluster.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=rayservices,categories=all
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="service status",type=string,JSONPath=`.status.serviceStatus`
// +kubebuilder:printcolumn:name="num serve endpoints",type=string,JSONPath=`.status.numServeEndpoints`
type RayService struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants to serve.
	// +optional
	Spec v1.RayServiceSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status v1.RayServiceStatuses `json:"status,omitempty"`
}

// RayServiceList is a list of RayServices.
// +kubebuilder:object:root=true
type RayServiceList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RayService `json:"items"`
}
