package core

import "time"

// Explanation is why a workload waits, with all that bears on it, true at the
// moment at which it was asked for. Package explain makes sentences of it.
type Explanation struct {
	Reason Reason
	// Queue is the ClusterQueue it waits in, "" if that is not known; LocalQueue
	// its local queue, Priority by which it stands there.
	Queue      string
	LocalQueue string
	Priority   int64
	// Holders hold what is short, at most five, most relevant first. For
	// WaitingForPreempted they are the workloads that leave.
	Holders []Holder
	// Nodes are the nodes that its short pod set may use; nil if nodes are not what is
	// short.
	Nodes *NodeFacts
	// Tried is what each flavor lacks, by pod set, in the order of the queue; the
	// flavors of one resource group are alternatives.
	Tried []Attempt
	// Lenders are queues of the tree that lend less of what is short than they own.
	Lenders []Lender
	// Advice was tried on the engine: each of them alone would let the workload
	// start. It is empty if nothing helps that can be tried.
	Advice []Advice
	// Next is what else it would wait for if the reason were out of its way, one after the
	// other; empty if it would start then, or that cannot be told.
	Next []Reason
	// Cut says that there was more to try than one question may cost.
	Cut bool
}

// Holder is a workload, or pods, that hold some of what is short.
type Holder struct {
	// Key is the workload, zero for pods that no queue knows; Queue is whose quota
	// it uses, UID its own.
	Key   Key
	UID   string
	Queue string
	// Node is set for pods that no queue knows.
	Node string
	// Amount is how much it holds of Resource, in Flavor where that is known.
	Flavor   string
	Resource string
	Amount   Amount
	// Leaving says that it was evicted and only its pods still end, Promised that it
	// does not run yet, and that no other workload gets what is kept for it.
	Leaving, Promised bool
	// Endless says that it does not end by itself.
	Endless bool
}

// NodeFacts is how the nodes stand that a pod set may use.
type NodeFacts struct {
	PodSet, Flavor string
	// Total counts the nodes there are, Matching the nodes that the pod's selector,
	// affinity and tolerations and its flavor's labels admit.
	Total, Matching int32
	// Down are matching nodes that take no work, at most ten by name; Cordoned,
	// Evicted, Lost and Closed count all of them by what keeps them from it.
	Down                            []DownNode
	Cordoned, Evicted, Lost, Closed int32
	// Full are matching nodes in service that have no room for one more pod; Fit is
	// how many pods of Wanted have room now.
	Full        int32
	Fit, Wanted int32
	// Free is how much of Resource is free on the matching nodes in service
	// together, Largest the most on one of them, Need what one pod asks for.
	Resource            string
	Free, Largest, Need Amount
	// InTheWay are labels and taints that keep nodes from matching, each with the
	// number of nodes that would match without it alone.
	InTheWay []Obstacle
	// EvictionInVain says that its pods would have no place even if all running workloads were gone of which the policies
	// let it evict one or another: Evictable many.
	EvictionInVain bool
	Evictable      int32
	// Nearest is the domain that would come nearest then, where one must hold all of its pods; zero otherwise.
	Nearest NearestDomain
	// Spared are the running workloads of which it may evict none, by the rules that spare them, where Evictable is 0 and
	// EvictionInVain; empty if there are too many to look at.
	Spared []SparedCount
}

// NearestDomain is the domain of a level that comes nearest to holding pods: it has room for Fit of them and, empty and
// in service, would have for Usable.
type NearestDomain struct {
	Level, Domain string
	Fit, Usable   int32
}

// SparedCount is how many running workloads of the own queue of a workload, or of others, a rule spares from it.
type SparedCount struct {
	Rule      SpareRule
	Own       bool
	Workloads int32
}

// DownNode is a node that takes no work.
type DownNode struct {
	Name  string
	State NodeState
	// Why says in a few words what is wrong with it.
	Why string
}

