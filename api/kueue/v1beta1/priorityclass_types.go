package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WorkloadPriorityClass names a priority that orders workloads without
// changing the priority of their pods.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName={wpc}
// +kubebuilder:printcolumn:name="Value",type=integer,JSONPath=`.value`,description="Priority of workloads of this class"
type WorkloadPriorityClass struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// value is the priority; higher goes first.
	// +required
	Value int32 `json:"value"`

	// description says when to use the class.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Description string `json:"description,omitempty"`
}

// WorkloadPriorityClassList is a list of WorkloadPriorityClasses.
// +kubebuilder:object:root=true
type WorkloadPriorityClassList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkloadPriorityClass `json:"items"`
}
