package v1beta2

// ClusterQueueReference is the name of a ClusterQueue.
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
type ClusterQueueReference string

// CohortReference is the name of a Cohort. The object need not exist.
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
type CohortReference string

// ResourceFlavorReference is the name of a ResourceFlavor.
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
type ResourceFlavorReference string

// LocalQueueName is the name of a LocalQueue.
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
type LocalQueueName string

// TopologyReference is the name of a Topology.
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
type TopologyReference string

// PodSetReference is the name of a pod set within a Workload.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
type PodSetReference string

// AdmissionCheckReference is the name of an AdmissionCheck.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=316
type AdmissionCheckReference string

// StopPolicy says whether a queue admits and keeps workloads.
// +kubebuilder:validation:Enum=None;Hold;HoldAndDrain
type StopPolicy string

// The stop policies.
const (
	// StopPolicyNone lets the queue admit.
	StopPolicyNone StopPolicy = "None"
	// StopPolicyHold admits nothing new and keeps what runs.
	StopPolicyHold StopPolicy = "Hold"
	// StopPolicyHoldAndDrain admits nothing new and evicts what runs.
	StopPolicyHoldAndDrain StopPolicy = "HoldAndDrain"
)

// MostAdmissionChecks is how many checks the status of a Workload can list.
const MostAdmissionChecks = 8
