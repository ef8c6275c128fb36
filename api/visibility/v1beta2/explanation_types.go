package v1beta2

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Explanation is the answer to a GET of workloads/NAME/explanation: why a workload
// waits, what bears on it and what would help, all found out at the moment of the
// question. Workloads that the asker may not read are named by queue and UID only.
//
// +kubebuilder:object:root=true
type Explanation struct {
	metav1.TypeMeta `json:",inline"`
	// metadata has the workload's name, namespace and UID.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// at is the moment for which the answer holds.
	At metav1.Time `json:"at"`

	// waiting is false for workloads that have quota; all below is empty then.
	Waiting bool `json:"waiting"`

	// reason is the code of the condition QuotaReserved, cause what refines it.
	Reason string `json:"reason,omitempty"`
	// cause refines the reason where one code has several explanations.
	Cause string `json:"cause,omitempty"`
	// message is the reason in one sentence. It names no workloads.
	Message string `json:"message,omitempty"`

	// clusterQueue and localQueue are where it waits, priority by which it stands there.
	ClusterQueue string `json:"clusterQueue,omitempty"`
	// localQueue is the LocalQueue that it was submitted to.
	LocalQueue string `json:"localQueue,omitempty"`
	// priority by which it stands in its queue.
	Priority int32 `json:"priority"`

	// positionInClusterQueue is how many workloads of the ClusterQueue are considered
	// before it; absent for those that stand in no queue.
	PositionInClusterQueue *int32 `json:"positionInClusterQueue,omitempty"`
	// positionInLocalQueue is how many of those are of its LocalQueue.
	PositionInLocalQueue *int32 `json:"positionInLocalQueue,omitempty"`
	// start is when it is expected to start; absent if that is not known.
	Start *Start `json:"start,omitempty"`
	// ahead are the first of them, at most five.
	Ahead []WorkloadReference `json:"ahead,omitempty"`
	// blocker is the workload that it waits behind, or whose pods it waits for.
	Blocker *WorkloadReference `json:"blocker,omitempty"`

	// shortage is what is short, if quota is.
	Shortage *Shortage `json:"shortage,omitempty"`
	// holders hold what is short, at most five.
	Holders []Holder `json:"holders,omitempty"`
	// nodes is how the nodes stand that its pods may use, if nodes are short.
	Nodes *NodeFacts `json:"nodes,omitempty"`
	// tried is what each flavor lacks, by pod set.
	Tried []FlavorAttempt `json:"tried,omitempty"`
	// lenders are queues of the cohort that lend less of what is short than they own.
	Lenders []Lender `json:"lenders,omitempty"`

	// next is what else it would wait for if the reason were out of its way, one after the
	// other; empty if it would start then, or that cannot be told.
	Next []NextReason `json:"next,omitempty"`

	// advice was tried: each of them alone lets the workload start. It is empty if
	// nothing helps that can be tried.
	Advice []Advice `json:"advice,omitempty"`
	// incomplete says that there was more to try than one question may cost.
	Incomplete bool `json:"incomplete,omitempty"`

	// contest is how it stands to the workload that explanation?against= names; there is no
	// next and no advice then.
	Contest *Contest `json:"contest,omitempty"`
}

// NextReason is what a workload would wait for next.
type NextReason struct {
	// reason is its code.
	Reason string `json:"reason"`
	// cause refines the reason.
	Cause string `json:"cause,omitempty"`
	// message is the reason in one sentence. It names no workloads.
	Message string `json:"message"`
}

// WorkloadReference names a workload, as far as the asker may know it.
type WorkloadReference struct {
	// namespace and name are empty for workloads that the asker may not read.
	Namespace string `json:"namespace,omitempty"`
	// name of the workload.
	Name string `json:"name,omitempty"`
	// job is the object that the workload stands for, as KIND/NAME.
	Job string `json:"job,omitempty"`
	// uid of the workload.
	UID types.UID `json:"uid,omitempty"`
	// clusterQueue that it waits in or has quota of.
	ClusterQueue string `json:"clusterQueue,omitempty"`
}

// Shortage is what is short of quota.
type Shortage struct {
	// podSet that asks for it.
	PodSet string `json:"podSet,omitempty"`
	// flavor and resource that are short.
	Flavor string `json:"flavor"`
	// resource that is short.
	Resource string `json:"resource"`
	// need is what the workload asks for, have what it could get now, limit the most
	// that it could ever get.
	Need resource.Quantity `json:"need"`
	// have is what it could get now.
	Have resource.Quantity `json:"have"`
	// limit is the most that it could ever get; absent if there is none.
	Limit *resource.Quantity `json:"limit,omitempty"`
}

