package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/mlbatch/mlbatch/api/ray/v1"
)

// RayService runs a command in a cluster.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=rayservices,categories=all
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="job status",type=string,JSONPath=`.status.jobStatus`
// +kubebuilder:printcolumn:name="deployment status",type=string,JSONPath=`.status.jobDeploymentStatus`
// +kubebuilder:printcolumn:name="ray cluster name",type=string,JSONPath=`.status.rayClusterName`
// +kubebuilder:printcolumn:name="start time",type=string,JSONPath=`.status.startTime`
// +kubebuilder:printcolumn:name="end time",type=string,JSONPath=`.status.endTime`
// +kubebuilder:printcolumn:name="age",type=date,JSONPath=`.metadata.creationTimestamp`
type RayService struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants to run.
	// +optional
	Spec v1.RayServiceSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status v1.RayServiceStatus `json:"status,omitempty"`
}

// RayServiceList is a list of RayServices.
// +kubebuilder:object:root=true
type RayServiceList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RayService `json:"items"`
}
