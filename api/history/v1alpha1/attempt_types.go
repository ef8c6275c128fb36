package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxAttempts is how many attempts of a job are told of one by one: the last. Those before are summed up.
const MaxAttempts = 16

// What is told of an attempt at most: nodes by name, and bytes of texts.
const (
	MaxAttemptNodes   = 8
	MaxAttemptReason  = 64
	MaxAttemptMessage = 160
)

// CheckpointAnnotation of a job is when it last saved what it has done, in RFC 3339. The job writes it, or
// whoever watches it: what it did before that is not lost when it is stopped or fails.
const CheckpointAnnotation = "mlbatch.dev/last-checkpoint"

// Attempt is one run of a job, from the moment at which it had quota and could make pods to that at which
// it was stopped, failed, or ended; or, with replacedPods, one run of some of its pods, which were made
// anew while the others ran on.
type Attempt struct {
	// start of it: admission, or the failure before it that cost no quota.
	// +required
	Start metav1.Time `json:"start"`

	// ready is when all pods ran; absent if they never did, or nobody said.
	// +optional
	Ready *metav1.Time `json:"ready,omitempty"`

	// checkpoint is the last one that the job told of; absent if it told of none.
	// +optional
	Checkpoint *metav1.Time `json:"checkpoint,omitempty"`

	// end of it; absent while it is under way.
	// +optional
	End *metav1.Time `json:"end,omitempty"`

	// category of the cause that ended it; absent of one that is under way or ended well.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Category string `json:"category,omitempty"`

	// reason is the code of why it ended, message says it in words.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`
	// +kubebuilder:validation:MaxLength=160
	// +optional
	Message string `json:"message,omitempty"`

	// replacedPods is how many pods were made anew while the others ran on; absent if all ended. Those that one fault took
	// within a minute are one entry, which ended when it took the first.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ReplacedPods int32 `json:"replacedPods,omitempty"`

	// nodeCount is on how many nodes it ran, as far as that was planned or seen; nodes are the first of them.
	// +kubebuilder:validation:Minimum=0
	// +optional
	NodeCount int32 `json:"nodeCount,omitempty"`
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Nodes []string `json:"nodes,omitempty"`

	// failedNodes are those that were the cause, or where the pod that failed first ran.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +optional
	FailedNodes []string `json:"failedNodes,omitempty"`

	// pod is the one that failed first, rank its rank in the job, exitCode that of its container.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Pod string `json:"pod,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +optional
	Rank *int32 `json:"rank,omitempty"`
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// gpus is how many GPUs the pods that ended had together.
	// +kubebuilder:validation:Minimum=0
	// +optional
	GPUs int64 `json:"gpus,omitempty"`

	// gpuSeconds are those times the seconds from start to end; lostGPUSeconds those of them since the
	// last checkpoint, all if the job told of none, and none if it ended well.
	// +kubebuilder:validation:Minimum=0
	// +optional
	GPUSeconds int64 `json:"gpuSeconds,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +optional
	LostGPUSeconds int64 `json:"lostGPUSeconds,omitempty"`
}

// AttemptSum sums up attempts.
type AttemptSum struct {
	// attempts is how many there were, replacements how often only some pods were made anew, however many.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replacements int32 `json:"replacements,omitempty"`

	// start of the first.
	// +optional
	Start *metav1.Time `json:"start,omitempty"`

	// ranSeconds is how long they took, productiveSeconds how much of that was no start of pods and was
	// not lost.
	// +kubebuilder:validation:Minimum=0
	// +optional
	RanSeconds int64 `json:"ranSeconds,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +optional
	ProductiveSeconds int64 `json:"productiveSeconds,omitempty"`

	// gpuSeconds and lostGPUSeconds are those of all attempts.
	// +kubebuilder:validation:Minimum=0
	// +optional
	GPUSeconds int64 `json:"gpuSeconds,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +optional
	LostGPUSeconds int64 `json:"lostGPUSeconds,omitempty"`

	// categories is how many ended by each category of causes, those of pods that were replaced included.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	Categories map[string]int32 `json:"categories,omitempty"`
}

// Attempts are those of a job, the last ones one by one and those before summed up.
type Attempts struct {
	// earlierAttempts sums up those before attempts.
	// +optional
	Earlier *AttemptSum `json:"earlierAttempts,omitempty"`

	// attempts are the last ones, in the order in which they ended.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Attempts []Attempt `json:"attempts,omitempty"`
}
