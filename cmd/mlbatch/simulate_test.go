//go:build !noembed

package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateGolden = flag.Bool("update", false, "rewrite testdata/simulate/*.golden")

// TestSimulatePrints compares what the command prints, to the byte: results must
// not depend on the machine, the day or the order of a map.
func TestSimulatePrints(t *testing.T) {
	tests := map[string]struct {
		why, golden string
		args        []string
		code        int
		failed      bool // it is standard error that is compared
	}{
		"built-in": {"the first thing that people see", "builtin", nil, exitOK, false},
		"json":     {"for a notebook", "small-json", []string{"small.yaml", "-o", "json"}, exitOK, false},
		"checked":  {"the auditor changes nothing", "small", []string{"small.yaml", "--check"}, exitOK, false},
		"compare":  {"two policies side by side", "compare", []string{"--compare", "kind.yaml", "small.yaml"}, exitOK, false},
		"bad file": {"names file, field and cure", "bad", []string{"bad.yaml"}, exitFailure, true},
		"no file":  {"names the file", "none", []string{"none.yaml"}, exitFailure, true},
		"one file": {"says what is missing", "one", []string{"--compare", "small.yaml"}, exitUsage, true},
	}
	t.Chdir(filepath.Join("testdata", "simulate"))
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			if code := run(t.Context(), append([]string{"simulate", "--quiet"}, tc.args...), &out, &errOut); code != tc.code {
				t.Fatalf("exit code %d, want %d: %s\n%s", code, tc.code, tc.why, errOut.String())
			}
			got, silent := &out, &errOut
			if tc.failed {
				got, silent = &errOut, &out
			}
			if silent.Len() > 0 {
				t.Errorf("the other stream has %q", silent.String())
			}
			file := tc.golden + ".golden"
			if *updateGolden {
				if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got.String()); d != "" {
				t.Errorf("%s (-want +got; -update rewrites the file):\n%s", tc.why, d)
			}
		})
	}
}
