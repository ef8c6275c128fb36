package cycle

import (
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// StateVersion is the version of State. It grows when an old state would be
// loaded with another meaning.
const StateVersion = 3

// Snapshot is everything that an engine knows, as values: an engine that loads it
// decides from there on what the one that dumped it decides, to the byte. What
// can be computed from the rest is left out; state_test.go says for every field
// of the engine which it is. Lists are sorted unless they say otherwise. The
// values are shared with the engine and with others: treat them as read-only.
type Snapshot struct {
	Version int
	// Pairs are all flavors and resources ever named together, in that order.
	Pairs       []core.FlavorResource
	Flavors     []core.Flavor
	Cohorts     []core.Cohort
	Namespaces  []core.Namespace
	Nodes       []core.Node
	LocalQueues []LocalQueueState
	Queues      []QueueState
	Workloads   []WorkloadState
	// Leaving and Reservations are in the order in which they began, Arrivals and
	// Displaced in that in which they are looked at.
	Leaving      []core.Key
	Reservations []ReservationState
	Arrivals     []core.Key
	Displaced    []core.Key
	// Freed, Lent and Recheck are trees, in the order in which they are looked at.
	Freed, Lent, Recheck []TreeName
	RecheckAt            []TimedTree
	NodesFreed, NodesNew bool
	NodesLost            bool
	DrainAgain           bool
	// Resumable says that an interrupted workload may go on since it was looked at last.
	Resumable bool
	// BlockedSeen and ReadySeen say that nothing changed since groups that wait
	// for head reservations, or for pods, were looked at.
	BlockedSeen, ReadySeen bool
	// Decided says that a Decide was made.
	Decided bool
	// Sampled is when past usage was counted last.
	Sampled time.Time
}

// LocalQueueState is a LocalQueue; Spec is nil if it is only named.
type LocalQueueState struct {
	Namespace, Name string
	Spec            *core.LocalQueue
	Past            *PastState
	// Relocations are when workloads of it were relocated lately, in seconds since 1970.
	Relocations []int64
}

// PastState is what a LocalQueue used in the past, and when that was counted.
type PastState struct {
	Used, Costs []PastAmount
	At          time.Time
}

// PastAmount is past usage of a resource: base units and 2^-64 parts of one.
type PastAmount struct {
	Resource string
	Whole    uint64
	Part     uint64
}

// QueueState is a ClusterQueue; Spec is nil if it is only named.
type QueueState struct {
	Name string
	Spec *core.Queue
	// Groups are in the engine's order, in which it tells them why they wait.
	Groups   []GroupState
	Blocker  *core.Key
	Reserved []core.Key
	// Head is set while the queue has a first workload to be judged: after a
	// Decide, only if that ran out of budget.
	Head *HeadState
	// Unsettled is since when its tree changes, nil if it does not; Touched says that it has since
	// the last Decide, Edited that nothing of it is judged for that. WouldEvict says that its
	// first waits for the end of that to evict.
	Unsettled                   *UnsettledState
	Touched, Edited, WouldEvict bool
}

// UnsettledState is when changes in a tree began, when the last was, and whether nothing of it is
// judged meanwhile.
type UnsettledState struct {
	First, Last time.Time
	Edited      bool
}

// HeadState is how far the first workload of a queue would borrow, as far as it
// is known. With fair sharing every Decide finds that out afresh.
type HeadState struct {
	Level int
	// Ranked says that the queue's place goes by its first workload, in queues
	// where it may also go by the best that could be behind it.
	Ranked bool
	// Pinned says that Counts and Firm tell whether Level still holds.
	Pinned bool
	Counts []PairAmount
	Firm   bool
}

// PairAmount is an amount of a resource in a flavor.
type PairAmount struct {
	core.FlavorResource
	Amount core.Amount
}

// GroupState is the waiting workloads of one equivalence class.
type GroupState struct {
	// Members are sorted; Fresh are the members of which no reason was reported yet, in the
	// engine's order. Unjudged says that it has to be reported once it is judged, with or without such members.
	Members  []core.Key
	Fresh    []core.Key
	Unjudged bool
	Parked   bool
	Shorts   []PairAmount
	Plan     PlanState
	// OnNodes says that it waits for nodes too, Blocked that it waits for the end
	// of head reservations, OnReady for the pods of others.
	OnNodes, LacksNodes bool
	Blocked, OnReady    bool
	BlockedPairs        []PairAmount
	Why, Told           *core.Reason
}

// PlanState says how current a group's compiled plan is.
type PlanState struct {
	Compiled bool
	// Current holds for edits, NodesCurrent for the set of nodes; Bound says that
	// the group's shorts were found for this plan.
	Current, NodesCurrent, Bound bool
}

// WorkloadState is a workload as observed and as decided.
type WorkloadState struct {
	Key        core.Key
	UID        string
	Job        string
	Endless    bool
	LocalQueue string
	Priority   int64
	// Gate, if closed, forbids to evict.
	Gate string
	// Time is the queue time in nanoseconds since 1970.
	Time      int64
	PodSets   []core.PodSet
	Held      string
	Invalid   string
	GatedBy   string
	NotBefore time.Time
	Admitted  bool
	Ready     bool
	Evicting  bool
	Settled   []core.PodSetPlaces
	Ended     []core.PodSetPlaces
	// MinimumRuntime is nil for what its queue says.
	MinimumRuntime *time.Duration
	// Saved is when it told last of a checkpoint, in seconds since 1970, 0 for never; SavesEvery is the time between the
	// last two, in seconds.
	Saved, SavesEvery int64
	// Relocated is when it was relocated, in seconds since 1970, 0 for never. RelocatedTo is what is held for it
	// elsewhere while it leaves.
	Relocated   int64
	RelocatedTo *core.Admission
	// Next is what was held for it before the engine began, until it decides.
	Next *core.Admission

	Phase     uint8
	Admission *core.Admission
	// Seen is the last admission that was observed, left out if it is Admission;
	// SeenSame says so.
	Seen     *core.Admission
	SeenSame bool
	// Filters are those of pods that were placed before their flavors changed.
	Filters []FilterState
	Assumed bool
	Unseen  bool
	Ordered bool
	Moved   bool
	// Interrupted says that it keeps what it was given, Resumed that it was told to go on; Interruption is how far
	// it was when it was observed last.
	Interrupted, Resumed bool
	Interruption         core.Interruption
	Applied              uint64
	Seq                  uint64
	// Reserved is when quota was reserved, in seconds since 1970.
	Reserved int64
	Spare    []core.Key
	// Timed says that the end of a back-off is waited for; Deadline is when the
	// admission must have been seen, zero if that is not waited for.
	Timed    bool
	Deadline time.Time
	// Charged is the LocalQueue that Costs are charged to; zero if none is.
	Charged core.Key
	Costs   []PastAmount
	Told    *core.Reason
	// Shifted says that it changed its place, in a tree that is not settled yet.
	Shifted bool
}

// FilterState is which nodes the pods of a pod set could use when they were
// placed.
type FilterState struct {
	PodSet string
	Filter core.Filter
}

// ReservationState is a reservation, what it waits for, and whether another was evicted
// for it.
type ReservationState struct {
	Key     core.Key
	Waits   []core.Key
	Evicted bool
	// Relocates says that some are relocated for it, or it is itself.
	Relocates bool
}

// TimedTree is a tree that is looked at again at some time, in seconds since 1970.
type TimedTree struct {
	Tree TreeName
	At   int64
}

// TreeName names the root of a tree: a cohort, or a queue without one.
type TreeName struct {
	Name  string
	Queue bool
}
