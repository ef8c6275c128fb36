//go:build !noembed

package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/mlbatch/mlbatch/internal/cli/submit"
)

// TestSubmitExitCodes: mistakes of those who submit, with the cure, before a cluster is asked.
func TestSubmitExitCodes(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	script := filepath.Join(t.TempDir(), "s.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n#SBATCH -N two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := filepath.Join(t.TempDir(), "good.sh")
	if err := os.WriteFile(good, []byte("#!/bin/sh\ntrue\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	offline := func(args ...string) []string { return append([]string{args[0], "--kubeconfig", none}, args[1:]...) }
	tests := map[string]struct {
		why  string
		args []string
		code int
		says string
	}{
		"plan": {
			"a cluster has to be asked",
			offline("run", "--image", "x", "--dry-run", "plan", "--", "x"),
			exitFailure,
			"no such file",
		},
		"dry run": {
			"lists them",
			offline("run", "--image", "x", "--dry-run", "all", "--", "x"),
			exitUsage,
			"use client, server or plan",
		},
		"after": {
			"how it has to be said",
			offline("run", "-o", "yaml", "--image", "x", "--after", "x", "--", "x"),
			exitUsage,
			"use ok:JOB",
		},
		"script": {
			"where the mistake is",
			offline("submit", "--image", "x", script),
			exitUsage,
			"s.sh:2: nodes",
		},
		"too late": {
			"the job would be made",
			offline("submit", "--image", "x", good, "--dry-run", "client"),
			exitUsage,
			"put options of submit before",
		},
		"prints late": {
			"the same",
			offline("submit", "--image", "x", good, "-o", "yaml"),
			exitUsage,
			"put options of submit before",
		},
		"theirs": {
			"-- says so",
			offline("submit", "--image", "x", "-o", "yaml", good, "--", "--dry-run", "-o", "yaml"),
			exitOK,
			"- --dry-run",
		},
		"their out": {
			"many a script has such an option",
			offline("submit", "--image", "x", "-o", "yaml", good, "-o", "dir"),
			exitOK,
			"- dir",
		},
		"maybe ours": {
			"it is told",
			offline("submit", "--image", "x", "-o", "yaml", good, "--nodes", "2"),
			exitOK,
			"--nodes after",
		},
		"pty": {
			"what there is instead",
			offline("srun", "--image", "x", "--pty", "bash"),
			exitUsage,
			"mlbatch exec",
		},
		"srun nothing": {"a command", offline("srun"), exitUsage, "requires at least 1 arg"},
		"scancel all":  {"nobody means that", offline("scancel"), exitUsage, "name jobs"},
		"scancel what": {"lists them", offline("scancel", "-t", "XX"), exitUsage, "PD PENDING"},
		"array nodes": {
			"each task is one pod",
			offline("run", "-o", "yaml", "--image", "x", "-a", "0-1", "-N", "2", "--", "x"),
			exitUsage,
			"each task of an array is one pod",
		},
		"workdir": {
			"there is none",
			offline("run", "-o", "yaml", "--image", "x", "--workdir", none, "--", "x"),
			exitFailure,
			"--workdir",
		},
		"profile": {
			"it is in the cluster",
			offline("run", "-o", "yaml", "--image", "x", "--profile", "p", "--", "x"),
			exitFailure,
			"needs a cluster",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if code := run(
				t.Context(),
				tc.args,
				&out,
				&out,
			); code != tc.code ||
				!strings.Contains(out.String(), tc.says) {
				t.Errorf(
					"mlbatch %s exits with %d, want %d and %q: %s\n%s",
					strings.Join(tc.args, " "),
					code,
					tc.code,
					tc.says,
					tc.why,
					out.String(),
				)
			}
		})
	}
}

// TestPlanNamesTheJob: what would start is named, also a job whose name the API server will make.
func TestPlanNamesTheJob(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status": {"outcome": "Starts", "clusterQueue": "blue-cluster-queue"}}`)
	}))
	t.Cleanup(server.Close)
	for name, tc := range map[string]struct{ why, metadata, says string }{
		"name":         {"it is the name that it will have", "name: train", "Job blue/train would start"},
		"generateName": {"its name begins so, and there is none yet", "generateName: train-", "Job blue/train-... would start"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := submit.ReadManifests(
				"job.yaml",
				[]byte("apiVersion: batch/v1\nkind: Job\nmetadata: {"+tc.metadata+
					", labels: {kueue.x-k8s.io/queue-name: default-queue}}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: x}]}}}\n"),
			)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			s := submission{namespace: "blue", session: session{out: &out, cfg: &rest.Config{Host: server.URL}}}
			if err := s.plans(t.Context(), objects); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), tc.says) {
				t.Errorf("%s: %s", tc.why, out.String())
			}
		})
	}
}
