package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LocalQueueSpec is what an admin wants of a LocalQueue.
type LocalQueueSpec struct {
	// clusterQueue is the queue this one leads to.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: delete the LocalQueue and create it anew"
	// +optional
	ClusterQueue ClusterQueueReference `json:"clusterQueue,omitempty"`

	// stopPolicy other than None stops admission through this queue.
	// +kubebuilder:default=None
	// +optional
	StopPolicy *StopPolicy `json:"stopPolicy,omitempty"`

	// fairSharing is the queue's weight among the local queues of its
	// ClusterQueue.
	// +optional
	FairSharing *FairSharing `json:"fairSharing,omitempty"`
}

// LocalQueueStatus is what is known of a LocalQueue.
type LocalQueueStatus struct {
	// conditions; Active says whether workloads can be admitted through it.
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

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

	// flavorsReservation is the quota reserved through this queue.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	FlavorsReservation []LocalQueueFlavorUsage `json:"flavorsReservation,omitempty"`

	// flavorsUsage is the quota used through this queue.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	FlavorsUsage []LocalQueueFlavorUsage `json:"flavorsUsage,omitempty"`

	// fairSharing is the present share of this queue.
	// +optional
	FairSharing *LocalQueueFairSharingStatus `json:"fairSharing,omitempty"`
}

// LocalQueueFlavorUsage is the use of one flavor.
type LocalQueueFlavorUsage struct {
	// name of the flavor.
	// +required
	Name ResourceFlavorReference `json:"name"`

	// resources used of the flavor.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Resources []LocalQueueResourceUsage `json:"resources,omitempty"`
}

// LocalQueueResourceUsage is the use of one resource.
type LocalQueueResourceUsage struct {
	// name of the resource.
	// +required
	Name corev1.ResourceName `json:"name"`

	// total in use.
	// +optional
	Total resource.Quantity `json:"total,omitempty"`
}

// LocalQueueFairSharingStatus is the present share of a local queue.
type LocalQueueFairSharingStatus struct {
	// weightedShare is the largest ratio of borrowed to lendable quota, divided
	// by the weight, in thousandths.
	// +optional
	WeightedShare int64 `json:"weightedShare"`

	// admissionFairSharingStatus is the use that is remembered for sharing.
	// +optional
	AdmissionFairSharingStatus *AdmissionFairSharingStatus `json:"admissionFairSharingStatus,omitempty"`
}

// AdmissionFairSharingStatus is the use that is remembered for sharing.
type AdmissionFairSharingStatus struct {
	// consumedResources, older use counted less.
	// +required
	ConsumedResources corev1.ResourceList `json:"consumedResources"`

	// lastUpdate is when consumedResources was computed.
	// +required
	LastUpdate metav1.Time `json:"lastUpdate"`
}

// LocalQueue is where a namespace submits to a ClusterQueue.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName={queue,queues,lq}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="ClusterQueue",type=string,JSONPath=`.spec.clusterQueue`,description="ClusterQueue behind this queue"
// +kubebuilder:printcolumn:name="Pending Workloads",type=integer,JSONPath=`.status.pendingWorkloads`,description="Number of workloads that wait"
// +kubebuilder:printcolumn:name="Admitted Workloads",type=integer,JSONPath=`.status.admittedWorkloads`,description="Number of admitted workloads that have not finished"
type LocalQueue struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the admin wants.
	// +optional
	Spec LocalQueueSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status LocalQueueStatus `json:"status,omitempty"`
}

// LocalQueueList is a list of LocalQueues.
// +kubebuilder:object:root=true
type LocalQueueList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LocalQueue `json:"items"`
}
