package v1beta2

import corev1 "k8s.io/api/core/v1"

// PodSet is a group of identical pods.
// +kubebuilder:validation:XValidation:rule="!has(self.minCount) || !has(self.count) || self.minCount <= self.count",message="minCount may not exceed count",fieldPath=".minCount"
type PodSet struct {
	// name of the pod set.
	// +kubebuilder:default=main
	// +optional
	Name PodSetReference `json:"name,omitempty"`

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

	// podsetSliceRequiredTopologyConstraints are nested slices, widest first.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	// +optional
	PodsetSliceRequiredTopologyConstraints []PodsetSliceRequiredTopologyConstraint `json:"podsetSliceRequiredTopologyConstraints,omitempty"`
}

// PodsetSliceRequiredTopologyConstraint is one layer of nested slices.
type PodsetSliceRequiredTopologyConstraint struct {
	// topology is the level within one domain of which each slice must be.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Topology string `json:"topology"`

	// size is the number of pods of a slice.
	// +kubebuilder:validation:Minimum=1
	// +required
	Size int32 `json:"size"`
}
