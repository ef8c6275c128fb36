package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// JobSubmissionMode says how a job reaches its cluster.
// +kubebuilder:validation:Enum=K8sJobMode;HTTPMode;InteractiveMode;SidecarMode
type JobSubmissionMode string

// The modes.
const (
	// K8sJobMode is a Job whose pod submits it and shows its output.
	K8sJobMode JobSubmissionMode = "K8sJobMode"
	// HTTPMode is a request to the cluster's dashboard.
	HTTPMode JobSubmissionMode = "HTTPMode"
	// InteractiveMode is by its author, who writes its ID into spec.jobId or an annotation.
	InteractiveMode JobSubmissionMode = "InteractiveMode"
	// SidecarMode is a container beside the head.
	SidecarMode JobSubmissionMode = "SidecarMode"
)

// DeletionPolicyType says what of a job goes after its end.
// +kubebuilder:validation:Enum=DeleteCluster;DeleteWorkers;DeleteSelf;DeleteNone
type DeletionPolicyType string

// The policies.
const (
	DeleteCluster DeletionPolicyType = "DeleteCluster"
	DeleteWorkers DeletionPolicyType = "DeleteWorkers"
	DeleteSelf    DeletionPolicyType = "DeleteSelf"
	DeleteNone    DeletionPolicyType = "DeleteNone"
)

// DeletionStrategy says what of a job goes after its end.
type DeletionStrategy struct {
	// onSuccess and onFailure are an older way to say it.
	// +optional
	OnSuccess *DeletionPolicy `json:"onSuccess,omitempty"`
	// +optional
	OnFailure *DeletionPolicy `json:"onFailure,omitempty"`

	// deletionRules say what goes after which end, and when.
	// +listType=atomic
	// +optional
	DeletionRules []DeletionRule `json:"deletionRules,omitempty"`
}

// DeletionPolicy says what goes.
type DeletionPolicy struct {
	// policy is DeleteCluster, DeleteWorkers, DeleteSelf or DeleteNone.
	// +optional
	Policy *DeletionPolicyType `json:"policy,omitempty"`
}

// DeletionRule says what goes after which end, and when.
type DeletionRule struct {
	// policy is DeleteCluster, DeleteWorkers, DeleteSelf or DeleteNone.
	// +required
	Policy DeletionPolicyType `json:"policy"`

	// condition says after which end.
	// +required
	Condition DeletionCondition `json:"condition"`
}

// DeletionCondition says after which end something goes: one of jobStatus and
// jobDeploymentStatus.
type DeletionCondition struct {
	// jobStatus is SUCCEEDED or FAILED.
	// +optional
	JobStatus *JobStatus `json:"jobStatus,omitempty"`

	// jobDeploymentStatus is Complete or Failed.
	// +optional
	JobDeploymentStatus *JobDeploymentStatus `json:"jobDeploymentStatus,omitempty"`

	// ttlSeconds is how long after its end.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSeconds int32 `json:"ttlSeconds,omitempty"`
}

// SubmitterConfig is about the Job that submits a job.
type SubmitterConfig struct {
	// backoffLimit is how often it is tried again; left out it is 2.
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
}

// RayJobSpec is what a user wants to run.
type RayJobSpec struct {
	// entrypoint is the command that is run in the cluster.
	// +optional
	Entrypoint string `json:"entrypoint,omitempty"`

	// rayClusterSpec is the cluster that is made for it.
	// +optional
	RayClusterSpec *RayClusterSpec `json:"rayClusterSpec,omitempty"`

	// clusterSelector names a cluster that there is, by its label ray.io/cluster.
	// +optional
	ClusterSelector map[string]string `json:"clusterSelector,omitempty"`

	// submissionMode is K8sJobMode, which is what left out means, HTTPMode, InteractiveMode or
	// SidecarMode.
	// +optional
	SubmissionMode JobSubmissionMode `json:"submissionMode,omitempty"`

	// submitterPodTemplate is the pod that submits it.
	//
	// The definition that is installed has the schema of a pod in its place, the same
	// for every kind (see package config).
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Format=pod-template
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	SubmitterPodTemplate *corev1.PodTemplateSpec `json:"submitterPodTemplate,omitempty"`

	// submitterConfig is about the Job of that pod.
	// +optional
	SubmitterConfig *SubmitterConfig `json:"submitterConfig,omitempty"`

	// runtimeEnvYAML is what Ray prepares for the job, as YAML.
	// +optional
	RuntimeEnvYAML string `json:"runtimeEnvYAML,omitempty"`

	// jobId is how Ray calls the job; left out it is made up.
	// +optional
	JobID string `json:"jobId,omitempty"`

	// metadata is told to Ray.
	// +optional
	Metadata map[string]string `json:"metadata,omitempty"`

	// entrypointNumCpus, entrypointNumGpus and entrypointResources are what the entrypoint
	// itself takes of the cluster.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=number
	// +optional
	EntrypointNumCpus float32 `json:"entrypointNumCpus,omitempty"`
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=number
	// +optional
	EntrypointNumGpus float32 `json:"entrypointNumGpus,omitempty"`
	// +optional
	EntrypointResources string `json:"entrypointResources,omitempty"`

	// shutdownAfterJobFinishes removes the cluster after the job's end.
	// +optional
	ShutdownAfterJobFinishes bool `json:"shutdownAfterJobFinishes,omitempty"`

	// ttlSecondsAfterFinished is how long after.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// deletionStrategy says what else goes then.
	// +optional
	DeletionStrategy *DeletionStrategy `json:"deletionStrategy,omitempty"`

	// activeDeadlineSeconds is how long the job may run, counted from each start.
	// +optional
	ActiveDeadlineSeconds *int32 `json:"activeDeadlineSeconds,omitempty"`

	// preRunningDeadlineSeconds is how long it may take from a start until it runs.
	// +optional
	PreRunningDeadlineSeconds *int32 `json:"preRunningDeadlineSeconds,omitempty"`

	// backoffLimit is how often the job is tried again, each time in a new cluster; left out
	// it is 0.
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// suspend is true while the job may have no pods.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// managedBy names the controller of the job. Left out, or ray.io/kuberay-operator, it is
	// the one of this Kubernetes cluster; kueue.x-k8s.io/multikueue runs it in another one. It
	// cannot be changed.
	// +optional
	ManagedBy *string `json:"managedBy,omitempty"`
}

