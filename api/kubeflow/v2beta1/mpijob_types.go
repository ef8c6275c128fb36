package v2beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/mlbatch/mlbatch/api/kubeflow/v1"
)

// MPIJob runs mpirun in a launcher, which starts processes in workers. Jobs of this
// version reach their workers by ssh.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=mpijobs
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.mpiReplicaSpecs.Worker.replicas,statuspath=.status.replicaStatuses.Worker.active,selectorpath=.status.replicaStatuses.Worker.selector
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[-1:].type`
type MPIJob struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants to run.
	// +optional
	Spec v1.MPIJobSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status v1.JobStatus `json:"status,omitempty"`
}

// MPIJobList is a list of MPIJobs.
// +kubebuilder:object:root=true
type MPIJobList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MPIJob `json:"items"`
}

// Policy implements v1.Job.
func (j *MPIJob) Policy() *v1.RunPolicy { return &j.Spec.RunPolicy }

// Roles implements v1.Job.
func (j *MPIJob) Roles() *map[v1.ReplicaType]*v1.ReplicaSpec { return &j.Spec.MPIReplicaSpecs }

// State implements v1.Job.
func (j *MPIJob) State() *v1.JobStatus { return &j.Status }
