package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// DefaultLimit is how many workloads are listed where no limit is given.
	DefaultLimit = 1000
	// MaxLimit is how many are listed at most.
	MaxLimit = 100000
)

// PendingWorkload is a workload that waits.
type PendingWorkload struct {
	// metadata has the workload's name, namespace, owners and creation time.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// priority by which it stands in its queue.
	Priority int32 `json:"priority"`

	// localQueueName is the LocalQueue that it was submitted to.
	LocalQueueName string `json:"localQueueName"`

	// positionInClusterQueue is how many workloads of the ClusterQueue are before it.
	PositionInClusterQueue int32 `json:"positionInClusterQueue"`

	// positionInLocalQueue is how many workloads of the LocalQueue are before it.
	PositionInLocalQueue int32 `json:"positionInLocalQueue"`
}

// PendingWorkloadsSummary is the answer to a GET of
// clusterqueues/NAME/pendingworkloads and localqueues/NAME/pendingworkloads.
//
// +kubebuilder:object:root=true
type PendingWorkloadsSummary struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// items are the workloads in the order in which they are considered.
	Items []PendingWorkload `json:"items"`
}
