package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultPodSetName is the name of the only pod set of a simple job.
const DefaultPodSetName PodSetReference = "main"

// WorkloadSpec is what a job asks for.
// +kubebuilder:validation:XValidation:rule="!has(self.podSets) || self.podSets.filter(p, has(p.minCount)).size() <= 1",message="at most one pod set may have minCount",fieldPath=".podSets"
// +kubebuilder:validation:XValidation:rule="!has(self.priorityClassRef) || has(self.priority)",message="must be set with priorityClassRef: it is the value of that class",fieldPath=".priority"
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
	QueueName LocalQueueName `json:"queueName,omitempty"`

	// priorityClassRef names the class that priority was taken from.
	// +optional
	PriorityClassRef *PriorityClassRef `json:"priorityClassRef,omitempty"`

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

	// preemptionGates hold back preemption for this workload until opened in
	// status.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	PreemptionGates []PreemptionGate `json:"preemptionGates,omitempty"`
}

// PriorityClassGroup is the API group of a priority class.
// +kubebuilder:validation:Enum=kueue.x-k8s.io;scheduling.k8s.io
type PriorityClassGroup string

// The groups of priority classes.
const (
	WorkloadPriorityClassGroup PriorityClassGroup = "kueue.x-k8s.io"
	PodPriorityClassGroup      PriorityClassGroup = "scheduling.k8s.io"
)

// PriorityClassKind is the kind of a priority class.
// +kubebuilder:validation:Enum=WorkloadPriorityClass;PriorityClass
type PriorityClassKind string

// The kinds of priority classes.
const (
	WorkloadPriorityClassKind PriorityClassKind = "WorkloadPriorityClass"
	PodPriorityClassKind      PriorityClassKind = "PriorityClass"
)

// PriorityClassRef names a priority class.
// +kubebuilder:validation:XValidation:rule="(self.group == 'kueue.x-k8s.io') == (self.kind == 'WorkloadPriorityClass')",message="kind must be WorkloadPriorityClass in group kueue.x-k8s.io and PriorityClass in group scheduling.k8s.io",fieldPath=".kind"
type PriorityClassRef struct {
	// group of the class.
	// +required
	Group PriorityClassGroup `json:"group"`

	// kind of the class.
	// +required
	Kind PriorityClassKind `json:"kind"`

	// name of the class.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
	// +required
	Name string `json:"name"`
}

// PreemptionGate holds back preemption until it is opened.
type PreemptionGate struct {
	// name of the gate.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
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
	// for the one that it makes room for.
	// +optional
	NextAdmission *NextAdmission `json:"nextAdmission,omitempty"`

	// requeueState says when an evicted workload may come back.
	// +optional
	RequeueState *RequeueState `json:"requeueState,omitempty"`

	// reclaimablePods are pods that ended well and need their quota no longer.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=18
	// +optional
	ReclaimablePods []ReclaimablePod `json:"reclaimablePods,omitempty"`

	// admissionChecks are the answers of the checks of the ClusterQueue.
	// +listType=map
	// +listMapKey=name
	// +patchStrategy=merge
	// +patchMergeKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	AdmissionChecks []AdmissionCheckState `json:"admissionChecks,omitempty" patchStrategy:"merge" patchMergeKey:"name"`

	// resourceRequests is what the pod sets were found to ask for while the
	// workload waits.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=18
	// +optional
	ResourceRequests []PodSetRequest `json:"resourceRequests,omitempty"`

	// accumulatedPastExecutionTimeSeconds is the time spent admitted before the
	// last eviction.
	// +optional
	AccumulatedPastExecutionTimeSeconds *int32 `json:"accumulatedPastExecutionTimeSeconds,omitempty"`

	// schedulingStats count what happened to the workload.
	// +optional
	SchedulingStats *SchedulingStats `json:"schedulingStats,omitempty"`

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
	UnhealthyNodes []UnhealthyNode `json:"unhealthyNodes,omitempty"`

	// preemptionGates say which gates are open.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	PreemptionGates []PreemptionGateState `json:"preemptionGates,omitempty"`
}

// RequeueState says when an evicted workload may come back.
type RequeueState struct {
	// count of times it was put back.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Count *int32 `json:"count,omitempty"`

	// requeueAt is when it may be admitted again.
	// +optional
	RequeueAt *metav1.Time `json:"requeueAt,omitempty"`
}

