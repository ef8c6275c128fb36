package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/api/config/v1beta2"
)

// Configuration is what the file holds. Fields that are not described are those
// of v1beta2.
type Configuration struct {
	metav1.TypeMeta           `json:",inline"`
	v1beta2.ControllerManager `json:",inline"`

	Namespace                    *string                         `json:"namespace,omitempty"`
	ManageJobsWithoutQueueName   bool                            `json:"manageJobsWithoutQueueName,omitempty"`
	ManagedJobsNamespaceSelector *metav1.LabelSelector           `json:"managedJobsNamespaceSelector,omitempty"`
	InternalCertManagement       *v1beta2.InternalCertManagement `json:"internalCertManagement,omitempty"`
	WaitForPodsReady             *WaitForPodsReady               `json:"waitForPodsReady,omitempty"`
	ClientConnection             *v1beta2.ClientConnection       `json:"clientConnection,omitempty"`
	Integrations                 *Integrations                   `json:"integrations,omitempty"`
	// QueueVisibility wrote the heads of queues into their status. Kueue dropped
	// it for an API that answers when asked.
	QueueVisibility         *QueueVisibility                 `json:"queueVisibility,omitempty"`
	MultiKueue              *v1beta2.MultiKueue              `json:"multiKueue,omitempty"`
	FairSharing             *FairSharing                     `json:"fairSharing,omitempty"`
	AdmissionFairSharing    *v1beta2.AdmissionFairSharing    `json:"admissionFairSharing,omitempty"`
	Resources               *v1beta2.Resources               `json:"resources,omitempty"`
	FeatureGates            map[string]bool                  `json:"featureGates,omitempty"`
	ObjectRetentionPolicies *v1beta2.ObjectRetentionPolicies `json:"objectRetentionPolicies,omitempty"`
	VisibilityServer        *v1beta2.VisibilityServer        `json:"visibilityServer,omitempty"`
}

// WaitForPodsReady is as in v1beta2, with a switch.
type WaitForPodsReady struct {
	// Enable turns it on. The rest of a section that does not is ignored.
	Enable            bool                       `json:"enable,omitempty"`
	Timeout           *metav1.Duration           `json:"timeout,omitempty"`
	BlockAdmission    *bool                      `json:"blockAdmission,omitempty"`
	RecoveryTimeout   *metav1.Duration           `json:"recoveryTimeout,omitempty"`
	RequeuingStrategy *v1beta2.RequeuingStrategy `json:"requeuingStrategy,omitempty"`
}

// Integrations is as in v1beta2, with selectors for pods.
type Integrations struct {
	Frameworks         []string `json:"frameworks,omitempty"`
	ExternalFrameworks []string `json:"externalFrameworks,omitempty"`
	LabelKeysToCopy    []string `json:"labelKeysToCopy,omitempty"`
	// PodOptions chose pods before managedJobsNamespaceSelector did.
	PodOptions *PodIntegrationOptions `json:"podOptions,omitempty"`
}

// PodIntegrationOptions chose the pods that are queued.
type PodIntegrationOptions struct {
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	PodSelector       *metav1.LabelSelector `json:"podSelector,omitempty"`
}

// QueueVisibility wrote the heads of queues into their status.
type QueueVisibility struct {
	ClusterQueues         *ClusterQueueVisibility `json:"clusterQueues,omitempty"`
	UpdateIntervalSeconds int32                   `json:"updateIntervalSeconds,omitempty"`
}

// ClusterQueueVisibility says how many heads.
type ClusterQueueVisibility struct {
	MaxCount int32 `json:"maxCount,omitempty"`
}

// FairSharing is as in v1beta2, with a switch.
type FairSharing struct {
	// Enable turns it on. The rest of a section that does not is ignored.
	Enable               bool                         `json:"enable,omitempty"`
	PreemptionStrategies []v1beta2.PreemptionStrategy `json:"preemptionStrategies,omitempty"`
}
