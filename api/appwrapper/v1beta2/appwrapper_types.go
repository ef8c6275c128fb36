package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// AppWrapperSpec is what a user wants to run.
type AppWrapperSpec struct {
	// components are the objects to create once the job is admitted.
	// +kubebuilder:validation:MinItems=1
	// +required
	Components []AppWrapperComponent `json:"components"`

	// suspend is true while the components may not exist.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// managedBy names the controller of this object. Left out, or
	// workload.codeflare.dev/appwrapper-controller, it is ours; any other value
	// makes us leave the object alone. It cannot be changed.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ManagedBy *string `json:"managedBy,omitempty"`
}

// AppWrapperComponent is one object to create.
type AppWrapperComponent struct {
	// annotations of the component, for tools.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// podSets say where in template the pod templates are. They may be left out
	// for kinds that are known.
	// +optional
	DeclaredPodSets []AppWrapperPodSet `json:"podSets,omitempty"`

	// podSetInfos is what the admission adds to the pods, one for each pod set.
	// Users leave it out.
	// +optional
	PodSetInfos []AppWrapperPodSetInfo `json:"podSetInfos,omitempty"`

	// template is the object.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:EmbeddedResource
	// +required
	Template runtime.RawExtension `json:"template"`
}

// AppWrapperPodSet says where a pod template is and how many pods it makes.
type AppWrapperPodSet struct {
	// replicas is the number of pods; left out it is 1.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// path of the pod template, e.g. template.spec.template or
	// template.spec.groups[0].template.
	// +kubebuilder:validation:MinLength=1
	// +required
	Path string `json:"path"`

	// annotations about the placement of the pods.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// AppWrapperPodSetInfo is what an admission adds to the pods of a set.
type AppWrapperPodSetInfo struct {
	// annotations to add.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// labels to add.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// nodeSelector to add.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// tolerations to add.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// schedulingGates to add.
	// +optional
	SchedulingGates []corev1.PodSchedulingGate `json:"schedulingGates,omitempty"`
}

// AppWrapperStatus is what is known of an AppWrapper.
type AppWrapperStatus struct {
	// phase is where the job stands.
	// +optional
	Phase AppWrapperPhase `json:"phase,omitempty"`

	// resettingCount is how often the job was reset for a fault of its own.
	// +optional
	Retries int32 `json:"resettingCount,omitempty"`

	// conditions: QuotaReserved, ResourcesDeployed, PodsReady, Unhealthy and
	// DeletingResources.
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// componentStatus has one entry for each component.
	// +optional
	ComponentStatus []AppWrapperComponentStatus `json:"componentStatus,omitempty"`
}

// AppWrapperComponentStatus is what is known of one component.
type AppWrapperComponentStatus struct {
	// name of the object.
	// +required
	Name string `json:"name"`

	// kind of the object.
	// +required
	Kind string `json:"kind"`

	// apiVersion of the object.
	// +required
	APIVersion string `json:"apiVersion"`

	// uid of the object that was created. Only this object is a part of the
	// AppWrapper, whatever others say of themselves.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// node that the component runs on, if it is a pod itself: once the pod is gone,
	// nothing else tells whether it went with its node.
	// +optional
	Node string `json:"node,omitempty"`

	// basis is what the component reads of another object, such as the runtime of a
	// TrainJob, as that was when the AppWrapper was first looked at: part of the status
	// that the component will have. Its pods are counted and made by this.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +optional
	Basis *runtime.RawExtension `json:"basis,omitempty"`

	// podSets that were found or declared.
	// +optional
	PodSets []AppWrapperPodSet `json:"podSets"`

	// conditions: ResourcesDeployed.
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// AppWrapperPhase is where an AppWrapper stands.
type AppWrapperPhase string

// The phases.
const (
	AppWrapperEmpty       AppWrapperPhase = ""
	AppWrapperSuspended   AppWrapperPhase = "Suspended"
	AppWrapperResuming    AppWrapperPhase = "Resuming"
	AppWrapperRunning     AppWrapperPhase = "Running"
	AppWrapperResetting   AppWrapperPhase = "Resetting"
	AppWrapperSuspending  AppWrapperPhase = "Suspending"
	AppWrapperSucceeded   AppWrapperPhase = "Succeeded"
	AppWrapperFailed      AppWrapperPhase = "Failed"
	AppWrapperTerminating AppWrapperPhase = "Terminating"
)

// AppWrapper queues a set of objects as one job and watches over it.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName={aw}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Quota Reserved",type=string,JSONPath=`.status.conditions[?(@.type=="QuotaReserved")].status`
// +kubebuilder:printcolumn:name="Resources Deployed",type=string,JSONPath=`.status.conditions[?(@.type=="ResourcesDeployed")].status`
// +kubebuilder:printcolumn:name="Unhealthy",type=string,JSONPath=`.status.conditions[?(@.type=="Unhealthy")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AppWrapper struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants to run.
	// +optional
	Spec AppWrapperSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status AppWrapperStatus `json:"status,omitempty"`
}

// AppWrapperList is a list of AppWrappers.
// +kubebuilder:object:root=true
type AppWrapperList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AppWrapper `json:"items"`
}
