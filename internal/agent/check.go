package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/agent/reading"
)

// Names of tools.
const (
	nvidiaSMI   = "nvidia-smi"
	amdSMI      = "amd-smi"
	dcgmi       = "dcgmi"
	nvbandwidth = "nvbandwidth"
)

// DeepCheck is the test that has the GPUs for itself. It has a name of its own, so that a light check does not
// write over what it found.
const DeepCheck = "invasive"

// Check is one thing that is looked at.
type Check struct {
	Name string
	// Marker stands before its lines in answers, Failed is the word for nodes on which it fails, and Metric its name
	// among Autopilot's metrics.
	Marker, Failed, Metric string
	// About says to people what it looks at.
	About string
	// GPU checks are left out on nodes without GPUs.
	GPU bool
	// Tools are those of which it needs one; the first that is there is used. None means that it needs none.
	Tools []string
	// Deadline is when it has to have ended. What it found until then counts.
	Deadline time.Duration
	// Heavy checks load the GPUs or the network, and run only when asked for. Deep ones need the GPUs for
	// themselves, and run only where nobody holds any.
	Heavy, Deep bool
	// Shared checks load the API server, other nodes or storage: not all nodes run them at the same time.
	Shared bool
	// Free checks wait for no others: they only read a file.
	Free bool
	// Arguments and Parse are of a check that runs a tool and reads what that prints.
	Arguments func(tool string, r *Run) []string
	Parse     func(r *Run, tool string, out Output) reading.Outcome
	// Probe is of a check that does more than that.
	Probe func(ctx context.Context, r *Run) reading.Outcome
}

// Run is what a run of checks has at hand.
type Run struct {
	Node, Namespace, Pod string
	Config               Config
	Tools                Tools
	Cluster              Cluster
	// KernelLog is a file, "" if there is none.
	KernelLog string
	// Level is that of dcgmi diag, 0 for that of the check.
	Level int
	// Hosts are nodes that ping and iperf are to reach; nil has them choose some.
	Hosts []string
	// Hardware and Programs are since when errors of each in the kernel log count.
	Hardware, Programs time.Time
	// Agents are the agents of all nodes, as they were some time ago at most.
	Agents func(ctx context.Context, within time.Duration) ([]Peer, error)
	// Network reaches other nodes.
	Network Network
	// Models are those of GPUs that were seen, by their indexes.
	Models map[string]string
	// Random chooses neighbours: a number below n.
	Random func(n int) int
}

// Checks are all, in the order in which they run.
func Checks() []Check {
	smi := []string{nvidiaSMI, amdSMI}
	const light = time.Minute
	return []Check{
		{
			Name: "remapped", Marker: "REMAPPED ROWS", Failed: "REMAPPED ROWS Failed", Metric: "remapped",
			About: "rows of GPU memory that wait to be replaced, or could not be", GPU: true,
			Tools: smi, Deadline: light, Arguments: smiArguments,
			Parse: remapped,
		},
		{
			Name: "gpumem", Marker: "GPU MEM", Failed: "GPU MEM Test Failed", Metric: "gpumem",
			About: "errors of GPU memory that could not be corrected, as the GPU counts them", GPU: true,
			Tools: smi, Deadline: light, Arguments: smiArguments,
			Parse: ofGPUs(func(gpus []reading.GPU, _ *Run) []reading.Finding { return reading.Memory(gpus) }),
		},
		{
			Name: "gpupower", Marker: "GPU POWER", Failed: "GPU POWER Failed", Metric: "power-slowdown",
			About: "GPUs that hardware slows down, for heat or power", GPU: true,
			Tools: smi, Deadline: light, Arguments: smiArguments,
			Parse: ofGPUs(func(gpus []reading.GPU, r *Run) []reading.Finding {
				return reading.Power(gpus, r.Config.Limits)
			}),
		},
		{
			Name:     "pciebw",
			Marker:   "PCIEBW",
			Failed:   "PCIE Failed",
			Metric:   "pciebw",
			About:    "PCIe links of GPUs: copies by nvbandwidth where it is there and nobody uses a GPU, by state otherwise",
			GPU:      true,
			Tools:    smi,
			Deadline: 3 * time.Minute,
			Probe:    pcie,
		},
		{
			Name: "xid", Marker: "XID", Failed: "XID Failed", Metric: "xid",
			About: "errors that NVIDIA's driver wrote into the kernel log", GPU: true, Free: true,
			Deadline: light, Probe: kernelErrors,
		},
		{
			Name: "dcgm", Marker: "DCGM", Failed: "DCGM Failed", Metric: "dcgm",
			About: "dcgmi diag of level 1, which uses no GPU", GPU: true, Tools: []string{dcgmi},
			Deadline: 5 * time.Minute,
			Arguments: func(string, *Run) []string {
				return []string{"diag", "-j", "-r", "1"}
			},
			Parse: diagnosis,
		},
		{
			Name: "ping", Marker: "PING", Failed: "PING Failed", Metric: "ping",
			About: "whether some other nodes can be reached", Shared: true, Deadline: light, Probe: ping,
		},
		{
			Name: "pvc", Marker: "PVC", Failed: "PVC Create-Delete Test Failed", Metric: "pvc",
			About: "whether a volume can be had on this node", Shared: true, Deadline: 3 * time.Minute, Probe: claim,
		},
		{
			Name: "iperf", Marker: "IPERF", Failed: "IPERF Failed", Metric: "iperf", Heavy: true, Shared: true,
			About:    "how fast some other nodes take what is sent to them, and which is far slower than the others",
			Deadline: 2 * time.Minute, Probe: throughput,
		},
		{
			Name: DeepCheck, Marker: "DCGM", Failed: "DCGM Failed", Metric: DeepCheck,
			About: "dcgmi diag of level 2 to 4, which has the GPUs for itself", GPU: true, Tools: []string{dcgmi},
			Deadline: time.Hour, Heavy: true, Deep: true,
			Arguments: func(_ string, r *Run) []string {
				return []string{"diag", "-j", "-r", strconv.Itoa(r.level())}
			},
			Parse: deepDiagnosis,
		},
	}
}

