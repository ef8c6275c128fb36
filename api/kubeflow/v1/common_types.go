package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReplicaType is the name of a role.
type ReplicaType string

// RestartPolicy says what happens to a pod whose main container ended.
// +kubebuilder:validation:Enum=Always;OnFailure;Never;ExitCode
type RestartPolicy string

// The restart policies.
const (
	// RestartPolicyAlways has the kubelet restart it however it ended.
	RestartPolicyAlways RestartPolicy = "Always"
	// RestartPolicyOnFailure has the kubelet restart it if it failed.
	RestartPolicyOnFailure RestartPolicy = "OnFailure"
	// RestartPolicyNever fails the job with it.
	RestartPolicyNever RestartPolicy = "Never"
	// RestartPolicyExitCode makes the pod anew if it ended by a signal or said so,
	// with a code from 128 up, and fails the job with it otherwise.
	RestartPolicyExitCode RestartPolicy = "ExitCode"
)

// CleanPodPolicy says which pods are deleted once the job has ended.
// +kubebuilder:validation:Enum="";None;Running;All
type CleanPodPolicy string

// The clean-up policies.
const (
	CleanPodPolicyUndefined CleanPodPolicy = ""
	CleanPodPolicyNone      CleanPodPolicy = "None"
	CleanPodPolicyRunning   CleanPodPolicy = "Running"
	CleanPodPolicyAll       CleanPodPolicy = "All"
)

// RunPolicy says how long a job may run, how often it is tried, and what is left of
// it afterwards.
type RunPolicy struct {
	// cleanPodPolicy says which pods are deleted, with their services, once the job
	// has ended: None, those that are still Running, or All. Left out it is Running:
	// pods that nobody waits for would hold the quota of their queue.
	// +optional
	CleanPodPolicy *CleanPodPolicy `json:"cleanPodPolicy,omitempty"`

	// ttlSecondsAfterFinished is how long the job is kept after it ended; left out it
	// is kept until somebody deletes it.
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// activeDeadlineSeconds is how long the job may run, from its start or its last
	// resumption.
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// backoffLimit is how many failures of pods and containers the job survives; left
	// out there is no limit.
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// schedulingPolicy asks how the pods start together.
	// +optional
	SchedulingPolicy *SchedulingPolicy `json:"schedulingPolicy,omitempty"`

	// suspend is true while the job may have no pods.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// managedBy names the controller of the job. Left out, or
	// kubeflow.org/training-operator, it is the one of this cluster;
	// kueue.x-k8s.io/multikueue runs it in another one. It cannot be changed.
	// +optional
	ManagedBy *string `json:"managedBy,omitempty"`
}

// SchedulingPolicy asks how the pods of a job start together.
type SchedulingPolicy struct {
	// minAvailable is how many pods have to start together; left out it is all. A
	// queued job always starts with all its pods.
	// +optional
	MinAvailable *int32 `json:"minAvailable,omitempty"`

	// queue is a queue of other schedulers. mlbatch reads the label
	// kueue.x-k8s.io/queue-name instead.
	// +optional
	Queue string `json:"queue,omitempty"`

	// minResources is what the pods that start together ask for. mlbatch counts the
	// requests of the pods instead.
	// +optional
	MinResources *map[corev1.ResourceName]resource.Quantity `json:"minResources,omitempty"`

	// priorityClass is the class of the job's priority.
	// +optional
	PriorityClass string `json:"priorityClass,omitempty"`

	// scheduleTimeoutSeconds is for other schedulers.
	// +optional
	ScheduleTimeoutSeconds *int32 `json:"scheduleTimeoutSeconds,omitempty"`
}

// ReplicaSpec is one role of a job.
type ReplicaSpec struct {
	// replicas is the number of pods; left out it is 1.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// template of the pods. Its restart policy is overruled by that of the role.
	//
	// The definition that is installed has the schema of a pod in its place, the same
	// for every kind (see package config).
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Format=pod-template
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Template corev1.PodTemplateSpec `json:"template,omitempty"`

	// restartPolicy says what happens to a pod whose main container ended: Always,
	// OnFailure, Never or ExitCode. Each kind has its own default.
	// +optional
	RestartPolicy RestartPolicy `json:"restartPolicy,omitempty"`
}

// JobStatus is what is known of a job.
type JobStatus struct {
	// conditions: Created, Running, Restarting, Suspended, Succeeded and Failed, the
	// one that changed last at the end.
	// +optional
	Conditions []JobCondition `json:"conditions,omitempty"`

	// replicaStatuses are counts of pods, by role.
	// +optional
	ReplicaStatuses map[ReplicaType]*ReplicaStatus `json:"replicaStatuses,omitempty"`

	// startTime is when the job started, or was resumed last.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the job ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// lastReconcileTime is when the status last changed.
	// +optional
	LastReconcileTime *metav1.Time `json:"lastReconcileTime,omitempty"`
}

// JobConditionType is what a condition is about.
type JobConditionType string

// The conditions.
const (
	JobCreated    JobConditionType = "Created"
	JobRunning    JobConditionType = "Running"
	JobRestarting JobConditionType = "Restarting"
	JobSuspended  JobConditionType = "Suspended"
	JobSucceeded  JobConditionType = "Succeeded"
	JobFailed     JobConditionType = "Failed"
)

// JobCondition is one thing that is known of a job.
type JobCondition struct {
	// type of the condition.
	// +required
	Type JobConditionType `json:"type"`

	// status is True, False or Unknown.
	// +required
	Status corev1.ConditionStatus `json:"status"`

	// reason is one word for machines.
	// +optional
	Reason string `json:"reason,omitempty"`

	// message is for people.
	// +optional
	Message string `json:"message,omitempty"`

	// lastUpdateTime is when the condition was last written.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitempty"`

	// lastTransitionTime is when its status last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
}

// ReplicaStatus counts the pods of a role.
type ReplicaStatus struct {
	// active pods run.
	// +optional
	Active int32 `json:"active,omitempty"`

	// succeeded pods ended well.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`

	// failed pods did not.
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// labelSelector is left to older readers; selector says the same.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// selector finds the pods of the role.
	// +optional
	Selector string `json:"selector,omitempty"`
}
