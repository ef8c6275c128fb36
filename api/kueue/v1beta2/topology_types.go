package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TopologySpec lists the levels of a topology.
type TopologySpec struct {
	// levels from the widest to the narrowest.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(i, self.exists_one(j, i.nodeLabel == j.nodeLabel))",message="each nodeLabel may appear once"
	// +kubebuilder:validation:XValidation:rule="self.filter(l, l.nodeLabel == 'kubernetes.io/hostname').size() == 0 || self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname'",message="kubernetes.io/hostname must be the last level"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf || (self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname' && oldSelf[size(oldSelf) - 1].nodeLabel == 'kubernetes.io/hostname')",message="can be changed only while kubernetes.io/hostname is and stays the last level"
	// +required
	Levels []TopologyLevel `json:"levels"`
}

// TopologyLevel is one level of a topology.
type TopologyLevel struct {
	// nodeLabel whose values are the domains of the level.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	// +required
	NodeLabel string `json:"nodeLabel"`
}

// Topology says how the nodes of a flavor are nested in domains.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster,shortName={topo}
type Topology struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec lists the levels.
	// +optional
	Spec TopologySpec `json:"spec,omitempty"`
}

// TopologyList is a list of Topologies.
// +kubebuilder:object:root=true
type TopologyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Topology `json:"items"`
}
