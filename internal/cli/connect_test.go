package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestRefusedConnectionSaysWhatToDo: a refused connection says what to do.
func TestRefusedConnectionSaysWhatToDo(t *testing.T) {
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
		"stopped":   {refused, "https://127.0.0.1:1", "the API server of the cluster in " + dir + " does not answer: where mlbatch status --data-dir " + dir + " says that the cluster runs it is started again by itself, and otherwise mlbatch up --data-dir " + dir + " starts it"},
		"elsewhere": {refused, "https://10.0.0.1:6443", "nothing answers at https://10.0.0.1:6443"},
		"other":     {errors.New("forbidden"), "https://127.0.0.1:1", "forbidden"},
	} {
		if got := c.Unreachable(tc.err, tc.server).Error(); !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestNotInstalled: a cluster without mlbatch's kinds is told of with the cure, one without
// kinds of others as the API server says it.
func TestNotInstalled(t *testing.T) {
	missing := func(group, kind string) error {
		return fmt.Errorf(
			"list: %w",
			&meta.NoKindMatchError{
				GroupKind:        schema.GroupKind{Group: group, Kind: kind},
				SearchedVersions: []string{"v1"},
			},
		)
	}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"a kind of mlbatch": {missing("kueue.x-k8s.io", "Workload"), "the cluster has no Workload (kueue.x-k8s.io): mlbatch is not installed there, or an older one is: mlbatch install"},
		"one of others":     {missing("example.com", "Cake"), `list: no matches for kind "Cake" in version "example.com/v1"`},
		"another error":     {errors.New("forbidden"), "forbidden"},
	} {
		if got := NotInstalled(tc.err).Error(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if NotInstalled(nil) != nil {
		t.Error("there was no error")
	}
}
