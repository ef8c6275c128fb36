package nodehealth

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Source says who found something.
type Source string

// The sources of findings.
const (
	// SourceCondition is a condition of the Node: node-problem-detector's, NVSentinel's and those of others.
	SourceCondition Source = "Condition"
	// SourceTaint is a taint of the Node.
	SourceTaint Source = "Taint"
	// SourceLabel is a label of the Node, as Autopilot's deep test leaves one; not HealthLabel.
	SourceLabel Source = "Label"
	// SourceCheck is a check of the agent on the node.
	SourceCheck Source = "Check"
	// SourceDevice is a device of a running pod that its kubelet calls unhealthy.
	SourceDevice Source = "Device"
)

// Sources are all of them.
func Sources() []Source {
	return []Source{SourceCondition, SourceTaint, SourceLabel, SourceCheck, SourceDevice, SourceHang}
}

// Severity says how bad a finding is.
type Severity string

// The severities, best first.
const (
	// Ignored says nothing.
	Ignored Severity = "Ignored"
	// Warned: something is worse than it should be; other nodes are better.
	Warned Severity = "Warned"
	// Failed: nothing new should start here.
	Failed Severity = "Failed"
	// Fatal: what runs here is lost or wrong, and nothing starts until a deep test passed or somebody said so.
	Fatal Severity = "Fatal"
)

// Severities are all of them, best first.
func Severities() []Severity { return []Severity{Ignored, Warned, Failed, Fatal} }

// rank orders severities; what is none has the least.
func (s Severity) rank() int { return max(slices.Index(Severities(), s), 0) }

// Finding is one thing that a source found wrong.
type Finding struct {
	Source Source `json:"source"`
	// Name of the condition, taint, label, check or resource.
	Name string `json:"name"`
	// Resource whose devices it concerns, "" for the node as a whole.
	Resource string `json:"resource,omitempty"`
	// Device that it concerns, where the source says which; several with a comma between.
	Device   string   `json:"device,omitempty"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message,omitempty"`
	// Since when it is so; zero if the source does not say.
	Since time.Time `json:"since,omitzero"`
}

// mostMessage bounds what is kept of a message, mostDevices what is kept of the names of devices: those of eight GPUs
// have 327 bytes.
const (
	mostMessage = 100
	mostDevices = 400
)

// Words say what was found, by whom.
func (f Finding) Words() string {
	text := strings.ToLower(string(f.Source)) + " " + f.Name
	if f.Device != "" {
		text += " of " + f.Device
	}
	if f.Message != "" {
		text += " (" + f.Message + ")"
	}
	return text
}

// key tells findings apart that have no time of their own. It has the value of a label or taint: Autopilot's says when
// a test failed, and another one is new. It is short whatever it is made of: devices are there by their sums.
func (f Finding) key() string {
	text := string(f.Source) + "/" + f.Name
	if f.Source == SourceLabel || f.Source == SourceTaint {
		text += "=" + f.Message // which is their value
	}
	if len(text) > mostMessage {
		text = cut(text) + sum(text)
	}
	text += "/"
	for i, device := range strings.Split(f.Device, ",") {
		if i > 0 {
			text += ","
		}
		if device != "" {
			text += sum(device)
		}
	}
	return text
}

func sum(text string) string {
	h := fnv.New32a()
	h.Write([]byte(text))
	return strconv.FormatUint(uint64(h.Sum32()), 36)
}

// within reports whether a key is of the same as another, of the same devices or of fewer: that one of several devices
// is not found any more is nothing new.
func within(key, of string) bool {
	i, j := strings.LastIndexByte(key, '/'), strings.LastIndexByte(of, '/')
	if i < 0 || j < 0 || key[:i] != of[:j] {
		return key == of
	}
	all := strings.Split(of[j+1:], ",")
	for device := range strings.SplitSeq(key[i+1:], ",") {
		if !slices.Contains(all, device) {
			return false
		}
	}
	return true
}

// same reports whether two findings differ in words at most.
func (f Finding) same(o Finding) bool {
	return f.key() == o.key() && f.Severity == o.Severity
}

func cut(text string) string { return cutTo(text, mostMessage) }

