package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/agent/reading"
)

// Memory is what the last run of each check found, by name. It is as much as the annotation of the Node holds, so
// that an agent which starts anew knows as much as the one before it.
type Memory map[string]health.Check

// Remember is the memory after an outcome. What is fatal stays until a deep test that came after it has passed:
// a light check that finds nothing has not looked at what broke. What is less bad stays until a run comes to an end:
// one that could not look has found nothing better.
func (m Memory) Remember(o *reading.Outcome) Memory {
	out := maps.Clone(m)
	if out == nil {
		out = Memory{}
	}
	now := checkOf(o)
	passed := o.Deep && o.Result == health.Passed
	looked := now.Result != health.Unknown && now.Result != health.Skipped
	switch old := out[o.Check]; old.Result {
	case health.Fatal:
		if now.Result != health.Fatal && !passed {
			return out
		}
	case health.Warned, health.Failed:
		if !looked {
			return out
		}
	case health.Passed, health.Skipped, health.Unknown:
	}
	out[o.Check] = now
	if !passed {
		return out
	}
	for name, c := range out {
		if c.Result == health.Fatal && !c.At.After(o.At) {
			out[name] = health.Check{
				Name: name, Result: health.Passed, At: now.At, Message: "cleared: a deep test of the GPUs passed",
			}
		}
	}
	return out
}

// checkOf is an outcome as it is told, cut to what a report has room for.
func checkOf(o *reading.Outcome) health.Check {
	c := health.Check{
		Name: o.Check, Result: o.Result, At: metav1.NewTime(o.At.UTC().Truncate(time.Second)), Deep: o.Deep,
		Message: reading.Readable(o.Message, health.MaxCheckMessage),
	}
	for _, d := range o.Concerned() {
		if len(c.Devices) < health.MaxDevices {
			c.Devices = append(c.Devices, reading.Readable(d, 63))
		}
	}
	return c
}

// Report is the memory as it is written.
func (m Memory) Report(at time.Time, version string) health.Report {
	r := health.Report{At: metav1.NewTime(at.UTC().Truncate(time.Second)), Agent: reading.Readable(version, 64)}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if len(r.Checks) < health.MaxChecks {
			r.Checks = append(r.Checks, m[name])
		}
	}
	return r
}

// MemoryOf is what a report says.
func MemoryOf(r *health.Report) Memory {
	m := Memory{}
	for _, c := range r.Checks {
		m[c.Name] = c
	}
	return m
}

// written is a report as text. One that is too long loses messages before it loses findings.
func written(r health.Report) (string, error) {
	text, err := json.Marshal(r)
	for most := health.MaxDevices; err == nil && len(text) > health.MaxReportBytes && most > 0; most /= 2 {
		r.Checks = slices.Clone(r.Checks)
		for i := range r.Checks {
			c := &r.Checks[i]
			c.Message = reading.Readable(c.Message, 4*most)
			c.Devices = c.Devices[:min(len(c.Devices), most/2)]
		}
		text, err = json.Marshal(r)
	}
	if err != nil {
		return "", fmt.Errorf("write the report: %w", err)
	}
	return string(text), nil
}

// Same reports whether two memories tell the same: times do not count.
func (m Memory) Same(other Memory) bool {
	return reflect.DeepEqual(m.timeless(), other.timeless())
}

func (m Memory) timeless() map[string]health.Check {
	out := map[string]health.Check{}
	for name, c := range m {
		c.At, c.Devices = metav1.Time{}, append([]string{}, c.Devices...)
		out[name] = c
	}
	return out
}

// DeepPass is when a deep test last passed.
func (m Memory) DeepPass() time.Time {
	if c := m[DeepCheck]; c.Deep && c.Result == health.Passed {
		return c.At.Time
	}
	return time.Time{}
}

// Labels of Nodes that this agent writes, and what it notes of them.
const (
	// HealthLabel is Autopilot's.
	HealthLabel = "autopilot.ibm.com/gpuhealth"
	// LabelNote is an annotation with the value that this agent gave the label: another value is somebody else's.
	LabelNote = "mlbatch.dev/agent-label"
	// CertificateNote is an annotation with the SHA-256 of the certificate that this agent shows.
	CertificateNote = "mlbatch.dev/agent-certificate"
	// drained is the annotation of nodes that `mlbatch drain` took out of service.
	drained = "mlbatch.dev/drained"
)

// Values of the label.
const (
	labelPass    = "PASS"
	labelWarn    = "WARN"
	labelTesting = "TESTING"
	labelEvict   = "EVICT"
)

// Label is the value that a memory gives, "" if it says nothing of the GPUs. A neighbour that does not answer is no
// fault of this node.
func (m Memory) Label() string {
	value := ""
	for name, c := range m {
		switch {
		case c.Result == health.Fatal:
			return labelEvict
		case c.Result == health.Failed, c.Result == health.Warned && name != "ping" && name != "iperf":
			value = labelWarn
		case c.Result == health.Passed && value == "":
			value = labelPass
		}
	}
	return value
}

// Relabel is the value that the label of a node is to get, and whether it is to be written at all. TESTING and EVICT
// of somebody else stay, as does all of a node that was drained.
func Relabel(n *Node, want string) (value string, write bool) {
	has, ours := n.Labels[HealthLabel], n.Annotations[LabelNote]
	_, out := n.Annotations[drained]
	foreign := (has == labelTesting || has == labelEvict) && has != ours
	if want == "" || want == has && want == ours || out || foreign {
		return has, false
	}
	return want, true
}

// status is the word for a node in answers for Autopilot's scripts.
func status(outcomes []reading.Outcome) []string {
	var out []string
	for i := range outcomes {
		o := &outcomes[i]
		c := CheckOf(o.Check)
		bad := o.Result == health.Warned || o.Result == health.Failed || o.Result == health.Fatal
		if bad && c != nil && !slices.Contains(out, c.Failed) {
			out = append(out, c.Failed)
		}
	}
	if out == nil {
		return []string{"OK"}
	}
	return out
}

// mark is the word for an outcome in those answers.
func mark(r health.Result) string {
	switch r {
	case health.Passed:
		return "SUCCESS"
	case health.Skipped:
		return "SKIP"
	case health.Unknown:
		return "ABORT"
	case health.Warned, health.Failed, health.Fatal:
		return "FAIL"
	}
	return "ERR"
}

// Text is an outcome as Autopilot's scripts read it: a marker, the host, what was found, and a last line of numbers.
func Text(node string, o *reading.Outcome) string {
	marker := strings.ToUpper(o.Check)
	if c := CheckOf(o.Check); c != nil {
		marker = c.Marker
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[[ %s ]] %s\n", reading.Readable(marker, health.MaxCheckMessage), mark(o.Result))
	fmt.Fprintf(&b, "Host %s\n", node)
	if o.Message != "" {
		fmt.Fprintf(&b, "%s\n", reading.Readable(o.Message, 4*health.MaxCheckMessage))
	}
	var named bool
	for i := range o.Findings {
		named = named || o.Findings[i].Device != ""
	}
	if named {
		fmt.Fprintf(&b, "%s\n", reading.Tidy(o.Findings))
	}
	return b.String()
}
