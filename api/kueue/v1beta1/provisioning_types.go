package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// ProvisioningRequestConfig says how the provisioning-request check asks for
// nodes.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName={prc}
type ProvisioningRequestConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how.
	// +optional
	Spec v1beta2.ProvisioningRequestConfigSpec `json:"spec,omitempty"`
}

// ProvisioningRequestConfigList is a list of ProvisioningRequestConfigs.
// +kubebuilder:object:root=true
type ProvisioningRequestConfigList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ProvisioningRequestConfig `json:"items"`
}
