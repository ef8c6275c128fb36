package nodehealth

import (
	"strings"

	"github.com/mlbatch/mlbatch/internal/core"
)

// HealthLabel is the node label by which GPU checks tell their result.
const HealthLabel = "autopilot.ibm.com/gpuhealth"

// Evict is the value of HealthLabel by which pods with GPUs are told to leave a node.
const Evict = "EVICT"

// testingMark is the value of HealthLabel while a test has the GPUs.
const testingMark = "TESTING"

// marks are the values of HealthLabel that say something bad, and the state of a node with GPUs
// that each stands for. Several generations of health checks write them: ERR comes from older ones,
// WARN and TESTING from newer ones. PASS, no value and unknown values say nothing bad. What is
// done about a state is the same for all values: see core.NodeState.
func marks() []mark {
	return []mark{
		{"ERR", core.NodeClosed},
		{testingMark, core.NodeClosed},
		{Evict, core.NodeEvicted},
		{"WARN", core.NodeWarned},
	}
}

// IsTest reports whether the health label says that a test has the GPUs.
func IsTest(labels map[string]string) bool {
	return strings.EqualFold(strings.TrimSpace(labels[HealthLabel]), testingMark)
}

type mark struct {
	value string
	state core.NodeState
}

// MarkedState is the state that the health label alone says a node with GPUs to be in, NodeReady if
// the label says nothing bad. Case and spaces of the value do not matter.
func MarkedState(labels map[string]string) core.NodeState { return marked(labels[HealthLabel]) }

func marked(value string) core.NodeState {
	value = strings.TrimSpace(value)
	for _, m := range marks() {
		if strings.EqualFold(value, m.value) {
			return m.state
		}
	}
	return core.NodeReady
}

// Marks are the values of the health label whose state is asked for, as health checks write them.
func Marks(asked func(core.NodeState) bool) []string {
	var values []string
	for _, m := range marks() {
		if asked(m.state) {
			values = append(values, m.value)
		}
	}
	return values
}
