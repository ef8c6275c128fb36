package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// The values of priorityClassSource.
const (
	WorkloadPriorityClassSource = "kueue.x-k8s.io/workloadpriorityclass"
	PodPriorityClassSource      = "scheduling.k8s.io/priorityclass"
)

// WorkloadSpec is what a job asks for.
// +kubebuilder:validation:XValidation:rule="!has(self.podSets) || self.podSets.filter(p, has(p.minCount)).size() <= 1",message="at most one pod set may have minCount",fieldPath=".podSets"
// +kubebuilder:validation:XValidation:rule="!has(self.priorityClassName) || size(self.priorityClassName) == 0 || has(self.priority)",message="must be set with priorityClassName: it is the value of that class",fieldPath=".priority"
type WorkloadSpec struct {
	// podSets are the groups of identical pods of the job.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=18
	// +optional
	PodSets []PodSet `json:"podSets,omitempty"`

	// queueName is the LocalQueue the workload waits in.
	// +optional
	QueueName v1beta2.LocalQueueName `json:"queueName,omitempty"`

	// priorityClassName names the class that priority was taken from.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// priorityClassSource says what kind of class that is: empty,
	// kueue.x-k8s.io/workloadpriorityclass or scheduling.k8s.io/priorityclass.
	// +kubebuilder:validation:Enum=kueue.x-k8s.io/workloadpriorityclass;scheduling.k8s.io/priorityclass;""
	// +kubebuilder:default=""
	// +optional
	PriorityClassSource string `json:"priorityClassSource,omitempty"`

	// priority of the workload; higher goes first.
	// +optional
	Priority *int32 `json:"priority,omitempty"`

	// active is false while the workload may not be admitted. Setting it to
	// false evicts an admitted workload.
	// +kubebuilder:default=true
	// +optional
	Active *bool `json:"active,omitempty"`

	// maximumExecutionTimeSeconds is how long the workload may stay admitted in
	// all before it is deactivated.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaximumExecutionTimeSeconds *int32 `json:"maximumExecutionTimeSeconds,omitempty"`
}

// PodSet is a group of identical pods.
// +kubebuilder:validation:XValidation:rule="!has(self.minCount) || !has(self.count) || self.minCount <= self.count",message="minCount may not exceed count",fieldPath=".minCount"
type PodSet struct {
	// name of the pod set.
	// +kubebuilder:default=main
	// +optional
	Name v1beta2.PodSetReference `json:"name,omitempty"`

	// template of the pods. The schema leaves its content open: it was checked
	// where the job was created, and a full schema of a pod would make every
	// write of a Workload cost several times as much to validate and prune.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Template corev1.PodTemplateSpec `json:"template,omitempty"`

	// count of pods.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=1
	// +optional
	Count int32 `json:"count"`

	// minCount is the smallest number of pods the job can start with; left out it
	// is count. At most one pod set may have it.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinCount *int32 `json:"minCount,omitempty"`

	// topologyRequest says how near to each other the pods must be.
	// +optional
	TopologyRequest *PodSetTopologyRequest `json:"topologyRequest,omitempty"`
}

// PodSetTopologyRequest says how near to each other the pods of a set must be.
type PodSetTopologyRequest struct {
	// required is the level within one domain of which all pods must be.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Required *string `json:"required,omitempty"`

	// preferred is the level within one domain of which the pods should be.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Preferred *string `json:"preferred,omitempty"`

	// unconstrained asks for places on nodes wherever they are.
	// +optional
	Unconstrained *bool `json:"unconstrained,omitempty"`

	// podIndexLabel is the label with the index of a pod in its set.
	// +kubebuilder:validation:MaxLength=317
	// +optional
	PodIndexLabel *string `json:"podIndexLabel,omitempty"`

	// subGroupIndexLabel is the label with the index of a pod's replicated job.
	// +kubebuilder:validation:MaxLength=317
	// +optional
	SubGroupIndexLabel *string `json:"subGroupIndexLabel,omitempty"`

	// subGroupCount is the number of replicated jobs.
	// +kubebuilder:validation:Minimum=0
	// +optional
	SubGroupCount *int32 `json:"subGroupCount,omitempty"`

	// podSetGroupName joins pod sets that must be in one domain.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	PodSetGroupName *string `json:"podSetGroupName,omitempty"`

	// podSetSliceRequiredTopology is the level within one domain of which each
	// slice must be.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	PodSetSliceRequiredTopology *string `json:"podSetSliceRequiredTopology,omitempty"`

	// podSetSliceSize is the number of pods of a slice.
	// +kubebuilder:validation:Minimum=1
	// +optional
	PodSetSliceSize *int32 `json:"podSetSliceSize,omitempty"`
}