func (r *Run) level() int {
	if r.Level > 0 {
		return r.Level
	}
	return r.Config.DeepLevel
}

// CheckOf is the check of a name; nil if there is none.
func CheckOf(name string) *Check {
	all := Checks()
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

// CheckNames are the names of all.
func CheckNames() []string {
	var out []string
	for _, c := range Checks() {
		out = append(out, c.Name)
	}
	return out
}

// PeriodicNames are those that may run periodically.
func PeriodicNames() []string {
	return slices.DeleteFunc(CheckNames(), func(n string) bool { return CheckOf(n).Deep })
}

// DeepNames are the checks of a deep test: what is looked at on GPUs anyway, and the deep one.
func DeepNames(c *Config) []string {
	names := slices.DeleteFunc(slices.Clone(c.Checks), func(n string) bool { return !CheckOf(n).GPU })
	return append(names, DeepCheck)
}

// Tested reports whether a deep test is among outcomes that passed, and looked at all that it is for.
func Tested(outcomes []reading.Outcome) bool {
	return slices.ContainsFunc(outcomes, func(o reading.Outcome) bool {
		return o.Deep && o.Result == health.Passed
	})
}

func smiArguments(tool string, _ *Run) []string {
	if tool == amdSMI {
		return []string{"metric", "--json"}
	}
	return []string{"-q", "-x"}
}

// gpus are the GPUs that a tool told of, and findings about what it did not tell.
func (r *Run) gpus(tool string, out Output) ([]reading.GPU, []reading.Finding) {
	read := reading.NVIDIA
	if tool == amdSMI {
		read = reading.AMD
	}
	gpus, err := read(out.Text, out.Code)
	for i := range gpus {
		if r.Models == nil {
			r.Models = map[string]string{}
		}
		r.Models[gpus[i].Index] = gpus[i].Model
	}
	var gone *reading.LostError
	var driver *reading.DriverError
	switch {
	case errors.As(err, &gone):
		return gpus, []reading.Finding{{Device: gone.Bus, Result: health.Fatal, Message: gone.Text, Value: 1}}
	case errors.As(err, &driver):
		return gpus, []reading.Finding{{Result: health.Failed, Message: driver.Text, Value: 1}}
	case out.Cut != "":
		return gpus, []reading.Finding{{Result: health.Unknown, Message: out.Cut}}
	case err != nil:
		return gpus, []reading.Finding{{Result: health.Unknown, Message: err.Error()}}
	case len(gpus) == 0:
		return nil, []reading.Finding{{Result: health.Failed, Message: tool + " finds no GPU", Value: 1}}
	}
	return gpus, nil
}

// ofGPUs makes a reading of what a judge says of GPUs.
func ofGPUs(judge func([]reading.GPU, *Run) []reading.Finding) func(*Run, string, Output) reading.Outcome {
	return func(r *Run, tool string, out Output) reading.Outcome {
		gpus, wrong := r.gpus(tool, out)
		return reading.Of(append(judge(gpus, r), wrong...))
	}
}

// remapped judges what nvidia-smi says; amd-smi says nothing of it.
func remapped(r *Run, tool string, out Output) reading.Outcome {
	if tool == amdSMI {
		return reading.Skip(tool + " tells nothing of rows that were replaced")
	}
	return ofGPUs(
		func(gpus []reading.GPU, _ *Run) []reading.Finding { return reading.Remapped(gpus) },
	)(
		r,
		tool,
		out,
	)
}

func diagnosis(r *Run, _ string, out Output) reading.Outcome {
	o := reading.DCGM(out.Text, out.Code, r.Config.FatalTests)
	if out.Cut != "" && (o.Result == health.Unknown || o.Result == health.Passed) {
		return reading.Unclear(out.Cut)
	}
	return o
}

// deepDiagnosis is that of a deep test, which has to have run all that it is for.
func deepDiagnosis(r *Run, tool string, out Output) reading.Outcome {
	o := diagnosis(r, tool, out)
	wanted := r.Config.DeepTests
	if wanted == nil {
		wanted = reading.DeepTests(r.level())
	}
	if o.Missing = reading.Looked(out.Text, wanted); o.Missing != nil && o.Result == health.Passed {
		o.Message = "passed without " + strings.Join(o.Missing, ", ") + ": what is fatal stays"
	}
	return o
}

// pcie measures copies where that harms nobody, and looks at the state of the links in any case.
func pcie(ctx context.Context, r *Run) reading.Outcome {
	tool := r.tool(CheckOf("pciebw").Tools)
	gpus, wrong := r.gpus(tool, r.Tools.Run(ctx, tool, smiArguments(tool, r)...))
	links := append(reading.Links(gpus, r.Config.Limits), wrong...)
	byState := reading.Of(links)
	if byState.Message == "" {
		byState.Message = "by the state of the links"
	}
	if tool != nvidiaSMI || !r.Tools.Has(nvbandwidth) || byState.Result != health.Passed {
		return byState
	}
	if used := r.used(ctx); used != "" {
		byState.Message = "by the state of the links: " + used
		return byState
	}
	models := make([]string, len(gpus))
	for i := range gpus {
		models[i] = gpus[i].Model
	}
	out := r.Tools.Run(ctx, nvbandwidth, "-j", "-t", "host_to_device_memcpy_ce")
	copies := reading.Copies(out.Text, out.Code, models, r.Config.Limits)
	switch {
	case copies.Result == health.Unknown:
		byState.Message = "by the state of the links: " + copies.Message
		return byState
	case copies.Message == "":
		copies.Message = "by nvbandwidth"
	}
	return copies
}

// used says who uses GPUs of this node, "" if nobody does. It is asked before anything heavy runs on them, and who
// cannot be asked counts as a user.
func (r *Run) used(ctx context.Context) string {
	if r.Cluster != nil {
		pods, err := r.Cluster.Holders(ctx, r.Node)
		switch {
		case err != nil:
			return "which pods hold GPUs cannot be told: " + reading.Readable(err.Error(), 100)
		case len(pods) > 0:
			return fmt.Sprintf("%s holds GPUs", pods[0]) + others(len(pods)-1)
		}
	}
	tool := r.tool([]string{nvidiaSMI})
	if tool == "" {
		return ""
	}
	tools := r.Tools
	if remembered, is := tools.(*once); is {
		tools = remembered.Tools // what was so when the round began may have changed
	}
	gpus, wrong := r.gpus(tool, tools.Run(ctx, tool, smiArguments(tool, r)...))
	if len(wrong) > 0 {
		return "whether processes use GPUs cannot be told: " + wrong[0].Message
	}
	for i := range gpus {
		switch {
		case gpus[i].Processes > 0:
			return "a process computes on GPU " + gpus[i].Index
		case gpus[i].MIG:
			return "GPU " + gpus[i].Index + " is divided (MIG)"
		}
	}
	return ""
}

func others(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", and %d more", n)
}

