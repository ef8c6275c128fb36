package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

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
	FlavorsReservation []v1beta2.LocalQueueFlavorUsage `json:"flavorsReservation,omitempty"`

	// flavorUsage is the quota used through this queue.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	FlavorUsage []v1beta2.LocalQueueFlavorUsage `json:"flavorUsage,omitempty"`

	// flavors are the flavors of the ClusterQueue; not in v1beta2.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Flavors []LocalQueueFlavorStatus `json:"flavors,omitempty"`

	// fairSharing is the present share of this queue.
	// +optional
	FairSharing *v1beta2.LocalQueueFairSharingStatus `json:"fairSharing,omitempty"`
}

// LocalQueueFlavorStatus describes a flavor of the ClusterQueue.
type LocalQueueFlavorStatus struct {
	// name of the flavor.
	// +required
	Name v1beta2.ResourceFlavorReference `json:"name"`

	// resources of the flavor.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Resources []corev1.ResourceName `json:"resources,omitempty"`

	// nodeLabels of the flavor.
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=8
	// +optional
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`

	// nodeTaints of the flavor.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +optional
	NodeTaints []corev1.Taint `json:"nodeTaints,omitempty"`

	// topology of the flavor.
	// +optional
	Topology *TopologyInfo `json:"topology,omitempty"`
}

// TopologyInfo names a Topology and its levels.
type TopologyInfo struct {
	// name of the Topology.
	// +required
	Name v1beta2.TopologyReference `json:"name"`

	// levels are its node labels.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +required
	Levels []string `json:"levels"`
}

// LocalQueue is where a namespace submits to a ClusterQueue.
// +kubebuilder:object:root=true
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
	Spec v1beta2.LocalQueueSpec `json:"spec,omitempty"`

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
