package v1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PaddleElasticPolicy lets a job train with more or fewer workers than it began with.
type PaddleElasticPolicy struct {
	// minReplicas is the least number of workers; left out it is that of the role
	// Worker.
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the largest number of workers; left out it is that of the role
	// Worker.
	// +optional
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// maxRestarts is how often Paddle restarts the processes of a pod.
	// +optional
	MaxRestarts *int32 `json:"maxRestarts,omitempty"`

	// metrics by which an autoscaler chooses the number of workers; without them there
	// is no autoscaler.
	// +optional
	Metrics []autoscalingv2.MetricSpec `json:"metrics,omitempty"`
}

// PaddleJobSpec is what a user wants to run.
type PaddleJobSpec struct {
	// runPolicy says how long the job may run and what is left of it.
	// +optional
	RunPolicy RunPolicy `json:"runPolicy,omitempty"`

	// elasticPolicy lets the number of workers change.
	// +optional
	ElasticPolicy *PaddleElasticPolicy `json:"elasticPolicy,omitempty"`

	// paddleReplicaSpecs are the roles: Master, which are parameter servers, and Worker.
	// +required
	PaddleReplicaSpecs map[ReplicaType]*ReplicaSpec `json:"paddleReplicaSpecs"`
}

// PaddleJob trains with PaddlePaddle.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=paddlejobs
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.paddleReplicaSpecs.Worker.replicas,statuspath=.status.replicaStatuses.Worker.active,selectorpath=.status.replicaStatuses.Worker.selector
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[-1:].type`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PaddleJob struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants to run.
	// +optional
	Spec PaddleJobSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status JobStatus `json:"status,omitempty"`
}

// PaddleJobList is a list of PaddleJobs.
// +kubebuilder:object:root=true
type PaddleJobList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PaddleJob `json:"items"`
}
