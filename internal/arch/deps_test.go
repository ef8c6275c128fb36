package arch

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/testkit"
)

// TestDependencies keeps the list of modules that the program is made of under
// review: a change of it is a change of testdata/deps.txt.
func TestDependencies(t *testing.T) {
	const file = "testdata/deps.txt"
	cmd := exec.CommandContext(
		t.Context(),
		"go",
		"list",
		"-deps",
		"-f",
		"{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}",
		"./cmd/mlbatch",
	)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	mods := strings.Fields(string(out))
	slices.Sort(mods)
	got := strings.Join(slices.Compact(mods), "\n") + "\n"
	t.Log("a change of the modules in cmd/mlbatch that is meant: go test ./internal/arch -update")
	testkit.Golden(t, file, got)
}
