package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// WorkloadPlan is what a job would ask for, and what would become of it were it submitted now. It
// is posted to workloadplans and comes back with its status; nothing is stored, and nothing
// happens.
//
// +kubebuilder:object:root=true
type WorkloadPlan struct {
	metav1.TypeMeta `json:",inline"`
	// metadata has the namespace.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the job would ask for.
	Spec WorkloadPlanSpec `json:"spec"`
	// status is the answer.
	Status *WorkloadPlanStatus `json:"status,omitempty"`
}

// WorkloadPlanSpec is what a job would ask for.
type WorkloadPlanSpec struct {
	// queueName is its LocalQueue.
	QueueName string `json:"queueName"`
	// priorityClass is its WorkloadPriorityClass. Without one its priority is that of the
	// PriorityClass of its pods.
	PriorityClass string `json:"priorityClass,omitempty"`
	// podSets are its pods, by role.
	PodSets []PlannedPodSet `json:"podSets"`
	// estimateStart asks when the job would start if it would have to wait. That takes longer to
	// answer.
	EstimateStart bool `json:"estimateStart,omitempty"`
}

// PlannedPodSet are pods of one role.
type PlannedPodSet struct {
	// name of the role.
	Name string `json:"name"`
	// count is how many pods there are, minCount the fewest that it can start with.
	Count int32 `json:"count"`
	// minCount is the fewest that it can start with; absent if it needs all.
	MinCount *int32 `json:"minCount,omitempty"`
	// template of the pods.
	Template corev1.PodTemplateSpec `json:"template"`
	// topologyRequest is how near to each other the pods want to be, if their kind of job or annotations of the job say
	// so; absent if annotations of the template do.
	TopologyRequest *kueue.PodSetTopologyRequest `json:"topologyRequest,omitempty"`
}

// PlanOutcome is what would become of a job.
type PlanOutcome string

// The outcomes.
const (
	// PlanStarts says that it would start at once.
	PlanStarts PlanOutcome = "Starts"
	// PlanStartsAfterStops says that it would start when workloads are gone that are stopped.
	PlanStartsAfterStops PlanOutcome = "StartsAfterStops"
	// PlanWaits says that it would wait.
	PlanWaits PlanOutcome = "Waits"
)

// WorkloadPlanStatus is what would become of a job.
type WorkloadPlanStatus struct {
	// at is the moment for which the answer holds.
	At metav1.Time `json:"at"`
	// outcome is Starts, StartsAfterStops or Waits.
	Outcome PlanOutcome `json:"outcome"`
	// clusterQueue is the queue that it would have quota of.
	ClusterQueue string `json:"clusterQueue,omitempty"`
	// priority by which it would stand in its queue.
	Priority int32 `json:"priority"`
	// podSets is what its pods would get; empty if it would wait.
	PodSets []PlannedAdmission `json:"podSets,omitempty"`
	// quotas are those of its queue that it would use, with it; empty if it would wait.
	Quotas []PlannedQuota `json:"quotas,omitempty"`
	// preempts are the workloads that would be stopped for it.
	Preempts []WorkloadReference `json:"preempts,omitempty"`
	// explanation says why it would wait, and what would help; absent if it would not.
	Explanation *Explanation `json:"explanation,omitempty"`
	// start is when it is expected to start if it would wait; absent if that is not known, or was
	// not asked.
	Start *Start `json:"start,omitempty"`
}

// PlannedAdmission is what pods of one role would get.
type PlannedAdmission struct {
	// name of the role.
	Name string `json:"name"`
	// count is how many of them would start.
	Count int32 `json:"count"`
	// flavors of the resources that they would use.
	Flavors []PlannedFlavor `json:"flavors,omitempty"`
	// nodes that they would be on.
	Nodes []PlannedNode `json:"nodes,omitempty"`
}

// PlannedFlavor is what pods of one role would use of a resource, all together.
type PlannedFlavor struct {
	// resource that is used.
	Resource string `json:"resource"`
	// flavor from which it is taken.
	Flavor string `json:"flavor"`
	// amount of all pods.
	Amount resource.Quantity `json:"amount"`
}

// PlannedNode is a node with so many pods.
type PlannedNode struct {
	// name of the node.
	Name string `json:"name"`
	// count of pods.
	Count int32 `json:"count"`
}

// PlannedQuota is a quota of the queue and what would be used of it.
type PlannedQuota struct {
	// flavor of the quota.
	Flavor string `json:"flavor"`
	// resource of the quota.
	Resource string `json:"resource"`
	// nominal is the queue's own quota.
	Nominal resource.Quantity `json:"nominal"`
	// used is what its jobs would have, this one included.
	Used resource.Quantity `json:"used"`
	// borrowed is how much of that would be above its own.
	Borrowed resource.Quantity `json:"borrowed"`
}
