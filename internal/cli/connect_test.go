package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestU13NobodyAnswers: a refused connection says what to do.
func TestU13NobodyAnswers(t *testing.T) {
	dir := t.TempDir()
	const kubeconfig = `{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: t}}], current-context: c}`
	if err := os.WriteFile(filepath.Join(dir, "kubeconfig"), []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := fmt.Errorf("read the job: %w", syscall.ECONNREFUSED)
	c := Connection{DataDir: dir}
	for name, tc := range map[string]struct {
		err    error
		server string
		want   string
	}{
		"stopped":   {refused, "https://127.0.0.1:1", "the cluster in " + dir + " does not run: start it with mlbatch up --data-dir " + dir},
		"elsewhere": {refused, "https://10.0.0.1:6443", "nothing answers at https://10.0.0.1:6443"},
		"other":     {errors.New("forbidden"), "https://127.0.0.1:1", "forbidden"},
	} {
		if got := c.Unreachable(tc.err, tc.server).Error(); !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