// Holder is who holds some of what is short.
type Holder struct {
	WorkloadReference `json:",inline"`
	// node is set for pods that no queue knows; pods names those of them that the asker
	// may read, as NAMESPACE/NAME.
	Node string `json:"node,omitempty"`
	// pods that no queue knows.
	Pods []string `json:"pods,omitempty"`
	// resource and amount are what it holds.
	Resource string `json:"resource,omitempty"`
	// amount that it holds of the resource.
	Amount *resource.Quantity `json:"amount,omitempty"`
	// leaving says that it is being stopped already.
	Leaving bool `json:"leaving,omitempty"`
	// stopsAt is when it is stopped at the latest, of one that saves first what it has done.
	StopsAt *metav1.Time `json:"stopsAt,omitempty"`
	// promised says that it does not run yet, and that what is kept for it goes to
	// nobody else.
	Promised bool `json:"promised,omitempty"`
	// endless says that it does not end by itself, as servers do not: nobody is told to wait
	// for it.
	Endless bool `json:"endless,omitempty"`
}

// NodeFacts is how nodes stand that a pod set may use.
type NodeFacts struct {
	// podSet and flavor that it is about.
	PodSet string `json:"podSet,omitempty"`
	// flavor whose nodes are meant; empty for all nodes.
	Flavor string `json:"flavor,omitempty"`
	// total are the nodes of the cluster, matching those that the pods may use.
	Total int32 `json:"total"`
	// matching nodes satisfy the pods' selector, affinity and tolerations.
	Matching int32 `json:"matching"`
	// cordoned, evicted, lost and closed count matching nodes that take no work.
	Cordoned int32 `json:"cordoned,omitempty"`
	// evicted are those whose health checks sent jobs away.
	Evicted int32 `json:"evicted,omitempty"`
	// lost are those that are not ready or unreachable.
	Lost int32 `json:"lost,omitempty"`
	// closed are those under test or with an error.
	Closed int32 `json:"closed,omitempty"`
	// full are matching nodes in service without room for one more pod.
	Full int32 `json:"full,omitempty"`
	// fit pods of wanted have room now.
	Fit int32 `json:"fit"`
	// wanted is how many pods there are to be.
	Wanted int32 `json:"wanted"`
	// resource that is scarcest: free on all matching nodes in service together, and
	// largest on one of them; need is what one pod asks for.
	Resource string `json:"resource,omitempty"`
	// free on all matching nodes in service together.
	Free *resource.Quantity `json:"free,omitempty"`
	// largest free amount on one node.
	Largest *resource.Quantity `json:"largest,omitempty"`
	// need of one pod.
	Need *resource.Quantity `json:"need,omitempty"`
	// down names nodes that take no work, at most ten.
	Down []DownNode `json:"down,omitempty"`
	// inTheWay are labels and taints that keep nodes from matching.
	InTheWay []Obstacle `json:"inTheWay,omitempty"`
	// evictionInVain says that the pods would have no place even if all running workloads were gone
	// that the policies of the queue would let it evict: evictable many.
	EvictionInVain bool `json:"evictionInVain,omitempty"`
	// evictable is how many there are if that is in vain; 0 otherwise, or if there are none.
	Evictable int32 `json:"evictable,omitempty"`
	// nearest is the domain that would come nearest then to holding all of the pods, where one must.
	Nearest *NearestDomain `json:"nearest,omitempty"`
	// spared are the running workloads that hold what is short, by the rules that keep them from being evicted, if none may be.
	Spared []SparedCount `json:"spared,omitempty"`
}

// NearestDomain is a domain that comes nearest to holding pods that must be in one.
type NearestDomain struct {
	// level is the label of nodes whose value domain is.
	Level string `json:"level"`
	// domain is a rack, a block or the like.
	Domain string `json:"domain"`
	// fit is for how many of the pods it would have room.
	Fit int32 `json:"fit"`
	// usable is for how many it would have room if it were empty and all of its nodes in service.
	Usable int32 `json:"usable"`
}

// SparedCount counts running workloads that a rule keeps from being evicted.
type SparedCount struct {
	// rule is as in a comparison: Policy, Priority, WithinNominal, BorrowWithinCohort, FairSharing, EvictedForIt,
	// AdmissionNotYetSeen or MinimumRuntime.
	Rule string `json:"rule"`
	// own says that they are of the ClusterQueue in which the workload waits.
	Own bool `json:"own,omitempty"`
	// workloads is how many there are.
	Workloads int32 `json:"workloads"`
}

