package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QueueingStrategy is how a queue goes on after a workload that does not fit.
// +kubebuilder:validation:Enum=StrictFIFO;BestEffortFIFO
type QueueingStrategy string

// The queueing strategies.
const (
	// StrictFIFO lets a workload that does not fit block those behind it.
	StrictFIFO QueueingStrategy = "StrictFIFO"
	// BestEffortFIFO lets later workloads pass one that does not fit.
	BestEffortFIFO QueueingStrategy = "BestEffortFIFO"
)

// PreemptionPolicy says which workloads may be evicted.
type PreemptionPolicy string

// The preemption policies; not every one is legal in every field.
const (
	PreemptionPolicyNever                     PreemptionPolicy = "Never"
	PreemptionPolicyAny                       PreemptionPolicy = "Any"
	PreemptionPolicyLowerPriority             PreemptionPolicy = "LowerPriority"
	PreemptionPolicyLowerOrNewerEqualPriority PreemptionPolicy = "LowerOrNewerEqualPriority"
)

// BorrowWithinCohortPolicy says whether a workload may preempt in the cohort
// while its queue borrows.
type BorrowWithinCohortPolicy string

// The policies of borrowWithinCohort.
const (
	BorrowWithinCohortPolicyNever         BorrowWithinCohortPolicy = "Never"
	BorrowWithinCohortPolicyLowerPriority BorrowWithinCohortPolicy = "LowerPriority"
)

// FlavorFungibilityPolicy says whether to go on to the next flavor.
type FlavorFungibilityPolicy string

// The flavor fungibility policies.
const (
	// MayStopSearch takes the flavor at hand.
	MayStopSearch FlavorFungibilityPolicy = "MayStopSearch"
	// TryNextFlavor looks at the next flavor first.
	TryNextFlavor FlavorFungibilityPolicy = "TryNextFlavor"
)

// FlavorFungibilityPreference orders borrowing and preemption when both are
// possible.
type FlavorFungibilityPreference string

// The flavor fungibility preferences.
const (
	BorrowingOverPreemption FlavorFungibilityPreference = "BorrowingOverPreemption"
	PreemptionOverBorrowing FlavorFungibilityPreference = "PreemptionOverBorrowing"
)

// AdmissionMode says whether local queues of a ClusterQueue share by past use.
// +kubebuilder:validation:Enum=UsageBasedAdmissionFairSharing;NoAdmissionFairSharing
type AdmissionMode string

// The admission modes.
const (
	UsageBasedAdmissionFairSharing AdmissionMode = "UsageBasedAdmissionFairSharing"
	NoAdmissionFairSharing         AdmissionMode = "NoAdmissionFairSharing"
)

// ConcurrentAdmissionMode says what happens once one variant of a workload is
// admitted.
// +kubebuilder:validation:Enum=TryPreferredFlavors;RetainFirstAdmission
type ConcurrentAdmissionMode string

// The concurrent admission modes.
const (
	TryPreferredFlavors  ConcurrentAdmissionMode = "TryPreferredFlavors"
	RetainFirstAdmission ConcurrentAdmissionMode = "RetainFirstAdmission"
)

// ClusterQueueSpec is what an admin wants of a ClusterQueue.
// +kubebuilder:validation:XValidation:rule="has(self.cohortName) || !has(self.resourceGroups) || self.resourceGroups.all(rg, rg.flavors.all(f, f.resources.all(r, !has(r.borrowingLimit))))",message="borrowingLimit needs a cohort to borrow from: set spec.cohortName or remove borrowingLimit",fieldPath=".resourceGroups"
// +kubebuilder:validation:XValidation:rule="has(self.cohortName) || !has(self.resourceGroups) || self.resourceGroups.all(rg, rg.flavors.all(f, f.resources.all(r, !has(r.lendingLimit))))",message="lendingLimit needs a cohort to lend to: set spec.cohortName or remove lendingLimit",fieldPath=".resourceGroups"
// +kubebuilder:validation:XValidation:rule="has(self.concurrentAdmissionPolicy) == has(oldSelf.concurrentAdmissionPolicy) && (!has(self.concurrentAdmissionPolicy) || self.concurrentAdmissionPolicy.migration.mode == oldSelf.concurrentAdmissionPolicy.migration.mode) && (has(self.concurrentAdmissionPolicy) && has(self.concurrentAdmissionPolicy.migration.constraints) && has(self.concurrentAdmissionPolicy.migration.constraints.lastAcceptableFlavorName) ? self.concurrentAdmissionPolicy.migration.constraints.lastAcceptableFlavorName : \"\") == (has(oldSelf.concurrentAdmissionPolicy) && has(oldSelf.concurrentAdmissionPolicy.migration.constraints) && has(oldSelf.concurrentAdmissionPolicy.migration.constraints.lastAcceptableFlavorName) ? oldSelf.concurrentAdmissionPolicy.migration.constraints.lastAcceptableFlavorName : \"\")",message="cannot be changed: delete the ClusterQueue and create it anew",fieldPath=".concurrentAdmissionPolicy"
type ClusterQueueSpec struct {
	// resourceGroups are the resources the queue has quota for. Resources of one
	// group are always taken from the same flavor.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	ResourceGroups []ResourceGroup `json:"resourceGroups,omitempty"`

	// cohortName is the cohort whose members lend to each other. A Cohort object
	// of this name need not exist.
	// +optional
	CohortName CohortReference `json:"cohortName,omitempty"`

	// queueingStrategy is how the queue goes on after a workload that does not
	// fit.
	// +kubebuilder:default=BestEffortFIFO
	// +optional
	QueueingStrategy QueueingStrategy `json:"queueingStrategy,omitempty"`

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
	Preemption *ClusterQueuePreemption `json:"preemption,omitempty"`

	// admissionChecksStrategy lists checks that must pass before admission.
	// +optional
	AdmissionChecksStrategy *AdmissionChecksStrategy `json:"admissionChecksStrategy,omitempty"`

	// stopPolicy other than None stops admission.
	// +kubebuilder:default=None
	// +optional
	StopPolicy *StopPolicy `json:"stopPolicy,omitempty"`

	// fairSharing is the queue's weight in its cohort.
	// +optional
	FairSharing *FairSharing `json:"fairSharing,omitempty"`

	// admissionScope says how the local queues of this queue share it.
	// +optional
	AdmissionScope *AdmissionScope `json:"admissionScope,omitempty"`

	// concurrentAdmissionPolicy lets a workload wait for several flavors at once.
	// +optional
	ConcurrentAdmissionPolicy *ConcurrentAdmissionPolicy `json:"concurrentAdmissionPolicy,omitempty"`
}