// tool is the first of some that is there.
func (r *Run) tool(names []string) string {
	for _, n := range names {
		if r.Tools.Has(n) {
			return n
		}
	}
	return ""
}

// do runs one check, and always comes to an end with an outcome.
func (c *Check) do(ctx context.Context, r *Run) (o reading.Outcome) {
	began := time.Now()
	ctx, stop := context.WithTimeout(ctx, c.Deadline)
	defer stop()
	defer func() {
		if p := recover(); p != nil {
			o = reading.Unclear(fmt.Sprintf("the check failed by a mistake of mlbatch: %v", p))
		}
		o.Check, o.At, o.Seconds = c.Name, time.Now(), time.Since(began).Seconds()
		if c.Free {
			o.At = began // what was written while it read may have been missed
		}
		// Only a test that came to an end, and looked at all, may clear what is fatal.
		o.Deep = c.Deep && o.Result != health.Skipped && o.Result != health.Unknown &&
			(o.Result != health.Passed || o.Missing == nil)
	}()
	tool := ""
	if len(c.Tools) > 0 {
		if tool = r.tool(c.Tools); tool == "" {
			return reading.Skip(strings.Join(c.Tools, " or ") + " is missing")
		}
	}
	if c.Deep {
		if used := r.used(ctx); used != "" {
			return reading.Skip(used)
		}
	}
	if c.Probe != nil {
		return c.Probe(ctx, r)
	}
	return c.Parse(r, tool, r.Tools.Run(ctx, tool, c.Arguments(tool, r)...))
}
