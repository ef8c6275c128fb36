package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// Finalizer keeps a Workload until its end is recorded.
	Finalizer = "mlbatch.dev/history"
	// UserAnnotation on a Workload is who submitted its job.
	UserAnnotation = "mlbatch.dev/user"
	// NewestAnnotation on a JobHistory is when the last of its jobs ended, in RFC 3339.
	NewestAnnotation = "mlbatch.dev/newest-record"
)

// MaxRecords is how many jobs a JobHistory tells of at most.
const MaxRecords = 64

// JobState is how a job ended.
// +kubebuilder:validation:Enum=Succeeded;Failed;Cancelled
type JobState string

// The states of jobs that ended.
const (
	Succeeded JobState = "Succeeded"
	Failed    JobState = "Failed"
	// Cancelled: it was deleted before it ended.
	Cancelled JobState = "Cancelled"
)

// JobRecord is what is kept of a job that ended.
type JobRecord struct {
	// uid of its Workload.
	// +required
	UID types.UID `json:"uid"`

	// kind of the job.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind"`

	// name of the job.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// queue is the LocalQueue that it was submitted to.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Queue string `json:"queue,omitempty"`

	// clusterQueue is the one whose quota it had last.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ClusterQueue string `json:"clusterQueue,omitempty"`

	// flavor that it had last, several with commas.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Flavor string `json:"flavor,omitempty"`

	// user who made it, where its kind says so.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	User string `json:"user,omitempty"`

	// priority it had.
	// +optional
	Priority *int32 `json:"priority,omitempty"`

	// state is how it ended.
	// +required
	State JobState `json:"state"`

	// reason is the code of why it ended.
	// +kubebuilder:validation:MaxLength=316
	// +optional
	Reason string `json:"reason,omitempty"`

	// message says why it ended.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Message string `json:"message,omitempty"`

	// exitCode of the pod that failed first.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// failedPod is the pod that failed first, failedNode where it ran.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	FailedPod string `json:"failedPod,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	// +optional
	FailedNode string `json:"failedNode,omitempty"`

	// submitted is when it was.
	// +required
	Submitted metav1.Time `json:"submitted"`

	// started is when it was admitted last; absent if it never was.
	// +optional
	Started *metav1.Time `json:"started,omitempty"`

	// ended is when it did.
	// +required
	Ended metav1.Time `json:"ended"`

	// ranSeconds is how long it had quota, in all of its runs.
	// +kubebuilder:validation:Minimum=0
	// +required
	RanSeconds int64 `json:"ranSeconds"`

	// pods is how many it consisted of, gpus how many GPUs they had together.
	// +kubebuilder:validation:Minimum=0
	// +required
	Pods int32 `json:"pods"`
	// +kubebuilder:validation:Minimum=0
	// +required
	GPUs int64 `json:"gpus"`

	// slices is how many parts of GPUs they had together, by their sort, such as mig-1g.5gb.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	Slices map[string]int64 `json:"slices,omitempty"`

	// evictions is how often it was stopped and queued again, restarts how often its pods were
	// made anew within its quota.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Evictions int32 `json:"evictions,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +optional
	Restarts int32 `json:"restarts,omitempty"`

	// attempts are its last ones, in the order in which they ended.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Attempts []Attempt `json:"attempts,omitempty"`

	// attemptsTotal sums up all of its attempts; absent if it was never admitted.
	// +optional
	AttemptsTotal *AttemptSum `json:"attemptsTotal,omitempty"`
}

// JobHistory tells of jobs of its namespace that ended, in the order in which they did. There are
// several of a namespace: each is a page of the same book. Controllers write them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=jobhistories,singular=jobhistory,shortName=hist
// +kubebuilder:printcolumn:name="Newest",type=string,JSONPath=`.metadata.annotations.mlbatch\.dev/newest-record`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type JobHistory struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// records of jobs, the one that was written last at the end.
	// +listType=map
	// +listMapKey=uid
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Records []JobRecord `json:"records,omitempty"`
}

// JobHistoryList are several of them.
//
// +kubebuilder:object:root=true
type JobHistoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []JobHistory `json:"items"`
}

// GetRecords are its records, none of nil.
func (h *JobHistory) GetRecords() []JobRecord {
	if h == nil {
		return nil
	}
	return h.Records
}