// ResourceGroup is a set of resources that are always taken from one flavor.
// +kubebuilder:validation:XValidation:rule="self.flavors.all(f, size(f.resources) == size(self.coveredResources))",message="each flavor must have the same resources as coveredResources, in the same order",fieldPath=".flavors"
type ResourceGroup struct {
	// coveredResources are the resources of the group.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +required
	CoveredResources []corev1.ResourceName `json:"coveredResources"`

	// flavors in the order in which they are tried.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +required
	Flavors []FlavorQuotas `json:"flavors"`
}

// FlavorQuotas are the quotas of one flavor.
type FlavorQuotas struct {
	// name of the ResourceFlavor.
	// +required
	Name ResourceFlavorReference `json:"name"`

	// resources in the order of coveredResources.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +required
	Resources []ResourceQuota `json:"resources"`
}

// ResourceQuota is what one flavor offers of one resource.
type ResourceQuota struct {
	// name of the resource.
	// +required
	Name corev1.ResourceName `json:"name"`

	// nominalQuota is the amount the queue or cohort owns.
	// +required
	NominalQuota resource.Quantity `json:"nominalQuota"`

	// borrowingLimit is how much above nominalQuota may be used; left out there
	// is no limit.
	// +optional
	BorrowingLimit *resource.Quantity `json:"borrowingLimit,omitempty"`

	// lendingLimit is how much of the unused nominalQuota others may use; left
	// out they may use all.
	// +optional
	LendingLimit *resource.Quantity `json:"lendingLimit,omitempty"`
}

// FlavorFungibility says when to try the next flavor.
// +kubebuilder:validation:XValidation:rule="!has(self.preference) || (has(self.whenCanBorrow) && self.whenCanBorrow == 'TryNextFlavor' && has(self.whenCanPreempt) && self.whenCanPreempt == 'TryNextFlavor')",message="preference has an effect only if whenCanBorrow and whenCanPreempt are both TryNextFlavor",fieldPath=".preference"
type FlavorFungibility struct {
	// whenCanBorrow says what to do when the workload fits by borrowing.
	// +kubebuilder:validation:Enum=MayStopSearch;TryNextFlavor
	// +kubebuilder:default=MayStopSearch
	// +optional
	WhenCanBorrow FlavorFungibilityPolicy `json:"whenCanBorrow,omitempty"`

	// whenCanPreempt says what to do when the workload fits by preempting.
	// +kubebuilder:validation:Enum=MayStopSearch;TryNextFlavor
	// +kubebuilder:default=TryNextFlavor
	// +optional
	WhenCanPreempt FlavorFungibilityPolicy `json:"whenCanPreempt,omitempty"`

	// preference orders the two; left out it is BorrowingOverPreemption.
	// +kubebuilder:validation:Enum=BorrowingOverPreemption;PreemptionOverBorrowing
	// +optional
	Preference *FlavorFungibilityPreference `json:"preference,omitempty"`
}

