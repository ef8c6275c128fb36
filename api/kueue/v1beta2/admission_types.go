package v1beta2

import corev1 "k8s.io/api/core/v1"

// Admission is the quota and the places a workload got.
type Admission struct {
	// clusterQueue whose quota is used.
	// +required
	ClusterQueue ClusterQueueReference `json:"clusterQueue"`

	// podSetAssignments, one for each pod set.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=18
	// +optional
	PodSetAssignments []PodSetAssignment `json:"podSetAssignments,omitempty"`
}

// NextAdmission is what is held for a workload that does not run.
type NextAdmission struct {
	// observedGeneration is the metadata.generation of the workload that it was decided for; as
	// another one, it does not get it.
	// +required
	ObservedGeneration int64 `json:"observedGeneration"`

	// admission is what it gets.
	// +required
	Admission Admission `json:"admission"`
}

// DelayedTopologyRequestState says whether places are still to be found.
// +kubebuilder:validation:Enum=Pending;Ready
type DelayedTopologyRequestState string

// The states of a delayed topology request.
const (
	DelayedTopologyRequestPending DelayedTopologyRequestState = "Pending"
	DelayedTopologyRequestReady   DelayedTopologyRequestState = "Ready"
)

// PodSetAssignment is what one pod set got.
type PodSetAssignment struct {
	// name of the pod set.
	// +kubebuilder:default=main
	// +optional
	Name PodSetReference `json:"name,omitempty"`

	// flavors by resource.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Flavors map[corev1.ResourceName]ResourceFlavorReference `json:"flavors,omitempty"`

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
	DelayedTopologyRequest *DelayedTopologyRequestState `json:"delayedTopologyRequest,omitempty"`
}

// TopologyAssignment says where pods go: domains with a number of pods each.
// Domains are written in slices that share what their names have in common.
// +kubebuilder:validation:XValidation:rule="!has(self.slices) || self.slices.all(s, size(s.valuesPerLevel) == size(self.levels))",message="valuesPerLevel must have one entry for each level",fieldPath=".slices"
type TopologyAssignment struct {
	// levels are the node labels whose values name a domain.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=316
	// +required
	Levels []string `json:"levels"`

	// slices of domains, in the order of the pods' ranks.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +optional
	Slices []TopologyAssignmentSlice `json:"slices,omitempty"`
}

// TopologyAssignmentSlice is a run of domains.
// +kubebuilder:validation:XValidation:rule="self.valuesPerLevel.all(v, !has(v.individual) || size(v.individual.roots) == self.domainCount)",message="individual values must have one root for each domain",fieldPath=".valuesPerLevel"
// +kubebuilder:validation:XValidation:rule="!has(self.podCounts.individual) || size(self.podCounts.individual) == self.domainCount",message="individual counts must have one entry for each domain",fieldPath=".podCounts"
type TopologyAssignmentSlice struct {
	// domainCount is the number of domains.
	// +kubebuilder:validation:Minimum=1
	// +required
	DomainCount int32 `json:"domainCount"`

	// valuesPerLevel has one entry for each level.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +required
	ValuesPerLevel []TopologyAssignmentSliceLevelValues `json:"valuesPerLevel"`

	// podCounts is the number of pods in each domain.
	// +required
	PodCounts TopologyAssignmentSlicePodCounts `json:"podCounts"`
}

// TopologyAssignmentSliceLevelValues are the values of one level: one for all
// domains, or one for each.
// +kubebuilder:validation:XValidation:rule="has(self.universal) != has(self.individual)",message="set either universal or individual"
type TopologyAssignmentSliceLevelValues struct {
	// universal is the value of all domains.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Universal *string `json:"universal,omitempty"`

	// individual are the values of each domain.
	// +optional
	Individual *TopologyAssignmentSliceLevelIndividualValues `json:"individual,omitempty"`
}

// TopologyAssignmentSliceLevelIndividualValues are values with a common
// beginning and end.
type TopologyAssignmentSliceLevelIndividualValues struct {
	// prefix common to all values.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Prefix *string `json:"prefix,omitempty"`

	// suffix common to all values.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Suffix *string `json:"suffix,omitempty"`

	// roots are what is between prefix and suffix, one for each domain.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100000
	// +kubebuilder:validation:items:MaxLength=63
	// +required
	Roots []string `json:"roots"`
}

// TopologyAssignmentSlicePodCounts are numbers of pods: one for all domains, or
// one for each.
// +kubebuilder:validation:XValidation:rule="has(self.universal) != has(self.individual)",message="set either universal or individual"
type TopologyAssignmentSlicePodCounts struct {
	// universal is the number of pods in every domain.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Universal *int32 `json:"universal,omitempty"`

	// individual are the numbers of pods of each domain.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100000
	// +optional
	Individual []int32 `json:"individual,omitempty"`
}
