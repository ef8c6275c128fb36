package v1alpha2

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// JobSetSpec is what a user wants to run.
type JobSetSpec struct {
	// replicatedJobs are the roles: each is a Job, as often as it says.
	// +listType=map
	// +listMapKey=name
	// +optional
	ReplicatedJobs []ReplicatedJob `json:"replicatedJobs,omitempty"`

	// network says how pods find each other.
	// +optional
	Network *Network `json:"network,omitempty"`

	// successPolicy says when the JobSet has succeeded; left out it has when all Jobs
	// have.
	// +optional
	SuccessPolicy *SuccessPolicy `json:"successPolicy,omitempty"`

	// failurePolicy says what follows a Job that failed; left out the JobSet has failed.
	// +optional
	FailurePolicy *FailurePolicy `json:"failurePolicy,omitempty"`

	// startupPolicy says in which order the roles start. dependsOn says more; only one of
	// them can be used.
	// +optional
	StartupPolicy *StartupPolicy `json:"startupPolicy,omitempty"`

	// suspend is true while the JobSet may have no pods.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// coordinator is a pod that all Jobs and pods are told the address of.
	// +optional
	Coordinator *Coordinator `json:"coordinator,omitempty"`

	// managedBy names the controller of the JobSet. Left out, or
	// jobset.sigs.k8s.io/jobset-controller, it is the one of this cluster. It cannot be
	// changed.
	// +optional
	ManagedBy *string `json:"managedBy,omitempty"`

	// ttlSecondsAfterFinished is how long the JobSet is kept after it ended; left out it
	// is kept until somebody deletes it.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// volumeClaimPolicies are volumes that are made for the JobSet. They become volumes of
	// the pods of each role that mounts one of their names.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	// +optional
	VolumeClaimPolicies []VolumeClaimPolicy `json:"volumeClaimPolicies,omitempty"`
}

// ReplicatedJob is a role of a JobSet.
type ReplicatedJob struct {
	// name of the role. Its Jobs are called JOBSET-NAME-INDEX.
	// +required
	Name string `json:"name"`

	// groupName is a group of roles, whose Jobs are counted together. Left out it is
	// default.
	// +kubebuilder:default=default
	// +optional
	GroupName string `json:"groupName,omitempty"`

	// template of the Jobs.
	//
	// The definition that is installed has the schema of a Job in its place (see package
	// config).
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Format=job-template
	// +kubebuilder:pruning:PreserveUnknownFields
	// +required
	Template batchv1.JobTemplateSpec `json:"template"`

	// replicas is how many Jobs there are; left out it is 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// dependsOn are other roles that have to be ready, or complete, before the Jobs of
	// this one are made.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=5
	// +optional
	DependsOn []DependsOn `json:"dependsOn,omitempty"`
}

// DependsOnStatus is how far a role has to be.
// +kubebuilder:validation:Enum=Ready;Complete
type DependsOnStatus string

// How far.
const (
	// DependencyReady waits until all Jobs of the role are ready, or have succeeded.
	DependencyReady DependsOnStatus = "Ready"
	// DependencyComplete waits until all have succeeded.
	DependencyComplete DependsOnStatus = "Complete"
)

// DependsOn is a role that comes before another.
type DependsOn struct {
	// name of the role.
	// +required
	Name string `json:"name"`

	// status is how far it has to be: Ready or Complete.
	// +required
	Status DependsOnStatus `json:"status"`
}

// Network says how pods find each other.
type Network struct {
	// enableDNSHostnames makes a headless service, by which pods are found as
	// JOBSET-ROLE-JOBINDEX-PODINDEX.SUBDOMAIN. Left out it is true.
	// +optional
	EnableDNSHostnames *bool `json:"enableDNSHostnames,omitempty"`

	// subdomain is the name of the service. Left out it is that of the JobSet.
	// +optional
	Subdomain string `json:"subdomain,omitempty"`

	// publishNotReadyAddresses has pods found before they are ready. Left out it is true.
	// +optional
	PublishNotReadyAddresses *bool `json:"publishNotReadyAddresses,omitempty"`
}

// Operator says how many of some Jobs count.
// +kubebuilder:validation:Enum=All;Any
type Operator string

// The operators.
const (
	OperatorAll Operator = "All"
	OperatorAny Operator = "Any"
)

// SuccessPolicy says when a JobSet has succeeded.
type SuccessPolicy struct {
	// operator is All if all Jobs of these roles have to succeed, Any if one is enough.
	// +required
	Operator Operator `json:"operator"`

	// targetReplicatedJobs are the roles; none are all.
	// +listType=atomic
	// +optional
	TargetReplicatedJobs []string `json:"targetReplicatedJobs,omitempty"`
}

