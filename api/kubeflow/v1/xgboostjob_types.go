package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// XGBoostJobSpec is what a user wants to run.
type XGBoostJobSpec struct {
	// runPolicy says how long the job may run and what is left of it.
	// +optional
	RunPolicy RunPolicy `json:"runPolicy,omitempty"`

	// xgbReplicaSpecs are the roles: Master, one pod, and Worker.
	// +required
	XGBReplicaSpecs map[ReplicaType]*ReplicaSpec `json:"xgbReplicaSpecs"`
}

// XGBoostJob trains with XGBoost or LightGBM, whose processes meet at the master.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=xgboostjobs
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.xgbReplicaSpecs.Worker.replicas,statuspath=.status.replicaStatuses.Worker.active,selectorpath=.status.replicaStatuses.Worker.selector
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[-1:].type`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type XGBoostJob struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants to run.
	// +optional
	Spec XGBoostJobSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status JobStatus `json:"status,omitempty"`
}

// XGBoostJobList is a list of XGBoostJobs.
// +kubebuilder:object:root=true
type XGBoostJobList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []XGBoostJob `json:"items"`
}
