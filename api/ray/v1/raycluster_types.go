package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RayClusterSpec is what a user wants to run.
type RayClusterSpec struct {
	// suspend is true while the cluster may have no pods.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// managedBy names the controller of the cluster. Left out, or
	// ray.io/kuberay-operator, it is the one of this Kubernetes cluster;
	// kueue.x-k8s.io/multikueue runs it in another one. It cannot be changed.
	// +optional
	ManagedBy *string `json:"managedBy,omitempty"`

	// rayVersion is the version of Ray in the images.
	// +optional
	RayVersion string `json:"rayVersion,omitempty"`

	// enableInTreeAutoscaling has Ray decide how many workers there are, within the bounds
	// of their groups.
	// +optional
	EnableInTreeAutoscaling *bool `json:"enableInTreeAutoscaling,omitempty"`

	// autoscalerOptions are about the container that does so, beside the head.
	// +optional
	AutoscalerOptions *AutoscalerOptions `json:"autoscalerOptions,omitempty"`

	// headGroupSpec is the head.
	// +required
	HeadGroupSpec HeadGroupSpec `json:"headGroupSpec"`

	// workerGroupSpecs are the groups of workers.
	// +optional
	WorkerGroupSpecs []WorkerGroupSpec `json:"workerGroupSpecs,omitempty"`

	// gcsFaultToleranceOptions say where the head keeps what has to survive it.
	// +optional
	GcsFaultToleranceOptions *GcsFaultToleranceOptions `json:"gcsFaultToleranceOptions,omitempty"`

	// authOptions say how Ray asks who somebody is.
	// +optional
	AuthOptions *AuthOptions `json:"authOptions,omitempty"`

	// upgradeStrategy says what a change of the pods does to a cluster that runs.
	// +optional
	UpgradeStrategy *RayClusterUpgradeStrategy `json:"upgradeStrategy,omitempty"`

	// headServiceAnnotations are added to the service of the head.
	// +optional
	HeadServiceAnnotations map[string]string `json:"headServiceAnnotations,omitempty"`

	// networkPolicy, tlsOptions, podFQDN and historyServerOptions are not served here; see the
	// page about this kind.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	NetworkPolicy *Anything `json:"networkPolicy,omitempty"`
	// +optional
	TLSOptions *TLSOptions `json:"tlsOptions,omitempty"`
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	PodFQDN *Anything `json:"podFQDN,omitempty"`
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	HistoryServerOptions *Anything `json:"historyServerOptions,omitempty"`
}

