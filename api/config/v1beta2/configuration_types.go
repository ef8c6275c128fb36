package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Configuration is what the file holds. A nil section is one that is left out.
type Configuration struct {
	metav1.TypeMeta   `json:",inline"`
	ControllerManager `json:",inline"`

	// Namespace is where the controller keeps its own objects.
	Namespace *string `json:"namespace,omitempty"`

	// ManageJobsWithoutQueueName makes jobs without the label
	// kueue.x-k8s.io/queue-name wait for a queue as well.
	ManageJobsWithoutQueueName bool `json:"manageJobsWithoutQueueName,omitempty"`

	// ManagedJobsNamespaceSelector chooses the namespaces whose jobs are managed.
	ManagedJobsNamespaceSelector *metav1.LabelSelector `json:"managedJobsNamespaceSelector,omitempty"`

	// InternalCertManagement says who makes the certificates of the webhooks.
	InternalCertManagement *InternalCertManagement `json:"internalCertManagement,omitempty"`

	// WaitForPodsReady bounds how long a job may hold quota without running.
	WaitForPodsReady *WaitForPodsReady `json:"waitForPodsReady,omitempty"`

	// ClientConnection limits the requests to the API server.
	ClientConnection *ClientConnection `json:"clientConnection,omitempty"`

	// Integrations are the kinds of jobs that are queued.
	Integrations *Integrations `json:"integrations,omitempty"`

	// MultiKueue sends jobs to other clusters.
	MultiKueue *MultiKueue `json:"multiKueue,omitempty"`

	// FairSharing, if present, shares what a cohort lends by weights.
	FairSharing *FairSharing `json:"fairSharing,omitempty"`

	// AdmissionFairSharing orders the LocalQueues of a queue by past usage.
	AdmissionFairSharing *AdmissionFairSharing `json:"admissionFairSharing,omitempty"`

	// Resources says what a workload's requests count as.
	Resources *Resources `json:"resources,omitempty"`

	// FeatureGates turn features on and off by name.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`

	// ObjectRetentionPolicies deletes objects that have served.
	ObjectRetentionPolicies *ObjectRetentionPolicies `json:"objectRetentionPolicies,omitempty"`

	// VisibilityServer is where the API of pending workloads listens.
	VisibilityServer *VisibilityServer `json:"visibilityServer,omitempty"`

	// Tenants limits what users may ask for in their jobs. Kueue has no such
	// section.
	Tenants *Tenants `json:"tenants,omitempty"`

	// History says what is kept of jobs that ended. Kueue has no such section.
	History *History `json:"history,omitempty"`

	// Recovery says what becomes of jobs that fail, or whose nodes do. Kueue has no such section.
	Recovery *Recovery `json:"recovery,omitempty"`

	// NodeHealth says what is made of signs that nodes are bad. Kueue has no such section.
	NodeHealth *NodeHealth `json:"nodeHealth,omitempty"`

	// Capacity says what nodes there should be, and what becomes of quotas when too many are lost. Kueue has no such
	// section.
	Capacity *Capacity `json:"capacity,omitempty"`
}

// History says what is kept of jobs that ended.
type History struct {
	// AfterEnded is how long a job is remembered after its end; 0 remembers none.
	AfterEnded *metav1.Duration `json:"afterEnded,omitempty"`

	// PerNamespace is how many jobs of a namespace are remembered at most.
	PerNamespace *int32 `json:"perNamespace,omitempty"`
}

// Tenants limits what users may ask for in their jobs.
type Tenants struct {
	// PodPriorityClasses are the PriorityClasses that pods may name; left out, all
	// but those of the system (system-...).
	PodPriorityClasses []string `json:"podPriorityClasses,omitempty"`

	// MaxTerminationTime is the longest time that a stopped or evicted job may keep
	// its pods.
	MaxTerminationTime *metav1.Duration `json:"maxTerminationTime,omitempty"`

	// MaxJobs is how many jobs a namespace may have, those that have ended
	// included; 0 is without limit.
	MaxJobs *int32 `json:"maxJobs,omitempty"`

	// MaxJobSize is how large a job may be, as JSON; 0 is without limit.
	MaxJobSize *resource.Quantity `json:"maxJobSize,omitempty"`

	// MaxTotalSize is how large all jobs of a namespace may be together, as JSON, what
	// they are based on included; 0 is without limit.
	MaxTotalSize *resource.Quantity `json:"maxTotalSize,omitempty"`

	// MaxComponents is how many components an AppWrapper may have; 0 is without
	// limit.
	MaxComponents *int32 `json:"maxComponents,omitempty"`
}

