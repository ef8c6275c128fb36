package autoscaling

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ProvisioningRequest asks for nodes on which given pods would fit.
// +kubebuilder:object:root=true
type ProvisioningRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ProvisioningRequestSpec   `json:"spec"`
	Status ProvisioningRequestStatus `json:"status,omitempty"`
}

// ProvisioningRequestList is a list of ProvisioningRequests.
// +kubebuilder:object:root=true
type ProvisioningRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ProvisioningRequest `json:"items"`
}

// ProvisioningRequestSpec says what is asked for. It cannot be changed.
type ProvisioningRequestSpec struct {
	// PodSets are the pods, at most 32 kinds of them.
	PodSets []PodSet `json:"podSets"`
	// ProvisioningClassName says how nodes are to be had.
	ProvisioningClassName string `json:"provisioningClassName"`
	// Parameters are what the class needs to know besides, at most 100.
	Parameters map[string]Parameter `json:"parameters,omitempty"`
}

// Parameter is a value of at most 255 characters.
type Parameter string

// PodSet is a number of equal pods.
type PodSet struct {
	// PodTemplateRef names a PodTemplate in the same namespace.
	PodTemplateRef Reference `json:"podTemplateRef"`
	// Count is 1 or more.
	Count int32 `json:"count"`
}

// Reference names an object in the same namespace.
type Reference struct {
	Name string `json:"name,omitempty"`
}

// ProvisioningRequestStatus is what became of it.
type ProvisioningRequestStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ProvisioningClassDetails are what the class tells besides, at most 64.
	ProvisioningClassDetails map[string]Detail `json:"provisioningClassDetails,omitempty"`
}

// Detail is a value of at most 32768 characters.
type Detail string

// Conditions of a ProvisioningRequest.
const (
	// Accepted: it will be tried. The message of Provisioned, which is False
	// then, may say until when.
	Accepted = "Accepted"
	// Provisioned: the nodes are there.
	Provisioned = "Provisioned"
	// Failed: they cannot be had.
	Failed = "Failed"
	// BookingExpired: they were there and are not kept any longer.
	BookingExpired = "BookingExpired"
	// CapacityRevoked: they were there and are gone.
	CapacityRevoked = "CapacityRevoked"
)

// Annotations of pods that are to run on the nodes.
const (
	// ConsumeAnnotation names the request.
	ConsumeAnnotation = "autoscaling.x-k8s.io/consume-provisioning-request"
	// ClassAnnotation names its class.
	ClassAnnotation = "autoscaling.x-k8s.io/provisioning-class-name"
)