// ClusterQueuePreemption says whom workloads of a queue may evict.
// +kubebuilder:validation:XValidation:rule="!(has(self.reclaimWithinCohort) && self.reclaimWithinCohort == 'Never' && has(self.borrowWithinCohort) && has(self.borrowWithinCohort.policy) && self.borrowWithinCohort.policy != 'Never')",message="borrowWithinCohort needs reclaimWithinCohort other than Never: set spec.preemption.reclaimWithinCohort to LowerPriority or Any",fieldPath=".borrowWithinCohort"
type ClusterQueuePreemption struct {
	// reclaimWithinCohort says whether borrowers in the cohort may be evicted
	// when a workload fits in the nominal quota of this queue.
	// +kubebuilder:validation:Enum=Never;LowerPriority;Any
	// +kubebuilder:default=Never
	// +optional
	ReclaimWithinCohort PreemptionPolicy `json:"reclaimWithinCohort,omitempty"`

	// borrowWithinCohort says whether a workload that must borrow may evict in
	// other queues of the cohort.
	// +kubebuilder:default={}
	// +optional
	BorrowWithinCohort *BorrowWithinCohort `json:"borrowWithinCohort,omitempty"`

	// withinClusterQueue says whom a workload may evict in its own queue.
	// +kubebuilder:validation:Enum=Never;LowerPriority;LowerOrNewerEqualPriority
	// +kubebuilder:default=Never
	// +optional
	WithinClusterQueue PreemptionPolicy `json:"withinClusterQueue,omitempty"`
}

// BorrowWithinCohort says whether a workload that must borrow may evict in
// other queues.
type BorrowWithinCohort struct {
	// policy says whom.
	// +kubebuilder:validation:Enum=Never;LowerPriority
	// +kubebuilder:default=Never
	// +optional
	Policy BorrowWithinCohortPolicy `json:"policy,omitempty"`

	// maxPriorityThreshold spares workloads with a higher priority.
	// +optional
	MaxPriorityThreshold *int32 `json:"maxPriorityThreshold,omitempty"`
}

// AdmissionChecksStrategy lists checks that must pass before admission.
type AdmissionChecksStrategy struct {
	// admissionChecks and the flavors they apply to.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +optional
	AdmissionChecks []AdmissionCheckStrategyRule `json:"admissionChecks,omitempty"`
}

// AdmissionCheckStrategyRule applies one check to some flavors.
type AdmissionCheckStrategyRule struct {
	// name of the AdmissionCheck.
	// +required
	Name AdmissionCheckReference `json:"name"`

	// onFlavors the check applies to; left out it applies to all.
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +optional
	OnFlavors []ResourceFlavorReference `json:"onFlavors,omitempty"`
}

// FairSharing is a weight among siblings.
type FairSharing struct {
	// weight compares with the weights of siblings. With 0 the unused quota of
	// siblings is never preferred for this one.
	// +kubebuilder:default=1
	// +optional
	Weight *resource.Quantity `json:"weight,omitempty"`
}

// FairSharingStatus is the present share.
type FairSharingStatus struct {
	// weightedShare is the largest ratio of borrowed to lendable quota, divided
	// by the weight, in thousandths.
	// +optional
	WeightedShare int64 `json:"weightedShare"`
}

// AdmissionScope says how local queues share a ClusterQueue.
type AdmissionScope struct {
	// admissionMode switches sharing by past use on or off.
	// +required
	AdmissionMode AdmissionMode `json:"admissionMode"`
}

// ConcurrentAdmissionPolicy lets a workload wait for several flavors at once.
type ConcurrentAdmissionPolicy struct {
	// migration says what happens once one flavor was found.
	// +required
	Migration ConcurrentAdmissionMigration `json:"migration"`
}

// ConcurrentAdmissionMigration says what happens once one flavor was found.
type ConcurrentAdmissionMigration struct {
	// mode is TryPreferredFlavors or RetainFirstAdmission.
	// +required
	Mode ConcurrentAdmissionMode `json:"mode"`

	// constraints of the migration.
	// +optional
	Constraints *ConcurrentAdmissionConstraints `json:"constraints,omitempty"`
}

// ConcurrentAdmissionConstraints limits which flavors are waited for.
type ConcurrentAdmissionConstraints struct {
	// lastAcceptableFlavorName is the last flavor of the list that is good
	// enough to stay on. Only with TryPreferredFlavors.
	// +optional
	LastAcceptableFlavorName ResourceFlavorReference `json:"lastAcceptableFlavorName,omitempty"`
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
	FlavorsReservation []FlavorUsage `json:"flavorsReservation,omitempty"`

	// flavorsUsage is the quota used by admitted workloads of this queue.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	FlavorsUsage []FlavorUsage `json:"flavorsUsage,omitempty"`

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

	// fairSharing is the present share of this queue.
	// +optional
	FairSharing *FairSharingStatus `json:"fairSharing,omitempty"`
}

// FlavorUsage is the use of one flavor.
type FlavorUsage struct {
	// name of the flavor.
	// +required
	Name ResourceFlavorReference `json:"name"`

	// resources used of the flavor.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Resources []ResourceUsage `json:"resources,omitempty"`
}

// ResourceUsage is the use of one resource.
type ResourceUsage struct {
	// name of the resource.
	// +required
	Name corev1.ResourceName `json:"name"`

	// total in use, borrowed included.
	// +optional
	Total resource.Quantity `json:"total,omitempty"`

	// borrowed is how much of it is above nominalQuota.
	// +optional
	Borrowed resource.Quantity `json:"borrowed,omitempty"`
}

// ClusterQueue is a team's quota.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster,shortName={cq}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cohort",type=string,JSONPath=`.spec.cohortName`,description="Cohort that this ClusterQueue belongs to"
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
