package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// ResourceFlavor is a kind of node that quota is counted in.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName={flavor,flavors,rf}
// +kubebuilder:printcolumn:name="Node Labels",type=string,JSONPath=`.spec.nodeLabels`,description="Labels of the nodes that are of this flavor; none means all"
// +kubebuilder:printcolumn:name="Taints",type=string,JSONPath=`.spec.nodeTaints[*].key`,description="Key of the first taint that jobs must tolerate"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the flavor was created"
type ResourceFlavor struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which nodes the flavor means.
	// +optional
	Spec v1beta2.ResourceFlavorSpec `json:"spec,omitempty"`
}

// ResourceFlavorList is a list of ResourceFlavors.
// +kubebuilder:object:root=true
type ResourceFlavorList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ResourceFlavor `json:"items"`
}
