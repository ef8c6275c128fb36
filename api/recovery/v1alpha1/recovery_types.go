package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
)

// JobRecovery is what is remembered of one job whose pods mlbatch makes, from one look at it to the
// next. It has the UID of the job as its name and the job as its controller, and goes with it. The
// controller alone writes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=jobrecoveries,singular=jobrecovery
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.metadata.ownerReferences[0].kind`
// +kubebuilder:printcolumn:name="Job",type=string,JSONPath=`.metadata.ownerReferences[0].name`
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.attempt`
// +kubebuilder:printcolumn:name="Failures",type=integer,JSONPath=`.failures`
// +kubebuilder:printcolumn:name="Outcome",type=string,JSONPath=`.outcome`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type JobRecovery struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Recovery `json:",inline"`
}

// JobRecoveryList are several of them.
//
// +kubebuilder:object:root=true
type JobRecoveryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []JobRecovery `json:"items"`
}

// Of returns what an object remembers of a job; nil if it is none of the job's. A job's object has the
// job's UID for its name and the job for its controller.
func (r *JobRecovery) Of(job metav1.Object) *Recovery {
	if r == nil || r.Name != string(job.GetUID()) || r.Namespace != job.GetNamespace() ||
		!metav1.IsControlledBy(r, job) {
		return nil
	}
	return &r.Recovery
}

// Recovery is what is kept of a job between two looks at it. Nothing else is remembered:
// a controller that starts anew goes on from here and from the pods that there are.
type Recovery struct {
	// startTime is when the job last began to make pods. It is absent while it has none
	// and will have none: before it starts, and while it is suspended.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// attempt counts how often all pods were made anew.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// failures counts failed pods that were made anew, each run in them once.
	// +optional
	Failures int32 `json:"failures,omitempty"`

	// freeFailures counts those that a rule counts against no limit.
	// +optional
	FreeFailures int32 `json:"freeFailures,omitempty"`

	// rule is the name of the one that the last failure fitted.
	// +optional
	Rule string `json:"rule,omitempty"`

	// counted are UIDs of pods that failures has and that may still be there.
	// +listType=set
	// +optional
	Counted []types.UID `json:"counted,omitempty"`

	// lastFailureTime is when the last of them was counted.
	// +optional
	LastFailureTime *metav1.Time `json:"lastFailureTime,omitempty"`

	// inPlace is what is remembered of a job whose pods restart in place.
	// +optional
	InPlace *InPlace `json:"inPlace,omitempty"`

	// done are the pods that succeeded. They stay done when they are removed.
	// +listType=map
	// +listMapKey=role
	// +optional
	Done []Done `json:"done,omitempty"`

	// outcome is how the job ended, Succeeded or Failed.
	// +optional
	Outcome string `json:"outcome,omitempty"`

	// reason and message say why it failed.
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`

	// endTime is when it ended.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`

	// Attempts of the job that failed and cost it no quota, since all its pods were made anew, or
	// some.
	history.Attempts `json:",inline"`
}

// InPlace is what is remembered of a job whose pods restart in place.
type InPlace struct {
	// current is the in-place restart attempt that all pods have come to last.
	// +optional
	Current int32 `json:"current,omitempty"`

	// next is the one that they are to come to; current, if they have.
	// +optional
	Next int32 `json:"next,omitempty"`

	// previous is the last one in which pods are told to restart; absent if none is.
	// +optional
	Previous *int32 `json:"previous,omitempty"`

	// since is when they were last told to come to next; absent if they were not.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// failures counts restarts in place; freeFailures those that count against no limit.
	// +optional
	Failures int32 `json:"failures,omitempty"`
	// +optional
	FreeFailures int32 `json:"freeFailures,omitempty"`
}

// Done are pods of a role that succeeded.
type Done struct {
	// role of the pods.
	Role string `json:"role"`
	// indexes of the pods, such as "0-3,7".
	Indexes string `json:"indexes"`
}

// Labels of the pods and services that mlbatch makes for a job.
const (
	// JobLabel is the UID of the job.
	JobLabel = "mlbatch.dev/job-uid"
	// RoleLabel and IndexLabel say which of its pods it is.
	RoleLabel  = "mlbatch.dev/role"
	IndexLabel = "mlbatch.dev/index"
	// AttemptLabel says how often all were made anew before.
	AttemptLabel = "mlbatch.dev/attempt"
)

// Annotations of the pods that mlbatch makes for a job, and of its JobRecovery.
const (
	// FailuresAnnotation is how many failures of its job a pod follows.
	FailuresAnnotation = "mlbatch.dev/failures"
	// CarriedAnnotation of a JobRecovery that was made of what an earlier version kept in the job's
	// status is the version of the job that this was read of.
	CarriedAnnotation = "mlbatch.dev/carried-over"
	// VersionAnnotation is a sum of what its job asked for when it was made.
	VersionAnnotation = "mlbatch.dev/made-from"
)