// JobStatus is how Ray says that the job stands.
type JobStatus string

// The statuses.
const (
	JobNew       JobStatus = ""
	JobPending   JobStatus = "PENDING"
	JobRunning   JobStatus = "RUNNING"
	JobStopped   JobStatus = "STOPPED"
	JobSucceeded JobStatus = "SUCCEEDED"
	JobFailed    JobStatus = "FAILED"
)

// JobDeploymentStatus is how the job stands with its cluster.
type JobDeploymentStatus string

// The statuses.
const (
	DeploymentNew          JobDeploymentStatus = ""
	DeploymentInitializing JobDeploymentStatus = "Initializing"
	DeploymentWaiting      JobDeploymentStatus = "Waiting"
	DeploymentRunning      JobDeploymentStatus = "Running"
	DeploymentComplete     JobDeploymentStatus = "Complete"
	DeploymentFailed       JobDeploymentStatus = "Failed"
	DeploymentSuspending   JobDeploymentStatus = "Suspending"
	DeploymentSuspended    JobDeploymentStatus = "Suspended"
	DeploymentRetrying     JobDeploymentStatus = "Retrying"
)

// Reasons of a job's failure.
const (
	AppFailed                  = "AppFailed"
	DeadlineExceeded           = "DeadlineExceeded"
	PreRunningDeadlineExceeded = "PreRunningDeadlineExceeded"
	SubmissionFailed           = "SubmissionFailed"
)

// RayJobInfo is what Ray tells of the job.
type RayJobInfo struct {
	// startTime and endTime are those of the entrypoint.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
}

// RayJobStatus is what is known of a job.
type RayJobStatus struct {
	// rayJobInfo is what Ray tells of the job.
	// +optional
	RayJobInfo *RayJobInfo `json:"rayJobInfo,omitempty"`

	// jobId is how Ray calls the job.
	// +optional
	JobID string `json:"jobId,omitempty"`

	// rayClusterName is the cluster that it runs in.
	// +optional
	RayClusterName string `json:"rayClusterName,omitempty"`

	// dashboardURL is where the cluster's dashboard answers.
	// +optional
	DashboardURL string `json:"dashboardURL,omitempty"`

	// jobStatus is PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED.
	// +optional
	JobStatus JobStatus `json:"jobStatus,omitempty"`

	// jobDeploymentStatus is Initializing, Waiting, Running, Complete, Failed, Suspending,
	// Suspended or Retrying.
	// +optional
	JobDeploymentStatus JobDeploymentStatus `json:"jobDeploymentStatus,omitempty"`

	// reason and message say why it failed.
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`

	// startTime and endTime are when it last began, and when it ended.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`

	// succeeded and failed count its tries.
	// +optional
	Succeeded *int32 `json:"succeeded,omitempty"`
	// +optional
	Failed *int32 `json:"failed,omitempty"`

	// workersDeletedTime is since when the cluster has no workers any more, because the job is over.
	// +optional
	WorkersDeletedTime *metav1.Time `json:"workersDeletedTime,omitempty"`

	// observedGeneration is the generation of the object that this is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// RayJob runs a command in a cluster.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=rayjobs,categories=all
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="job status",type=string,JSONPath=`.status.jobStatus`
// +kubebuilder:printcolumn:name="deployment status",type=string,JSONPath=`.status.jobDeploymentStatus`
// +kubebuilder:printcolumn:name="ray cluster name",type=string,JSONPath=`.status.rayClusterName`
// +kubebuilder:printcolumn:name="start time",type=string,JSONPath=`.status.startTime`
// +kubebuilder:printcolumn:name="end time",type=string,JSONPath=`.status.endTime`
// +kubebuilder:printcolumn:name="age",type=date,JSONPath=`.metadata.creationTimestamp`
type RayJob struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants to run.
	// +optional
	Spec RayJobSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status RayJobStatus `json:"status,omitempty"`
}

// RayJobList is a list of RayJobs.
// +kubebuilder:object:root=true
type RayJobList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RayJob `json:"items"`
}
