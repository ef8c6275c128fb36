package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// FlavorFungibilityPolicy says whether to go on to the next flavor.
type FlavorFungibilityPolicy string

// The flavor fungibility policies. Borrow and Preempt say the same as
// MayStopSearch.
const (
	Borrow        FlavorFungibilityPolicy = "Borrow"
	Preempt       FlavorFungibilityPolicy = "Preempt"
	MayStopSearch FlavorFungibilityPolicy = "MayStopSearch"
	TryNextFlavor FlavorFungibilityPolicy = "TryNextFlavor"
)

// ClusterQueueSpec is what an admin wants of a ClusterQueue.
// +kubebuilder:validation:XValidation:rule="has(self.cohort) || !has(self.resourceGroups) || self.resourceGroups.all(rg, rg.flavors.all(f, f.resources.all(r, !has(r.borrowingLimit))))",message="borrowingLimit needs a cohort to borrow from: set spec.cohort or remove borrowingLimit",fieldPath=".resourceGroups"
// +kubebuilder:validation:XValidation:rule="has(self.cohort) || !has(self.resourceGroups) || self.resourceGroups.all(rg, rg.flavors.all(f, f.resources.all(r, !has(r.lendingLimit))))",message="lendingLimit needs a cohort to lend to: set spec.cohort or remove lendingLimit",fieldPath=".resourceGroups"
// +kubebuilder:validation:XValidation:rule="!(has(self.admissionChecks) && has(self.admissionChecksStrategy))",message="use admissionChecks or admissionChecksStrategy, not both",fieldPath=".admissionChecks"
// +kubebuilder:validation:XValidation:rule="has(self.concurrentAdmissionPolicy) == has(oldSelf.concurrentAdmissionPolicy) && (!has(self.concurrentAdmissionPolicy) || self.concurrentAdmissionPolicy.migration.mode == oldSelf.concurrentAdmissionPolicy.migration.mode) && (has(self.concurrentAdmissionPolicy) && has(self.concurrentAdmissionPolicy.migration.constraints) && has(self.concurrentAdmissionPolicy.migration.constraints.lastAcceptableFlavorName) ? self.concurrentAdmissionPolicy.migration.constraints.lastAcceptableFlavorName : \"\") == (has(oldSelf.concurrentAdmissionPolicy) && has(oldSelf.concurrentAdmissionPolicy.migration.constraints) && has(oldSelf.concurrentAdmissionPolicy.migration.constraints.lastAcceptableFlavorName) ? oldSelf.concurrentAdmissionPolicy.migration.constraints.lastAcceptableFlavorName : \"\")",message="cannot be changed: delete the ClusterQueue and create it anew",fieldPath=".concurrentAdmissionPolicy"
type ClusterQueueSpec struct {
	// resourceGroups are the resources the queue has quota for. Resources of one
	// group are always taken from the same flavor.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	ResourceGroups []v1beta2.ResourceGroup `json:"resourceGroups,omitempty"`

	// cohort is the cohort whose members lend to each other. A Cohort object
	// of this name need not exist.
	// +optional
	Cohort v1beta2.CohortReference `json:"cohort,omitempty"`

	// queueingStrategy is how the queue goes on after a workload that does not
	// fit.
	// +kubebuilder:default=BestEffortFIFO
	// +optional
	QueueingStrategy v1beta2.QueueingStrategy `json:"queueingStrategy,omitempty"`

	// namespaceSelector picks the namespaces that may use the queue. Left out it
	// picks none, empty it picks all.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// flavorFungibility says when to try the next flavor instead of borrowing or
	// preempting in this one.
	// +kubebuilder:default={}
	// +optional
	FlavorFungibility *FlavorFungibility `json:"flavorFungibility,omitempty"`

	// preemption says whom workloads of this queue may evict.
	// +kubebuilder:default={}
	// +optional
	Preemption *v1beta2.ClusterQueuePreemption `json:"preemption,omitempty"`

	// admissionChecks must pass before admission, whatever the flavor. Use this or
	// admissionChecksStrategy, not both.
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +optional
	AdmissionChecks []v1beta2.AdmissionCheckReference `json:"admissionChecks,omitzero"`

	// admissionChecksStrategy lists checks that must pass before admission.
	// +optional
	AdmissionChecksStrategy *v1beta2.AdmissionChecksStrategy `json:"admissionChecksStrategy,omitempty"`

	// stopPolicy other than None stops admission.
	// +kubebuilder:default=None
	// +optional
	StopPolicy *v1beta2.StopPolicy `json:"stopPolicy,omitempty"`

	// fairSharing is the queue's weight in its cohort.
	// +optional
	FairSharing *v1beta2.FairSharing `json:"fairSharing,omitempty"`

	// admissionScope says how the local queues of this queue share it.
	// +optional
	AdmissionScope *v1beta2.AdmissionScope `json:"admissionScope,omitempty"`

	// concurrentAdmissionPolicy lets a workload wait for several flavors at once.
	// +optional
	ConcurrentAdmissionPolicy *v1beta2.ConcurrentAdmissionPolicy `json:"concurrentAdmissionPolicy,omitempty"`
}

