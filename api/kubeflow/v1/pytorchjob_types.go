package v1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RDZVBackend keeps the rendezvous of elastic workers.
// +kubebuilder:validation:Enum=c10d;etcd;etcd-v2
type RDZVBackend string

// The backends.
const (
	BackendC10D   RDZVBackend = "c10d"
	BackendETCD   RDZVBackend = "etcd"
	BackendETCDV2 RDZVBackend = "etcd-v2"
)

// RDZVConf is one setting of the rendezvous backend.
type RDZVConf struct {
	// key of the setting.
	// +optional
	Key string `json:"key,omitempty"`
	// value of the setting.
	// +optional
	Value string `json:"value,omitempty"`
}

// ElasticPolicy lets a job train with more or fewer workers than it began with.
type ElasticPolicy struct {
	// minReplicas is the least number of workers; left out it is that of the role
	// Worker.
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the largest number of workers; left out it is that of the role
	// Worker.
	// +optional
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// rdzvBackend keeps the rendezvous: c10d, etcd or etcd-v2.
	// +optional
	RDZVBackend *RDZVBackend `json:"rdzvBackend,omitempty"`

	// rdzvPort is the port of the rendezvous; left out it is that of the workers.
	// +optional
	RDZVPort *int32 `json:"rdzvPort,omitempty"`

	// rdzvHost is the host of the rendezvous; left out it is the first worker.
	// +optional
	RDZVHost *string `json:"rdzvHost,omitempty"`

	// rdzvId names the rendezvous among others of its backend.
	// +optional
	RDZVID *string `json:"rdzvId,omitempty"`

	// rdzvConf are further settings of the backend.
	// +optional
	RDZVConf []RDZVConf `json:"rdzvConf,omitempty"`

	// standalone has every pod keep a rendezvous of its own.
	// +optional
	Standalone *bool `json:"standalone,omitempty"`

	// nProcPerNode is the older place of spec.nprocPerNode.
	// +optional
	NProcPerNode *int32 `json:"nProcPerNode,omitempty"`

	// maxRestarts is how often torch restarts a group of processes.
	// +optional
	MaxRestarts *int32 `json:"maxRestarts,omitempty"`

	// metrics by which an autoscaler chooses the number of workers; without them there
	// is no autoscaler.
	// +optional
	Metrics []autoscalingv2.MetricSpec `json:"metrics,omitempty"`
}

// PyTorchJobSpec is what a user wants to run.
type PyTorchJobSpec struct {
	// runPolicy says how long the job may run and what is left of it.
	// +optional
	RunPolicy RunPolicy `json:"runPolicy,omitempty"`

	// elasticPolicy lets the number of workers change.
	// +optional
	ElasticPolicy *ElasticPolicy `json:"elasticPolicy,omitempty"`

	// pytorchReplicaSpecs are the roles: Master, at most one pod, and Worker.
	// +required
	PyTorchReplicaSpecs map[ReplicaType]*ReplicaSpec `json:"pytorchReplicaSpecs"`

	// nprocPerNode is how many processes each pod starts: auto, cpu, gpu or a number.
	// Left out it is auto.
	// +optional
	NprocPerNode *string `json:"nprocPerNode,omitempty"`
}

// PyTorchJob trains with torch.distributed or torchrun.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=pytorchjobs
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.pytorchReplicaSpecs.Worker.replicas,statuspath=.status.replicaStatuses.Worker.active,selectorpath=.status.replicaStatuses.Worker.selector
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[-1:].type`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PyTorchJob struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants to run.
	// +optional
	Spec PyTorchJobSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status JobStatus `json:"status,omitempty"`
}

// PyTorchJobList is a list of PyTorchJobs.
// +kubebuilder:object:root=true
type PyTorchJobList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PyTorchJob `json:"items"`
}
