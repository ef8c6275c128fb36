package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What is kept of a job that hangs at most: ranks, lines of the log of each, and bytes of all logs together.
const (
	MaxEvidenceRanks = 64
	MaxEvidenceLines = 40
	MaxEvidenceBytes = 160 << 10
)

// WorkloadUIDLabel of a JobEvidence is the UID of the Workload of its job.
const WorkloadUIDLabel = "mlbatch.dev/workload-uid"

// EvidenceRank is what was found of one rank of a job.
type EvidenceRank struct {
	// rank in the job, from 0.
	// +kubebuilder:validation:Minimum=0
	// +required
	Rank int32 `json:"rank"`

	// pod that has it, and its node.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Pod string `json:"pod"`
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Node string `json:"node,omitempty"`

	// phase of the pod, reason what Kubernetes says of it or of its container, restarts how often its container was
	// started again.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Phase string `json:"phase,omitempty"`
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Reason string `json:"reason,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +optional
	Restarts int32 `json:"restarts,omitempty"`

	// step is the last one that it told of; absent if it told of none.
	// +optional
	Step *int64 `json:"step,omitempty"`

	// log are the last lines that it wrote, noLog says why there are none.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Log string `json:"log,omitempty"`
	// +kubebuilder:validation:MaxLength=512
	// +optional
	NoLog string `json:"noLog,omitempty"`
}

// JobEvidence is what was found of a job that hangs, before anything was done about it. Controllers write it, and keep
// it as long as they keep the record of the job.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=jobevidences,singular=jobevidence
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.jobKind`
// +kubebuilder:printcolumn:name="Job",type=string,JSONPath=`.job`
// +kubebuilder:printcolumn:name="Taken",type=date,JSONPath=`.taken`
type JobEvidence struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// workload is the UID of its Workload.
	// +required
	Workload types.UID `json:"workload"`

	// jobKind and job name the job.
	// +kubebuilder:validation:MaxLength=63
	// +required
	JobKind string `json:"jobKind"`
	// +kubebuilder:validation:MaxLength=253
	// +required
	Job string `json:"job"`

	// taken is when this was found.
	// +required
	Taken metav1.Time `json:"taken"`

	// message says since when it hangs, and who is behind.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// pods is how many there were, ranks what was found of them: of those that are behind and of the first ones.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Pods int32 `json:"pods,omitempty"`
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Ranks []EvidenceRank `json:"ranks,omitempty"`
}

// JobEvidenceList are several of them.
//
// +kubebuilder:object:root=true
type JobEvidenceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []JobEvidence `json:"items"`
}
