package reading

import (
	"slices"
	"strings"
	"time"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
)

// Finding is what a check found of one device, or of the whole node.
type Finding struct {
	// Device is its index as nvidia-smi counts, the name of another node, or "" for the node as a whole.
	Device string `json:"device,omitempty"`
	// Result of this device.
	Result health.Result `json:"result"`
	// Message says what is wrong; it may be empty if nothing is.
	Message string `json:"message,omitempty"`
	// Value is the number that users' scripts and metrics want of this device.
	Value float64 `json:"value"`
}

// Outcome is what one run of a check found. That of a run which its deadline ended has what was found until then.
type Outcome struct {
	Check    string        `json:"check"`
	Result   health.Result `json:"result"`
	Message  string        `json:"message,omitempty"`
	Findings []Finding     `json:"findings,omitempty"`
	// Deep is true of a run that had the GPUs for itself.
	Deep bool `json:"deep,omitempty"`
	// Missing are tests without which such a run has not looked at all that may have broken.
	Missing []string `json:"missing,omitempty"`
	// At is when the run ended.
	At time.Time `json:"at"`
	// Seconds is how long it was.
	Seconds float64 `json:"seconds"`
}

// rank orders results: the larger, the worse. Passed is worse than Skipped here: a check that found some devices
// well and had to leave out others has passed.
func rank(r health.Result) int {
	return slices.Index([]health.Result{
		health.Skipped, health.Passed, health.Unknown, health.Warned, health.Failed, health.Fatal,
	}, r)
}

// Worse is the worse one of two results.
func Worse(a, b health.Result) health.Result {
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// Of sums findings up: the worst of them, and what is said of those that are as bad.
func Of(findings []Finding) Outcome {
	o := Outcome{Result: health.Skipped, Findings: findings}
	for i := range findings {
		o.Result = Worse(o.Result, findings[i].Result)
	}
	if o.Result == health.Passed || o.Result == health.Skipped {
		for i := range findings {
			if m := findings[i].Message; m != "" && o.Message == "" {
				o.Message = m
			}
		}
		return o
	}
	var said []string
	for i := range findings {
		if f := &findings[i]; f.Result == o.Result && f.Message != "" && !slices.Contains(said, f.Message) {
			said = append(said, f.Message)
		}
	}
	o.Message = strings.Join(said, "; ")
	return o
}

// Skip is the outcome of a check that did not run, and why.
func Skip(why string) Outcome { return Outcome{Result: health.Skipped, Message: why} }

// Unclear is the outcome of a check whose tool gave no answer that can be judged.
func Unclear(why string) Outcome { return Outcome{Result: health.Unknown, Message: why} }

// Concerned are the devices that are as bad as the outcome, in the order of the findings.
func (o *Outcome) Concerned() []string {
	if o.Result == health.Passed || o.Result == health.Skipped {
		return nil
	}
	var out []string
	for i := range o.Findings {
		if f := &o.Findings[i]; f.Result == o.Result && f.Device != "" && !slices.Contains(out, f.Device) {
			out = append(out, f.Device)
		}
	}
	return out
}

// Readable is text of a tool as it may be shown: one line without control characters, cut to some bytes.
func Readable(text string, most int) string {
	var b strings.Builder
	space := false
	for _, r := range strings.ToValidUTF8(text, "?") {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == ' ' || r == 0x2028 || r == 0x2029 {
			space = b.Len() > 0
			continue
		}
		size := len(string(r))
		if space {
			size++
		}
		if b.Len()+size > most {
			break
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	return b.String()
}
