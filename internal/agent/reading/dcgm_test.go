package reading

import (
	"slices"
	"strings"
	"testing"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
)

// Answers of dcgmi diag -j, in the shapes of several versions.
const (
	dcgm3 = `{"DCGM GPU Diagnostic": {"test_categories": [
	{"category": "Deployment", "tests": [{"name": "Denylist", "results": [{"status": "Pass"}]}]},
	{"category": "Integration", "tests": [{"name": "PCIe", "results": [{"gpu_ids": "0", "status": "Pass"}, {"gpu_ids": "3", "status": "STATUS", "warnings": WARNINGS}]}]},
	{"category": "Hardware", "tests": [{"name": "NAME", "results": [{"gpu_id": 5, "status": "HARDWARE", "info": "x"}]}]}],
	"version": "3.3.5"}, "Driver Version Detected": "550.90.07"}`
	dcgm4 = `{"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [
	{"name": "memory", "results": [{"entity_group": "GPU", "entity_group_id": 1, "entity_id": 2, "status": "STATUS", "warnings": [{"error_category": 1, "error_id": 7, "error_severity": 2, "warning": "a row failed"}]}], "test_summary": {"status": "STATUS"}},
	{"name": "software", "results": [{"entity_group": "GPU", "entity_id": 0, "status": "Pass"}]}]}]},
	"metadata": {"version": "4.1.1"}}`
)

func three(status, warnings, name, hardware string) string {
	return strings.NewReplacer("STATUS", status, "WARNINGS", warnings, "NAME", name, "HARDWARE", hardware).
		Replace(dcgm3)
}

func TestTestsOfDCGMAreJudgedByWhatTheySayAndNotByTheExitCode(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		exit    int
		fatal   []string
		want    health.Result
		devices []string
		says    string
	}{
		"all passed": {three("Pass", "[]", "Diagnostic", "Pass"), 0, nil, health.Passed, nil, ""},
		"a failed test, whatever the code: Autopilot took such a run for one that could not be made": {
			three("Pass", "[]", "Diagnostic", "Fail"), 226, nil, health.Failed, []string{"5"}, "Diagnostic",
		},
		"a fatal test": {
			three("Fail", `["link is slow"]`, "Diagnostic", "Pass"), 1, nil, health.Fatal, []string{"3"}, "link is slow",
		},
		"warnings as objects": {
			three("Fail", `[{"warning": "link is slow", "error_code": 30}]`, "Diagnostic", "Pass"), 1, nil,
			health.Fatal,
			[]string{"3"},
			"link is slow",
		},
		"warnings as one text": {
			three("Fail", `"link is slow"`, "Diagnostic", "Pass"), 1, nil, health.Fatal, []string{"3"}, "link is slow",
		},
		"a test of another name that tells of a fatal thing": {
			strings.Replace(three("Pass", "[]", "Memory Bandwidth", "Fail"), `"info": "x"`, `"warnings": ["an NVLink is down"]`, 1),
			1, nil, health.Fatal,
			[]string{"5"},
			"NVLink",
		},
		"a list of the admin's is a list of names, and not of letters": {
			three("Pass", "[]", "Diagnostic", "Fail"), 1, []string{"PCIe"}, health.Failed, []string{"5"}, "",
		},
		"a list of the admin's that has it":      {three("Pass", "[]", "Diagnostic", "Fail"), 1, []string{"Diagnostic"}, health.Fatal, []string{"5"}, ""},
		"a list of the admin's without anything": {three("Fail", "[]", "Diagnostic", "Pass"), 1, []string{}, health.Failed, []string{"3"}, ""},
		"DCGM 4":                                 {strings.ReplaceAll(dcgm4, "STATUS", "Fail"), 1, nil, health.Fatal, []string{"2"}, "a row failed"},
		"DCGM 4, well":                           {strings.ReplaceAll(dcgm4, "STATUS", "Pass"), 0, nil, health.Passed, nil, ""},
		"warnings before the answer":             {"Warning: old driver\n" + three("Pass", "[]", "x", "Pass"), 0, nil, health.Passed, nil, ""},
		"it could not test":                      {`{"DCGM GPU Diagnostic": {"runtime_error": "no GPUs"}}`, 1, nil, health.Unknown, nil, "no GPUs"},
		"nothing failed, and yet it says so":     {three("Pass", "[]", "x", "Pass"), 1, nil, health.Unknown, nil, "code 1"},
		"all skipped":                            {three("Skip", "[]", "x", "Skip"), 0, nil, health.Passed, nil, ""},
		"no answer":                              {"Error: unable to connect to the host engine", 255, nil, health.Unknown, nil, "host engine"},
		"cut off":                                {three("Fail", "[]", "x", "Fail")[:300], 1, nil, health.Unknown, nil, "cannot be read"},
		"of a version to come":                   {`{"DCGM Report": {}}`, 0, nil, health.Unknown, nil, "no version"},
		"devices that there cannot be":           {strings.Replace(three("Fail", "[]", "x", "Pass"), `"3"`, `"-1,9999,x"`, 1), 1, nil, health.Fatal, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := DCGM([]byte(c.text), c.exit, c.fatal)
			if o.Result != c.want || !slices.Equal(o.Concerned(), c.devices) || !strings.Contains(o.Message, c.says) {
				t.Errorf("%s of %v: %q", o.Result, o.Concerned(), o.Message)
			}
		})
	}
}

func FuzzDCGM(f *testing.F) {
	f.Add([]byte(three("Fail", "[]", "x", "Fail")), 1)
	f.Add([]byte(strings.ReplaceAll(dcgm4, "STATUS", "Fail")), 0)
	f.Fuzz(func(t *testing.T, text []byte, exit int) {
		o := DCGM(text, exit, nil)
		if o.Result == health.Passed && exit != 0 {
			t.Error("passed with an exit code")
		}
	})
}

// What a deep test left out, on one GPU even, it has not looked at.
func TestWhatADeepTestLeftOut(t *testing.T) {
	all := []string{"PCIe", "GPU Memory", "Diagnostic"}
	of := func(tests ...string) string {
		return `{"DCGM Diagnostic": {"test_categories": [{"tests": [` + strings.Join(tests, ",") + `]}]}}`
	}
	test := func(name string, status ...string) string {
		var results []string
		for _, s := range status {
			results = append(results, `{"entity_group": "GPU", "entity_id": 0, "status": "`+s+`"}`)
		}
		return `{"name": "` + name + `", "results": [` + strings.Join(results, ",") + `]}`
	}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"all, by the names of DCGM 4": {of(test("pcie", "Pass"), test("memory", "Pass"), test("diagnostic", "Pass")), nil},
		"all, by those of DCGM 3":     {of(test("PCIe", "Pass"), test("GPU Memory", "Pass"), test("Diagnostic", "Fail")), nil},
		"one was skipped":             {of(test("pcie", "Pass"), test("memory", "Skip"), test("diagnostic", "Pass")), []string{"GPU Memory"}},
		"one was skipped on a GPU":    {of(test("pcie", "Pass", "Skip"), test("memory", "Pass"), test("diagnostic", "Pass")), []string{"PCIe"}},
		"another test of memory":      {of(test("pcie", "Pass"), test("Memory Bandwidth", "Pass"), test("diagnostic", "Pass")), []string{"GPU Memory"}},
		"of another level":            {of(test("pcie", "Pass"), test("memory", "Pass")), []string{"Diagnostic"}},
		"no answer":                   {"", all},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Looked([]byte(c.text), all); !slices.Equal(got, c.want) {
				t.Errorf("it left out %q, want %q", got, c.want)
			}
		})
	}
}
