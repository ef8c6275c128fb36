package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodGroupLabel on a pod names its PodGroup.
const PodGroupLabel = "scheduling.x-k8s.io/pod-group"

// OldPodGroupLabel does so in manifests for older versions of scheduler plugins.
const OldPodGroupLabel = "pod-group.scheduling.sigs.k8s.io"

// Named is the PodGroup that a pod with these labels names, "" if it names none.
func Named(labels map[string]string) string {
	if name := labels[PodGroupLabel]; name != "" {
		return name
	}
	return labels[OldPodGroupLabel]
}

// PodGroupPhase is where a PodGroup stands.
type PodGroupPhase string

// The phases.
const (
	// PodGroupPending: fewer than minMember pods exist.
	PodGroupPending PodGroupPhase = "Pending"
	// PodGroupPreScheduling: enough pods exist, none has a node yet.
	PodGroupPreScheduling PodGroupPhase = "PreScheduling"
	// PodGroupScheduling: some pods have nodes.
	PodGroupScheduling PodGroupPhase = "Scheduling"
	// PodGroupScheduled: minMember pods have nodes.
	PodGroupScheduled PodGroupPhase = "Scheduled"
	// PodGroupRunning: minMember pods run.
	PodGroupRunning PodGroupPhase = "Running"
	// PodGroupUnknown: some of minMember pods run, others do not and cannot.
	PodGroupUnknown PodGroupPhase = "Unknown"
	// PodGroupFinished: minMember pods succeeded.
	PodGroupFinished PodGroupPhase = "Finished"
	// PodGroupFailed: a pod failed.
	PodGroupFailed PodGroupPhase = "Failed"
)

// PodGroupSpec says how many pods start together.
type PodGroupSpec struct {
	// minMember is the number of pods that start together or not at all.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinMember int32 `json:"minMember,omitempty"`

	// minResources must be free in the cluster before any pod is tried.
	// +optional
	MinResources corev1.ResourceList `json:"minResources,omitempty"`

	// scheduleTimeoutSeconds is how long pods with a node wait for the others.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ScheduleTimeoutSeconds *int32 `json:"scheduleTimeoutSeconds,omitempty"`
}

// PodGroupStatus is what is known of a PodGroup.
type PodGroupStatus struct {
	// phase is where the group stands.
	// +optional
	Phase PodGroupPhase `json:"phase,omitempty"`

	// occupiedBy is the owner of the pods, as namespace/name.
	// +optional
	OccupiedBy string `json:"occupiedBy,omitempty"`

	// scheduled is the number of pods with a node.
	// +optional
	Scheduled int32 `json:"scheduled,omitempty"`

	// running is the number of running pods.
	// +optional
	Running int32 `json:"running,omitempty"`

	// succeeded is the number of pods that ended well.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`

	// failed is the number of failed pods.
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// scheduleStartTime is when scheduling began.
	// +optional
	ScheduleStartTime *metav1.Time `json:"scheduleStartTime,omitempty"`
}

// PodGroup is a gang of pods.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName={pg,pgs}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Where the group stands"
// +kubebuilder:printcolumn:name="MinMember",type=integer,JSONPath=`.spec.minMember`,description="Number of pods that start together"
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`,description="Number of running pods"
// +kubebuilder:printcolumn:name="Succeeded",type=integer,JSONPath=`.status.succeeded`,description="Number of pods that ended well"
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`,description="Number of failed pods"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the group was created"
type PodGroup struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how many pods start together.
	// +optional
	Spec PodGroupSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status PodGroupStatus `json:"status,omitempty"`
}

// PodGroupList is a list of PodGroups.
// +kubebuilder:object:root=true
type PodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodGroup `json:"items"`
}
