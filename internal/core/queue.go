package core

import "time"

// Flavor is a kind of node that quota is given for (ResourceFlavor).
type Flavor struct {
	Name string
	// NodeLabels select the flavor's nodes; empty means all nodes.
	NodeLabels map[string]string
	// Taints must be tolerated by a pod to use the flavor.
	Taints []Taint
	// Tolerations are given to pods that use the flavor.
	Tolerations []Toleration
	// KeepsSpares says that some of its nodes are kept for recovery (SpareLabel).
	KeepsSpares bool
	// Topology is how the flavor's nodes are nested; the zero value where nobody says.
	Topology Topology
}

// Quota is what one flavor offers of one resource.
type Quota struct {
	Resource string
	// Nominal is what is admitted by.
	Nominal Amount
	// Cut is how much more was promised than Nominal, while nodes are lost. What runs within both together is not
	// evicted for others.
	Cut Amount
	// Borrowing is how much above Nominal may be used; nil means no limit.
	Borrowing *Amount
	// Lending is how much of the unused Nominal others may use; nil means all.
	Lending *Amount
}

// FlavorQuotas are the quotas of one flavor in a resource group.
type FlavorQuotas struct {
	Flavor string
	// Quotas are in the order of the group's Covered resources.
	Quotas []Quota
}

// ResourceGroup is a set of resources that are always taken from one flavor.
type ResourceGroup struct {
	Covered []string
	// Flavors in the order in which they are tried.
	Flavors []FlavorQuotas
}

// Cohort is an inner node of the quota tree. Queues may also name a cohort for
// which no object exists: it has no quota of its own and no parent.
type Cohort struct {
	Name   string
	Parent string // "" for a root
	Groups []ResourceGroup
	// Weight among the children of its parent; nil means WeightOne.
	Weight *Weight
}

// Strategy is how a queue goes on after a workload that does not fit.
type Strategy string

// The queueing strategies.
const (
	StrictFIFO     Strategy = "StrictFIFO"
	BestEffortFIFO Strategy = "BestEffortFIFO"
)

// StopPolicy says whether a queue admits and keeps workloads.
type StopPolicy string

// The stop policies.
const (
	StopNone     StopPolicy = "None"
	Hold         StopPolicy = "Hold"
	HoldAndDrain StopPolicy = "HoldAndDrain"
)

// PreemptionPolicy says which workloads may be evicted.
type PreemptionPolicy string

// The preemption policies; not every one is legal in every field.
const (
	PreemptNever                 PreemptionPolicy = "Never"
	PreemptLowerPriority         PreemptionPolicy = "LowerPriority"
	PreemptLowerOrNewerEqualPrio PreemptionPolicy = "LowerOrNewerEqualPriority"
	PreemptAny                   PreemptionPolicy = "Any"
)

// Preemption says which workloads those of a queue may evict.
type Preemption struct {
	WithinQueue PreemptionPolicy // Never, LowerPriority, LowerOrNewerEqualPriority
	Reclaim     PreemptionPolicy // Never, LowerPriority, Any
	WhileBorrow PreemptionPolicy // Never, LowerPriority
	MaxPriority *int32           // threshold of WhileBorrow; nil means none
}

// Fungibility says when to try the next flavor instead of borrowing or
// preempting in this one.
type Fungibility struct {
	// BorrowTriesNext is whenCanBorrow=TryNextFlavor; the default is to stop.
	BorrowTriesNext bool
	// PreemptTriesNext is whenCanPreempt=TryNextFlavor, the default upstream.
	PreemptTriesNext bool
	// PreferPreemption is preference=PreemptionOverBorrowing.
	PreferPreemption bool
}

// Queue is a leaf of the quota tree (ClusterQueue).
type Queue struct {
	Name        string
	Cohort      string // "" for none
	Groups      []ResourceGroup
	Strategy    Strategy
	Preemption  Preemption
	Fungibility Fungibility
	Stop        StopPolicy
	// Namespaces that may use the queue, by namespace labels; nil means none
	// and an empty selector means all.
	Namespaces *Selector
	// UsageBased lets the local queue go first that used less in the past
	// (admission fair sharing).
	UsageBased bool
	// Provisioned are the flavors, sorted, whose nodes are made on demand once quota
	// is reserved: no nodes are looked for then.
	Provisioned []string
	// Inactive says why the queue cannot admit for reasons outside the engine,
	// e.g. "AdmissionCheckNotFound"; "" if it can.
	Inactive string
	// Weight among the members of its cohort; nil means WeightOne.
	Weight *Weight
	// MinimumRuntime is for how long its workloads are not evicted for others, from when their quota was
	// reserved; 0 for no time. What a workload says itself goes before it.
	MinimumRuntime time.Duration
	// RelocationsPerHour is how many of its workloads may be relocated within an hour; 0 for none (see
	// Relocated).
	RelocationsPerHour int32
}

// LocalQueue is where a namespace submits to a queue.
type LocalQueue struct {
	Namespace string
	Name      string
	Queue     string
	Stop      StopPolicy
	// Weight among the local queues of its ClusterQueue; nil means WeightOne.
	Weight *Weight
	// Consumed is what it used in the past as the API remembers it, in thousandths
	// of base units, as of ConsumedAt. It matters when the engine first hears of it.
	Consumed   Resources
	ConsumedAt time.Time
}

// Namespace carries the labels that queues select by.
type Namespace struct {
	Name   string
	Labels map[string]string
}
