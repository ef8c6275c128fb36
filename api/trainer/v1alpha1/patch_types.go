package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TargetJob names a replicated job of the runtime.
type TargetJob struct {
	// name of the replicated job.
	// +required
	Name string `json:"name"`
}

// PodSpecOverride changes pods of the runtime.
type PodSpecOverride struct {
	// targetJobs are the replicated jobs that it is about; none are all.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	TargetJobs []TargetJob `json:"targetJobs,omitempty"`

	PodSpecPatch `json:",inline"`
}

// PodTemplateOverride changes pods of the runtime.
type PodTemplateOverride struct {
	// manager is who wants it, and time when it was written.
	// +optional
	Manager *string `json:"manager,omitempty"`
	// +optional
	Time *metav1.Time `json:"time,omitempty"`

	// targetJobs are the replicated jobs that it is about; none are all.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	TargetJobs []TargetJob `json:"targetJobs,omitempty"`

	PodTemplatePatch `json:",inline"`
}

// RuntimePatch changes what the runtime says.
type RuntimePatch struct {
	// manager is who wants it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Manager string `json:"manager"`

	// time is when it was written.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`

	// trainingRuntimeSpec is what changes in the spec of the runtime.
	// +optional
	TrainingRuntimeSpec *TrainingRuntimeSpecPatch `json:"trainingRuntimeSpec,omitempty"`
}

// TrainingRuntimeSpecPatch changes the spec of a runtime.
type TrainingRuntimeSpecPatch struct {
	// template is what changes in the JobSet.
	// +optional
	Template *JobSetTemplatePatch `json:"template,omitempty"`
}

// JobSetTemplatePatch changes a JobSet.
type JobSetTemplatePatch struct {
	// metadata has labels and annotations of the JobSet.
	// +optional
	Metadata *Metadata `json:"metadata,omitempty"`

	// spec is what changes in its spec.
	// +optional
	Spec *JobSetSpecPatch `json:"spec,omitempty"`
}

// JobSetSpecPatch changes the spec of a JobSet.
type JobSetSpecPatch struct {
	// replicatedJobs that change.
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	// +optional
	ReplicatedJobs []ReplicatedJobPatch `json:"replicatedJobs,omitempty"`
}

// ReplicatedJobPatch changes a replicated job.
type ReplicatedJobPatch struct {
	// name of the replicated job.
	// +required
	Name string `json:"name"`

	// template is what changes in its Jobs.
	// +optional
	Template *JobTemplatePatch `json:"template,omitempty"`
}

// JobTemplatePatch changes Jobs.
type JobTemplatePatch struct {
	// metadata has labels and annotations of the Jobs.
	// +optional
	Metadata *Metadata `json:"metadata,omitempty"`

	// spec is what changes in their spec.
	// +optional
	Spec *JobSpecPatch `json:"spec,omitempty"`
}

// JobSpecPatch changes the spec of Jobs.
type JobSpecPatch struct {
	// template is what changes in their pods.
	// +optional
	Template *PodTemplatePatch `json:"template,omitempty"`
}

// PodTemplatePatch changes pods.
type PodTemplatePatch struct {
	// metadata has labels and annotations of the pods.
	// +optional
	Metadata *Metadata `json:"metadata,omitempty"`

	// spec is what changes in their spec.
	// +optional
	Spec *PodSpecPatch `json:"spec,omitempty"`
}

// Metadata are labels and annotations. Other fields are let through and mean nothing.
// +kubebuilder:pruning:PreserveUnknownFields
type Metadata struct {
	// labels of the object.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations of the object.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// PodSpecPatch changes the spec of pods.
type PodSpecPatch struct {
	// serviceAccountName is the account that they run as.
	// +optional
	ServiceAccountName *string `json:"serviceAccountName,omitempty"`

	// volumes are added, or take the place of those of the same name.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=array
	// +kubebuilder:validation:Format=pod-volumes
	// +optional
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// initContainers that change. The runtime has them.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +optional
	InitContainers []ContainerPatch `json:"initContainers,omitempty"`

	// containers that change. The runtime has them.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +optional
	Containers []ContainerPatch `json:"containers,omitempty"`

	// imagePullSecrets are added.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// securityContext of the pods; fields that it leaves out stay.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Format=pod-security
	// +optional
	SecurityContext *corev1.PodSecurityContext `json:"securityContext,omitempty"`

	// nodeSelector is added.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// affinity of the pods; parts that it leaves out stay.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Format=pod-affinity
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// tolerations take the place of those of the runtime.
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// schedulingGates are added.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	// +optional
	SchedulingGates []corev1.PodSchedulingGate `json:"schedulingGates,omitempty"`

	// terminationGracePeriodSeconds is how long the pods may take to end.
	// +optional
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
}

// ContainerPatch changes a container.
type ContainerPatch struct {
	// name of the container.
	// +required
	Name string `json:"name"`

	// env are variables of the container. Those of the containers node, dataset-initializer
	// and model-initializer are set in trainer and initializer instead.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=array
	// +kubebuilder:validation:Format=container-env
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// volumeMounts are added, or take the place of those of the same path.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=array
	// +kubebuilder:validation:Format=container-mounts
	// +optional
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// securityContext of the container; fields that it leaves out stay.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Format=container-security
	// +optional
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`
}