// InternalCertManagement says who makes the certificates of the webhooks.
type InternalCertManagement struct {
	// Enable is true if they are not made by somebody else.
	Enable *bool `json:"enable,omitempty"`
	// WebhookServiceName is the Service in front of the webhooks.
	WebhookServiceName *string `json:"webhookServiceName,omitempty"`
	// WebhookSecretName is the Secret that holds authority and certificate.
	WebhookSecretName *string `json:"webhookSecretName,omitempty"`
}

// WaitForPodsReady evicts jobs whose pods do not all become ready in time.
type WaitForPodsReady struct {
	// Timeout is how long all pods may take to be ready after admission.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// BlockAdmission admits nothing else while an admitted job is not ready.
	BlockAdmission *bool `json:"blockAdmission,omitempty"`
	// RecoveryTimeout is how long a job that was ready may be without a pod. Zero
	// is forever; nil is Timeout.
	RecoveryTimeout *metav1.Duration `json:"recoveryTimeout,omitempty"`
	// RequeuingStrategy says when an evicted job is tried again.
	RequeuingStrategy *RequeuingStrategy `json:"requeuingStrategy,omitempty"`
}

// RequeuingStrategy says when a job that was not ready in time is tried again.
type RequeuingStrategy struct {
	// Timestamp is what orders it among the others.
	Timestamp *RequeuingTimestamp `json:"timestamp,omitempty"`
	// BackoffLimitCount is after how many tries it is deactivated; nil is never.
	BackoffLimitCount *int32 `json:"backoffLimitCount,omitempty"`
	// BackoffBaseSeconds is the first pause; each further one is twice as long.
	BackoffBaseSeconds *int32 `json:"backoffBaseSeconds,omitempty"`
	// BackoffMaxSeconds is the longest pause.
	BackoffMaxSeconds *int32 `json:"backoffMaxSeconds,omitempty"`
}

// RequeuingTimestamp is a point in the life of a workload.
type RequeuingTimestamp string

// The timestamps that order a requeued workload.
const (
	// CreationTimestamp keeps its place.
	CreationTimestamp RequeuingTimestamp = "Creation"
	// EvictionTimestamp puts it behind those that came before its eviction.
	EvictionTimestamp RequeuingTimestamp = "Eviction"
)

// ClientConnection limits the requests to the API server.
type ClientConnection struct {
	// QPS is the requests per second; negative is no limit.
	QPS *float32 `json:"qps,omitempty"`
	// Burst is how many may come at once.
	Burst *int32 `json:"burst,omitempty"`
}

// Integrations are the kinds of jobs that are queued.
type Integrations struct {
	// Frameworks are their names, see FrameworkNames.
	Frameworks []string `json:"frameworks,omitempty"`
	// ExternalFrameworks are kinds, as Kind.version.group, that controllers of
	// others manage.
	ExternalFrameworks []string `json:"externalFrameworks,omitempty"`
	// Modes say what is done with jobs of a kind, by the names of Frameworks. It wins over
	// the two above. Kueue has no such field.
	Modes map[string]KindMode `json:"modes,omitempty"`
	// LabelKeysToCopy are the labels of a job that its Workload gets too.
	LabelKeysToCopy []string `json:"labelKeysToCopy,omitempty"`
	// WritePodGroups writes a PodGroup of Kubernetes (scheduling.k8s.io/v1beta1) for each gang, where the API server
	// has them, so that other programs know which pods are one. Kueue has no such field.
	WritePodGroups bool `json:"writePodGroups,omitempty"`
}

// KindMode is what is done with jobs of a kind.
type KindMode string

// The modes of kinds.
const (
	// RunKind queues jobs and runs them.
	RunKind KindMode = "Run"
	// QueueKind queues jobs; another controller runs them.
	QueueKind KindMode = "Queue"
	// IgnoreKind leaves jobs alone.
	IgnoreKind KindMode = "Ignore"
)

// FairSharing shares what a cohort lends by weights.
type FairSharing struct {
	// PreemptionStrategies are the rules that an eviction must obey; the second
	// is tried where the first finds nobody.
	PreemptionStrategies []PreemptionStrategy `json:"preemptionStrategies,omitempty"`
}

// PreemptionStrategy is a rule for evictions under fair sharing.
type PreemptionStrategy string

// The rules for evictions under fair sharing.
const (
	// LessThanOrEqualToFinalShare compares with the share that the other queue
	// keeps after the eviction.
	LessThanOrEqualToFinalShare PreemptionStrategy = "LessThanOrEqualToFinalShare"
	// LessThanInitialShare compares with the share that it has before.
	LessThanInitialShare PreemptionStrategy = "LessThanInitialShare"
)

