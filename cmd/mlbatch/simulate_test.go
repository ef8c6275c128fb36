//go:build !noembed

package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/testkit"
)

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
		"compare": {
			"two policies side by side",
			"compare",
			[]string{"--compare", "kind.yaml", "small.yaml"},
			exitOK,
			false,
		},
		"three": {
			"not just two, and what keeps them from being compared",
			"compare-three",
			[]string{"--compare", "kind.yaml", "small.yaml", "longer.yaml"},
			exitOK,
			false,
		},
		"bad file": {
			"names file, line, field and cure, for each that is wrong",
			"bad",
			[]string{"bad.yaml"},
			exitFailure,
			true,
		},
		"seed": {"0 is no seed", "seed", []string{"small.yaml", "--seed", "0"}, exitUsage, true},
		"svg": {
			"one world at a time",
			"svg",
			[]string{"--compare", "kind.yaml", "small.yaml", "--svg", "x.svg"},
			exitUsage,
			true,
		},
		"no file":  {"names the file", "none", []string{"none.yaml"}, exitFailure, true},
		"one file": {"says what is missing", "one", []string{"--compare", "small.yaml"}, exitUsage, true},
	}
	t.Chdir(filepath.Join("testdata", "simulate"))
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			if code := run(
				t.Context(),
				append([]string{"simulate", "--quiet"}, tc.args...),
				&out,
				&errOut,
			); code != tc.code {
				t.Fatalf("exit code %d, want %d: %s\n%s", code, tc.code, tc.why, errOut.String())
			}
			got, silent := &out, &errOut
			if tc.failed {
				got, silent = &errOut, &out
			}
			if silent.Len() > 0 {
				t.Errorf("the other stream has %q", silent.String())
			}
			t.Log(tc.why)
			testkit.Golden(t, tc.golden+".golden", got.String())
		})
	}
}

// TestSimulateStopsWithResults: Ctrl-C loses nothing.
func TestSimulateStopsWithResults(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errOut bytes.Buffer
	if code := run(ctx, []string{"simulate", "--quiet"}, &out, &errOut); code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
	if !strings.Contains(errOut.String(), "stopped early") || !strings.Contains(out.String(), "utilisation") {
		t.Errorf(
			"printed %q and %q, want the results so far and that it was stopped",
			out.String(),
			errOut.String(),
		)
	}
	errOut.Reset()
	code := run(ctx, []string{"simulate", "--goodput"}, &out, &errOut)
	if code != exitFailure || !strings.Contains(errOut.String(), "stopped early, after 0 rows") {
		t.Errorf("--goodput: exit code %d, %q", code, errOut.String())
	}
}

// TestSimulateDraws: pictures are well formed, the same each time, and show each team.
func TestSimulateDraws(t *testing.T) {
	dir := t.TempDir()
	svg, page := filepath.Join(dir, "a.svg"), filepath.Join(dir, "a.html")
	draw := func() (string, string) {
		var out bytes.Buffer
		if code := run(
			t.Context(),
			[]string{"simulate", "--quiet", "--svg", svg, "--html", page},
			&out,
			&out,
		); code != exitOK {
			t.Fatalf("exit code %d: %s", code, out.String())
		}
		a, err := os.ReadFile(svg)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		return string(a), string(b)
	}
	one, page1 := draw()
	two, page2 := draw()
	if one != two || page1 != page2 {
		t.Error("the same world is drawn in two ways")
	}
	const shown = "../../docs/pictures/simulate.svg" // in README.md and docs/simulate.md; make pictures draws it, too
	testkit.Golden(t, shown, one)
	if !strings.Contains(page1, one) || !strings.Contains(page1, "Jain index") {
		t.Error("the page lacks the charts or the tables")
	}
	d := xml.NewDecoder(strings.NewReader(one))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{">blue<", ">green<", ">red<", ">offered<", "GPUs in use", "jobs that wait", "wait until a job starts"} {
		if !strings.Contains(one, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
	if strings.Contains(one, "NaN") || strings.Contains(one, "Inf") {
		t.Error("the picture has numbers that are none")
	}
}

// TestSimulateWarnsOfLabels: GPUs that no workload can have are told of.
func TestSimulateWarnsOfLabels(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.yaml")
	text := "nodes: [{name: n, count: 1, gpus: 8}]\nteams: [{name: red, gpus: 8}]\njobs:\n- {name: j, team: red, count: 1, duration: 1h, nodeSelector: {zone: a}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	if code := run(t.Context(), []string{"simulate", "--quiet", file}, &out, &errOut); code != exitOK {
		t.Fatalf("exit code %d: %s", code, errOut.String())
	}
	if want := "warning: " + file + ":4: jobs[0] (j).nodeSelector: no node has the labels zone=a"; !strings.HasPrefix(
		errOut.String(),
		want,
	) {
		t.Errorf("says %q, want %q", errOut.String(), want)
	}
}

// TestPoliciesAreReadOnce: files behind --compare are read once, however they are listed.
func TestPoliciesAreReadOnce(t *testing.T) {
	s := simulation{flights: "flights", compare: []string{"a.yaml"}}
	if err := s.complete(
		[]string{"b.yaml", "c.yaml"},
		true,
	); err != nil ||
		strings.Join(s.compare, " ") != "a.yaml b.yaml c.yaml" {
		t.Errorf("%v, %v", s.compare, err)
	}
}
