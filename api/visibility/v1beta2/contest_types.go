package v1beta2

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Contest is how the workload of an explanation stands to another one: the answer to
// explanation?against=NAMESPACE/NAME, or ?against=UID of a workload that the asker may
// know by that only.
type Contest struct {
	// self is the workload that was asked about.
	Self Contestant `json:"self"`
	// other is the one that it is compared with.
	Other Contestant `json:"other"`
	// cohort is the lowest one above both ClusterQueues; empty if there is none, or it is
	// the same ClusterQueue.
	Cohort string `json:"cohort,omitempty"`
	// order is the rule by which one of both stands before the other in their ClusterQueue:
	// PastUsage, Priority, QueueTime or Name; empty if they are in two.
	Order string `json:"order,omitempty"`
	// otherFirst says that it is the other that stands first.
	OtherFirst bool `json:"otherFirst,omitempty"`
	// strict says that the queue is StrictFIFO: nobody passes another there.
	Strict bool `json:"strict,omitempty"`
	// spared is the rule by which the other is not evicted for the first one: NotRunning,
	// NoCommonCohort, OtherQuota, Policy, Priority, WithinNominal, BorrowWithinCohort,
	// FairSharing, EvictedForIt, AdmissionNotYetSeen or PreemptionGate. It is empty if it
	// could be, or the first one is not considered at all.
	Spared string `json:"spared,omitempty"`
	// field is that of the first one's ClusterQueue that says whom it may evict there, and
	// policy what it says.
	Field string `json:"field,omitempty"`
	// policy is what the field says.
	Policy string `json:"policy,omitempty"`
	// quotas of both ClusterQueues, of what is short, or of all that the first one asks for.
	Quotas []ContestQuota `json:"quotas,omitempty"`
	// shares are those of the children of the cohort on either side, that of the first one
	// first; empty without fair sharing.
	Shares []ContestShare `json:"shares,omitempty"`
	// otherGone is what would become of the first one were the other not there; absent if
	// that was not tried.
	OtherGone *OtherGone `json:"otherGone,omitempty"`
}

// Contestant is a workload that is compared with another.
type Contestant struct {
	WorkloadReference `json:",inline"`
	// stage is Waiting, Promised (others leave for it), Running (it has quota) or Leaving (it
	// was evicted and still has quota); empty if no queue knows it.
	Stage string `json:"stage,omitempty"`
	// priority by which it stands in its queue.
	Priority int32 `json:"priority"`
	// queueTime by which it stands in its queue.
	QueueTime *metav1.Time `json:"queueTime,omitempty"`
	// reservedTime is when it got its quota.
	ReservedTime *metav1.Time `json:"reservedTime,omitempty"`
	// uses is what it holds, or would take of the flavors that look best.
	Uses []FlavorAmount `json:"uses,omitempty"`
}

// FlavorAmount is an amount of a resource of a flavor.
type FlavorAmount struct {
	// flavor it is of.
	Flavor string `json:"flavor"`
	// resource it is of.
	Resource string `json:"resource"`
	// amount of the resource.
	Amount resource.Quantity `json:"amount"`
}

// ContestQuota is a quota and what is used of it.
type ContestQuota struct {
	// clusterQueue that has it.
	ClusterQueue string `json:"clusterQueue"`
	// flavor of the quota.
	Flavor string `json:"flavor"`
	// resource of the quota.
	Resource string `json:"resource"`
	// nominal is the queue's own quota.
	Nominal resource.Quantity `json:"nominal"`
	// used is what its workloads have.
	Used resource.Quantity `json:"used"`
	// borrowed is how much of that is above its own.
	Borrowed resource.Quantity `json:"borrowed"`
}

// ContestShare is the share of a ClusterQueue or a cohort of what its parent can lend.
type ContestShare struct {
	// name of the ClusterQueue or the cohort.
	Name string `json:"name"`
	// cohort tells a cohort from a ClusterQueue.
	Cohort bool `json:"cohort,omitempty"`
	// weight among its siblings.
	Weight string `json:"weight"`
	// now is the share in thousandths, rounded up, as status.fairSharing.weightedShare shows
	// it: 9223372036854775807 for one of weight 0 that borrows.
	Now int64 `json:"now"`
	// then is the share with the first workload, on its side, or without the other.
	Then int64 `json:"then"`
}

// OtherGone is what would become of a workload were another one not there.
type OtherGone struct {
	// anyway says that it starts all the same, in a moment.
	Anyway bool `json:"anyway,omitempty"`
	// starts says that it would start, awaits that this is once workloads have ended that are
	// being stopped.
	Starts bool `json:"starts"`
	// awaits says that workloads that are being stopped must end first.
	Awaits bool `json:"awaits,omitempty"`
	// preempts is how many others would be evicted for it.
	Preempts int32 `json:"preempts,omitempty"`
	// instead is how many others would start in its place.
	Instead int32 `json:"instead,omitempty"`
	// reason is why it would wait still.
	Reason string `json:"reason,omitempty"`
	// cause refines the reason.
	Cause string `json:"cause,omitempty"`
	// message is the reason in one sentence. It names no workloads.
	Message string `json:"message,omitempty"`
}