// AdmissionFairSharing orders the LocalQueues of a queue by past usage.
type AdmissionFairSharing struct {
	// UsageHalfLifeTime is the time in which past usage counts half. Nil is
	// seven days; zero forgets at once.
	UsageHalfLifeTime *metav1.Duration `json:"usageHalfLifeTime,omitempty"`
	// UsageSamplingInterval is how often usage is recorded.
	UsageSamplingInterval *metav1.Duration `json:"usageSamplingInterval,omitempty"`
	// ResourceWeights are how much a unit of each resource counts; 1 if missing.
	ResourceWeights map[corev1.ResourceName]float64 `json:"resourceWeights,omitempty"`
}

// Resources says what a workload's requests count as.
type Resources struct {
	// QuotaCheckStrategy says what becomes of resources that a queue has no
	// quota for.
	QuotaCheckStrategy *QuotaCheckStrategy `json:"quotaCheckStrategy,omitempty"`
	// ExcludeResourcePrefixes are the beginnings of names that do not count.
	ExcludeResourcePrefixes []string `json:"excludeResourcePrefixes,omitempty"`
	// Transformations turn requests into others.
	Transformations []ResourceTransformation `json:"transformations,omitempty"`
	// DeviceClassMappings give names to devices of dynamic resource allocation.
	DeviceClassMappings []DeviceClassMapping `json:"deviceClassMappings,omitempty"`
}

// QuotaCheckStrategy says what becomes of resources without quota.
type QuotaCheckStrategy string

// The strategies for resources without quota.
const (
	// BlockUndeclared refuses who asks for them.
	BlockUndeclared QuotaCheckStrategy = "BlockUndeclared"
	// IgnoreUndeclared does not count them.
	IgnoreUndeclared QuotaCheckStrategy = "IgnoreUndeclared"
)

// ResourceTransformation turns requests for one resource into others.
type ResourceTransformation struct {
	// Input is the resource that pods ask for; one rule each.
	Input corev1.ResourceName `json:"input"`
	// Strategy says whether the input counts too.
	Strategy *ResourceTransformationStrategy `json:"strategy,omitempty"`
	// MultiplyBy is a resource whose requested amount multiplies the outputs.
	MultiplyBy corev1.ResourceName `json:"multiplyBy,omitempty"`
	// Outputs are what a unit of the input counts as.
	Outputs corev1.ResourceList `json:"outputs,omitempty"`
}

// ResourceTransformationStrategy says whether the input of a transformation
// counts too.
type ResourceTransformationStrategy string

// The strategies of a transformation.
const (
	Retain  ResourceTransformationStrategy = "Retain"
	Replace ResourceTransformationStrategy = "Replace"
)

// DeviceClassMapping gives devices a name that quota can be set for.
type DeviceClassMapping struct {
	// Name is the resource that quota is set for.
	Name corev1.ResourceName `json:"name"`
	// DeviceClassNames are the device classes that it stands for.
	DeviceClassNames []corev1.ResourceName `json:"deviceClassNames"`
	// Sources say what of a device counts; nothing is one per device.
	Sources []DeviceClassSource `json:"sources,omitempty"`
}

// DeviceClassSource is one number of a device that counts.
type DeviceClassSource struct {
	// Counter is a counter that partitions of a device share.
	Counter *DeviceQuantity `json:"counter,omitempty"`
	// Capacity is a capacity that requests consume.
	Capacity *DeviceQuantity `json:"capacity,omitempty"`
}

// DeviceQuantity names a number of devices.
type DeviceQuantity struct {
	Name   string `json:"name"`
	Driver string `json:"driver,omitempty"`
	// DeviceSelector is a CEL expression that chooses the devices.
	DeviceSelector string `json:"deviceSelector,omitempty"`
}

// ObjectRetentionPolicies deletes objects that have served.
type ObjectRetentionPolicies struct {
	Workloads *WorkloadRetentionPolicy `json:"workloads,omitempty"`
}

// WorkloadRetentionPolicy says when Workloads are deleted. Zero is at once, nil
// is never.
type WorkloadRetentionPolicy struct {
	// AfterFinished is how long after its end a Workload stays.
	AfterFinished *metav1.Duration `json:"afterFinished,omitempty"`
	// AfterDeactivatedByKueue is how long a Workload that the controller gave up
	// stays; its job is deleted with it.
	AfterDeactivatedByKueue *metav1.Duration `json:"afterDeactivatedByKueue,omitempty"`
}

// VisibilityServer is where the API of pending workloads listens.
type VisibilityServer struct {
	// BindAddress is an IP address.
	BindAddress *string `json:"bindAddress,omitempty"`
	// BindPort is a TCP port.
	BindPort *int32 `json:"bindPort,omitempty"`
}
