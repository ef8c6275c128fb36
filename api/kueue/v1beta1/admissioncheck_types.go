package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// AdmissionCheckSpec says who answers a check.
type AdmissionCheckSpec struct {
	// controllerName is the controller that answers the check.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: delete the AdmissionCheck and create it anew"
	// +required
	ControllerName string `json:"controllerName"`

	// retryDelayMinutes has no effect and is not in v1beta2.
	// +optional
	RetryDelayMinutes *int64 `json:"retryDelayMinutes,omitempty"`

	// parameters name an object with more settings.
	// +optional
	Parameters *v1beta2.AdmissionCheckParametersReference `json:"parameters,omitempty"`
}

// AdmissionCheck is something that must say yes before a workload is admitted.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName={ac}
// +kubebuilder:printcolumn:name="Controller",type=string,JSONPath=`.spec.controllerName`,description="Who answers the check"
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.conditions[?(@.type=='Active')].status`,description="Whether somebody is ready to answer it"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the check was created"
// +kubebuilder:subresource:status
type AdmissionCheck struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says who answers the check.
	// +optional
	Spec AdmissionCheckSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status v1beta2.AdmissionCheckStatus `json:"status,omitempty"`
}

// AdmissionCheckList is a list of AdmissionChecks.
// +kubebuilder:object:root=true
type AdmissionCheckList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AdmissionCheck `json:"items"`
}
