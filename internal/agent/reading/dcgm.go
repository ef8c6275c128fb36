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

// FatalTests are names of tests of DCGM whose failure means that what runs on the GPU is lost, where nobody says
// others.
func FatalTests() []string { return []string{"PCIe", "NVLink", "ECC", "GPU Memory"} }

// dcgmReport is the answer of `dcgmi diag -j`: DCGM 3 calls it "DCGM GPU Diagnostic", DCGM 4 "DCGM Diagnostic".
type dcgmReport struct {
	Three *dcgmBody `json:"DCGM GPU Diagnostic"`
	Four  *dcgmBody `json:"DCGM Diagnostic"`
}

type dcgmBody struct {
	Error      string `json:"runtime_error"`
	Categories []struct {
		Tests []dcgmTest `json:"tests"`
	} `json:"test_categories"`
}

type dcgmTest struct {
	Name    string       `json:"name"`
	Results []dcgmResult `json:"results"`
	Summary struct {
		Status string `json:"status"`
	} `json:"test_summary"`
}

type dcgmResult struct {
	Status string `json:"status"`
	// Devices of DCGM 3: "0,1" or 0; of DCGM 4: a number within a group.
	IDs      json.RawMessage `json:"gpu_ids"`
	ID       json.RawMessage `json:"gpu_id"`
	Group    string          `json:"entity_group"`
	Entity   json.RawMessage `json:"entity_id"`
	Warnings json.RawMessage `json:"warnings"`
	Warning  json.RawMessage `json:"warning"`
	Info     json.RawMessage `json:"info"`
}

// DeepTests are names of tests of DCGM without which a deep test has not looked at what may have broken, by its level,
// where nobody says others.
func DeepTests(level int) []string {
	if level < 3 { //nolint:mnd // it begins with that level
		return []string{"PCIe", "GPU Memory"}
	}
	return []string{"PCIe", "GPU Memory", "Diagnostic"}
}

// Looked is what of some tests was not run, by an answer of `dcgmi diag -j`: left out, or skipped on a GPU.
func Looked(text []byte, wanted []string) (missing []string) {
	body, err := dcgmBodyOf(text, 0)
	if err != nil {
		return wanted
	}
	for _, want := range wanted {
		ran, skipped := false, false
		for _, c := range body.Categories {
			for i := range c.Tests {
				t := &c.Tests[i]
				if !contains(testWords(t.Name), words(want)) {
					continue
				}
				for _, status := range t.statuses() {
					switch status {
					case "pass", "fail", "warn":
						ran = true
					default:
						skipped = true
					}
				}
			}
		}
		if !ran || skipped {
			missing = append(missing, want)
		}
	}
	return missing
}

// statuses are what a test says of each device, or of all together.
func (t *dcgmTest) statuses() []string {
	if len(t.Results) == 0 {
		return []string{strings.ToLower(t.Summary.Status)}
	}
	var out []string
	for i := range t.Results {
		out = append(out, strings.ToLower(t.Results[i].Status))
	}
	return out
}

// dcgmBodyOf is what there is of an answer; the error says that there is none.
func dcgmBodyOf(text []byte, exit int) (*dcgmBody, error) {
	start := bytes.IndexByte(text, '{') // before it may stand warnings
	if start < 0 {
		return nil, fmt.Errorf("dcgmi ended with code %d and no answer: %s", exit, Readable(string(text), 120))
	}
	var r dcgmReport
	if err := json.NewDecoder(bytes.NewReader(text[start:])).Decode(&r); err != nil {
		return nil, fmt.Errorf("dcgmi ended with code %d and an answer that cannot be read: %w", exit, err)
	}
	switch {
	case r.Three != nil:
		return r.Three, nil
	case r.Four != nil:
		return r.Four, nil
	}
	return nil, fmt.Errorf("dcgmi ended with code %d and an answer of no version that is known", exit)
}

