package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodSetMergePolicy says which pod sets of a workload share one entry of a
// ProvisioningRequest.
// +kubebuilder:validation:Enum=IdenticalPodTemplates;IdenticalWorkloadSchedulingRequirements
type PodSetMergePolicy string

// The merge policies.
const (
	// IdenticalPodTemplates merges pod sets whose templates are equal.
	IdenticalPodTemplates PodSetMergePolicy = "IdenticalPodTemplates"
	// IdenticalWorkloadSchedulingRequirements merges pod sets that are equal in
	// what scheduling looks at.
	IdenticalWorkloadSchedulingRequirements PodSetMergePolicy = "IdenticalWorkloadSchedulingRequirements"
)

// ProvisioningRequestConfigSpec says how nodes are asked for.
type ProvisioningRequestConfigSpec struct {
	// provisioningClassName is the class of the ProvisioningRequests.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
	// +required
	ProvisioningClassName string `json:"provisioningClassName"`

	// parameters are passed on to the class.
	// +kubebuilder:validation:MaxProperties=100
	// +optional
	Parameters map[string]ProvisioningParameter `json:"parameters,omitempty"`

	// managedResources are those that nodes are asked for: a workload that
	// requests none of them needs no ProvisioningRequest. Empty means any.
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +optional
	ManagedResources []corev1.ResourceName `json:"managedResources,omitempty"`

	// retryStrategy says what to do when nodes are not to be had.
	// +kubebuilder:default={backoffLimitCount: 3, backoffBaseSeconds: 60, backoffMaxSeconds: 1800}
	// +optional
	RetryStrategy *ProvisioningRequestRetryStrategy `json:"retryStrategy,omitempty"`

	// podSetUpdates is what pods are given once nodes are there.
	// +optional
	PodSetUpdates *ProvisioningRequestPodSetUpdates `json:"podSetUpdates,omitempty"`

	// podSetMergePolicy says which pod sets share one entry of a request; left out
	// each has its own.
	// +optional
	PodSetMergePolicy *PodSetMergePolicy `json:"podSetMergePolicy,omitempty"`
}

// ProvisioningParameter is the value of a parameter of a provisioning class.
// +kubebuilder:validation:MaxLength=255
type ProvisioningParameter string

// ProvisioningRequestRetryStrategy says how often and when to ask again.
type ProvisioningRequestRetryStrategy struct {
	// backoffLimitCount is the number of repetitions before giving up.
	// +kubebuilder:default=3
	// +optional
	BackoffLimitCount *int32 `json:"backoffLimitCount,omitempty"`

	// backoffBaseSeconds is the time before the first repetition; it doubles with
	// each.
	// +kubebuilder:default=60
	// +optional
	BackoffBaseSeconds *int32 `json:"backoffBaseSeconds,omitempty"`

	// backoffMaxSeconds is the longest time between two.
	// +kubebuilder:default=1800
	// +optional
	BackoffMaxSeconds *int32 `json:"backoffMaxSeconds,omitempty"`
}

// ProvisioningRequestPodSetUpdates is what pods are given once nodes are there.
type ProvisioningRequestPodSetUpdates struct {
	// nodeSelector entries to add.
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=8
	// +optional
	NodeSelector []ProvisioningRequestPodSetUpdatesNodeSelector `json:"nodeSelector,omitempty"`
}

// ProvisioningRequestPodSetUpdatesNodeSelector is one entry of a node selector.
type ProvisioningRequestPodSetUpdatesNodeSelector struct {
	// key of the node label.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	// +required
	Key string `json:"key"`

	// valueFromProvisioningClassDetail names the detail of the
	// ProvisioningRequest's status whose value is taken.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	// +required
	ValueFromProvisioningClassDetail string `json:"valueFromProvisioningClassDetail"`
}

// ProvisioningRequestConfig says how the provisioning-request check asks for
// nodes.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster,shortName={prc}
type ProvisioningRequestConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how.
	// +optional
	Spec ProvisioningRequestConfigSpec `json:"spec,omitempty"`
}

// ProvisioningRequestConfigList is a list of ProvisioningRequestConfigs.
// +kubebuilder:object:root=true
type ProvisioningRequestConfigList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ProvisioningRequestConfig `json:"items"`
}
