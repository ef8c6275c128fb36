package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeHealth says what is made of signs that nodes are bad.
type NodeHealth struct {
	// Mode is Decide or Act: whether nodes are touched.
	Mode *NodeHealthMode `json:"mode,omitempty"`

	// ReturnAfter is for how long what was wrong with a node has to be gone before it takes work again. It doubles each
	// time that the trouble returns, up to ReturnAfterAtMost.
	ReturnAfter       *metav1.Duration `json:"returnAfter,omitempty"`
	ReturnAfterAtMost *metav1.Duration `json:"returnAfterAtMost,omitempty"`

	// MaxNewPercent is what share of the nodes of a flavor, and one node at least, may be taken out of service by
	// findings within an hour. 0 takes none out: what is bad is only avoided.
	MaxNewPercent *int32 `json:"maxNewPercent,omitempty"`

	// Sources say how bad findings are, before the rules that hold anyway. The first that fits decides.
	Sources []HealthSource `json:"sources,omitempty"`
}

// NodeHealthMode says whether nodes are touched.
type NodeHealthMode string

// The modes of node health.
const (
	// HealthDecide lets findings decide where jobs start, and touches no node.
	HealthDecide NodeHealthMode = "Decide"
	// HealthAct writes labels and conditions of nodes as well, so that jobs leave bad ones.
	HealthAct NodeHealthMode = "Act"
)

// HealthSource says how bad something is that a source says of a node.
type HealthSource struct {
	// Source is Condition, Taint, Label, Check, Device or Hang.
	Source string `json:"source"`

	// Name of the condition, taint, check or resource; one that ends with * is that of all that begin so.
	Name string `json:"name"`

	// Status of a condition, or value of a taint, that is bad. Left out, it is True of a condition and any of a taint.
	Status string `json:"status,omitempty"`

	// Resource whose devices it is about; left out, the node as a whole.
	Resource string `json:"resource,omitempty"`

	// Severity is Ignored, Warned, Failed or Fatal.
	Severity string `json:"severity"`
}

// Recovery says what becomes of jobs that fail, or whose nodes do.
type Recovery struct {
	// KeepNodes is for how long a job that had to be stopped because nodes failed keeps its quota and its healthy
	// nodes; 0 gives them back at once.
	KeepNodes *metav1.Duration `json:"keepNodes,omitempty"`

	// MaxStopNotice is how long a job that asks for it (annotation mlbatch.dev/stop-notice) may run on at most after it
	// was decided that it is stopped, to save what it has done; 0 stops all at once.
	MaxStopNotice *metav1.Duration `json:"maxStopNotice,omitempty"`

	// RetryPolicy says which failures of jobs are followed by another attempt, as far as neither the job nor its queues
	// say; written as in their annotation mlbatch.dev/retry-policy.
	RetryPolicy string `json:"retryPolicy,omitempty"`
}
