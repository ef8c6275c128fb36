package reading

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
)

// Copies reads the answer of `nvbandwidth -j -t host_to_device_memcpy_ce`: GB/s for each GPU.
func Copies(text []byte, exit int, models []string, limits Limits) Outcome {
	var r struct {
		Body struct {
			Error string `json:"error"`
			Tests []struct {
				Name   string              `json:"name"`
				Status string              `json:"status"`
				Matrix [][]json.RawMessage `json:"bandwidth_matrix"`
			} `json:"testcases"`
		} `json:"nvbandwidth"`
	}
	start := bytes.IndexByte(text, '{')
	if start < 0 || json.NewDecoder(bytes.NewReader(text[start:])).Decode(&r) != nil {
		return Unclear(fmt.Sprintf("nvbandwidth ended with code %d and an answer that cannot be read", exit))
	}
	var out []Finding
	for _, t := range r.Body.Tests {
		if len(t.Matrix) == 0 || len(t.Matrix[0]) > maxGPUs {
			continue
		}
		for i, cell := range t.Matrix[0] {
			f := Finding{Device: strconv.Itoa(i), Result: health.Skipped, Message: "nvbandwidth did not measure it"}
			if said := texts(cell); len(said) == 1 && number(said[0]) >= 0 {
				f.Value, f.Result, f.Message = number(said[0]), health.Passed, ""
			}
			model := ""
			if i < len(models) {
				model = models[i]
			}
			if least := limits.For(model).MinPCIe; f.Result == health.Passed && f.Value < least {
				f.Result = health.Failed
				f.Message = fmt.Sprintf("copies to it reach %.1f GB/s, less than %.1f", f.Value, least)
			}
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		return Unclear(fmt.Sprintf("nvbandwidth ended with code %d: %s", exit, Readable(r.Body.Error, 120)))
	}
	return Of(out)
}

// amdGPU is what is read of a GPU in the answer of `amd-smi metric --json`.
type amdGPU struct {
	Index       json.RawMessage `json:"gpu"`
	ECC         amdPart         `json:"ecc"`
	PCIe        amdPart         `json:"pcie"`
	Power       amdPart         `json:"power"`
	Temperature amdPart         `json:"temperature"`
	Throttle    amdPart         `json:"throttle"`
}

// amdPart is a part of it. Where a GPU has none, amd-smi says "N/A" instead.
type amdPart map[string]json.RawMessage

// UnmarshalJSON takes what is no object for nothing.
func (p *amdPart) UnmarshalJSON(text []byte) error {
	var m map[string]json.RawMessage
	if json.Unmarshal(text, &m) == nil {
		*p = m
	}
	return nil
}

// slowdowns are what of a GPU of AMD makes its hardware slow it down, and whether anything is told of that. That its
// power is limited under load (ppt) is as it should be.
func (a *amdGPU) slowdowns() (active []string, told bool) {
	for _, one := range [][2]string{
		{"prochot", "another part of the machine is too hot"},
		{"socket_thermal", "its temperature"},
		{"vr_thermal", "the temperature of its power supply"},
		{"hbm_thermal", "the temperature of its memory"},
	} {
		said := texts(a.Throttle[one[0]+"_violation_status"])
		if len(said) != 1 {
			continue
		}
		switch strings.ToUpper(strings.TrimSpace(said[0])) {
		case "ACTIVE":
			active, told = append(active, one[1]), true
		case "NOT ACTIVE":
			told = true
		}
	}
	return active, told
}

// generation of a PCIe link by its speed in GT/s, -1 of others.
func generation(speed json.RawMessage) int {
	var in struct {
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal(speed, &in) == nil && len(in.Value) > 0 {
		speed = in.Value
	}
	if said := texts(speed); len(said) == 1 {
		if gen, is := map[float64]int{2.5: 1, 5: 2, 8: 3, 16: 4, 32: 5, 64: 6}[number(said[0])]; is {
			return gen
		}
	}
	return -1
}

// alike gives GPUs of a server, four or more, the width that the widest of them has: amd-smi does not tell which a link
// can have.
func alike(gpus []GPU) {
	const server = 4
	widest := -1
	for i := range gpus {
		widest = max(widest, gpus[i].LinkWidth)
	}
	for i := range gpus {
		if g := &gpus[i]; len(gpus) >= server && g.LinkWidthMost < 0 {
			g.LinkWidthMost = widest
		}
	}
}

// AMD reads the answer of `amd-smi metric --json`: a list of GPUs, or an object that holds one. Numbers that it does
// not tell are -1.
func AMD(text []byte, exit int) ([]GPU, error) {
	start := bytes.IndexAny(text, "[{")
	if start < 0 {
		return nil, fmt.Errorf("amd-smi ended with code %d and no answer: %s", exit, Readable(string(text), 120))
	}
	text = text[start:]
	var list []amdGPU
	if text[0] == '{' {
		var in struct {
			GPUs []amdGPU `json:"gpu_data"`
		}
		if err := json.NewDecoder(bytes.NewReader(text)).Decode(&in); err != nil {
			return nil, fmt.Errorf("amd-smi ended with code %d and an answer that cannot be read: %w", exit, err)
		}
		list = in.GPUs
	} else if err := json.NewDecoder(bytes.NewReader(text)).Decode(&list); err != nil {
		return nil, fmt.Errorf("amd-smi ended with code %d and an answer that cannot be read: %w", exit, err)
	}
	if len(list) == 0 || len(list) > maxGPUs {
		return nil, fmt.Errorf("amd-smi ended with code %d and told of %d GPUs", exit, len(list))
	}
	var out []GPU
	for i, a := range list {
		g := GPU{
			Index:         strconv.Itoa(i),
			Model:         "AMD",
			Uncorrectable: -1,
			Correctable:   -1,
			LinkGen:       generation(a.PCIe["speed"]),
			LinkGenMost:   -1,
			LinkWidth:     amdNumber(a.PCIe["width"]),
			LinkWidthMost: amdNumber(a.PCIe["max_width"]),
			Watts: float64(
				max(amdNumber(a.Power["socket_power"]), amdNumber(a.Power["current_socket_power"])),
			),
			Celsius: float64(amdNumber(a.Temperature["hotspot"])),
		}
		slow, told := a.slowdowns()
		g.Slowdown, g.Silent = slow, !told && g.Celsius < 0
		if n := amdNumber(a.Index); n >= 0 && n < maxGPUs {
			g.Index = strconv.Itoa(n)
		}
		g.Uncorrectable = int64(
			max(amdNumber(a.ECC["total_uncorrectable_count"]), amdNumber(a.ECC["total_uncorrectable"])),
		)
		out = append(out, g)
	}
	alike(out)
	if exit != 0 {
		return out, fmt.Errorf("amd-smi ended with code %d", exit)
	}
	return out, nil
}

// amdNumber is a number, a text that is one, or an object with a value.
func amdNumber(raw json.RawMessage) int {
	var in struct {
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal(raw, &in) == nil && len(in.Value) > 0 {
		raw = in.Value
	}
	if said := texts(raw); len(said) == 1 {
		return int(number(said[0]))
	}
	return -1
}

// Reached is the finding about a node of whose packets some came back.
func Reached(node string, sent, back int) Finding {
	f := Finding{Device: node, Result: health.Passed}
	switch {
	case sent == 0:
		f.Result, f.Message = health.Unknown, "nothing was sent to "+node
	case back == 0:
		f.Result, f.Message, f.Value = health.Warned, node+" does not answer", 1
	case back < sent:
		f.Message = fmt.Sprintf("%s answered %d of %d", node, back, sent)
	}
	return f
}

// Straggler judges how fast other nodes take what is sent to them: the slowest of three or more is one if it has less
// than a part of the median. Values are in Gbit/s.
func Straggler(findings []Finding, part float64) []Finding {
	var speeds []float64
	for i := range findings {
		if findings[i].Result == health.Passed {
			speeds = append(speeds, findings[i].Value)
		}
	}
	const few = 3
	if len(speeds) < few {
		return findings
	}
	slices.Sort(speeds)
	median := speeds[len(speeds)/2]
	out := slices.Clone(findings)
	for i := range out {
		if f := &out[i]; f.Result == health.Passed && f.Value < median*part {
			f.Result = health.Warned
			f.Message = fmt.Sprintf("%s takes %.1f Gbit/s, others %.1f", f.Device, f.Value, median)
		}
	}
	return out
}

// Tidy is the last line that users' scripts read: a number for each finding.
func Tidy(findings []Finding) string {
	var out []string
	for i := range findings {
		out = append(out, strconv.FormatFloat(findings[i].Value, 'f', -1, 64))
	}
	return strings.Join(out, " ")
}