// Obstacle is a requirement of a pod that nodes do not meet, or a taint of nodes
// that the pod does not tolerate.
type Obstacle struct {
	// Text is a requirement as kubectl writes selectors, or a taint.
	Text  string
	Taint bool
	// Nodes would match without it alone.
	Nodes int32
}

// Attempt is what came of one flavor for one pod set. Why is zero if it would do.
type Attempt struct {
	PodSet, Flavor string
	Why            Reason
}

// Lender is a queue of the tree that lends less than it owns.
type Lender struct {
	Queue            string
	Flavor, Resource string
	Nominal, Lends   Amount
}

// AdviceKind is what kind of thing would help.
type AdviceKind string

// The kinds of advice.
const (
	// FewerPods and those up to OtherQueue are for the owner of the job: it must
	// be changed, and may have to be submitted again.
	FewerPods     AdviceKind = "FewerPods"     // PodSet with Count pods
	SmallerPods   AdviceKind = "SmallerPods"   // PodSet asking for Amount of Resource per pod
	Tolerate      AdviceKind = "Tolerate"      // PodSet tolerating the taints in Detail
	DropSelector  AdviceKind = "DropSelector"  // PodSet without the requirements in Detail
	RaisePriority AdviceKind = "RaisePriority" // Priority
	OtherQueue    AdviceKind = "OtherQueue"    // the LocalQueue Queue of its namespace
	// RequireLevel is to require one domain of Level for the pods of PodSet and of those in Detail, which are together
	// with it, and not one of Instead; PreferLevel to prefer one of Level, and require none. Keys have to end first, if there are any.
	RequireLevel AdviceKind = "RequireLevel"
	PreferLevel  AdviceKind = "PreferLevel"
	// WaitFor and those below are for others: Keys end, a node comes back, a queue
	// is resumed.
	WaitFor      AdviceKind = "WaitFor"
	Uncordon     AdviceKind = "Uncordon"     // Nodes
	RepairNode   AdviceKind = "RepairNode"   // Nodes, for which Detail says what is wrong
	ResumeQueue  AdviceKind = "ResumeQueue"  // the ClusterQueue Queue
	ResumeLocal  AdviceKind = "ResumeLocal"  // the LocalQueue Queue
	OpenGate     AdviceKind = "OpenGate"     // the gate in Detail: of preemption or of admission
	Release      AdviceKind = "Release"      // the hold in Detail ends
	AwaitBackOff AdviceKind = "AwaitBackOff" // nothing to do: its back-off ends
	RemovePods   AdviceKind = "RemovePods"   // pods that no queue knows, on Nodes
	AwaitLeaving AdviceKind = "AwaitLeaving" // nothing to do: Keys leave already
	// AwaitRuntime: nothing to do: at At workloads have run for their minimum runtime, and may be stopped.
	AwaitRuntime AdviceKind = "AwaitRuntime"
	// PreemptBorrowing is to let workloads of the ClusterQueue Queue that borrow evict others of
	// lower priority (spec.preemption.borrowWithinCohort).
	PreemptBorrowing AdviceKind = "PreemptBorrowing"
	// AllowRelocation is to let a workload of the ClusterQueue Queue go to other nodes (Queue.RelocationsPerHour).
	AllowRelocation AdviceKind = "AllowRelocation"
	// AwaitRelocation: nothing to do: at At another workload may be relocated, as many were within the hour as may be.
	AwaitRelocation AdviceKind = "AwaitRelocation"
)

// Advice is one thing that would let a workload start.
type Advice struct {
	Kind     AdviceKind
	PodSet   string
	Count    int32
	Resource string
	Amount   Amount
	Flavor   string // that it would get then, where one was named
	Priority int64
	Queue    string
	Nodes    []string
	Keys     []Key
	Detail   []string
	At       time.Time
	// Level and Instead are labels of nodes; Affinity says that the pods require Instead by their own podAffinity.
	Level, Instead string
	Affinity       bool
	// Preempts is how many others would have to be stopped for it first.
	Preempts int32
}
