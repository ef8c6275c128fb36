package core

// Code classifies why a workload waits. The text is the reason of its
// QuotaReserved condition.
type Code string

// The codes, most severe first.
const (
	Misconfigured           Code = "Misconfigured"
	Suspended               Code = "Suspended" // the queue is stopped or inactive
	OnHold                  Code = "OnHold"    // the workload itself is held
	NoMatchingFlavor        Code = "NoMatchingFlavor"
	ExceedsMaxQuota         Code = "ExceedsMaxQuota"
	WaitingForQuota         Code = "WaitingForQuota"
	TopologyPlacementFailed Code = "TopologyPlacementFailed"
	WaitingForPreempted     Code = "WaitingForPreemptedWorkloads"
	PendingEvaluation       Code = "PendingEvaluation"
	AdmissionGated          Code = "AdmissionGated"      // a gate is closed
	WaitingForPodsReady     Code = "WaitingForPodsReady" // pods of another workload are not ready
)

// Cause refines Code where one code has several explanations.
type Cause string

// The causes, grouped by the code they appear under.
const (
	// QueueMissing and those up to PodsInvalid refine Misconfigured.
	QueueMissing      Cause = "QueueMissing"      // LocalQueue or ClusterQueue does not exist
	NamespaceMismatch Cause = "NamespaceMismatch" // the queue does not select the namespace
	ResourceUncovered Cause = "ResourceUncovered" // a requested resource has no quota in the queue
	CohortCycle       Cause = "CohortCycle"
	FlavorMissing     Cause = "FlavorMissing"
	PodsInvalid       Cause = "PodsInvalid" // its pods, or its admission, would be rejected
	// QueueStopped and QueueUnready refine Suspended.
	QueueStopped Cause = "QueueStopped"
	QueueUnready Cause = "QueueUnready"
	// UntoleratedTaint, LevelMissing, LevelsReversed and AffinityMismatch refine NoMatchingFlavor.
	UntoleratedTaint Cause = "UntoleratedTaint"
	// LevelMissing: the flavor's topology lacks a level that the pod set names (Detail).
	LevelMissing Cause = "LevelMissing"
	// LevelsReversed: the pod set asks for a domain around one of a level that is wider by the flavor's topology (Detail
	// has both levels).
	LevelsReversed   Cause = "LevelsReversed"
	AffinityMismatch Cause = "AffinityMismatch"
	// QuotaShort and those up to QuotaClaimed refine WaitingForQuota.
	QuotaShort   Cause = "QuotaShort"
	BehindStrict Cause = "BehindStrict" // an earlier workload of a StrictFIFO queue waits
	// QuotaClaimed: what is free is kept for the first workload of a StrictFIFO
	// queue that owns it.
	QuotaClaimed Cause = "QuotaClaimed"
	// PreemptionGated refines AdmissionGated: it could evict, and a gate of its own
	// forbids it. What it lacks are quota or nodes.
	PreemptionGated Cause = "PreemptionGated"
	// NodesShort and those up to NodesRefused refine TopologyPlacementFailed.
	NodesShort   Cause = "NodesShort"   // nodes that could hold it are in use, or down
	PodTooLarge  Cause = "PodTooLarge"  // no node could ever hold one of its pods
	NoSuchNode   Cause = "NoSuchNode"   // no node satisfies its node selector and tolerations
	FlavorEmpty  Cause = "FlavorEmpty"  // no node has the labels of the flavor (Detail)
	GangTooLarge Cause = "GangTooLarge" // all nodes together, empty, could not hold it
	// DomainsShort: all nodes together could hold it, and no domain of the level that it requires (Level)
	// can now.
	DomainsShort Cause = "DomainsShort"
	// DomainTooSmall: no domain of the level that it requires could ever hold it.
	DomainTooSmall Cause = "DomainTooSmall"
	// PodSetsTooLarge: all nodes together, empty, could not hold all pod sets,
	// although they could hold each.
	PodSetsTooLarge Cause = "PodSetsTooLarge"
	// NodesRefused: nodes that could hold it refused its pods by a rule that the engine does not
	// know (Detail is the answer), and what is left could never hold it.
	NodesRefused Cause = "NodesRefused"
	// BackingOff refines OnHold.
	BackingOff Cause = "BackingOff"
	// AdmissionLost refines PendingEvaluation: an admission was decided and never
	// seen, so it was taken back.
	AdmissionLost Cause = "AdmissionLost"
)