// RestartStrategy is how all Jobs are made anew.
// +kubebuilder:validation:Enum=Recreate;BlockingRecreate;InPlaceRestart
type RestartStrategy string

// The strategies.
const (
	// Recreate makes each Job as soon as the one before is gone.
	Recreate RestartStrategy = "Recreate"
	// BlockingRecreate makes none before all are gone.
	BlockingRecreate RestartStrategy = "BlockingRecreate"
	// InPlaceRestart has all pods begin anew where they are, while no Job has failed; then it is Recreate.
	InPlaceRestart RestartStrategy = "InPlaceRestart"
)

// FailurePolicy says what follows a Job that failed.
type FailurePolicy struct {
	// maxRestarts is how often all Jobs may be made anew, or all pods may begin anew in place.
	// +optional
	MaxRestarts int32 `json:"maxRestarts,omitempty"`

	// restartStrategy is how: Recreate, BlockingRecreate or InPlaceRestart. Left out it is Recreate.
	// +kubebuilder:default=Recreate
	// +optional
	RestartStrategy RestartStrategy `json:"restartStrategy,omitempty"`

	// rules are asked in their order, and the first that fits a Job that failed says what
	// follows. Where none does all Jobs are made anew.
	// +listType=atomic
	// +optional
	Rules []FailurePolicyRule `json:"rules,omitempty"`
}

// FailurePolicyAction is what follows.
// +kubebuilder:validation:Enum=FailJobSet;RestartJobSet;RestartJobSetAndIgnoreMaxRestarts;RestartJob;RestartJobAndIgnoreMaxRestarts
type FailurePolicyAction string

// What may follow.
const (
	// FailJobSet ends the JobSet.
	FailJobSet FailurePolicyAction = "FailJobSet"
	// RestartJobSet makes all Jobs anew.
	RestartJobSet FailurePolicyAction = "RestartJobSet"
	// RestartJobSetAndIgnoreMaxRestarts does so without counting it.
	RestartJobSetAndIgnoreMaxRestarts FailurePolicyAction = "RestartJobSetAndIgnoreMaxRestarts"
	// RestartJob makes the Job anew.
	RestartJob FailurePolicyAction = "RestartJob"
	// RestartJobAndIgnoreMaxRestarts does so without counting it.
	RestartJobAndIgnoreMaxRestarts FailurePolicyAction = "RestartJobAndIgnoreMaxRestarts"
)

// FailurePolicyRule says what follows certain failures.
type FailurePolicyRule struct {
	// name of the rule. Left out it is failurePolicyRule and the rule's index.
	// +optional
	Name string `json:"name,omitempty"`

	// action is what follows.
	// +required
	Action FailurePolicyAction `json:"action"`

	// onJobFailureReasons are reasons of Jobs for their failure, of which one fits; none
	// are all.
	// +listType=atomic
	// +optional
	OnJobFailureReasons []string `json:"onJobFailureReasons,omitempty"`

	// onJobFailureMessagePatterns are regular expressions (RE2), of which one matches the
	// message of the Job's failure; none are all messages.
	// +listType=atomic
	// +optional
	OnJobFailureMessagePatterns []string `json:"onJobFailureMessagePatterns,omitempty"`

	// targetReplicatedJobs are the roles that the rule is about; none are all.
	// +listType=atomic
	// +optional
	TargetReplicatedJobs []string `json:"targetReplicatedJobs,omitempty"`
}

// StartupPolicyOptions is an order.
// +kubebuilder:validation:Enum=AnyOrder;InOrder
type StartupPolicyOptions string

// The orders.
const (
	AnyOrder StartupPolicyOptions = "AnyOrder"
	InOrder  StartupPolicyOptions = "InOrder"
)

// StartupPolicy says in which order the roles start.
type StartupPolicy struct {
	// startupPolicyOrder is InOrder if each role waits until all Jobs of the one before
	// are ready, in the order of the list; else it is AnyOrder.
	// +required
	StartupPolicyOrder StartupPolicyOptions `json:"startupPolicyOrder"`
}

// Coordinator names a pod.
type Coordinator struct {
	// replicatedJob is its role.
	// +required
	ReplicatedJob string `json:"replicatedJob"`

	// jobIndex is the index of its Job in the role.
	// +optional
	JobIndex int32 `json:"jobIndex,omitempty"`

	// podIndex is its index in the Job.
	// +optional
	PodIndex int32 `json:"podIndex,omitempty"`
}

