package reading

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
)

// maxGPUs bounds how many GPUs of one node are looked at.
const maxGPUs = 64

// GPU is one as `nvidia-smi -q -x` describes it. Numbers that it does not tell are -1.
type GPU struct {
	// Index is its place in the output, which is how nvidia-smi counts.
	Index string
	// Bus is its PCI address, in lower case: 00000000:c1:00.0.
	Bus   string
	Model string
	// Lost is true if the driver cannot talk to it any more; Why is what was said.
	Lost bool
	Why  string
	MIG  bool
	// Performance is the power state, P0 at full speed. At rest links are slowed down on purpose.
	Performance                          string
	LinkGen, LinkGenMost                 int
	LinkWidth, LinkWidthMost             int
	Uncorrectable, Correctable           int64
	RemapPending, RemapFailed, PageWaits bool
	Slowdown                             []string
	// Silent says that nothing is told of what slows it down, nor of its temperature.
	Silent         bool
	Watts, Celsius float64
	// Processes that compute on it.
	Processes int
}

// xmlGPU is what is read of a <gpu>, under the names of drivers from 450 to 580.
type xmlGPU struct {
	ID          string     `xml:"id,attr"`
	Model       string     `xml:"product_name"`
	MIG         string     `xml:"mig_mode>current_mig"`
	Performance string     `xml:"performance_state"`
	Gen         string     `xml:"pci>pci_gpu_link_info>pcie_gen>current_link_gen"`
	GenMost     string     `xml:"pci>pci_gpu_link_info>pcie_gen>max_link_gen"`
	Width       string     `xml:"pci>pci_gpu_link_info>link_widths>current_link_width"`
	WidthMost   string     `xml:"pci>pci_gpu_link_info>link_widths>max_link_width"`
	ECC         xmlNumbers `xml:"ecc_errors>volatile"`
	Pending     string     `xml:"remapped_rows>remapped_row_pending"`
	Failure     string     `xml:"remapped_rows>remapped_row_failure"`
	Page        string     `xml:"retired_pages>pending_retirement"`
	PageOld     string     `xml:"retired_pages>pending_blacklist"`
	Reasons     xmlNumbers `xml:"clocks_event_reasons"`
	ReasonsOld  xmlNumbers `xml:"clocks_throttle_reasons"`
	Watts       string     `xml:"gpu_power_readings>instant_power_draw"`
	WattsMean   string     `xml:"gpu_power_readings>power_draw"`
	WattsOld    string     `xml:"power_readings>power_draw"`
	Celsius     string     `xml:"temperature>gpu_temp"`
	Processes   []struct {
		Type string `xml:"type"`
	} `xml:"processes>process_info"`
}

// xmlNumbers are elements whose names differ from driver to driver.
type xmlNumbers struct {
	All []struct {
		XMLName xml.Name
		Text    string `xml:",chardata"`
	} `xml:",any"`
}

// NVIDIA reads the output of `nvidia-smi -q -x`. An error says that it is not all of it; the GPUs before that point
// are given in any case.
func NVIDIA(text []byte, exit int) ([]GPU, error) {
	d := xml.NewDecoder(bytes.NewReader(text))
	d.Strict = true
	d.Entity = map[string]string{}
	var all []GPU
	whole := false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) && whole {
			break
		}
		if err != nil {
			return all, driverError(text, exit, err)
		}
		switch t := token.(type) {
		case xml.EndElement:
			whole = whole || t.Name.Local == "nvidia_smi_log"
		case xml.StartElement:
			if t.Name.Local != "gpu" {
				continue
			}
			if len(all) == maxGPUs {
				return all, fmt.Errorf("nvidia-smi lists more than %d GPUs", maxGPUs)
			}
			var x xmlGPU
			if err := d.DecodeElement(&x, &t); err != nil {
				return all, driverError(text, exit, err)
			}
			all = append(all, x.gpu(len(all)))
		}
	}
	if exit != 0 {
		return all, driverError(text, exit, nil)
	}
	return all, nil
}

// LostError says that nvidia-smi told of a GPU that the driver lost.
type LostError struct{ Bus, Text string }

func (e *LostError) Error() string { return e.Text }

// DriverError says that the driver as a whole does not answer.
type DriverError struct{ Text string }

func (e *DriverError) Error() string { return e.Text }

