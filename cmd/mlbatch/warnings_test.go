package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/cli"
)

// TestSubmittingPrintsWarnings: what the API server warns of when a job is made, such as that it can
// never start, is told to whoever submits it.
func TestSubmittingPrintsWarnings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	const text = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, namespace: blue}}], clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	s := submission{session: session{conn: &cli.Connection{Kubeconfig: file}, errs: &errs}}
	if err := s.cluster(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.cfg.WarningHandler.HandleWarningHeader(299, "", "the Job cannot start as it is")
	}
	if got := errs.String(); strings.Count(got, "Warning: the Job cannot start as it is") != 1 {
		t.Errorf("told %q", got)
	}
}