// Reason is why a workload waits: a code with facts. Package explain makes the
// sentence. Two reasons are the same when all fields are equal.
type Reason struct {
	Code  Code
	Cause Cause
	// Queue is the ClusterQueue (or for QueueMissing the LocalQueue) concerned.
	Queue string
	// Tree is the cohort, if the queue has one.
	Tree   string
	PodSet string
	// Flavor and Resource are what is short.
	Flavor   string
	Resource string
	// Need is what the workload asks of it, Have what it could get now, Limit
	// the most it could ever get.
	Need, Have, Limit Amount
	// Cut is how much less the queue has of it than was promised, since nodes are lost.
	// TreeCut is how much less all of its tree has.
	Cut, TreeCut Amount
	// PodsFit of PodsWanted pods have a place now.
	PodsFit, PodsWanted int32
	// Nodes matching the pod's filter, and how many of them are out of service.
	Nodes, NodesDown int32
	// NodesKept of the flavor's nodes are kept for recovery, and are not in Nodes.
	NodesKept int32
	// NodesRefused of the nodes that match otherwise refused its pods.
	NodesRefused int32
	// Level is a label of nodes that its pods require: for NoSuchNode none has it, else it is the one of which one
	// domain must hold all pods. Domain is the one that comes nearest: it has
	// places for PodsFit of them, and empty and in service would have for PodsUsable; all nodes together
	// have places for PodsFree. For PodSetsTooLarge Level is the one of which one domain must hold its pod sets.
	Level, Domain        string
	PodsUsable, PodsFree int32
	// Around is the domain, of AroundLevel, in which other pod sets of its groups have places: only it counts, or what is
	// within it.
	AroundLevel, Around string
	// Victims is how many workloads must go first (WaitingForPreempted).
	Victims int32
	// Ahead is the workload that it waits behind or whose victims must go first;
	// Holders are the workloads that hold what is short, at most five, most relevant first.
	Ahead   Key
	Holders []Key
	// Detail is a short literal fact, such as the untolerated taint, the limit or the volume that is
	// in the way on nodes, or what a node answered.
	Detail string
}

// LacksQuota reports whether quota that others hold would help.
func (r Reason) LacksQuota() bool {
	return r.Code == WaitingForQuota || (r.Cause == PreemptionGated && r.PodsWanted == 0)
}

// Passes reports whether what nodes lack, by this cause, they could have again without another node.
func (c Cause) Passes() bool { return c == NodesShort || c == DomainsShort }

// LacksNodes reports whether it is about nodes.
func (r Reason) LacksNodes() bool {
	return r.Code == TopologyPlacementFailed || (r.Cause == PreemptionGated && r.PodsWanted > 0)
}

// Equal reports whether both reasons say the same.
func (r Reason) Equal(o Reason) bool {
	if len(r.Holders) != len(o.Holders) {
		return false
	}
	for i := range r.Holders {
		if r.Holders[i] != o.Holders[i] {
			return false
		}
	}
	r.Holders, o.Holders = nil, nil
	return r.same(o)
}

func (r Reason) same(o Reason) bool {
	return r.Code == o.Code && r.Cause == o.Cause && r.Queue == o.Queue && r.Tree == o.Tree &&
		r.PodSet == o.PodSet && r.Flavor == o.Flavor && r.Resource == o.Resource &&
		r.Need == o.Need && r.Have == o.Have && r.Limit == o.Limit && r.Cut == o.Cut && r.TreeCut == o.TreeCut &&
		r.PodsFit == o.PodsFit && r.PodsWanted == o.PodsWanted &&
		r.Nodes == o.Nodes && r.NodesDown == o.NodesDown && r.NodesRefused == o.NodesRefused &&
		r.NodesKept == o.NodesKept &&
		r.Level == o.Level && r.Domain == o.Domain && r.PodsUsable == o.PodsUsable && r.PodsFree == o.PodsFree &&
		r.AroundLevel == o.AroundLevel && r.Around == o.Around && r.Victims == o.Victims && r.Ahead == o.Ahead && r.Detail == o.Detail
}