// driverError is what an answer means that is no proper XML, or comes with an exit code.
func driverError(text []byte, exit int, why error) error {
	said := Readable(string(text[:min(len(text), 4096)]), 200)
	// What the driver says stands before the answer; within it there are names that others chose.
	before, _, _ := strings.Cut(string(text[:min(len(text), 64<<10)]), "<")
	low := strings.ToLower(before)
	switch {
	case strings.Contains(low, "gpu is lost"), strings.Contains(low, "fallen off the bus"),
		strings.Contains(low, "unable to determine the device handle"):
		bus := ""
		for word := range strings.FieldsSeq(low) {
			if w := strings.TrimSuffix(word, ":"); strings.Count(w, ":") == 2 && strings.Contains(w, ".") {
				bus = longBus(w)
				break
			}
		}
		return &LostError{bus, "a GPU is lost: " + said}
	case exit == 9, strings.Contains(low, "couldn't communicate with the nvidia driver"),
		strings.Contains(low, "driver/library version mismatch"), strings.Contains(low, "no devices were found"):
		return &DriverError{"the driver does not answer: " + said}
	case why != nil:
		return fmt.Errorf("nvidia-smi -q -x ended with code %d and an answer that cannot be read: %w", exit, why)
	}
	return fmt.Errorf("nvidia-smi -q -x ended with code %d", exit)
}

func (x *xmlGPU) gpu(n int) GPU {
	g := GPU{
		Index: strconv.Itoa(n), Bus: longBus(x.ID), Model: Readable(x.Model, 64),
		MIG:         strings.EqualFold(strings.TrimSpace(x.MIG), "enabled"),
		Performance: Readable(x.Performance, 8),
		LinkGen:     int(number(x.Gen)), LinkGenMost: int(number(x.GenMost)),
		LinkWidth: int(number(x.Width)), LinkWidthMost: int(number(x.WidthMost)),
		Uncorrectable: -1, Correctable: -1,
		RemapPending: yes(x.Pending), RemapFailed: yes(x.Failure), PageWaits: yes(x.Page) || yes(x.PageOld),
		Watts: -1, Celsius: number(x.Celsius),
	}
	for _, text := range []string{x.Watts, x.WattsMean, x.WattsOld} {
		if w := number(text); w >= 0 && g.Watts < 0 {
			g.Watts = w
		}
	}
	for _, e := range x.ECC.All {
		n, name := number(e.Text), e.XMLName.Local
		switch {
		case n < 0:
		case strings.Contains(name, "uncorrectable"):
			g.Uncorrectable = max(g.Uncorrectable, 0) + int64(n)
		case strings.Contains(name, "correctable"):
			g.Correctable = max(g.Correctable, 0) + int64(n)
		}
	}
	for _, reasons := range [][]struct {
		XMLName xml.Name
		Text    string `xml:",chardata"`
	}{x.Reasons.All, x.ReasonsOld.All} {
		for _, e := range reasons {
			_, name, found := strings.Cut(e.XMLName.Local, "_reason_hw_")
			if found && strings.EqualFold(strings.TrimSpace(e.Text), "active") {
				g.Slowdown = append(g.Slowdown, "hw_"+Readable(name, 32))
			}
		}
	}
	for _, p := range x.Processes {
		if strings.Contains(p.Type, "C") { // C, or C+G
			g.Processes++
		}
	}
	for _, text := range []string{x.Model, x.Pending, x.Failure, x.Gen, x.Performance, x.Celsius, x.Watts, x.WattsOld} {
		low := strings.ToLower(text)
		for _, bad := range []string{"gpu is lost", "gpu requires reset", "unknown error", "err!"} {
			if strings.Contains(low, bad) {
				g.Lost, g.Why = true, "nvidia-smi says of it: "+Readable(text, 60)
			}
		}
	}
	return g
}

// number is what a text begins with, -1 if that is no number: 16x, 71.32 W, N/A.
func number(text string) float64 {
	text = strings.TrimSpace(text)
	end := 0
	for end < len(text) && (text[end] >= '0' && text[end] <= '9' || text[end] == '.') {
		end++
	}
	n, err := strconv.ParseFloat(text[:end], 64)
	if err != nil || n > 1e12 {
		return -1
	}
	return n
}

func yes(text string) bool { return strings.EqualFold(strings.TrimSpace(text), "yes") }

// longBus is a PCI address as nvidia-smi has it, made of that or of the shorter one of the kernel log.
func longBus(text string) string {
	text = strings.ToLower(Readable(text, 32))
	if strings.Count(text, ":") == 1 {
		text = "0000:" + text
	}
	domain, rest, _ := strings.Cut(text, ":")
	if rest != "" && !strings.Contains(rest, ".") {
		rest += ".0"
	}
	if n := 8 - len(domain); n > 0 && rest != "" {
		domain = strings.Repeat("0", n) + domain
	}
	return domain + ":" + rest
}

