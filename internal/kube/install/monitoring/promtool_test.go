package monitoring

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Each alert fires on what it is about, once that lasted, and on nothing else.
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool in PATH (Debian: apt-get install prometheus)")
	}
	cmd := exec.CommandContext(t.Context(), promtool, "test", "rules", filepath.Join("testdata", "alerts.yaml"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
