package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TrainJobSpec is what a user wants to train.
type TrainJobSpec struct {
	// runtimeRef names how it is run. It cannot be changed.
	// +required
	RuntimeRef RuntimeRef `json:"runtimeRef"`

	// initializer says what is fetched before the training begins.
	// +optional
	Initializer *Initializer `json:"initializer,omitempty"`

	// trainer is the training itself.
	// +optional
	Trainer *Trainer `json:"trainer,omitempty"`

	// labels of the JobSet and its Jobs. Later versions have them in runtimePatches.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations of the JobSet and its Jobs. Later versions have them in runtimePatches.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// podSpecOverrides change the pods of the runtime: the first form of runtimePatches.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	PodSpecOverrides []PodSpecOverride `json:"podSpecOverrides,omitempty"`

	// podTemplateOverrides change the pods of the runtime: the second form of
	// runtimePatches.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	PodTemplateOverrides []PodTemplateOverride `json:"podTemplateOverrides,omitempty"`

	// runtimePatches change what the runtime says, each in the name of somebody.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=manager
	// +optional
	RuntimePatches []RuntimePatch `json:"runtimePatches,omitempty"`

	// suspend is true while the job may have no pods.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// activeDeadlineSeconds is how long the job may run, from its start or its last
	// resumption. It cannot be changed.
	// +kubebuilder:validation:Minimum=1
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// managedBy names the controller of the job. Left out, or
	// trainer.kubeflow.org/trainjob-controller, it is the one of this cluster;
	// kueue.x-k8s.io/multikueue runs it in another one. It cannot be changed.
	// +kubebuilder:validation:Enum=trainer.kubeflow.org/trainjob-controller;kueue.x-k8s.io/multikueue
	// +optional
	ManagedBy *string `json:"managedBy,omitempty"`
}

// RuntimeRef names a runtime.
type RuntimeRef struct {
	// name of the runtime. A TrainingRuntime is looked for in the job's namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// apiGroup of the runtime. Left out it is trainer.kubeflow.org.
	// +kubebuilder:default=trainer.kubeflow.org
	// +optional
	APIGroup *string `json:"apiGroup,omitempty"`

	// kind of the runtime: ClusterTrainingRuntime, which it is if left out, or
	// TrainingRuntime.
	// +kubebuilder:default=ClusterTrainingRuntime
	// +optional
	Kind *string `json:"kind,omitempty"`
}

// Initializer says what is fetched before the training begins.
type Initializer struct {
	// dataset to train with. The runtime has a replicated job for it, with the label
	// trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer.
	// +optional
	Dataset *Source `json:"dataset,omitempty"`

	// model to begin with. The runtime has a replicated job for it, with the label
	// trainer.kubeflow.org/trainjob-ancestor-step: model-initializer.
	// +optional
	Model *Source `json:"model,omitempty"`
}

// Source is something to be fetched.
type Source struct {
	// storageUri is where it is, as the variable STORAGE_URI tells the container.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	StorageURI *string `json:"storageUri,omitempty"`

	// env are variables of the container.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=array
	// +kubebuilder:validation:Format=container-env
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// secretRef is a Secret of the job's namespace, whose keys become variables.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`
}

// SecretReference names a Secret of the same namespace.
type SecretReference struct {
	// name of the Secret.
	// +optional
	Name string `json:"name,omitempty"`
}

// Trainer is the training itself. It changes the replicated jobs of the runtime with the
// label trainer.kubeflow.org/trainjob-ancestor-step: trainer, in the container node.
type Trainer struct {
	// image of the container.
	// +optional
	Image *string `json:"image,omitempty"`

	// command of the container.
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	// +optional
	Command []string `json:"command,omitempty"`

	// args of the container.
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	// +optional
	Args []string `json:"args,omitempty"`

	// env are variables of the container.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=array
	// +kubebuilder:validation:Format=container-env
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// numNodes is how many pods train. Left out it is what the runtime says.
	// +optional
	NumNodes *int32 `json:"numNodes,omitempty"`

	// resourcesPerNode are those of each.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Format=container-resources
	// +optional
	ResourcesPerNode *corev1.ResourceRequirements `json:"resourcesPerNode,omitempty"`

	// numProcPerNode is how many processes each of them runs: a number or, for torch, auto,
	// cpu or gpu.
	// +kubebuilder:validation:XIntOrString
	// +optional
	NumProcPerNode *intstr.IntOrString `json:"numProcPerNode,omitempty"`
}

// TrainJobStatus is what is known of a TrainJob.
type TrainJobStatus struct {
	// conditions: Suspended, Complete and Failed.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// jobsStatus are counts of Jobs, by replicated job.
	// +listType=map
	// +listMapKey=name
	// +optional
	JobsStatus []JobStatus `json:"jobsStatus,omitempty"`

	// trainerStatus is how far the training is, if somebody tells.
	// +optional
	TrainerStatus *TrainerStatus `json:"trainerStatus,omitempty"`

	// runtime is where earlier versions recorded the runtime as it was when the job was first looked at. It is
	// read where the annotation mlbatch.dev/training-runtime is missing.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Runtime *ResolvedRuntime `json:"runtime,omitempty"`
}

// ResolvedRuntime is a runtime as it was.
type ResolvedRuntime struct {
	// kind and name of the runtime.
	// +required
	Kind string `json:"kind"`
	// +required
	Name string `json:"name"`
	// uid and generation of the object.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// spec of the runtime.
	// +required
	Spec TrainingRuntimeSpec `json:"spec"`
}

// JobStatus counts the Jobs of a replicated job.
type JobStatus struct {
	// name of the replicated job.
	// +required
	Name string `json:"name"`

	// ready Jobs have all their pods ready, or succeeded.
	// +required
	Ready int32 `json:"ready"`

	// succeeded Jobs are complete.
	// +required
	Succeeded int32 `json:"succeeded"`

	// failed Jobs are not, and will not be.
	// +required
	Failed int32 `json:"failed"`

	// active Jobs have pods that have not ended.
	// +required
	Active int32 `json:"active"`

	// suspended Jobs are held back.
	// +required
	Suspended int32 `json:"suspended"`
}

// TrainerStatus is how far the training is.
type TrainerStatus struct {
	// progressPercentage is how much of it is done.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ProgressPercentage *int32 `json:"progressPercentage,omitempty"`

	// estimatedRemainingSeconds is how long it will go on.
	// +kubebuilder:validation:Minimum=0
	// +optional
	EstimatedRemainingSeconds *int32 `json:"estimatedRemainingSeconds,omitempty"`

	// metrics of the model.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	Metrics []Metric `json:"metrics,omitempty"`

	// lastUpdatedTime is when this was told.
	// +optional
	LastUpdatedTime *metav1.Time `json:"lastUpdatedTime,omitempty"`
}

// Metric of a model.
type Metric struct {
	// name of the metric.
	// +required
	Name string `json:"name"`
	// value of the metric.
	// +required
	Value string `json:"value"`
}

// TrainJob trains a model by a runtime.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=trainjobs
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.status=="True")].type`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TrainJob struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants to train.
	// +optional
	Spec TrainJobSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status TrainJobStatus `json:"status,omitempty"`
}

// TrainJobList is a list of TrainJobs.
// +kubebuilder:object:root=true
type TrainJobList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TrainJob `json:"items"`
}
