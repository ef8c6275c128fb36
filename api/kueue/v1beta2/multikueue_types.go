package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// QuotaManagement says who sets the quota of ClusterQueues that send their
// workloads to other clusters.
// +kubebuilder:validation:Enum=Manual;Automated
type QuotaManagement string

// The forms of quota management.
const (
	// QuotaManagementManual leaves the quota to the admin.
	QuotaManagementManual QuotaManagement = "Manual"
	// QuotaManagementAutomated keeps the quota at the sum of the clusters'.
	QuotaManagementAutomated QuotaManagement = "Automated"
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

	// quotaManagement says who sets the quota here; left out it is Manual.
	// +optional
	QuotaManagement *QuotaManagement `json:"quotaManagement,omitempty"`
}

// MultiKueueConfig lists the clusters that workloads of an admission check may
// be sent to.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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

// LocationType says where a kubeconfig is.
// +kubebuilder:validation:Enum=Secret;Path
type LocationType string

// The locations of a kubeconfig.
const (
	// SecretLocationType: location is the name of a Secret in mlbatch's namespace,
	// key "kubeconfig".
	SecretLocationType LocationType = "Secret"
	// PathLocationType: location is a file that the controller can read.
	PathLocationType LocationType = "Path"
)

// KubeConfig says where the credentials of a cluster are.
type KubeConfig struct {
	// location is the name of a Secret or the path of a file.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	Location string `json:"location"`

	// locationType says which of the two it is.
	// +kubebuilder:default=Secret
	// +optional
	LocationType LocationType `json:"locationType,omitempty"`
}

// ClusterProfileReference names a ClusterProfile.
type ClusterProfileReference struct {
	// name of the ClusterProfile.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`
}

// ClusterSource says how to reach a cluster.
// +kubebuilder:validation:XValidation:rule="has(self.kubeConfig) != has(self.clusterProfileRef)",message="set exactly one of kubeConfig and clusterProfileRef"
type ClusterSource struct {
	// kubeConfig is where the credentials are.
	// +optional
	KubeConfig *KubeConfig `json:"kubeConfig,omitempty"`

	// clusterProfileRef names a ClusterProfile that knows.
	// +optional
	ClusterProfileRef *ClusterProfileReference `json:"clusterProfileRef,omitempty"`
}

// MultiKueueClusterSpec says how to reach a cluster.
type MultiKueueClusterSpec struct {
	// clusterSource is where address and credentials come from.
	// +required
	ClusterSource ClusterSource `json:"clusterSource"`
}

// MultiKueueClusterStatus is what is known of a cluster.
type MultiKueueClusterStatus struct {
	// conditions; Active says whether the cluster can be reached.
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// MultiKueueCluster is a cluster that workloads may be sent to.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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
	Status MultiKueueClusterStatus `json:"status,omitempty"`
}

// MultiKueueClusterList is a list of MultiKueueClusters.
// +kubebuilder:object:root=true
type MultiKueueClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MultiKueueCluster `json:"items"`
}