// DCGM reads the answer of `dcgmi diag -j`. Its exit code says only that some test failed, or that it could not
// run: what the tests say is in the answer, whatever the code.
func DCGM(text []byte, exit int, fatal []string) Outcome {
	if fatal == nil {
		fatal = FatalTests()
	}
	body, err := dcgmBodyOf(text, exit)
	if err != nil {
		return Unclear(err.Error())
	}
	var out []Finding
	ran := false
	for _, c := range body.Categories {
		for i := range c.Tests {
			found, judged := c.Tests[i].findings(fatal)
			out, ran = append(out, found...), ran || judged
		}
	}
	switch {
	case len(out) > 0:
		return Of(out)
	case body.Error != "":
		return Unclear("dcgmi could not test: " + Readable(body.Error, 160))
	case !ran:
		return Unclear(fmt.Sprintf("dcgmi ended with code %d and tested nothing", exit))
	case exit != 0:
		return Unclear(fmt.Sprintf("no test failed, and yet dcgmi ended with code %d", exit))
	}
	return Outcome{Result: health.Passed}
}

// findings are what failed, and whether anything was tested.
func (t *dcgmTest) findings(fatal []string) (out []Finding, ran bool) {
	name := Readable(t.Name, 40)
	results := t.Results
	if len(results) == 0 && t.Summary.Status != "" {
		results = []dcgmResult{{Status: t.Summary.Status}}
	}
	for i := range results {
		r := &results[i]
		said := Readable(strings.Join(append(texts(r.Warnings), texts(r.Warning)...), ", "), 120)
		f := Finding{Message: strings.TrimSuffix("test "+name+": "+said, ": ")}
		switch strings.ToLower(r.Status) {
		case "pass":
			ran = true
			continue
		case "fail":
			f.Result, f.Value = health.Failed, 1
			if isFatal(name, said, fatal) {
				f.Result = health.Fatal
			}
		case "warn":
			f.Result, f.Value = health.Warned, 1
		default: // Skip, Not run
			continue
		}
		ran = true
		devices := r.devices()
		if len(devices) == 0 {
			devices = []string{""}
		}
		for _, d := range devices {
			f.Device = d
			out = append(out, f)
		}
	}
	return out, ran
}

func (r *dcgmResult) devices() []string {
	for _, raw := range []json.RawMessage{r.ID, r.IDs} {
		var out []string
		for _, t := range texts(raw) {
			for id := range strings.SplitSeq(t, ",") {
				if n, err := strconv.Atoi(strings.TrimSpace(id)); err == nil && n >= 0 && n < maxGPUs {
					out = append(out, strconv.Itoa(n))
				}
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	if strings.EqualFold(r.Group, "GPU") {
		for _, t := range texts(r.Entity) {
			if n, err := strconv.Atoi(t); err == nil && n >= 0 && n < maxGPUs {
				return []string{strconv.Itoa(n)}
			}
		}
	}
	return nil
}

// texts are what a field says that is a text, a number, an object with a text, or a list of those.
func texts(raw json.RawMessage) []string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if len(raw) == 0 || d.Decode(&v) != nil {
		return nil
	}
	list, is := v.([]any)
	if !is {
		list = []any{v}
	}
	var out []string
	for _, one := range list {
		switch one := one.(type) {
		case string:
			out = append(out, one)
		case json.Number:
			out = append(out, one.String())
		case map[string]any:
			for _, key := range []string{"warning", "message"} {
				if text, is := one[key].(string); is {
					out = append(out, text)
					break
				}
			}
		}
	}
	return out
}

// isFatal reports whether a test that failed is one of those whose failure is fatal, by its name or by the words of
// what it said: DCGM finds broken NVLinks and ECC errors in tests of other names.
func isFatal(test, said string, fatal []string) bool {
	of := testWords(test)
	for _, name := range fatal {
		want := words(name)
		if len(want) > 0 && (contains(of, want) || contains(words(said), want)) {
			return true
		}
	}
	return false
}

// testWords are the words of the name of a test. That of the memory has several names.
func testWords(test string) []string {
	of := words(test)
	if slices.Equal(of, []string{"memory"}) || slices.Equal(of, []string{"memtest"}) {
		return []string{"gpu", "memory"} // what DCGM 3 calls it
	}
	return of
}

func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}

// contains reports whether some words stand in others, one after another.
func contains(all, some []string) bool {
	for i := 0; i+len(some) <= len(all); i++ {
		if slices.Equal(all[i:i+len(some)], some) {
			return true
		}
	}
	return false
}
