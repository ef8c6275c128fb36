package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// JAXJobSpec is what a user wants to run.
type JAXJobSpec struct {
	// runPolicy says how long the job may run and what is left of it.
	// +optional
	RunPolicy RunPolicy `json:"runPolicy,omitempty"`

	// jaxReplicaSpecs has the role Worker, whose first pod coordinates the others.
	// +required
	JAXReplicaSpecs map[ReplicaType]*ReplicaSpec `json:"jaxReplicaSpecs"`
}

// JAXJob computes with jax.distributed.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=jaxjobs
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.jaxReplicaSpecs.Worker.replicas,statuspath=.status.replicaStatuses.Worker.active,selectorpath=.status.replicaStatuses.Worker.selector
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[-1:].type`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type JAXJob struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants to run.
	// +optional
	Spec JAXJobSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status JobStatus `json:"status,omitempty"`
}

// JAXJobList is a list of JAXJobs.
// +kubebuilder:object:root=true
type JAXJobList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []JAXJob `json:"items"`
}