// HeadGroupSpec is the head of a cluster.
type HeadGroupSpec struct {
	// template of the pod. Its first container is the one that runs Ray.
	//
	// The definition that is installed has the schema of a pod in its place, the same
	// for every kind (see package config).
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Format=pod-template
	// +kubebuilder:pruning:PreserveUnknownFields
	// +required
	Template corev1.PodTemplateSpec `json:"template"`

	// rayStartParams are options of ray start, without their dashes.
	// +optional
	RayStartParams map[string]string `json:"rayStartParams,omitempty"`

	// serviceType is the type of the head's service: ClusterIP, which is one without an
	// address of its own, NodePort or LoadBalancer.
	// +optional
	ServiceType corev1.ServiceType `json:"serviceType,omitempty"`

	// headService is what the head's service has besides: a name, labels, annotations,
	// ports.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	HeadService *corev1.Service `json:"headService,omitempty"`

	// enableIngress and ingressOptions ask for an Ingress, which is not made here.
	// +optional
	EnableIngress *bool `json:"enableIngress,omitempty"`
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	IngressOptions *Anything `json:"ingressOptions,omitempty"`

	// resources are what Ray is told that the pod has, instead of its limits.
	// +optional
	Resources map[string]string `json:"resources,omitempty"`

	// labels are those of the node in Ray.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// WorkerGroupSpec are workers that are alike.
type WorkerGroupSpec struct {
	// groupName is the name of the group.
	// +required
	GroupName string `json:"groupName"`

	// replicas is how many there are of it; left out it is minReplicas.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// minReplicas and maxReplicas are the bounds of replicas. Left out they are 0 and
	// without limit.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// numOfHosts is how many pods each replica has; left out it is 1.
	// +kubebuilder:validation:Minimum=1
	// +optional
	NumOfHosts int32 `json:"numOfHosts,omitempty"`

	// suspend is true while the group may have no pods.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// idleTimeoutSeconds is how long a worker of the group has nothing to do before the
	// autoscaler (version v2) removes it.
	// +optional
	IdleTimeoutSeconds *int32 `json:"idleTimeoutSeconds,omitempty"`

	// priority says which group the autoscaler adds workers to first.
	// +optional
	Priority *int32 `json:"priority,omitempty"`

	// rayStartParams are options of ray start, without their dashes.
	// +optional
	RayStartParams map[string]string `json:"rayStartParams,omitempty"`

	// template of the pods. Its first container is the one that runs Ray.
	//
	// The definition that is installed has the schema of a pod in its place, the same
	// for every kind (see package config).
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Format=pod-template
	// +kubebuilder:pruning:PreserveUnknownFields
	// +required
	Template corev1.PodTemplateSpec `json:"template"`

	// scaleStrategy says which workers go first.
	// +optional
	ScaleStrategy ScaleStrategy `json:"scaleStrategy,omitempty"`

	// resources are what Ray is told that a pod has, instead of its limits.
	// +optional
	Resources map[string]string `json:"resources,omitempty"`

	// labels are those of the nodes in Ray.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// ScaleStrategy says which workers go first.
type ScaleStrategy struct {
	// workersToDelete are names of pods.
	// +optional
	WorkersToDelete []string `json:"workersToDelete,omitempty"`
}

// AutoscalerVersion is the version of Ray's autoscaler.
// +kubebuilder:validation:Enum=v1;v2
type AutoscalerVersion string

// The versions.
const (
	AutoscalerV1 AutoscalerVersion = "v1"
	AutoscalerV2 AutoscalerVersion = "v2"
)

// UpscalingMode says how fast workers are added.
// +kubebuilder:validation:Enum=Default;Aggressive;Conservative
type UpscalingMode string

// AutoscalerOptions are about the container that decides how many workers there are.
type AutoscalerOptions struct {
	// version of the autoscaler: v1 or v2. Left out, the version of Ray in the image says.
	// +optional
	Version *AutoscalerVersion `json:"version,omitempty"`

	// resources of the container; left out they are 500m of cpu and 512Mi of memory.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// image of the container; left out it is that of the head.
	// +optional
	Image *string `json:"image,omitempty"`

	// imagePullPolicy of the container.
	// +optional
	ImagePullPolicy *corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// securityContext of the container.
	// +optional
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`

	// idleTimeoutSeconds is how long a worker has nothing to do before it is removed.
	// +optional
	IdleTimeoutSeconds *int32 `json:"idleTimeoutSeconds,omitempty"`

	// upscalingMode says how fast workers are added: Default, Aggressive, which is the
	// same, or Conservative.
	// +optional
	UpscalingMode *UpscalingMode `json:"upscalingMode,omitempty"`

	// env are variables of the container.
	// +listType=map
	// +listMapKey=name
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// envFrom is where further variables come from.
	// +listType=atomic
	// +optional
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// command and args of the container, instead of those that start the autoscaler, which
	// are in its variable KUBERAY_GEN_AUTOSCALER_START_CMD.
	// +listType=atomic
	// +optional
	Command []string `json:"command,omitempty"`
	// +listType=atomic
	// +optional
	Args []string `json:"args,omitempty"`

	// volumeMounts of the container.
	// +listType=map
	// +listMapKey=mountPath
	// +optional
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`
}

// TLSOptions say whether pods of a cluster talk encrypted by certificates that are made for
// them, which is refused here.
type TLSOptions struct {
	// enabled is false, which is what left out means.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// GcsFaultToleranceOptions say where the head keeps what has to survive it.
type GcsFaultToleranceOptions struct {
	// backend is what keeps it: redis, which is what left out means.
	// +optional
	Backend string `json:"backend,omitempty"`

	// redisAddress is host and port of the Redis server.
	// +optional
	RedisAddress string `json:"redisAddress,omitempty"`

	// redisUsername and redisPassword are for the Redis server.
	// +optional
	RedisUsername *RedisCredential `json:"redisUsername,omitempty"`
	// +optional
	RedisPassword *RedisCredential `json:"redisPassword,omitempty"`

	// externalStorageNamespace keeps clusters in the same server apart; left out it is the
	// cluster's UID.
	// +optional
	ExternalStorageNamespace string `json:"externalStorageNamespace,omitempty"`

	// storage is about the backend rocksdb, which is refused here.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Storage *Anything `json:"storage,omitempty"`
}

// RedisCredential is a value, or where it is read.
type RedisCredential struct {
	// value itself.
	// +optional
	Value string `json:"value,omitempty"`

	// valueFrom is where it is read.
	// +optional
	ValueFrom *corev1.EnvVarSource `json:"valueFrom,omitempty"`
}

// AuthMode is how Ray asks who somebody is.
// +kubebuilder:validation:Enum=disabled;token
type AuthMode string

// The modes.
const (
	AuthDisabled AuthMode = "disabled"
	AuthToken    AuthMode = "token"
)

// AuthOptions say how Ray asks who somebody is.
type AuthOptions struct {
	// mode is token, which is what left out means, or disabled. The token is made for the
	// cluster and is in a Secret of its name.
	// +optional
	Mode AuthMode `json:"mode,omitempty"`

	// secretName is a Secret that has a token under auth_token, instead of one that is made.
	// +optional
	SecretName *string `json:"secretName,omitempty"`

	// enableK8sTokenAuth has Ray ask Kubernetes who somebody is: tokens are those of
	// ServiceAccounts that may ray:write the RayCluster. No token is made then.
	// +optional
	EnableK8sTokenAuth *bool `json:"enableK8sTokenAuth,omitempty"`
}

// RayClusterUpgradeType says what a change of the pods does to a cluster that runs.
// +kubebuilder:validation:Enum=Recreate;None
type RayClusterUpgradeType string

// The types.
const (
	UpgradeRecreate RayClusterUpgradeType = "Recreate"
	UpgradeNone     RayClusterUpgradeType = "None"
)

// RayClusterUpgradeStrategy says what a change of the pods does to a cluster that runs.
type RayClusterUpgradeStrategy struct {
	// type is None, which leaves pods as they are, or Recreate.
	// +optional
	Type *RayClusterUpgradeType `json:"type,omitempty"`
}

// ClusterState is how a cluster stands.
type ClusterState string

// The states.
const (
	ClusterReady     ClusterState = "ready"
	ClusterFailed    ClusterState = "failed"
	ClusterSuspended ClusterState = "suspended"
)

// Types of conditions of a cluster.
const (
	// HeadPodReady: the head is.
	HeadPodReady = "HeadPodReady"
	// ClusterProvisioned: all pods were ready at the same time, once.
	ClusterProvisioned = "RayClusterProvisioned"
	// ClusterReplicaFailure: a pod could not be made or removed.
	ClusterReplicaFailure = "ReplicaFailure"
	// ClusterSuspending and ClusterIsSuspended: its pods are being removed, and are gone.
	ClusterSuspending  = "RayClusterSuspending"
	ClusterIsSuspended = "RayClusterSuspended"
)

// HeadInfo is where the head is found.
type HeadInfo struct {
	// podIP and podName are those of the pod.
	// +optional
	PodIP string `json:"podIP,omitempty"`
	// +optional
	PodName string `json:"podName,omitempty"`
	// serviceIP and serviceName are those of the service.
	// +optional
	ServiceIP string `json:"serviceIP,omitempty"`
	// +optional
	ServiceName string `json:"serviceName,omitempty"`
}

// RayClusterStatus is what is known of a cluster.
type RayClusterStatus struct {
	// state is ready, suspended or failed; it is empty before.
	// +optional
	State ClusterState `json:"state,omitempty"`

	// desiredCPU, desiredMemory, desiredGPU and desiredTPU are what all pods ask for.
	// +optional
	DesiredCPU resource.Quantity `json:"desiredCPU,omitempty"`
	// +optional
	DesiredMemory resource.Quantity `json:"desiredMemory,omitempty"`
	// +optional
	DesiredGPU resource.Quantity `json:"desiredGPU,omitempty"`
	// +optional
	DesiredTPU resource.Quantity `json:"desiredTPU,omitempty"`

	// lastUpdateTime is when the status was last changed.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`

	// stateTransitionTimes are when the cluster last came to each state.
	// +optional
	StateTransitionTimes map[ClusterState]*metav1.Time `json:"stateTransitionTimes,omitempty"`

	// endpoints are the ports of the head's service.
	// +optional
	Endpoints map[string]string `json:"endpoints,omitempty"`

	// head is where the head is found.
	// +optional
	Head HeadInfo `json:"head,omitempty"`

	// reason says why the cluster failed.
	// +optional
	Reason string `json:"reason,omitempty"`

	// conditions of the cluster: HeadPodReady, RayClusterProvisioned, ReplicaFailure,
	// RayClusterSuspending and RayClusterSuspended.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// readyWorkerReplicas are workers that are ready, availableWorkerReplicas those that
	// have not ended, desiredWorkerReplicas those that there are to be, minWorkerReplicas
	// and maxWorkerReplicas the bounds of that. All of these count pods.
	// +optional
	ReadyWorkerReplicas int32 `json:"readyWorkerReplicas,omitempty"`
	// +optional
	AvailableWorkerReplicas int32 `json:"availableWorkerReplicas,omitempty"`
	// +optional
	DesiredWorkerReplicas int32 `json:"desiredWorkerReplicas,omitempty"`
	// +optional
	MinWorkerReplicas int32 `json:"minWorkerReplicas,omitempty"`
	// +optional
	MaxWorkerReplicas int32 `json:"maxWorkerReplicas,omitempty"`

	// observedGeneration is the generation of the object that this is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// RayCluster is a head and groups of workers.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=rayclusters,categories=all
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="desired workers",type=integer,JSONPath=`.status.desiredWorkerReplicas`
// +kubebuilder:printcolumn:name="available workers",type=integer,JSONPath=`.status.availableWorkerReplicas`
// +kubebuilder:printcolumn:name="cpus",type=string,JSONPath=`.status.desiredCPU`
// +kubebuilder:printcolumn:name="memory",type=string,JSONPath=`.status.desiredMemory`
// +kubebuilder:printcolumn:name="gpus",type=string,JSONPath=`.status.desiredGPU`
// +kubebuilder:printcolumn:name="tpus",type=string,JSONPath=`.status.desiredTPU`,priority=1
// +kubebuilder:printcolumn:name="status",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="head pod IP",type=string,JSONPath=`.status.head.podIP`,priority=1
// +kubebuilder:printcolumn:name="head service IP",type=string,JSONPath=`.status.head.serviceIP`,priority=1
type RayCluster struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants to run.
	// +optional
	Spec RayClusterSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status RayClusterStatus `json:"status,omitempty"`
}

// RayClusterList is a list of RayClusters.
// +kubebuilder:object:root=true
type RayClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RayCluster `json:"items"`
}