func cutTo(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// Rule says how bad what a source says is. The first that fits decides.
type Rule struct {
	Source Source
	// Name is that of what is found; one that ends with * fits all that begin so.
	Name string
	// Status of a condition, value of a taint, or word before the first _ of a label, that is bad; "" is any, but False
	// of a condition.
	Status string
	// Resource whose devices it is about, "" for the node as a whole. Checks and devices say it themselves.
	Resource string
	Severity Severity
}

func (r Rule) fits(source Source, name, status string) bool {
	if r.Source != source || r.Status != "" && !strings.EqualFold(r.Status, status) {
		return false
	}
	if prefix, many := strings.CutSuffix(r.Name, "*"); many {
		return strings.HasPrefix(name, prefix)
	}
	return r.Name == name
}

// AutopilotDeep is the label that Autopilot's deep test leaves: ERR_ or PASS_ and a time.
const AutopilotDeep = "autopilot.ibm.com/dcgm.level.3"

// DefaultRules are those that hold where the configuration has none that fits. What fits no rule says nothing, but
// checks of the agent and devices, which say themselves how bad they are.
func DefaultRules() []Rule {
	yes := func(name, resource string, s Severity) Rule {
		return Rule{Source: SourceCondition, Name: name, Status: "True", Resource: resource, Severity: s}
	}
	return []Rule{
		// node-problem-detector
		yes("KernelDeadlock", "", Failed),
		yes("ReadonlyFilesystem", "", Failed),
		yes("KubeletUnhealthy", "", Failed),
		yes("ContainerRuntimeUnhealthy", "", Failed),
		yes("CorruptDockerOverlay2", "", Warned),
		yes("FrequentKubeletRestart", "", Warned),
		yes("FrequentDockerRestart", "", Warned),
		yes("FrequentContainerdRestart", "", Warned),
		yes("FrequentUnregisterNetDevice", "", Warned),
		yes("XfsShutdown", "", Failed),
		// NVSentinel
		yes("GpuPowerWatch", core.GPU, Warned),
		yes("GpuThermalWatch", core.GPU, Warned),
		yes("Gpu*", core.GPU, Failed),
		yes("SysLogs*", core.GPU, Failed),
		// Autopilot
		{Source: SourceLabel, Name: AutopilotDeep, Status: "ERR", Resource: core.GPU, Severity: Failed},
	}
}

// Observed is what is seen of a node besides Signals.
type Observed struct {
	Conditions []Condition
	Taints     []core.Taint
	Labels     map[string]string
	// Checks and Devices are findings that their sources judge; those without a severity are Failed.
	Checks, Devices []Finding
}

// Condition is one of a Node.
type Condition struct {
	Type, Status, Reason, Message string
	Since                         time.Time
}

// ownConditions are those by which kubelets say what Classify judges, and our own.
func ownConditions() []string {
	return []string{
		"Ready", "DiskPressure", "MemoryPressure", "PIDPressure", "NetworkUnavailable", ConditionType,
	}
}

// ConditionType is that of the condition in which mlbatch tells how a node is.
const ConditionType = "mlbatch.dev/Healthy"

// Findings are what is wrong with a node by the rules, worst first; equal ones by source and name.
func Findings(rules []Rule, o Observed) []Finding {
	var out []Finding
	add := func(f Finding, status string, own bool) {
		i := slices.IndexFunc(rules, func(r Rule) bool { return r.fits(f.Source, f.Name, status) })
		if i < 0 && !own {
			return
		}
		if i >= 0 {
			f.Severity = rules[i].Severity
			if rules[i].Resource != "" {
				f.Resource = rules[i].Resource
			}
		}
		if f.Severity.rank() > 0 {
			f.Name, f.Resource, f.Message = cut(f.Name), cut(f.Resource), cut(f.Message)
			f.Device = cutTo(f.Device, mostDevices)
			out = append(out, f)
		}
	}
	for _, c := range o.Conditions {
		if slices.Contains(ownConditions(), c.Type) || c.Status == "False" && !asks(rules, c) {
			continue
		}
		add(
			Finding{Source: SourceCondition, Name: c.Type, Message: cmp.Or(c.Message, c.Reason), Since: c.Since},
			c.Status,
			false,
		)
	}
	for _, t := range o.Taints {
		add(Finding{Source: SourceTaint, Name: t.Key, Message: t.Value}, t.Value, false)
	}
	for name, value := range o.Labels {
		if name != HealthLabel { // which Classify takes at its word
			word, _, _ := strings.Cut(value, "_")
			add(Finding{Source: SourceLabel, Name: name, Message: value}, word, false)
		}
	}
	for _, f := range slices.Concat(o.Checks, o.Devices) {
		f.Severity = cmp.Or(f.Severity, Failed)
		add(f, "", true)
	}
	slices.SortFunc(out, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity.rank(), a.Severity.rank()), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Device, b.Device), a.Since.Compare(b.Since))
	})
	return out
}

// asks reports whether a rule says that False is bad of a condition.
func asks(rules []Rule, c Condition) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool {
		return strings.EqualFold(r.Status, "False") && r.fits(SourceCondition, c.Type, "False")
	})
}
