package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SuccessPolicy says when a TFJob without Chief and Master has succeeded.
// +kubebuilder:validation:Enum="";AllWorkers
type SuccessPolicy string

// The success policies.
const (
	// SuccessPolicyDefault: once the first worker has.
	SuccessPolicyDefault SuccessPolicy = ""
	// SuccessPolicyAllWorkers: once all workers have.
	SuccessPolicyAllWorkers SuccessPolicy = "AllWorkers"
)

// TFJobSpec is what a user wants to run.
type TFJobSpec struct {
	// runPolicy says how long the job may run and what is left of it.
	// +optional
	RunPolicy RunPolicy `json:"runPolicy,omitempty"`

	// successPolicy says when the job has succeeded if it has neither Chief nor Master:
	// with its first worker, or with AllWorkers.
	// +optional
	SuccessPolicy *SuccessPolicy `json:"successPolicy,omitempty"`

	// cleanPodPolicy is the older place of the one in runPolicy, which comes first.
	// +optional
	CleanPodPolicy *CleanPodPolicy `json:"cleanPodPolicy,omitempty"`

	// tfReplicaSpecs are the roles: Chief or Master, at most one pod, PS, Worker and
	// Evaluator.
	// +required
	TFReplicaSpecs map[ReplicaType]*ReplicaSpec `json:"tfReplicaSpecs"`

	// enableDynamicWorker tells each worker of itself and the parameter servers only,
	// so that workers may come and go.
	// +optional
	EnableDynamicWorker bool `json:"enableDynamicWorker,omitempty"`
}

// TFJob trains with TensorFlow, which finds its peers in TF_CONFIG.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=tfjobs
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[-1:].type`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TFJob struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants to run.
	// +optional
	Spec TFJobSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status JobStatus `json:"status,omitempty"`
}

// TFJobList is a list of TFJobs.
// +kubebuilder:object:root=true
type TFJobList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TFJob `json:"items"`
}