// FlavorFungibility says when to try the next flavor.
// +kubebuilder:validation:XValidation:rule="!has(self.preference) || (has(self.whenCanBorrow) && self.whenCanBorrow == 'TryNextFlavor' && has(self.whenCanPreempt) && self.whenCanPreempt == 'TryNextFlavor')",message="preference has an effect only if whenCanBorrow and whenCanPreempt are both TryNextFlavor",fieldPath=".preference"
type FlavorFungibility struct {
	// whenCanBorrow says what to do when the workload fits by borrowing.
	// +kubebuilder:validation:Enum=Borrow;MayStopSearch;TryNextFlavor
	// +kubebuilder:default=Borrow
	// +optional
	WhenCanBorrow FlavorFungibilityPolicy `json:"whenCanBorrow,omitempty"`

	// whenCanPreempt says what to do when the workload fits by preempting.
	// +kubebuilder:validation:Enum=Preempt;MayStopSearch;TryNextFlavor
	// +kubebuilder:default=TryNextFlavor
	// +optional
	WhenCanPreempt FlavorFungibilityPolicy `json:"whenCanPreempt,omitempty"`

	// preference orders the two; left out it is BorrowingOverPreemption.
	// +kubebuilder:validation:Enum=BorrowingOverPreemption;PreemptionOverBorrowing
	// +optional
	Preference *v1beta2.FlavorFungibilityPreference `json:"preference,omitempty"`
}

// ClusterQueueStatus is what is known of a ClusterQueue.
type ClusterQueueStatus struct {
	// conditions; Active says whether the queue can admit.
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// flavorsReservation is the quota reserved by workloads of this queue.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	FlavorsReservation []v1beta2.FlavorUsage `json:"flavorsReservation,omitempty"`

	// flavorsUsage is the quota used by admitted workloads of this queue.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	FlavorsUsage []v1beta2.FlavorUsage `json:"flavorsUsage,omitempty"`

	// pendingWorkloads is the number of workloads that wait.
	// +kubebuilder:default=0
	// +optional
	PendingWorkloads int32 `json:"pendingWorkloads"`

	// reservingWorkloads is the number of workloads that hold quota.
	// +kubebuilder:default=0
	// +optional
	ReservingWorkloads int32 `json:"reservingWorkloads"`

	// admittedWorkloads is the number of admitted workloads that have not
	// finished.
	// +kubebuilder:default=0
	// +optional
	AdmittedWorkloads int32 `json:"admittedWorkloads"`

	// pendingWorkloadsStatus has had no meaning for long and is not in v1beta2.
	// +optional
	PendingWorkloadsStatus *ClusterQueuePendingWorkloadsStatus `json:"pendingWorkloadsStatus,omitempty"`

	// fairSharing is the present share of this queue.
	// +optional
	FairSharing *v1beta2.FairSharingStatus `json:"fairSharing,omitempty"`
}

// ClusterQueuePendingWorkloadsStatus lists the first waiting workloads.
type ClusterQueuePendingWorkloadsStatus struct {
	// clusterQueuePendingWorkload are the workloads, first one first.
	// +listType=atomic
	// +optional
	Head []ClusterQueuePendingWorkload `json:"clusterQueuePendingWorkload,omitempty"`

	// lastChangeTime is when the list last changed.
	// +required
	LastChangeTime metav1.Time `json:"lastChangeTime"`
}

// ClusterQueuePendingWorkload names a waiting workload.
type ClusterQueuePendingWorkload struct {
	// name of the workload.
	// +required
	Name string `json:"name"`

	// namespace of the workload.
	// +required
	Namespace string `json:"namespace"`
}

// ClusterQueue is a team's quota.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName={cq}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cohort",type=string,JSONPath=`.spec.cohort`,description="Cohort that this ClusterQueue belongs to"
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.conditions[?(@.type=='Active')].status`,description="Whether the queue can admit"
// +kubebuilder:printcolumn:name="Strategy",type=string,JSONPath=`.spec.queueingStrategy`,description="How the queue goes on after a workload that does not fit",priority=1
// +kubebuilder:printcolumn:name="Pending Workloads",type=integer,JSONPath=`.status.pendingWorkloads`,description="Number of workloads that wait"
// +kubebuilder:printcolumn:name="Admitted Workloads",type=integer,JSONPath=`.status.admittedWorkloads`,description="Number of admitted workloads that have not finished"
// +kubebuilder:printcolumn:name="GPUs",type=string,JSONPath=`.status.flavorsReservation[*].resources[?(@.name=='nvidia.com/gpu')].total`,description="GPUs that are reserved in the first flavor that has any"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the queue was created"
type ClusterQueue struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the admin wants.
	// +optional
	Spec ClusterQueueSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status ClusterQueueStatus `json:"status,omitempty"`
}

// ClusterQueueList is a list of ClusterQueues.
// +kubebuilder:object:root=true
type ClusterQueueList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterQueue `json:"items"`
}
