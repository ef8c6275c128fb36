package view

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
)

// PastJob is a job that ended, in one line. Its JSON is stable.
type PastJob struct {
	Namespace string `json:"namespace"`
	Kind      Kind   `json:"kind"`
	Name      string `json:"name"`
	// Queue is the LocalQueue that it was submitted to, ClusterQueue the one whose quota it had.
	Queue        string `json:"queue,omitempty"`
	ClusterQueue string `json:"clusterQueue,omitempty"`
	Flavor       string `json:"flavor,omitempty"`
	User         string `json:"user,omitempty"`
	Priority     *int32 `json:"priority,omitempty"`
	// State is Succeeded, Failed or Cancelled; Reason its code, Message a sentence.
	State   history.JobState `json:"state"`
	Reason  string           `json:"reason,omitempty"`
	Message string           `json:"message,omitempty"`
	// ExitCode is that of the pod that failed first, or 0 of a job that succeeded; nil if nobody
	// saw one.
	ExitCode   *int32    `json:"exitCode,omitempty"`
	FailedPod  string    `json:"failedPod,omitempty"`
	FailedNode string    `json:"failedNode,omitempty"`
	Submitted  time.Time `json:"submitted"`
	// Started is when it was admitted last, nil if it never was.
	Started *time.Time `json:"started,omitempty"`
	Ended   time.Time  `json:"ended"`
	// WaitedSeconds and RanSeconds are how long it was without quota and with it, in all of its
	// runs.
	WaitedSeconds int64 `json:"waitedSeconds"`
	RanSeconds    int64 `json:"ranSeconds"`
	Pods          int32 `json:"pods"`
	GPUs          int64 `json:"gpus"`
	// Slices is how many parts of GPUs it had, by their sort; GPU-hours are without.
	Slices    map[string]int64 `json:"slices,omitempty"`
	GPUHours  float64          `json:"gpuHours"`
	Evictions int32            `json:"evictions"`
	Restarts  int32            `json:"restarts"`
	// Attempts are the last ones, AttemptsTotal sums up all; nil of a job that was never admitted.
	Attempts      []history.Attempt   `json:"attempts,omitempty"`
	AttemptsTotal *history.AttemptSum `json:"attemptsTotal,omitempty"`
	// ETTR is its effective training time ratio, as of Attempts; nil if it never ran.
	ETTR *float64 `json:"ettr,omitempty"`

	UID types.UID `json:"-"`
}
