package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
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

	// DeepTest has the GPUs of nodes tested by Jobs of mlbatch's own. Left out, none are.
	DeepTest *DeepTest `json:"deepTest,omitempty"`
}

// DeepTest says which nodes are tested when, and by what.
type DeepTest struct {
	// Image has mlbatch, and runs the test unless ToolsImage is set: an image with the tools that the test runs, such as
	// NVIDIA's of DCGM, into which mlbatch is then copied.
	Image      string `json:"image"`
	ToolsImage string `json:"toolsImage,omitempty"`

	// Command that tests; left out, it is mlbatch agent check --deep. 0 is a pass, 2, 3, 125 to 128, 137 and 143 say
	// nothing, any other exit code is a failure.
	Command []string `json:"command,omitempty"`

	// RuntimeClassName is the runtime that shows containers the GPUs, where it is not the default.
	RuntimeClassName string `json:"runtimeClassName,omitempty"`

	// Namespace of the tests, with a LocalQueue, in which nobody else may make anything. Default: mlbatch-tests.
	Namespace string `json:"namespace,omitempty"`

	// Queue is the LocalQueue by which nodes in service are tested. Default: deep-tests.
	Queue string `json:"queue,omitempty"`

	// PriorityClass is the WorkloadPriorityClass of these tests. Default: deep-tests.
	PriorityClass string `json:"priorityClass,omitempty"`

	// Flavors are those whose nodes are tested; left out, it is all.
	Flavors []string `json:"flavors,omitempty"`

	// Every is how long after its last test a node in service is tested again, when it is idle; 0s is never. Default: 168h.
	Every *metav1.Duration `json:"every,omitempty"`

	// AfterFault has nodes tested on which something fatal was found, once they are idle. Default: true.
	AfterFault *bool `json:"afterFault,omitempty"`

	// OnReturn has nodes that somebody cleared of what was fatal wait for a test before they are used. Default: true.
	OnReturn *bool `json:"onReturn,omitempty"`

	// MaxAtOnce is how many nodes of a flavor are tested at once, or what share of them, such as 5%; one at least.
	// Default: 1.
	MaxAtOnce *intstr.IntOrString `json:"maxAtOnce,omitempty"`

	// Deadline is how long a test may take. Default: 3h.
	Deadline *metav1.Duration `json:"deadline,omitempty"`
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

	// Severity is Ignored, Warned, Failed or Fatal; of Hang one of the first two.
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