// lost are findings about GPUs that the driver cannot talk to; ok are the others.
func lost(gpus []GPU) (findings []Finding, ok []GPU) {
	for i := range gpus {
		if gpus[i].Lost {
			findings = append(findings, Finding{gpus[i].Index, health.Fatal, gpus[i].Why, 1})
		} else {
			ok = append(ok, gpus[i])
		}
	}
	return findings, ok
}

// Remapped judges rows of memory that were replaced. A replacement that waits takes effect at the next reset, and
// what runs is well; one that failed means that the memory has no spare rows left.
func Remapped(gpus []GPU) []Finding {
	out, ok := lost(gpus)
	for i := range ok {
		f := Finding{Device: ok[i].Index, Result: health.Passed}
		switch {
		case ok[i].RemapFailed:
			f.Result, f.Message, f.Value = health.Failed, "remapping rows of memory failed: the GPU has to be replaced", 1
		case ok[i].RemapPending:
			f.Result, f.Message, f.Value = health.Warned, "rows of memory wait to be remapped: reset the GPU", 1
		case ok[i].PageWaits:
			f.Result, f.Message, f.Value = health.Warned, "pages of memory wait to be retired: reset the GPU", 1
		}
		out = append(out, f)
	}
	return out
}

// Power judges whether hardware slows a GPU down, because of heat or of its power supply.
func Power(gpus []GPU, limits Limits) []Finding {
	out, ok := lost(gpus)
	for i := range ok {
		f := Finding{Device: ok[i].Index, Result: health.Passed}
		hot := limits.For(ok[i].Model).MaxCelsius
		switch {
		case ok[i].Silent:
			f.Result, f.Message = health.Skipped, "nothing is told of its temperature, and of what slows it down"
		case len(ok[i].Slowdown) > 0:
			f.Result, f.Message, f.Value = health.Warned, "hardware slows it down: "+strings.Join(
				ok[i].Slowdown,
				", ",
			), 1
		case hot > 0 && ok[i].Celsius > float64(hot):
			f.Result, f.Value = health.Warned, 1
			f.Message = fmt.Sprintf("%.0f degrees Celsius, more than %d", ok[i].Celsius, hot)
		}
		out = append(out, f)
	}
	return out
}

// Memory judges errors of memory since the driver was loaded.
func Memory(gpus []GPU) []Finding {
	out, ok := lost(gpus)
	for i := range ok {
		f := Finding{Device: ok[i].Index, Result: health.Passed}
		if n := ok[i].Uncorrectable; n > 0 {
			f.Result, f.Value = health.Failed, 1
			f.Message = fmt.Sprintf("%d errors of memory that cannot be corrected: reset the GPU", n)
		}
		out = append(out, f)
	}
	return out
}

// Links judges PCIe links by their state. A link is narrower than it can be only if something is wrong with it; it
// is slower whenever the GPU rests, which counts only at full speed.
func Links(gpus []GPU, limits Limits) []Finding {
	out, ok := lost(gpus)
	for i := range ok {
		g := &ok[i]
		f := Finding{Device: g.Index, Result: health.Passed, Value: bandwidth(g.LinkGen, g.LinkWidth)}
		want := limits.For(g.Model)
		width := g.LinkWidthMost
		if want.LinkWidth > 0 {
			width = want.LinkWidth
		}
		switch {
		case g.LinkWidth < 0 || g.LinkGen < 0:
			f.Result, f.Message = health.Skipped, "nothing is told of its PCIe link"
		case g.LinkWidth < width:
			f.Result = health.Failed
			f.Message = fmt.Sprintf("its PCIe link has %d lanes of %d: reseat the GPU", g.LinkWidth, width)
		case g.Performance == "P0" && g.LinkGen < min(positive(g.LinkGenMost), positive(want.LinkGen)):
			f.Result = health.Warned
			f.Message = fmt.Sprintf("its PCIe link is of generation %d at full speed", g.LinkGen)
		}
		out = append(out, f)
	}
	return out
}

func positive(n int) int {
	if n <= 0 {
		return 99 // nothing is asked for
	}
	return n
}

// bandwidth is what a PCIe link can carry in one direction, in GB/s.
func bandwidth(gen, width int) float64 {
	lane := map[int]float64{1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}[gen]
	return lane * float64(max(width, 0))
}
