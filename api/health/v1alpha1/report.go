package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ChecksAnnotation of a Node has a Report in JSON: what the last run of each check on it found.
const ChecksAnnotation = "mlbatch.dev/checks"

// Bounds of a report. What is beyond them is cut by who writes it, and refused by Read.
const (
	MaxReportBytes  = 16 << 10
	MaxChecks       = 32
	MaxDevices      = 32
	MaxCheckMessage = 256
)

// Report is what checks on a node found.
type Report struct {
	// At is when it was written. A report that is much older than the period of the checks says that nobody
	// looks any more, and not that all is well.
	At metav1.Time `json:"at"`
	// Agent is the version of the program that wrote it.
	Agent string `json:"agent,omitempty"`
	// Checks by name, each name once, sorted by it.
	Checks []Check `json:"checks,omitempty"`
}

// Check is one check and what its last run found.
type Check struct {
	// Name, as users name it in requests and find it in metrics: pciebw, remapped, gpupower, gpumem, dcgm,
	// ping, pvc, xid, iperf.
	Name string `json:"name"`
	// Result of the last run.
	Result Result `json:"result"`
	// At is when the run ended.
	At metav1.Time `json:"at"`
	// Deep is true of a run that used the GPUs for itself, as dcgmi diag -r 3 does: only such a run may
	// clear a fatal finding.
	Deep bool `json:"deep,omitempty"`
	// Devices that it concerns, by index as nvidia-smi counts, or the names of other nodes for ping and
	// iperf; none if it concerns the node as a whole.
	Devices []string `json:"devices,omitempty"`
	// Message says in a few words what is wrong, or why the check could not run.
	Message string `json:"message,omitempty"`
}

// Result is what a check found, in one word.
type Result string

// The results, best first.
const (
	// Passed: nothing is wrong.
	Passed Result = "Passed"
	// Skipped: it does not apply, as checks of GPUs that are in use, or cannot run: a tool is missing.
	Skipped Result = "Skipped"
	// Unknown: it ran and came to no end, or its tool answered what nobody understands.
	Unknown Result = "Unknown"
	// Warned: something is worse than it should be; jobs may run on.
	Warned Result = "Warned"
	// Failed: new jobs should not start here; those that run may be well.
	Failed Result = "Failed"
	// Fatal: what runs on these devices is lost or wrong, and has to leave.
	Fatal Result = "Fatal"
)

// Read is the report that a Node's annotation holds. It fails if that is no report or goes beyond the
// bounds; none is no error, and an empty one.
func Read(annotations map[string]string) (Report, error) {
	var r Report
	text, found := annotations[ChecksAnnotation]
	if !found {
		return r, nil
	}
	if len(text) > MaxReportBytes {
		return r, fmt.Errorf("%s has %d bytes, more than %d", ChecksAnnotation, len(text), MaxReportBytes)
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Report{}, fmt.Errorf("%s: %w", ChecksAnnotation, err)
	}
	if len(r.Checks) > MaxChecks {
		return Report{}, fmt.Errorf("%s has %d checks, more than %d", ChecksAnnotation, len(r.Checks), MaxChecks)
	}
	for i, c := range r.Checks {
		switch c.Result {
		case Passed, Skipped, Unknown, Warned, Failed, Fatal:
		default:
			return Report{}, fmt.Errorf("%s: checks[%d].result is %q, which is none", ChecksAnnotation, i, c.Result)
		}
	}
	return r, nil
}
