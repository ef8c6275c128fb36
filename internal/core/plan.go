package core

import "time"

// Decision is one step of a plan.
type Decision interface{ decision() }

// Plan is what one call of Decide decided, in order. The engine's state
// already contains its effects.
type Plan []Decision

type (
	// Admit gives a waiting workload quota and places, or an interrupted one new places with the quota that it kept.
	Admit struct {
		Key       Key
		Admission Admission
		// Resumes says that the workload is interrupted, and keeps the quota that it is given with these places. If it
		// gave that back meanwhile, the decision does not suit it any more.
		Resumes bool
	}
	// Replace gives an admitted workload other places with the same quota,
	// because planned nodes went away before all its pods ran.
	Replace struct {
		Key       Key
		Admission Admission
	}
	// Evict takes quota and places from a workload. It keeps both until it is
	// reported as released.
	Evict struct {
		Key    Key
		Reason EvictReason
		// For is the workload that the eviction makes room for; zero if none.
		For Key
		// ForUID is that workload's UID, by which tenants know those of others.
		ForUID string
		// Why holds facts for the message.
		Why Reason
		// Failed are the nodes of the workload that take no work any more, by name, where that is the reason.
		Failed []string
		// Next is what is held for a workload that is relocated, and is given to it when its pods have ended; nil for
		// any other. It is not to be stopped before the reservation of the one that it goes for was written
		// (Refuse.Next), if the same plan has that.
		Next *Admission
		// Interrupts says that the workload keeps its quota and its healthy nodes for a while although its pods
		// stop: nodes failed, and there are no others for its pods now.
		Interrupts bool
		// Lost is what the workload loses, where victims are chosen by that (Preemption.LeastLost); else nil.
		Lost *LostWork
	}
	// Refuse says why a workload waits. It is issued only when the reason changed.
	Refuse struct {
		Key Key
		Why Reason
		// Next is what is held for the workload while others are relocated for it, or while it is relocated itself and
		// has stopped; nil if nothing that has to outlive the engine.
		Next *Admission
	}
)

// LostWork is what a workload loses when it is evicted.
type LostWork struct {
	// Since is its last checkpoint if it is Saved, or when it got its quota; For is how long that was ago.
	Since time.Time
	For   time.Duration
	Saved bool
	// Counted is how much of that counted when victims were chosen: 0 for one that does not report its checkpoints.
	Counted time.Duration
}

func (Admit) decision()   {}
func (Replace) decision() {}
func (Evict) decision()   {}
func (Refuse) decision()  {}

// EvictReason says which rule took a workload's quota. The text is the reason
// of the Preempted condition where there is one, else of Evicted.
type EvictReason string

// The reasons of evictions.
const (
	InClusterQueue             EvictReason = "InClusterQueue"
	InCohortReclamation        EvictReason = "InCohortReclamation"
	InCohortFairSharing        EvictReason = "InCohortFairSharing"
	InCohortReclaimWhileBorrow EvictReason = "InCohortReclaimWhileBorrowing"
	ClusterQueueStopped        EvictReason = "ClusterQueueStopped"
	LocalQueueStopped          EvictReason = "LocalQueueStopped"
	NodeFailures               EvictReason = "NodeFailures"
	// Relocated is that a workload goes to other nodes, which are held for it, so that another one that has quota
	// has the nodes that it needs. Its ClusterQueue allows that (Queue.RelocationsPerHour).
	Relocated EvictReason = "Relocated"
)

// Preempted reports whether the eviction made room for another workload.
func (r EvictReason) Preempted() bool {
	switch r {
	case InClusterQueue, InCohortReclamation, InCohortFairSharing, InCohortReclaimWhileBorrow, Relocated:
		return true
	case ClusterQueueStopped, LocalQueueStopped, NodeFailures:
		return false
	}
	return false
}
