package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// MultiKueueConfigSpec lists the clusters that workloads may be sent to.
type MultiKueueConfigSpec struct {
	// clusters are names of MultiKueueClusters in the order in which they are
	// tried.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a == b))",message="each cluster may appear once"
	// +required
	Clusters []string `json:"clusters"`
}

// MultiKueueConfig lists the clusters that workloads of an admission check may
// be sent to.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName={mkconf}
type MultiKueueConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec lists the clusters.
	// +optional
	Spec MultiKueueConfigSpec `json:"spec,omitempty"`
}

// MultiKueueConfigList is a list of MultiKueueConfigs.
// +kubebuilder:object:root=true
type MultiKueueConfigList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MultiKueueConfig `json:"items"`
}

// MultiKueueClusterSpec says how to reach a cluster.
type MultiKueueClusterSpec struct {
	// kubeConfig is where the credentials are. A cluster that is known by a
	// ClusterProfile has none and can be written in v1beta2 only.
	// +required
	KubeConfig *v1beta2.KubeConfig `json:"kubeConfig,omitempty"`
}

// MultiKueueCluster is a cluster that workloads may be sent to.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName={mkc}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Connected",type=string,JSONPath=`.status.conditions[?(@.type=='Active')].status`,description="Whether the cluster can be reached"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the object was created"
type MultiKueueCluster struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how to reach the cluster.
	// +optional
	Spec MultiKueueClusterSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status v1beta2.MultiKueueClusterStatus `json:"status,omitempty"`
}

// MultiKueueClusterList is a list of MultiKueueClusters.
// +kubebuilder:object:root=true
type MultiKueueClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MultiKueueCluster `json:"items"`
}