// ReclaimablePod counts pods that need their quota no longer.
type ReclaimablePod struct {
	// name of the pod set.
	// +required
	Name PodSetReference `json:"name"`

	// count of pods.
	// +kubebuilder:validation:Minimum=0
	// +required
	Count int32 `json:"count"`
}

// CheckState is the answer of an admission check.
// +kubebuilder:validation:Enum=Pending;Ready;Retry;Rejected
type CheckState string

// The answers of admission checks.
const (
	CheckStatePending  CheckState = "Pending"
	CheckStateReady    CheckState = "Ready"
	CheckStateRetry    CheckState = "Retry"
	CheckStateRejected CheckState = "Rejected"
)

// AdmissionCheckState is the answer of one check.
type AdmissionCheckState struct {
	// name of the check.
	// +required
	Name AdmissionCheckReference `json:"name"`

	// state is the answer.
	// +required
	State CheckState `json:"state"`

	// lastTransitionTime is when state last changed.
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`

	// message for a person.
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Message string `json:"message"`

	// requeueAfterSeconds is how long to wait after Retry.
	// +kubebuilder:validation:Minimum=0
	// +optional
	RequeueAfterSeconds *int32 `json:"requeueAfterSeconds,omitempty"`

	// retryCount is the number of Retry answers.
	// +kubebuilder:validation:Minimum=0
	// +optional
	RetryCount *int32 `json:"retryCount,omitempty"`

	// podSetUpdates is what the check adds to the pods.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=18
	// +optional
	PodSetUpdates []PodSetUpdate `json:"podSetUpdates,omitempty"`
}

// PodSetUpdate is what a check adds to the pods of a set.
type PodSetUpdate struct {
	// name of the pod set.
	// +required
	Name PodSetReference `json:"name"`

	// labels to add.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations to add.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// nodeSelector to add.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations to add.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// PodSetRequest is what a pod set was found to ask for.
type PodSetRequest struct {
	// name of the pod set.
	// +required
	Name PodSetReference `json:"name"`

	// resources that all its pods ask for together.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`
}

// SchedulingStats count what happened to a workload.
type SchedulingStats struct {
	// evictions by reason.
	// +listType=map
	// +listMapKey=reason
	// +listMapKey=underlyingCause
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Evictions []WorkloadSchedulingStatsEviction `json:"evictions,omitempty"`
}

// WorkloadSchedulingStatsEviction counts evictions of one reason.
type WorkloadSchedulingStatsEviction struct {
	// reason of the Evicted condition.
	// +kubebuilder:validation:MaxLength=316
	// +required
	Reason string `json:"reason"`

	// underlyingCause within the reason, or empty.
	// +kubebuilder:validation:MaxLength=316
	// +required
	UnderlyingCause EvictionUnderlyingCause `json:"underlyingCause"`

	// count of evictions.
	// +kubebuilder:validation:Minimum=0
	// +required
	Count int32 `json:"count"`
}

// EvictionUnderlyingCause is a finer reason of an eviction.
type EvictionUnderlyingCause string

// UnhealthyNode is a node that failed.
type UnhealthyNode struct {
	// name of the node.
	// +required
	Name string `json:"name"`
}

// GatePosition says whether a gate is open.
// +kubebuilder:validation:Enum=Closed;Open
type GatePosition string

// The positions of a gate.
const (
	GateClosed GatePosition = "Closed"
	GateOpen   GatePosition = "Open"
)

// PreemptionGateState says whether a preemption gate is open.
type PreemptionGateState struct {
	// name of the gate.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// position of the gate.
	// +required
	Position GatePosition `json:"position"`

	// lastTransitionTime is when position last changed.
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
}

// What an admission was decided on may not change under it: see
// ValidateWorkloadKept. Those are no rules of the schema, because a rule that
// compares fields of spec and status costs a tenth of a millisecond with every
// write of a Workload: each step along a path copies the schemas of all fields
// there. The API server looks at the condition of a webhook instead, which costs
// a tenth of all those rules together, and asks only about what may break one.
//
// Only this version has the selectable field: an API server refuses a definition
// whose versions have equal selectable fields and different schemas.

// Workload is one admission unit: the pod sets of one job.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName={wl,kwl,kueueworkload,kueueworkloads}
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.status.admission.clusterQueue`
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
