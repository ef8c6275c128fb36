package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RayServiceUpgradeType says what a change of a service's cluster does.
// +kubebuilder:validation:Enum=NewCluster;NewClusterWithIncrementalUpgrade;None
type RayServiceUpgradeType string

// The types.
const (
	// UpgradeNewCluster makes another cluster, which takes over once it serves.
	UpgradeNewCluster RayServiceUpgradeType = "NewCluster"
	// UpgradeIncrementally lets another cluster take over bit by bit.
	UpgradeIncrementally RayServiceUpgradeType = "NewClusterWithIncrementalUpgrade"
	// UpgradeNever leaves the cluster that there is.
	UpgradeNever RayServiceUpgradeType = "None"
)

// RayServiceUpgradeStrategy says what a change of a service's cluster does.
type RayServiceUpgradeStrategy struct {
	// type is NewCluster, where another cluster takes over once it serves, or None. Left out, the
	// cluster is replaced.
	// +optional
	Type *RayServiceUpgradeType `json:"type,omitempty"`

	// clusterUpgradeOptions are about NewClusterWithIncrementalUpgrade, which is refused here.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	ClusterUpgradeOptions *Anything `json:"clusterUpgradeOptions,omitempty"`
}

// RayServiceSpec is what a user wants to serve.
type RayServiceSpec struct {
	// serveConfigV2 are the applications, as YAML.
	// +optional
	ServeConfigV2 string `json:"serveConfigV2,omitempty"`

	// rayClusterConfig is the cluster that serves them.
	// +optional
	RayClusterSpec RayClusterSpec `json:"rayClusterConfig,omitempty"`

	// upgradeStrategy says what a change of rayClusterConfig does.
	// +optional
	UpgradeStrategy *RayServiceUpgradeStrategy `json:"upgradeStrategy,omitempty"`

	// serveService is what the service for requests has besides: labels, annotations, ports, a
	// type.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	ServeService *corev1.Service `json:"serveService,omitempty"`

	// excludeHeadPodFromServeSvc keeps requests from the head.
	// +optional
	ExcludeHeadPodFromServeSvc bool `json:"excludeHeadPodFromServeSvc,omitempty"`

	// rayClusterDeletionDelaySeconds is how long a cluster stays after another took over; left
	// out it is 60.
	// +kubebuilder:validation:Minimum=0
	// +optional
	RayClusterDeletionDelaySeconds *int32 `json:"rayClusterDeletionDelaySeconds,omitempty"`

	// serviceUnhealthySecondThreshold and deploymentUnhealthySecondThreshold have no effect any
	// more.
	// +optional
	ServiceUnhealthySecondThreshold *int32 `json:"serviceUnhealthySecondThreshold,omitempty"`
	// +optional
	DeploymentUnhealthySecondThreshold *int32 `json:"deploymentUnhealthySecondThreshold,omitempty"`

	// suspend is true while the service may have no pods.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// managedBy names the controller of the service. Left out, or ray.io/kuberay-operator, it is
	// the one of this Kubernetes cluster; kueue.x-k8s.io/multikueue runs it in another one. It
	// cannot be changed.
	// +optional
	ManagedBy *string `json:"managedBy,omitempty"`
}

// Conditions of a service.
const (
	ServiceReady             = "Ready"
	ServiceUpgradeInProgress = "UpgradeInProgress"
	ServiceSuspending        = "Suspending"
	ServiceSuspended         = "Suspended"
)

// Reasons of these conditions.
const (
	ServiceInitializing    = "Initializing"
	NonZeroServeEndpoints  = "NonZeroServeEndpoints"
	ZeroServeEndpoints     = "ZeroServeEndpoints"
	BothClustersExist      = "BothActivePendingClustersExist"
	NoPendingCluster       = "NoPendingCluster"
	NoActiveCluster        = "NoActiveCluster"
	ServiceSuspendRequest  = "SuspendRequested"
	ServiceSuspendComplete = "SuspendComplete"
)

// ServiceStatus is Running once the service serves.
type ServiceStatus string

// ServiceRunning is the status of a service that serves.
const ServiceRunning ServiceStatus = "Running"

// Statuses of applications.
const (
	ApplicationRunning = "RUNNING"
)

// ServeDeploymentStatus is what a dashboard says of a deployment.
type ServeDeploymentStatus struct {
	// status is UPDATING, HEALTHY or UNHEALTHY.
	// +optional
	Status string `json:"status,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}

// AppStatus is what a dashboard says of an application.
type AppStatus struct {
	// status is NOT_STARTED, DEPLOYING, RUNNING, DEPLOY_FAILED, DELETING or UNHEALTHY.
	// +optional
	Status string `json:"status,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// serveDeploymentStatuses are those of its deployments.
	// +optional
	Deployments map[string]ServeDeploymentStatus `json:"serveDeploymentStatuses,omitempty"`
}

// RayServiceStatus is how a cluster of a service stands.
type RayServiceStatus struct {
	// applicationStatuses are those of the applications.
	// +optional
	Applications map[string]AppStatus `json:"applicationStatuses,omitempty"`
	// rayClusterName is the cluster.
	// +optional
	RayClusterName string `json:"rayClusterName,omitempty"`
	// rayClusterStatus is the cluster's own.
	// +optional
	RayClusterStatus *RayClusterStatus `json:"rayClusterStatus,omitempty"`
}

// RetiredCluster is one that another took over from.
type RetiredCluster struct {
	// rayClusterName is the cluster, and since when the other took over.
	// +required
	RayClusterName string `json:"rayClusterName"`
	// +required
	Since metav1.Time `json:"since"`
}

// RayServiceStatuses is what is known of a service.
type RayServiceStatuses struct {
	// conditions are Ready, UpgradeInProgress, Suspending and Suspended.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// activeServiceStatus is about the cluster that serves, pendingServiceStatus about one that
	// is to take over.
	// +optional
	ActiveServiceStatus RayServiceStatus `json:"activeServiceStatus,omitempty"`
	// +optional
	PendingServiceStatus RayServiceStatus `json:"pendingServiceStatus,omitempty"`

	// retiredService is the cluster that served before, until it goes.
	// +optional
	RetiredService *RetiredCluster `json:"retiredService,omitempty"`

	// serviceStatus is Running once the service serves.
	// +optional
	ServiceStatus ServiceStatus `json:"serviceStatus,omitempty"`

	// numServeEndpoints is how many pods answer requests.
	// +optional
	NumServeEndpoints int32 `json:"numServeEndpoints,omitempty"`

	// lastUpdateTime is when this last changed.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`

	// observedGeneration is the generation of the object that this is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// RayService serves applications from a cluster.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=rayservices,categories=all
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="service status",type=string,JSONPath=`.status.serviceStatus`
// +kubebuilder:printcolumn:name="num serve endpoints",type=string,JSONPath=`.status.numServeEndpoints`
type RayService struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants to serve.
	// +optional
	Spec RayServiceSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status RayServiceStatuses `json:"status,omitempty"`
}

// RayServiceList is a list of RayServices.
// +kubebuilder:object:root=true
type RayServiceList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RayService `json:"items"`
}
