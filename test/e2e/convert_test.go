package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/cli/check"
	"github.com/mlbatch/mlbatch/internal/cli/manifest"
)

// madeAs types a command of mlbatch, and creates what it prints as a user.
func madeAs(t *testing.T, as string, args ...string) {
	t.Helper()
	out, err := cluster.Run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	docs, err := manifest.Read(strings.Join(args, " "), []byte(out))
	if err != nil {
		t.Fatal(err)
	}
	for i := range docs {
		text, err := yaml.Marshal(docs[i].Object.Object)
		if err != nil {
			t.Fatal(err)
		}
		create(t, user(t, as), string(text), "blue")
	}
}

// kept is a file of a test.
func kept(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestWhatIsMadeRuns: what generate, wrap and convert print is accepted from a member of a team,
// and runs with all its pods to its end; lint finds no error in it, and asks for nothing.
func TestWhatIsMadeRuns(t *testing.T) {
	awaitEmpty(t, "blue")
	const pytorch = `
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: NAME, labels: {kueue.x-k8s.io/queue-name: default-queue}}
spec:
  pytorchReplicaSpecs:
    Master: {replicas: 1, restartPolicy: Never, template: TEMPLATE}
    Worker: {replicas: 2, restartPolicy: Never, template: TEMPLATE}
`
	job := func(name, worker string) string {
		const template = `{spec: {terminationGracePeriodSeconds: 1, containers: [{name: pytorch, image: "i:1", command: [sleep, "20"], resources: {limits: {cpu: 1, memory: 1Gi, nvidia.com/gpu: 1}}}]}}`
		text := strings.Replace(strings.Replace(pytorch, "NAME", name, 1), "TEMPLATE", template, 1)
		return strings.Replace(text, "TEMPLATE", strings.Replace(template, "i:1", worker, 1), 1)
	}
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: wrapped}\ndata: {run.sh: \"#!/bin/sh\\n\\necho  \\n\"}\n---\n"
	cases := map[string]struct {
		why  string
		args []string
		pods int
	}{
		"generated": {
			"as from MLBatch's chart",
			[]string{
				"generate",
				"pytorchjob",
				"--job-name",
				"generated",
				"--container-image",
				"i:1",
				"--num-pods",
				"3",
				"--num-gpus-per-pod",
				"1",
				"--setup-commands",
				"sleep 20",
			},
			3,
		},
		"wrapped": {
			"with what it needs",
			[]string{"wrap", "-f", kept(t, "a.yaml", config+job("wrapped", "i:1"))},
			3,
		},
		"set": {
			"of equal pods",
			[]string{"convert", "--strict", "--to", "jobset", "-f", kept(t, "b.yaml", job("set", "i:1"))},
			3,
		},
		"two": {
			"of master and workers that differ",
			[]string{"convert", "--strict", "--to", "jobset", "-f", kept(t, "c.yaml", job("two", "j:1"))},
			3,
		},
		"train": {
			"with its runtime",
			[]string{"convert", "--strict", "--to", "trainjob", "-f", kept(t, "d.yaml", job("train", "i:1"))},
			3,
		},
		"indexed": {
			"with its Service",
			[]string{"convert", "--strict", "--to", "job", "-f", kept(t, "e.yaml", job("indexed", "i:1"))},
			3,
		},
	}
	for name, c := range cases {
		out, err := cluster.Run(t.Context(), c.args...)
		if err != nil {
			t.Fatal(err)
		}
		tried := "latest-image"
		if name == "train" {
			tried = "dry-run" // its runtime is in the same file, and not in the cluster yet
		}
		if _, err := cluster.Run(
			t.Context(),
			"lint",
			"-f",
			kept(t, "made.yaml", out),
			"--cluster",
			"-n",
			"blue",
			"--as",
			"alice",
			"--disable",
			tried,
		); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		madeAs(t, "alice", c.args...)
		ended := map[string]bool{}
		eventually(t, name+", "+c.why+", runs to its end", func() string {
			var all corev1.PodList
			if err := user(t, "").List(t.Context(), &all, client.InNamespace("blue")); err != nil {
				return err.Error()
			}
			for i := range all.Items {
				if p := &all.Items[i]; strings.HasPrefix(p.Name, name) && p.Status.Phase == corev1.PodSucceeded {
					ended[p.Name] = true
				}
			}
			led := slices.ContainsFunc(
				all.Items,
				func(p corev1.Pod) bool { return ended[p.Name] && strings.Contains(p.Name, "master") },
			)
			if len(ended) < c.pods && !led { // workers of a master that has ended are stopped
				return fmt.Sprintf("%d of %d pods have ended", len(ended), c.pods)
			}
			return ""
		})
	}
}

// TestConvertedRanks: every pod of a converted job is told another rank, from 0 on.
func TestConvertedRanks(t *testing.T) {
	awaitEmpty(t, "blue")
	const job = `
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: ranks, labels: {kueue.x-k8s.io/queue-name: default-queue}}
spec:
  pytorchReplicaSpecs:
    Worker: {replicas: 2, restartPolicy: Never, template: TEMPLATE}
    Master: {replicas: 1, restartPolicy: Never, template: TEMPLATE}
`
	const template = `{spec: {containers: [{name: pytorch, image: "i:1", command: [sleep, "6000"], resources: {limits: {cpu: 1, memory: 1Gi, nvidia.com/gpu: 1}}}]}}`
	madeAs(
		t,
		"alice",
		"convert",
		"--to",
		"jobset",
		"-f",
		kept(t, "a.yaml", strings.ReplaceAll(job, "TEMPLATE", template)),
	)
	eventually(t, "three pods with the ranks 0 to 2", func() string {
		var all corev1.PodList
		if err := user(
			t,
			"",
		).List(t.Context(), &all, client.InNamespace("blue"), client.MatchingLabels{"jobset.sigs.k8s.io/jobset-name": "ranks"}); err != nil {
			return err.Error()
		}
		var ranks []string
		for i := range all.Items {
			ranks = append(ranks, all.Items[i].Annotations[batchv1.JobCompletionIndexAnnotation])
		}
		if slices.Sort(ranks); !slices.Equal(ranks, []string{"0", "1", "2"}) {
			return fmt.Sprint(ranks)
		}
		return ""
	})
}

// TestCheck: a cluster in order has no warnings; a bad node, and a job that fits nowhere, are
// found, and told by the exit code. A member of a team gets what is his.
func TestCheck(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	admin := user(t, "")
	asked := func(args ...string) (check.Report, error) {
		out, err := cluster.Run(t.Context(), append([]string{"check", "-o", "json"}, args...)...)
		var r check.Report
		if bad := json.Unmarshal([]byte(out), &r); bad != nil {
			t.Fatalf("%v: %v\n%s", err, bad, out)
		}
		return r, err
	}
	eventually(t, "all is in order", func() string {
		if r, err := asked(); err != nil {
			return fmt.Sprintf("%v %+v", err, r.Findings)
		}
		return ""
	})
	label := func(value string) {
		var n corev1.Node
		if err := admin.Get(withoutCancel(t), client.ObjectKey{Name: "node-1"}, &n); err != nil {
			t.Fatal(err)
		}
		before := n.DeepCopy()
		if n.Labels["autopilot.ibm.com/gpuhealth"] = value; value == "" {
			delete(n.Labels, "autopilot.ibm.com/gpuhealth")
		}
		if err := admin.Patch(withoutCancel(t), &n, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { label("") })
	label("EVICT")
	create(t, user(t, "alice"), gang("too-large", 1, 9, 60), "blue")
	eventually(t, "what is wrong is found", func() string {
		r, err := asked()
		var rules []string
		for _, f := range r.Findings {
			rules = append(rules, f.Rule)
		}
		for _, want := range []string{"node-out", "slack-adjusted", "too-large"} {
			if !slices.Contains(rules, want) {
				return fmt.Sprintf("%s is not among %v", want, rules)
			}
		}
		if err == nil {
			return "it exits with 0"
		}
		return ""
	})
	if r, err := asked("blue", "--as", "alice"); err != nil || !slices.Contains(r.Unread, "nodes") {
		t.Errorf("alice asks about her namespace: %v, %+v", err, r)
	}
	if out, _ := cluster.Run(
		t.Context(),
		"check",
		"--metrics",
	); !strings.Contains(
		out,
		`mlbatch_check_findings{rule="too-large",severity="warning"} 1`,
	) {
		t.Errorf("metrics:\n%s", out)
	}
}
