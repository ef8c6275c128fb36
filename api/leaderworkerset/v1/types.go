package v1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// LeaderWorkerSetSpec is what a user wants to serve.
type LeaderWorkerSetSpec struct {
	// replicas is the number of groups.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// leaderWorkerTemplate is what a group is made of.
	// +required
	LeaderWorkerTemplate LeaderWorkerTemplate `json:"leaderWorkerTemplate"`

	// rolloutStrategy says how groups are replaced when the template changes.
	// +kubebuilder:default={type: RollingUpdate}
	// +optional
	RolloutStrategy RolloutStrategy `json:"rolloutStrategy,omitempty"`

	// startupPolicy says when workers are made: once their leader is created, or ready.
	// +kubebuilder:default=LeaderCreated
	// +kubebuilder:validation:Enum=LeaderCreated;LeaderReady
	// +optional
	StartupPolicy StartupPolicy `json:"startupPolicy,omitempty"`

	// networkConfig says by which names pods find each other.
	// +optional
	NetworkConfig *NetworkConfig `json:"networkConfig,omitempty"`
}

// LeaderWorkerTemplate is what a group is made of: a leader, and size-1 workers.
type LeaderWorkerTemplate struct {
	// leaderTemplate of the leader's pod; left out it is that of the workers.
	//
	// The definition that is installed has the schema of a pod in its place, the same
	// for every kind (see package config).
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Format=pod-template
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	LeaderTemplate *corev1.PodTemplateSpec `json:"leaderTemplate,omitempty"`

	// workerTemplate of the workers' pods.
	//
	// The definition that is installed has the schema of a pod in its place, the same
	// for every kind (see package config).
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Format=pod-template
	// +kubebuilder:pruning:PreserveUnknownFields
	// +required
	WorkerTemplate corev1.PodTemplateSpec `json:"workerTemplate"`

	// size is the number of pods of a group, the leader among them.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +optional
	Size *int32 `json:"size,omitempty"`

	// restartPolicy says what becomes of a group of which a pod ends or starts again: all
	// of it is made anew, that only if all of it had started, or nothing (None, of which
	// Default is an older name).
	// +kubebuilder:default=RecreateGroupOnPodRestart
	// +kubebuilder:validation:Enum=Default;RecreateGroupOnPodRestart;RecreateGroupAfterStart;None
	// +optional
	RestartPolicy RestartPolicy `json:"restartPolicy,omitempty"`

	// subGroupPolicy parts a group.
	// +optional
	SubGroupPolicy *SubGroupPolicy `json:"subGroupPolicy,omitempty"`

	// volumeClaimTemplates are volumes of which each pod gets its own, as those of a
	// StatefulSet.
	// +optional
	VolumeClaimTemplates []VolumeClaimTemplate `json:"volumeClaimTemplates,omitempty"`

	// persistentVolumeClaimRetentionPolicy says what becomes of them.
	// +optional
	PersistentVolumeClaimRetentionPolicy *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`
}

// VolumeClaimTemplate is a volume of which each pod gets its own.
type VolumeClaimTemplate struct {
	// apiVersion and kind say nothing here; manifests have them all the same.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// +optional
	Kind string `json:"kind,omitempty"`

	// metadata has the name that containers mount it by.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	metav1.ObjectMeta `json:"metadata"`

	// spec is what is asked for.
	Spec corev1.PersistentVolumeClaimSpec `json:"spec"`
}

// RestartPolicy says what becomes of a group of which a pod ends or starts again.
type RestartPolicy string

// The restart policies.
const (
	RecreateGroupOnPodRestart RestartPolicy = "RecreateGroupOnPodRestart"
	RecreateGroupAfterStart   RestartPolicy = "RecreateGroupAfterStart"
	NoRestart                 RestartPolicy = "None"
	// DefaultRestart is an older name of None.
	DefaultRestart RestartPolicy = "Default"
)

// StartupPolicy says when workers are made.
type StartupPolicy string

// The startup policies.
const (
	LeaderCreated StartupPolicy = "LeaderCreated"
	LeaderReady   StartupPolicy = "LeaderReady"
)

// RolloutStrategy says how groups are replaced when the template changes.
type RolloutStrategy struct {
	// type is RollingUpdate, which is also what an empty one means: clients in Go that leave out
	// rolloutStrategy write that.
	// +kubebuilder:default=RollingUpdate
	// +kubebuilder:validation:Enum=RollingUpdate;""
	// +optional
	Type string `json:"type,omitempty"`

	// rollingUpdateConfiguration says how many groups at a time.
	// +optional
	RollingUpdateConfiguration *RollingUpdateConfiguration `json:"rollingUpdateConfiguration,omitempty"`
}

// RollingUpdateConfiguration says how many groups are replaced at a time.
type RollingUpdateConfiguration struct {
	// partition is the first group that is replaced; those below stay as they are.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +optional
	Partition *int32 `json:"partition,omitempty"`

	// maxUnavailable is how many groups may be missing meanwhile, a number or a share of
	// replicas, rounded down.
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxSurge is how many groups there may be too many meanwhile, a number or a share of
	// replicas, rounded up.
	// +kubebuilder:default=0
	// +kubebuilder:validation:XIntOrString
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
}

// SubGroupPolicy parts a group.
type SubGroupPolicy struct {
	// subGroupPolicyType says whether the leader is in the first part, or in none.
	// +kubebuilder:default=LeaderWorker
	// +kubebuilder:validation:Enum=LeaderWorker;LeaderExcluded
	// +optional
	Type SubGroupPolicyType `json:"subGroupPolicyType,omitempty"`

	// subGroupSize is the number of pods of a part. size or size-1 has to be a multiple.
	// +optional
	SubGroupSize *int32 `json:"subGroupSize,omitempty"`
}

// SubGroupPolicyType says where the leader is.
type SubGroupPolicyType string

// The types of parts.
const (
	LeaderWorker   SubGroupPolicyType = "LeaderWorker"
	LeaderExcluded SubGroupPolicyType = "LeaderExcluded"
)

// NetworkConfig says by which names pods find each other.
type NetworkConfig struct {
	// subdomainPolicy is Shared, one headless Service for all, or UniquePerReplica, one for
	// each group.
	// +kubebuilder:validation:Enum=Shared;UniquePerReplica
	// +optional
	SubdomainPolicy SubdomainPolicy `json:"subdomainPolicy,omitempty"`

	// leaderServicePorts is refused: there is no Service of leaders alone.
	// +listType=atomic
	// +optional
	LeaderServicePorts []corev1.ServicePort `json:"leaderServicePorts,omitempty"`
}

// SubdomainPolicy says how many headless Services there are.
type SubdomainPolicy string

// The subdomain policies.
const (
	SharedSubdomain           SubdomainPolicy = "Shared"
	UniqueSubdomainPerReplica SubdomainPolicy = "UniquePerReplica"
)

// Conditions of a LeaderWorkerSet.
const (
	// Available: all groups are ready.
	Available = "Available"
	// Progressing: some are not.
	Progressing = "Progressing"
	// UpdateInProgress: groups are being replaced.
	UpdateInProgress = "UpdateInProgress"
)

// Reasons of conditions.
const (
	AllGroupsReady    = "AllGroupsReady"
	GroupsProgressing = "GroupsProgressing"
	GroupsUpdating    = "GroupsUpdating"
)

// PodsNotMade is what the message of Progressing begins with while pods may not be made.
const PodsNotMade = "Pods could not be made: "

// LeaderWorkerSetStatus is how it stands.
type LeaderWorkerSetStatus struct {
	// conditions are Available, Progressing and UpdateInProgress.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// readyReplicas is how many groups are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// updatedReplicas is how many groups are of the newest template.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`

	// replicas is how many groups there are.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// hpaPodSelector selects the leaders, for autoscalers.
	// +optional
	HPAPodSelector string `json:"hpaPodSelector,omitempty"`

	// observedGeneration is the generation that this was written for.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// LeaderWorkerSet serves with groups of pods: a leader and its workers, that start, end
// and are replaced together.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=leaderworkersets,shortName=lws
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.hpaPodSelector
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Up-to-date",type=integer,JSONPath=`.status.updatedReplicas`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LeaderWorkerSet struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants to serve.
	// +optional
	Spec LeaderWorkerSetSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status LeaderWorkerSetStatus `json:"status,omitempty"`
}

// LeaderWorkerSetList is a list of LeaderWorkerSets.
// +kubebuilder:object:root=true
type LeaderWorkerSetList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LeaderWorkerSet `json:"items"`
}
