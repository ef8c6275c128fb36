package core

import "time"

// Comparison is how a workload that waits stands to another one, true at the moment at
// which it was asked for.
type Comparison struct {
	// Waits is why the first one waits, without advice.
	Waits Explanation
	// Self and Other are both of them.
	Self, Other Contestant
	// Cohort is the lowest one above the queues of both, "" if there is none. It is not
	// set where both have the same queue.
	Cohort string
	// OtherFirst says that the other stands before the first one in the order of the queue
	// that both share, by the rule Order; Strict says that nobody passes another there.
	OtherFirst, Strict bool
	Order              OrderRule
	// Spared is the rule by which the other is not evicted for the first one, "" if it
	// could be; Policy what the queue's field for it says.
	Spared SpareRule
	Policy PreemptionPolicy
	// Quotas are those of what both queues have to do with, of the queue of the first one
	// first.
	Quotas []QuotaUse
	// Shares are those of the two children of Cohort, that of the first one's side first;
	// empty without fair sharing.
	Shares []SideShare
	// Gone is what would become of the first one were the other not there.
	Gone WereGone
}

// Contestant is one of two workloads that are compared.
type Contestant struct {
	Key   Key
	UID   string
	Queue string
	// Stage is where it stands, "" if the engine does not know it.
	Stage    Stage
	Priority int64
	// Time is by which it stands in its queue; Reserved when it got its quota, zero while it
	// waits.
	Time, Reserved time.Time
	// Uses is what it holds, or would take of the flavors that look best for it; sorted.
	Uses []FlavorAmount
}

// FlavorAmount is an amount of a resource of a flavor.
type FlavorAmount struct {
	FlavorResource
	Amount Amount
}

// Stage is where a workload stands.
type Stage string

// The stages.
const (
	StageWaiting  Stage = "Waiting"
	StagePromised Stage = "Promised" // what it gets is reserved, and others leave for it
	StageRunning  Stage = "Running"  // it has quota
	StageLeaving  Stage = "Leaving"  // it was evicted and still has quota
)

// OrderRule is what decides which of two workloads of one queue stands first.
type OrderRule string

// The rules, in the order in which they are asked.
const (
	ByPastUsage OrderRule = "PastUsage" // of their local queues
	ByPriority  OrderRule = "Priority"
	ByTime      OrderRule = "QueueTime"
	ByName      OrderRule = "Name" // all else is equal
)

// SpareRule is why a workload that runs is not evicted for another one.
type SpareRule string

// The rules.
const (
	SparedNotRunning    SpareRule = "NotRunning"          // it holds nothing, or leaves already
	SparedApart         SpareRule = "NoCommonCohort"      // quota of one never reaches the other
	SparedOtherQuota    SpareRule = "OtherQuota"          // it uses no quota that the first one may use
	SparedByPolicy      SpareRule = "Policy"              // the policy says Never
	SparedByPriority    SpareRule = "Priority"            // its priority is too high for the policy
	SparedWithinNominal SpareRule = "WithinNominal"       // its side borrows nothing of that
	SparedByBorrowing   SpareRule = "BorrowWithinCohort"  // the first one would have to borrow, and may not evict for that
	SparedByShare       SpareRule = "FairSharing"         // the first one's side would have the larger share
	SparedAsBenefactor  SpareRule = "EvictedForIt"        // the first one was evicted for it before
	SparedUnseen        SpareRule = "AdmissionNotYetSeen" // it was admitted only just now
	SparedByGate        SpareRule = "PreemptionGate"      // a gate of the first one is closed
	SparedByRuntime     SpareRule = "MinimumRuntime"      // its minimum runtime has not ended
)

// QuotaUse is a quota of a queue and what is used of it.
type QuotaUse struct {
	Queue string
	FlavorResource
	Nominal, Used, Borrowed Amount
}

// SideShare is the share of a child of a cohort in thousandths, rounded up: math.MaxInt64
// for one that borrows and has weight 0.
type SideShare struct {
	Name string
	// IsCohort tells a cohort from a queue.
	IsCohort bool
	Weight   Weight
	// Now is the share as it is, Then with the first workload, or without the other.
	Now, Then int64
}

// WereGone is what would become of a workload that waits were another one not there.
type WereGone struct {
	// Tried says that it was tried in a copy; all else is empty if not.
	Tried bool
	// Anyway says that it starts all the same, in a moment.
	Anyway bool
	// Starts says that it would start, Awaits that this is once workloads have ended that are
	// being stopped; Preempts is how many more would be evicted for it.
	Starts, Awaits bool
	Preempts       int32
	// Instead is how many others would start in its place.
	Instead int32
	// Why is why it would wait still.
	Why Reason
}
