package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ControllerManager is where the process listens and how it runs. Addresses are
// host:port; the host may be left out.
type ControllerManager struct {
	// Webhook is where the webhooks listen.
	Webhook ControllerWebhook `json:"webhook,omitzero"`
	// LeaderElection lets several processes run with one of them deciding.
	LeaderElection *LeaderElection `json:"leaderElection,omitempty"`
	// Metrics is where the metrics are and which there are.
	Metrics ControllerMetrics `json:"metrics,omitzero"`
	// Health is where the probes are answered.
	Health ControllerHealth `json:"health,omitzero"`
	// PprofBindAddress is where Go profiles are served; "" or "0" is nowhere.
	PprofBindAddress string `json:"pprofBindAddress,omitempty"`
	// Controller tunes the reconcilers.
	Controller *ControllerTuning `json:"controller,omitempty"`
	// TLS restricts what the servers speak.
	TLS *TLSOptions `json:"tls,omitempty"`
}

// ControllerWebhook is where the webhooks listen.
type ControllerWebhook struct {
	Port *int   `json:"port,omitempty"`
	Host string `json:"host,omitempty"`
	// CertDir holds tls.crt and tls.key.
	CertDir string `json:"certDir,omitempty"`
}

// LeaderElection lets several processes run with one of them deciding.
type LeaderElection struct {
	LeaderElect *bool `json:"leaderElect,omitempty"`
	// LeaseDuration is how long others wait for a silent leader, in whole seconds.
	LeaseDuration *metav1.Duration `json:"leaseDuration,omitempty"`
	// RenewDeadline is for how long a leader that cannot renew goes on writing. It goes on
	// when it can renew, unless another one has taken the lead.
	RenewDeadline *metav1.Duration `json:"renewDeadline,omitempty"`
	// RetryPeriod is the pause between tries.
	RetryPeriod *metav1.Duration `json:"retryPeriod,omitempty"`
	// ResourceLock is the kind of the lock: leases.
	ResourceLock string `json:"resourceLock,omitempty"`
	// ResourceName and ResourceNamespace are where the lock is.
	ResourceName      string `json:"resourceName,omitempty"`
	ResourceNamespace string `json:"resourceNamespace,omitempty"`
}

// ControllerMetrics is where the metrics are and which there are.
type ControllerMetrics struct {
	// BindAddress "0" turns them off.
	BindAddress string `json:"bindAddress,omitempty"`
	// EnableClusterQueueResources adds quotas and usage of queues.
	EnableClusterQueueResources bool `json:"enableClusterQueueResources,omitempty"`
	// CustomLabels are labels and annotations of objects that become labels of
	// metrics.
	CustomLabels []ControllerMetricsCustomLabel `json:"customLabels,omitempty"`
	// LocalQueueMetrics are the metrics of LocalQueues.
	LocalQueueMetrics *LocalQueueMetrics `json:"localQueueMetrics,omitempty"`
}

// ControllerMetricsCustomLabel is a label or annotation of an object that
// becomes a label of metrics.
type ControllerMetricsCustomLabel struct {
	// Name is that of the metric label, which is called custom_<name>.
	Name string `json:"name"`
	// SourceLabelKey and SourceAnnotationKey say where the value is; neither is
	// the label called Name.
	SourceLabelKey      string `json:"sourceLabelKey,omitempty"`
	SourceAnnotationKey string `json:"sourceAnnotationKey,omitempty"`
	// SourceKind is the kind of the object; ClusterQueue if nil.
	SourceKind *SourceKind `json:"sourceKind,omitempty"`
	// TrackedValues are the values that are shown; empty is all.
	TrackedValues []string `json:"trackedValues,omitempty"`
}

// SourceKind is a kind whose labels metrics may carry.
type SourceKind string

// The kinds whose labels metrics may carry.
const (
	SourceClusterQueue SourceKind = "ClusterQueue"
	SourceLocalQueue   SourceKind = "LocalQueue"
	SourceCohort       SourceKind = "Cohort"
	SourceWorkload     SourceKind = "Workload"
)

// LocalQueueMetrics are the metrics of LocalQueues.
type LocalQueueMetrics struct {
	Enable *bool `json:"enable,omitempty"`
	// LocalQueueSelector chooses them by label; nil is all.
	LocalQueueSelector *metav1.LabelSelector `json:"localQueueSelector,omitempty"`
}

// ControllerHealth is where the probes are answered.
type ControllerHealth struct {
	// HealthProbeBindAddress "0" turns them off.
	HealthProbeBindAddress string `json:"healthProbeBindAddress,omitempty"`
	// ReadinessEndpointName and LivenessEndpointName are their paths.
	ReadinessEndpointName string `json:"readinessEndpointName,omitempty"`
	LivenessEndpointName  string `json:"livenessEndpointName,omitempty"`
}

// ControllerTuning tunes the reconcilers.
type ControllerTuning struct {
	// GroupKindConcurrency is how many objects of a kind, written Kind.group, are
	// handled at the same time.
	GroupKindConcurrency map[string]int `json:"groupKindConcurrency,omitempty"`
	// CacheSyncTimeout is how long a start may wait for the caches.
	CacheSyncTimeout *Timeout `json:"cacheSyncTimeout,omitempty"`
}

// TLSOptions restrict what the servers speak.
type TLSOptions struct {
	// MinVersion is VersionTLS12 or VersionTLS13.
	MinVersion string `json:"minVersion,omitempty"`
	// CipherSuites are names of Go's crypto/tls, for TLS 1.2.
	CipherSuites []string `json:"cipherSuites,omitempty"`
	// CurvePreferences are numbers or names of Go's crypto/tls.CurveID.
	CurvePreferences []intstr.IntOrString `json:"curvePreferences,omitempty"`
}