// WorkloadStatus is what was decided and observed of a workload.
type WorkloadStatus struct {
	// conditions; QuotaReserved, Admitted, PodsReady, Evicted, Finished and more.
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// admission is the quota and the places the workload got.
	// +optional
	Admission *Admission `json:"admission,omitempty"`

	// nextAdmission is held for the workload until pods of others, or its own, have ended, and is its
	// admission then. It is set while a relocation is under way, for the workload that goes elsewhere and
	// for the one that it makes room for. It is spelled as in v1beta2.
	// +optional
	NextAdmission *v1beta2.NextAdmission `json:"nextAdmission,omitempty"`

	// requeueState says when an evicted workload may come back.
	// +optional
	RequeueState *v1beta2.RequeueState `json:"requeueState,omitempty"`

	// reclaimablePods are pods that ended well and need their quota no longer.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=18
	// +optional
	ReclaimablePods []v1beta2.ReclaimablePod `json:"reclaimablePods,omitempty"`

	// admissionChecks are the answers of the checks of the ClusterQueue.
	// +listType=map
	// +listMapKey=name
	// +patchStrategy=merge
	// +patchMergeKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	AdmissionChecks []v1beta2.AdmissionCheckState `json:"admissionChecks,omitempty" patchStrategy:"merge" patchMergeKey:"name"`

	// resourceRequests is what the pod sets were found to ask for while the
	// workload waits.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=18
	// +optional
	ResourceRequests []v1beta2.PodSetRequest `json:"resourceRequests,omitempty"`

	// accumulatedPastExexcutionTimeSeconds is the time spent admitted before the
	// last eviction. The name is misspelled since its first release.
	// +optional
	AccumulatedPastExecutionTimeSeconds *int32 `json:"accumulatedPastExexcutionTimeSeconds,omitempty"`

	// schedulingStats count what happened to the workload.
	// +optional
	SchedulingStats *v1beta2.SchedulingStats `json:"schedulingStats,omitempty"`

	// nominatedClusterNames are clusters that may run the workload.
	// +listType=set
	// +kubebuilder:validation:MaxItems=20
	// +optional
	NominatedClusterNames []string `json:"nominatedClusterNames,omitempty"`

	// clusterName is the cluster that runs the workload.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ClusterName *string `json:"clusterName,omitempty"`

	// unhealthyNodes are nodes of the workload that failed.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	UnhealthyNodes []v1beta2.UnhealthyNode `json:"unhealthyNodes,omitempty"`
}

// Admission is the quota and the places a workload got.
type Admission struct {
	// clusterQueue whose quota is used.
	// +required
	ClusterQueue v1beta2.ClusterQueueReference `json:"clusterQueue"`

	// podSetAssignments, one for each pod set.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=18
	// +optional
	PodSetAssignments []PodSetAssignment `json:"podSetAssignments,omitempty"`
}

// PodSetAssignment is what one pod set got.
type PodSetAssignment struct {
	// name of the pod set.
	// +kubebuilder:default=main
	// +optional
	Name v1beta2.PodSetReference `json:"name,omitempty"`

	// flavors by resource.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Flavors map[corev1.ResourceName]v1beta2.ResourceFlavorReference `json:"flavors,omitempty"`

	// resourceUsage is what all pods of the set use together.
	// +optional
	ResourceUsage corev1.ResourceList `json:"resourceUsage,omitempty"`

	// count of pods that were admitted.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Count *int32 `json:"count,omitempty"`

	// topologyAssignment says where the pods go. Left out the scheduler is free.
	// +optional
	TopologyAssignment *TopologyAssignment `json:"topologyAssignment,omitempty"`

	// delayedTopologyRequest says that places are found later.
	// +optional
	DelayedTopologyRequest *v1beta2.DelayedTopologyRequestState `json:"delayedTopologyRequest,omitempty"`
}

// TopologyAssignment says where pods go: domains with a number of pods each.
type TopologyAssignment struct {
	// levels are the node labels whose values name a domain.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=316
	// +required
	Levels []string `json:"levels"`

	// domains in the order of the pods' ranks.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100000
	// +required
	Domains []TopologyDomainAssignment `json:"domains"`
}

// TopologyDomainAssignment is one domain and its number of pods.
type TopologyDomainAssignment struct {
	// values has one entry for each level.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +required
	Values []string `json:"values"`

	// count of pods.
	// +kubebuilder:validation:Minimum=1
	// +required
	Count int32 `json:"count"`
}

// What an admission was decided on may not change under it: see
// v1beta2.ValidateWorkloadKept. Those are no rules of the schema, because a rule that
// compares fields of spec and status costs a tenth of a millisecond with every
// write of a Workload: each step along a path copies the schemas of all fields
// there. The API server looks at the condition of a webhook instead, which costs
// a tenth of all those rules together, and asks only about what may break one.

// Workload is one admission unit: the pod sets of one job.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName={wl,kwl,kueueworkload,kueueworkloads}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.spec.queueName`,description="LocalQueue the workload waits in"
// +kubebuilder:printcolumn:name="Reserved in",type=string,JSONPath=`.status.admission.clusterQueue`,description="ClusterQueue whose quota is reserved"
// +kubebuilder:printcolumn:name="Admitted",type=string,JSONPath=`.status.conditions[?(@.type=='Admitted')].status`,description="Whether the job may run"
// +kubebuilder:printcolumn:name="Finished",type=string,JSONPath=`.status.conditions[?(@.type=='Finished')].status`,description="Whether the job ended"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the workload was created"
type Workload struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the job asks for.
	// +optional
	Spec WorkloadSpec `json:"spec,omitempty"`

	// status is what was decided and observed.
	// +optional
	Status WorkloadStatus `json:"status,omitempty"`
}

// WorkloadList is a list of Workloads.
// +kubebuilder:object:root=true
type WorkloadList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Workload `json:"items"`
}
