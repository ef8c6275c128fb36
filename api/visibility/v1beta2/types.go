package v1beta2

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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

	// start is when it is expected to start; absent if that is not known.
	Start *Start `json:"start,omitempty"`
}

// Start is when a workload is expected to get its quota.
type Start struct {
	// p50 is as likely too early as too late; absent if nothing that is foreseen lets it
	// start within 30 days.
	P50 *metav1.Time `json:"p50,omitempty"`
	// p90 is when 9 in 10 such workloads have started; absent as p50 is.
	P90 *metav1.Time `json:"p90,omitempty"`
	// passed says that p50 is absent because jobs that come later start before it, and will
	// for as long as so many come.
	Passed bool `json:"passed,omitempty"`
	// at is when this was estimated.
	At metav1.Time `json:"at"`
	// known is how many runtimes of jobs like it are known; with 0 this is a guess.
	Known int32 `json:"known"`
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

	// quotas of the ClusterQueue, for whoever asks about a LocalQueue of it: members of a team
	// may not read ClusterQueues.
	Quotas []QueueQuota `json:"quotas,omitempty"`
}

// QueueQuota is a quota of a ClusterQueue and what all of its jobs have of it.
type QueueQuota struct {
	// flavor of the quota.
	Flavor string `json:"flavor"`
	// resource of the quota.
	Resource string `json:"resource"`
	// nominal is the queue's own quota.
	Nominal resource.Quantity `json:"nominal"`
	// borrowingLimit is how much more it may use, absent if there is no limit.
	BorrowingLimit *resource.Quantity `json:"borrowingLimit,omitempty"`
	// lendingLimit is how much of its own others may use, absent if there is no limit.
	LendingLimit *resource.Quantity `json:"lendingLimit,omitempty"`
	// used is what its jobs have.
	Used resource.Quantity `json:"used"`
	// borrowed is how much of that is above its own.
	Borrowed resource.Quantity `json:"borrowed"`
}