// DownNode is a node that takes no work.
type DownNode struct {
	// name of the node.
	Name string `json:"name"`
	// why it takes no work.
	Why string `json:"why"`
}

// Obstacle keeps nodes from matching.
type Obstacle struct {
	// text is a requirement on labels, or a taint.
	Text string `json:"text"`
	// taint says which of both it is.
	Taint bool `json:"taint,omitempty"`
	// nodes would match without it alone.
	Nodes int32 `json:"nodes"`
}

// FlavorAttempt is what came of one flavor for one pod set.
type FlavorAttempt struct {
	// podSet it is about.
	PodSet string `json:"podSet,omitempty"`
	// flavor that was tried.
	Flavor string `json:"flavor"`
	// reason and cause are empty if the flavor would do.
	Reason string `json:"reason,omitempty"`
	// cause refines the reason.
	Cause string `json:"cause,omitempty"`
	// message says it in one sentence.
	Message string `json:"message,omitempty"`
}

// Lender is a queue that lends less than it owns.
type Lender struct {
	// clusterQueue that lends.
	ClusterQueue string `json:"clusterQueue"`
	// flavor and resource that it lends.
	Flavor string `json:"flavor"`
	// resource that it lends.
	Resource string `json:"resource"`
	// nominal is what it owns, lends how much of it others may use.
	Nominal resource.Quantity `json:"nominal"`
	// lends is how much of it others may use.
	Lends resource.Quantity `json:"lends"`
	// because names nodes out of service that the limit was lowered for.
	Because []DownNode `json:"because,omitempty"`
}

// Advice is one thing that would let a workload start. Which fields are set depends
// on its kind.
type Advice struct {
	// kind is FewerPods, SmallerPods, Tolerate, DropSelector, RaisePriority, OtherQueue, RequireLevel, PreferLevel,
	// WaitFor, Uncordon, RepairNode, RemovePods, ResumeQueue, ResumeLocal, OpenGate,
	// PreemptBorrowing, AllowRelocation, Release, AwaitLeaving, AwaitRuntime, AwaitRelocation or AwaitBackOff.
	Kind string `json:"kind"`
	// podSet to change.
	PodSet string `json:"podSet,omitempty"`
	// count of pods that would do.
	Count int32 `json:"count,omitempty"`
	// resource to ask less of, amount per pod that would do.
	Resource string `json:"resource,omitempty"`
	// amount of the resource per pod.
	Amount *resource.Quantity `json:"amount,omitempty"`
	// flavor that it would get then.
	Flavor string `json:"flavor,omitempty"`
	// priority that would do, priorityClasses those that have it.
	Priority int32 `json:"priority,omitempty"`
	// priorityClasses of that priority.
	PriorityClasses []string `json:"priorityClasses,omitempty"`
	// queue to resume, or the LocalQueue to submit it to instead.
	Queue string `json:"queue,omitempty"`
	// nodes to bring back or to clear.
	Nodes []string `json:"nodes,omitempty"`
	// pods to remove from the nodes, as NAMESPACE/NAME, those that the asker may read.
	Pods []string `json:"pods,omitempty"`
	// workloads to wait for, before the change helps where there is one.
	Workloads []WorkloadReference `json:"workloads,omitempty"`
	// detail lists taints, requirements, a gate, what is wrong with a node, or the pod sets that are together with podSet
	// and have to be changed with it.
	Detail []string `json:"detail,omitempty"`
	// level of nodes of which one domain should be required (RequireLevel) or preferred (PreferLevel) for the pods, in
	// place of instead, that of which one must hold them now.
	Level string `json:"level,omitempty"`
	// instead is the level that is required now.
	Instead string `json:"instead,omitempty"`
	// affinity says that instead is required by the podAffinity of the pods.
	Affinity bool `json:"affinity,omitempty"`
	// at is when others have run for their minimum runtime and may be stopped for it.
	At *metav1.Time `json:"at,omitempty"`
	// preempts is how many others would be stopped for it.
	Preempts int32 `json:"preempts,omitempty"`
	// allowed says that the asker may do it; needs is the right that it takes.
	Allowed bool `json:"allowed"`
	// needs is the right that it takes, as VERB RESOURCE.GROUP; empty if none.
	Needs string `json:"needs,omitempty"`
}
