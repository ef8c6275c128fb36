package arch

import (
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/deps.txt afresh")

// TestDependencies keeps the list of modules that the program is made of under
// review: a change of it is a change of testdata/deps.txt.
func TestDependencies(t *testing.T) {
	const file = "testdata/deps.txt"
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./cmd/mlbatch")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	mods := strings.Fields(string(out))
	slices.Sort(mods)
	got := strings.Join(slices.Compact(mods), "\n") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the modules in cmd/mlbatch changed (-listed +found); if that is meant, run go test ./internal/arch -update\n%s", diff)
	}
}