// VolumeClaimPolicy are volumes that are made for a JobSet.
type VolumeClaimPolicy struct {
	// templates of the claims. They are called NAME-JOBSET.
	//
	// The definition that is installed has the schema of claims in its place (see package
	// config).
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=array
	// +kubebuilder:validation:Format=volume-claims
	// +kubebuilder:validation:MaxItems=50
	// +optional
	Templates []corev1.PersistentVolumeClaim `json:"templates,omitempty"`

	// retentionPolicy says what becomes of them.
	// +optional
	RetentionPolicy *VolumeRetentionPolicy `json:"retentionPolicy,omitempty"`
}

// VolumeRetentionPolicy says what becomes of volumes.
type VolumeRetentionPolicy struct {
	// whenDeleted is Delete if they go with the JobSet, and Retain if they stay.
	// +kubebuilder:default=Delete
	// +optional
	WhenDeleted *RetentionPolicy `json:"whenDeleted,omitempty"`
}

// RetentionPolicy is what becomes of volumes.
// +kubebuilder:validation:Enum=Delete;Retain
type RetentionPolicy string

// What may become of them.
const (
	RetentionDelete RetentionPolicy = "Delete"
	RetentionRetain RetentionPolicy = "Retain"
)

// JobSetStatus is what is known of a JobSet.
type JobSetStatus struct {
	// conditions: Completed, Failed, Suspended, RestartingJobSet, StartupPolicyInProgress
	// and StartupPolicyCompleted.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// restarts is how often all Jobs were made anew.
	// +optional
	Restarts int32 `json:"restarts"`

	// restartsCountTowardsMax is how often they were by what counts. What counts of single Jobs
	// is in replicatedJobsStatus.
	// +optional
	RestartsCountTowardsMax int32 `json:"restartsCountTowardsMax,omitempty"`

	// terminalState is Completed or Failed once the JobSet has ended.
	// +optional
	TerminalState string `json:"terminalState,omitempty"`

	// currentInPlaceRestartAttempt is the in-place restart attempt that all pods have come to: those that are in it let
	// their workers run. It counts how often they began together, from 0. Absent before they first have.
	// +optional
	CurrentInPlaceRestartAttempt *int32 `json:"currentInPlaceRestartAttempt,omitempty"`

	// previousInPlaceRestartAttempt is the last one that is over: pods that are in it, or in one before, restart in
	// place. Absent before one is.
	// +optional
	PreviousInPlaceRestartAttempt *int32 `json:"previousInPlaceRestartAttempt,omitempty"`

	// replicatedJobsStatus are counts of Jobs, by role.
	// +listType=map
	// +listMapKey=name
	// +optional
	ReplicatedJobsStatus []ReplicatedJobStatus `json:"replicatedJobsStatus,omitempty"`
}

// ReplicatedJobStatus counts the Jobs of a role.
type ReplicatedJobStatus struct {
	// name of the role.
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

	// jobRestarts are how often single Jobs were made anew, by index. Empty while none was.
	// +kubebuilder:validation:MaxItems=1024
	// +listType=atomic
	// +optional
	JobRestarts []int32 `json:"jobRestarts,omitempty"`

	// jobRestartsCountTowardsMax is how often they were by what counts.
	// +kubebuilder:validation:MaxItems=1024
	// +listType=atomic
	// +optional
	JobRestartsCountTowardsMax []int32 `json:"jobRestartsCountTowardsMax,omitempty"`
}

// MostJobsTold is of how many Jobs of a role single restarts are told.
const MostJobsTold = 1024

// JobSet is a set of Jobs that belong together.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=jobsets
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="TerminalState",type=string,JSONPath=`.status.terminalState`
// +kubebuilder:printcolumn:name="Restarts",type=string,JSONPath=`.status.restarts`
// +kubebuilder:printcolumn:name="Completed",type=string,JSONPath=`.status.conditions[?(@.type=="Completed")].status`
// +kubebuilder:printcolumn:name="Suspended",type=string,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type JobSet struct {
	metav1.TypeMeta `json:",inline"`
	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants to run.
	// +optional
	Spec JobSetSpec `json:"spec,omitempty"`

	// status is what is known.
	// +optional
	Status JobSetStatus `json:"status,omitempty"`
}

// JobSetList is a list of JobSets.
// +kubebuilder:object:root=true
type JobSetList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []JobSet `json:"items"`
}
