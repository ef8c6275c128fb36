package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Cohort is an inner node of the quota tree: queues and cohorts that lend to
// each other.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName={co}
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.parentName`,description="Cohort that this one belongs to"
// +kubebuilder:printcolumn:name="Weight",type=string,JSONPath=`.spec.fairSharing.weight`,description="Weight among the children of its parent"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the cohort was created"
// +kubebuilder:subresource:status
type Cohort struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the admin wants.
	// +optional
	Spec v1beta2.CohortSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status v1beta2.CohortStatus `json:"status,omitempty"`
}

// CohortList is a list of Cohorts.
// +kubebuilder:object:root=true
type CohortList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cohort `json:"items"`
}
