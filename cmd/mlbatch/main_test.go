//go:build !noembed

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/kube/leaderelection"
	"github.com/mlbatch/mlbatch/internal/local"
	"github.com/mlbatch/mlbatch/internal/local/supervise"
)

func TestMain(m *testing.M) {
	withoutLibraryFlags()
	os.Exit(m.Run())
}

// Logs of kubectl's libraries are for those who ask for them.
func TestKubectlLogsWhatIsAskedFor(t *testing.T) {
	for args, want := range map[string]bool{
		"get pods": false, "get pods -v=6": true, "-v 6 get pods": true, "get pods -v6": true, "get pods --v=6": true,
		"exec pod -- tool -v": false, "version": false, "get vpods": false, "get pods -vx": false,
	} {
		if got := verbose(strings.Fields(args)); got != want {
			t.Errorf("kubectl %s: %t, want %t", args, got, want)
		}
	}
}

// TestVersionIsSaidEitherWay: the program's own version, asked for in either way, and no flag of a
// library on any command.
func TestVersionIsSaidEitherWay(t *testing.T) {
	say := func(args ...string) (int, string) {
		var out bytes.Buffer
		return run(t.Context(), args, &out, &out), out.String()
	}
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if code, text := say(
			args...); code != exitOK || !strings.HasPrefix(text, "mlbatch ") || !strings.Contains(text, "Kubernetes v") ||
			strings.Contains(text, "(devel)") {
			t.Errorf("mlbatch %v: %d, %q", args, code, text)
		}
	}
	if code, text := say("up", "--version"); code != exitUsage {
		t.Errorf("up --version: %d, %q; want that there is no such flag", code, text)
	}
	for _, c := range []string{"up", "why", "simulate", "controller"} {
		if _, text := say(c, "--help"); strings.Contains(text, "--version") {
			t.Errorf("%s --help offers a flag of a library:\n%s", c, text)
		}
	}
	for name, tc := range map[string]struct {
		stamped string
		info    debug.BuildInfo
		want    string
	}{
		"tag":     {"v1.2.3", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "v1.2.3"},
		"module":  {"", debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3"},
		"commit":  {"", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}}, "of commit abc with changes"},
		"unknown": {"", debug.BuildInfo{}, "of an unknown commit: it was not built by make build"},
	} {
		if got := versionOf(tc.stamped, tc.info); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestUpStaysEmpty: a user who began without the tutorial does not get it later, unless asked
// for.
func TestUpStaysEmpty(t *testing.T) {
	tests := map[string]struct {
		why, marker string
		args        []string
		want        bool
	}{
		"new":                {"the tutorial is what people begin with", "", nil, true},
		"new, empty":         {"an administrator's own cluster", "", []string{"--empty"}, false},
		"began empty":        {"it stays so", `{"complete": true, "empty": true}`, nil, false},
		"began empty, asked": {"on request", `{"complete": true, "empty": true}`, []string{"--empty=false"}, true},
		"began with it": {
			"what is there is not made again, so nothing changes",
			`{"complete": true, "tutorial": true}`,
			nil,
			true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var o upOptions
			dir := t.TempDir()
			if tc.marker != "" {
				if err := os.WriteFile(filepath.Join(dir, "mlbatch.json"), []byte(tc.marker), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f := newUpCommand().Flags()
			if err := f.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			o.dir = dataDir(dir)
			o.empty, _ = f.GetBool("empty")
			cfg, err := o.config(f)
			if err != nil || cfg.Tutorial != tc.want {
				t.Errorf("tutorial %v, %v; want %v: %s", cfg.Tutorial, err, tc.want, tc.why)
			}
		})
	}
}

func TestEveryCommandHasHelpAndAnExample(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" || c.Example == "" {
			t.Errorf("%q lacks a description or an example", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRootCommand())
}

func TestExitCodes(t *testing.T) {
	const old = "../../internal/replay/testdata/version-2" // recordings
	empty, foreign, files := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(dir, name, content string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write(foreign, "thesis.tex", "")
	mixed, broken := t.TempDir(), t.TempDir()
	const fine = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: c, image: i}]}}}\n"
	for _, dir := range []string{mixed, broken} {
		write(dir, "values.yaml", "numPods: 2\n")
		write(dir, "work.yaml", fine)
	}
	write(broken, "template.yaml", "a: {{ .Values.x }\n")
	const header = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
	good, bad := write(
		files,
		"good.yaml",
		header+"metrics: {bindAddress: \":1234\"}\n",
	), write(
		files,
		"bad.yaml",
		header+"webhok: {}\n",
	)
	tests := map[string]struct {
		why  string
		args []string
		code int
		says string
	}{
		"nothing":       {"tells what there is", nil, exitOK, "Work with jobs:"},
		"version":       {"says which Kubernetes is inside", []string{"version"}, exitOK, "v1.37.2"},
		"kubectl help":  {"says how it differs", []string{"kubectl", "--help"}, exitOK, "--data-dir"},
		"scenes":        {"says what there is to see", []string{"demo", "list"}, exitOK, "big-job"},
		"no such scene": {"names those that there are", []string{"demo", "wy"}, exitUsage, "big-job"},
		"scaled scene": {
			"a scene has a time of its own",
			[]string{"demo", "why", "--time-scale", "2"},
			exitUsage,
			"--time-scale",
		},
		"no time": {
			"time must pass",
			[]string{"demo", "all", "--time-scale", "0"},
			exitUsage,
			"--time-scale",
		},
		"unknown": {"a slip of the finger", []string{"staus"}, exitUsage, `did you mean "status"`},
		"unknown flag": {
			"a slip of the finger",
			[]string{"up", "--nodez", "3"},
			exitUsage,
			"unknown flag: --nodez; did you mean --nodes?",
		},
		"argument":   {"up takes none", []string{"up", "now"}, exitUsage, "now"},
		"bad number": {"names the flag", []string{"up", "--nodes", "many"}, exitUsage, "--nodes"},
		"no nodes": {
			"says what is allowed",
			[]string{"up", "--data-dir", empty, "--nodes", "-1"},
			exitUsage,
			"between 1",
		},
		"0 nodes": {
			"nothing would ever run",
			[]string{"up", "--data-dir", empty, "--nodes", "0"},
			exitUsage,
			"between 1",
		},
		"help": {
			"of what there is not",
			[]string{"help", "nosuch"},
			exitUsage,
			`there is no command "nosuch"`,
		},
		"help up": {"as with --help", []string{"help", "up"}, exitOK, "--nodes"},
		"bad quantity": {
			"names flag and cure",
			[]string{"up", "--data-dir", empty, "--memory-per-node", "lots"},
			exitUsage,
			"such as 2000Gi",
		},
		"no such feature gate": {
			"the API server would not start",
			[]string{"up", "--data-dir", empty, "--kube-feature-gates", "GenericWrokload=true"},
			exitUsage,
			"unrecognized feature gate: GenericWrokload",
		},
		"gate without what it needs": {
			"the API server would not start",
			[]string{"up", "--data-dir", empty, "--kube-feature-gates", "WorkloadWithJob=true"},
			exitUsage,
			"[GenericWorkload]",
		},
		"no such API": {
			"the API server would not start",
			[]string{"up", "--data-dir", empty, "--kube-runtime-config", "scheduling.k8s.io/v9=true"},
			exitUsage,
			"scheduling.k8s.io/v9",
		},
		"an API that is neither on nor off": {
			"the API server would not start",
			[]string{"up", "--data-dir", empty, "--kube-runtime-config", "scheduling.k8s.io/v1beta1=yes"},
			exitUsage,
			"true or false",
		},
		"bad scale": {
			"names flag and cure",
			[]string{"up", "--data-dir", empty, "--time-scale", "0"},
			exitUsage,
			"greater than 0",
		},
		"bad port": {
			"names flag and cure",
			[]string{"up", "--data-dir", empty, "--api-port", "70000"},
			exitUsage,
			"65535",
		},
		"foreign dir": {
			"touches no files of others",
			[]string{"up", "--data-dir", foreign},
			exitFailure,
			"thesis.tex",
		},
		"status of none": {
			"tells how to start one",
			[]string{"status", "--data-dir", empty},
			exitFailure,
			"mlbatch up",
		},
		"down of none": {"is no success", []string{"down", "--data-dir", empty}, exitFailure, "no cluster"},
		"delete foreign": {
			"touches no files of others",
			[]string{"down", "--delete", "--data-dir", foreign},
			exitFailure,
			"no cluster",
		},
		"no component": {"lists them", []string{"component", "nosuch"}, exitUsage, "kube-apiserver"},
		"ps typo": {
			"an unknown state would list nothing, as if nothing waited",
			[]string{"ps", "--state", "Waitng"},
			exitUsage,
			"Held, Waiting, Starting",
		},
		"ps format": {
			"names those that there are",
			[]string{"ps", "-o", "table"},
			exitUsage,
			"wide, name, json, yaml or custom-columns=",
		},
		"ps columns": {
			"shows the form",
			[]string{"ps", "-o", "custom-columns=NAME"},
			exitUsage,
			"TITLE:.field",
		},
		"ps both": {
			"they contradict each other",
			[]string{"ps", "-A", "-n", "blue"},
			exitUsage,
			"give one of them",
		},
		"job nowhere": {
			"guessing a namespace would answer for another job",
			[]string{"why", "--kubeconfig", empty, "a"},
			exitUsage,
			"-n NAMESPACE",
		},
		"job twice": {
			"they contradict each other",
			[]string{"why", "-n", "blue", "red/a"},
			exitUsage,
			"give one of them",
		},
		"why configmap": {
			"nothing of it waits",
			[]string{"why", "-n", "blue", "configmap/x"},
			exitUsage,
			"nothing of that kind waits or runs",
		},
		"why node": {"another command knows", []string{"why", "node/x"}, exitUsage, "mlbatch nodes"},
		"why a CRD": {
			"no namespace has dots",
			[]string{"why", "foos.example.com/x"},
			exitUsage,
			"kind foos.example.com is not known",
		},
		"why two kinds": {
			"they may contradict each other",
			[]string{"why", "-n", "blue", "--kind", "job", "pod/x"},
			exitUsage,
			"give one of them",
		},
		"why not itself": {
			"a job is not in its own way",
			[]string{"why-not", "-n", "blue", "a", "blue/a"},
			exitUsage,
			"named twice",
		},
		"why not whom": {"two jobs are compared", []string{"why-not", "blue/a"}, exitUsage, "accepts 2 arg"},
		"why not output": {
			"a format that there is not",
			[]string{"why-not", "blue/a", "blue/b", "-o", "wide"},
			exitUsage,
			"use json or yaml",
		},
		"job kind": {
			"a typo must not be ignored",
			[]string{"why", "--kind", "pond", "red/a"},
			exitUsage,
			"PyTorchJob",
		},
		"eta format": {
			"names those that there are",
			[]string{"eta", "-o", "table"},
			exitUsage,
			"wide, json or yaml",
		},
		"eta both": {"they contradict each other", []string{"eta", "-A", "blue/a"}, exitUsage, "no job"},
		"eta trace": {
			"a cluster has no trace",
			[]string{"eta", "--trace", "x.csv"},
			exitUsage,
			"--calibration",
		},
		"eta measured": {"on the built-in world", []string{"eta", "--calibration"}, exitOK, "P90 IN TIME"},
		"eta as json":  {"for a notebook", []string{"eta", "--calibration", "-o", "json"}, exitOK, `"p90"`},
		"eta no trace": {
			"names the file",
			[]string{"eta", "--calibration", "--trace", filepath.Join(empty, "none")},
			exitFailure,
			"no such file",
		},
		"queue format": {
			"names those that there are",
			[]string{"queue", "-o", "table"},
			exitUsage,
			"wide, name, json, yaml or custom-columns=",
		},
		"nodes format": {
			"names those that there are",
			[]string{"nodes", "-o", "table"},
			exitUsage,
			"wide, name, json, yaml or custom-columns=",
		},
		"show format": {
			"names those that there are",
			[]string{"show", "blue/a", "-o", "name"},
			exitUsage,
			"wide, json or yaml",
		},
		"show lines": {
			"says what is allowed",
			[]string{"show", "blue/a", "--lines", "-1"},
			exitUsage,
			"0 or more",
		},
		"events both": {
			"they contradict each other",
			[]string{"events", "-A", "-n", "blue"},
			exitUsage,
			"give one of them",
		},
		"events since": {"names flag and cure", []string{"events", "--since", "-1s"}, exitUsage, "such as 10m"},
		"events kind":  {"it would be ignored", []string{"events", "--kind", "job"}, exitUsage, "which job"},
		"logs follow": {
			"they contradict each other",
			[]string{"logs", "blue/a", "-f", "--previous"},
			exitUsage,
			"give one of them",
		},
		"logs rank": {"names flag and cure", []string{"logs", "blue/a", "--rank", "x"}, exitUsage, "0..3"},
		"logs most": {
			"nothing would be read",
			[]string{"logs", "blue/a", "--most", "0"},
			exitUsage,
			"at least 1",
		},
		"cancel nothing": {"never all", []string{"cancel"}, exitUsage, "with -l"},
		"cancel both": {
			"they contradict each other",
			[]string{"cancel", "blue/a", "-l", "a=b"},
			exitUsage,
			"with -l",
		},
		"cancel where": {
			"labels of which namespace",
			[]string{"cancel", "-l", "a=b", "--kubeconfig", empty},
			exitFailure,
			"kubeconfig",
		},
		"hold format": {
			"names those that there are",
			[]string{"hold", "blue/a", "-o", "wide"},
			exitUsage,
			"name, json or yaml",
		},
		"hold dry": {
			"names those that there are",
			[]string{"hold", "blue/a", "--dry-run", "yes"},
			exitUsage,
			"client or server",
		},
		"prio class":   {"which class", []string{"prio", "blue/a"}, exitUsage, "JOB... CLASS"},
		"prio order":   {"the class comes last", []string{"prio", "high", "blue/a"}, exitUsage, "comes last"},
		"scale number": {"how many", []string{"scale", "blue/a", "many"}, exitUsage, "comes last"},
		"scale below":  {"less than nothing", []string{"scale", "blue/a", "--", "-1"}, exitUsage, "comes last"},
		"exec what":    {"no command", []string{"exec", "blue/a"}, exitUsage, "JOB -- COMMAND"},
		"exec dash": {
			"flags of the command would be taken for ours",
			[]string{"exec", "blue/a", "ls"},
			exitUsage,
			"JOB -- COMMAND",
		},
		"port which": {"of which job", []string{"port"}, exitUsage, "requires at least 1 arg"},
		"cp here":    {"no pod is named", []string{"cp", "a", "b"}, exitUsage, "JOB:PATH"},
		"cp nothing": {"which path", []string{"cp", "blue/a:", "b"}, exitUsage, "which path of the pod"},
		"wait for what": {
			"lists them",
			[]string{"wait", "blue/a"},
			exitUsage,
			"admitted, running, succeeded, ended, deleted",
		},
		"wait timeout": {
			"names the flag",
			[]string{"wait", "blue/a", "--for", "ended", "--timeout", "-1s"},
			exitUsage,
			"such as 10m",
		},
		"top what": {
			"lists them",
			[]string{"top", "hosts"},
			exitUsage,
			"jobs, users, queues, namespaces, nodes",
		},
		"top nodes": {
			"nodes are of all namespaces",
			[]string{"top", "nodes", "-n", "blue"},
			exitUsage,
			"leave out",
		},
		"top format": {
			"names those that there are",
			[]string{"top", "-o", "wide"},
			exitUsage,
			"json, yaml or custom-columns=",
		},
		"team quota": {
			"jobs ask for another resource",
			[]string{"team", "create", "x", "--gpus", "1", "--quota", "gpu=3"},
			exitUsage,
			"nvidia.com/gpu",
		},
		"team gpus": {
			"there are no halves",
			[]string{"team", "create", "x", "--gpus", "1.5"},
			exitUsage,
			"a whole number",
		},
		"team edit": {"of nothing", []string{"team", "edit", "x"}, exitUsage, "--gpus 16"},
		"team delete": {
			"they contradict each other",
			[]string{"team", "delete", "x", "--delete-namespace", "--keep-namespace"},
			exitUsage,
			"give one of them",
		},
		"team format": {
			"names those that there are",
			[]string{"team", "-o", "table"},
			exitUsage,
			"wide, json or yaml",
		},
		"queue create": {
			"half a LocalQueue",
			[]string{"queue", "create", "x", "-n", "blue"},
			exitUsage,
			"--clusterqueue NAME",
		},
		"queue local": {
			"it would be ignored",
			[]string{"queue", "create", "x", "-n", "blue", "-c", "y", "--quota", "cpu=1"},
			exitUsage,
			"of ClusterQueues",
		},
		"queue policy": {
			"lists them",
			[]string{"queue", "create", "x", "--reclaim-within-cohort", "Always"},
			exitUsage,
			"Never, LowerPriority, Any",
		},
		"queue edit": {"of nothing", []string{"queue", "edit", "x"}, exitUsage, "--quota nvidia.com/gpu=16"},
		"queue kueuectl": {
			"its names are understood",
			[]string{"queue", "create", "x", "--nominal-quota", "f:cpu"},
			exitUsage,
			"RESOURCE=AMOUNT",
		},
		"flavor taint": {
			"shows the form",
			[]string{"flavor", "create", "x", "--node-taints", "spot"},
			exitUsage,
			"KEY=VALUE:EFFECT",
		},
		"drain nothing": {"which node?", []string{"drain"}, exitUsage, "requires at least 1 arg"},
		"drain both": {
			"they contradict each other",
			[]string{"drain", "n", "--evict", "--no-new"},
			exitUsage,
			"give one of them",
		},
		"drain wait": {
			"nothing would move",
			[]string{"drain", "n", "--no-new", "--wait"},
			exitUsage,
			"with --no-new nothing does",
		},
		"doctor format": {
			"names those that there are",
			[]string{"doctor", "-o", "table"},
			exitUsage,
			"json or yaml",
		},
		"doctor fail": {
			"names those that there are",
			[]string{"doctor", "--fail-on", "bad"},
			exitUsage,
			"error, warning, note or none",
		},
		"doctor rules": {"asks no cluster", []string{"doctor", "--rules"}, exitOK, "flavor-without-nodes"},
		"create what": {
			"lists the kinds",
			[]string{"create"},
			exitUsage,
			"clusterqueue, localqueue, resourceflavor",
		},
		"stop what": {
			"lists the kinds",
			[]string{"stop", "pod", "x"},
			exitUsage,
			"clusterqueue, localqueue, workload",
		},
		"list status": {
			"lists them",
			[]string{"list", "workload", "--status", "running"},
			exitUsage,
			"quotareserved",
		},
		"list active": {"lists them", []string{"list", "cq", "--active", "yes"}, exitUsage, "true, false or *"},
		"delete none": {"of what?", []string{"delete", "workload"}, exitUsage, "--all"},
		"create lq":   {"leads where?", []string{"create", "lq", "x"}, exitUsage, "--clusterqueue NAME"},
		"dry run": {
			"lists them",
			[]string{"flavor", "create", "x", "--dry-run=maybe"},
			exitUsage,
			"none, client or server",
		},
		"dry run of an edit": {
			"it is not taken for none",
			[]string{"queue", "edit", "x", "--quota", "cpu=1", "--dry-run=maybe"},
			exitUsage,
			"none, client or server",
		},
		"capacity size": {
			"names flag and cure",
			[]string{"capacity", "--gpus-per-pod", "0"},
			exitUsage,
			`--gpus-per-pod 0: "0" is no number from 1 to 1024`,
		},
		"capacity word": {
			"says which of several is wrong, and not in Go's words",
			[]string{"capacity", "--gpus-per-pod", "3,x"},
			exitUsage,
			`--gpus-per-pod 3,x: "x" is no number from 1 to 1024: give one or several, such as 1,8`,
		},
		"capacity what": {
			"a slip of the finger",
			[]string{"capacity", "--resource", "gpu"},
			exitUsage,
			"amd.com/gpu",
		},
		"flavors of gangs": {
			"they are no gangs",
			[]string{"capacity", "--flavors", "--pods", "2"},
			exitUsage,
			"leave out --pods",
		},
		"flavors of sizes": {
			"nor are these",
			[]string{"capacity", "--flavors", "--gpus-per-pod", "8"},
			exitUsage,
			"leave out --gpus-per-pod",
		},
		"hist state": {
			"jobs that wait did not end",
			[]string{"hist", "--state", "Waiting"},
			exitUsage,
			"Succeeded, Failed, Cancelled",
		},
		"hist since": {"names flag and cure", []string{"hist", "--since", "1y"}, exitUsage, "such as 30m"},
		"hist by": {
			"lists them",
			[]string{"hist", "--by", "node"},
			exitUsage,
			"month, team, user, queue, namespace",
		},
		"hist by twice": {"they would be one column", []string{"hist", "--by", "user,user"}, exitUsage, "twice"},
		"hist limit":    {"is a number of lines", []string{"hist", "--limit", "-1"}, exitUsage, "or 0 for all"},
		"hist both": {
			"they contradict each other",
			[]string{"hist", "-A", "-n", "blue"},
			exitUsage,
			"give one of them",
		},
		"kinds typo": {
			"lists them",
			[]string{"controller", "--kinds", "pytorch=queue", "--check-config"},
			exitUsage,
			"kubeflow.org/pytorchjob",
		},
		"kinds mode": {
			"lists them",
			[]string{"controller", "--kinds", "pytorchjob=off", "--check-config"},
			exitUsage,
			"run, queue or ignore",
		},
		"config": {
			"tells that it is valid",
			[]string{"controller", "--config", good, "--check-config"},
			exitOK,
			"valid",
		},
		"config shown": {
			"the file wins over the default",
			[]string{"controller", "--config", good, "--check-config", "-o", "yaml"},
			exitOK,
			"bindAddress: :1234",
		},
		"config flags": {
			"a flag wins over the file, and leaves what it does not say",
			[]string{"controller", "--config", good, "--bind-address", "::1", "--check-config", "-o", "json"},
			exitOK,
			`"bindAddress":"[::1]:1234"`,
		},
		"config off": {
			"port 0 is none",
			[]string{"controller", "--config", good, "--metrics-port", "0", "--check-config", "-o", "yaml"},
			exitOK,
			`bindAddress: "0"`,
		},
		"bad config": {
			"names file, line and cure",
			[]string{"controller", "--config", bad, "--check-config"},
			exitFailure,
			`bad.yaml:3:1: webhok: unknown field; did you mean "webhook"?`,
		},
		"bad config up": {
			"before anything starts",
			[]string{"up", "--data-dir", empty, "--config", bad},
			exitFailure,
			"bad.yaml:3:1",
		},
		"no config": {
			"names the file",
			[]string{"controller", "--config", filepath.Join(empty, "none")},
			exitFailure,
			"no such file",
		},
		"config format": {
			"lists them",
			[]string{"controller", "--check-config", "-o", "xml"},
			exitUsage,
			"yaml or json",
		},
		"bad gate": {
			"names flag and cure",
			[]string{"controller", "--check-config", "--feature-gates", "PartialAdmision=true"},
			exitFailure,
			"did you mean PartialAdmission?",
		},
		"replay what": {"one path", []string{"replay"}, exitUsage, "accepts between 1 and 2 arg"},
		"replay nothing": {
			"no difference, but unreadable",
			[]string{"replay", filepath.Join(empty, "none")},
			exitUnreadable,
			"no such file",
		},
		"replay empty": {
			"says what it looks for",
			[]string{"replay", empty},
			exitUnreadable,
			"has no recordings",
		},
		"replay until": {
			"names flag and cure",
			[]string{"replay", empty, "--until", "noon"},
			exitUsage,
			"such as 2026",
		},
		"replay why": {"names what is missing", []string{"replay", empty, "--why"}, exitUsage, "of which job"},
		"replay job": {
			"names the form",
			[]string{"replay", empty, "--why", "job"},
			exitUsage,
			"NAMESPACE/NAME",
		},
		"replay files": {
			"a list of files answers no other question",
			[]string{"replay", empty, "--recordings", "--list"},
			exitUsage,
			"goes with -o only",
		},
		"replay output": {
			"names what there is",
			[]string{"replay", empty, "-o", "xml"},
			exitUsage,
			"use json or yaml",
		},
		"replay from": {
			"names flag and cure",
			[]string{"replay", empty, "--from", "noon"},
			exitUsage,
			"--from",
		},
		"squeue pause": {"names the flag", []string{"squeue", "-i", "-3"}, exitUsage, "must be seconds"},
		"replay stranger": {
			"scripts tell it from a difference",
			[]string{"replay", old, "blue/nothing"},
			exitUnknown,
			"",
		},
		"replay clock": {
			"a time of day will do",
			[]string{"replay", empty, "--until", "12:00"},
			exitUnreadable,
			"has no recordings",
		},
		"flights none": {
			"names the path",
			[]string{"simulate", "--from-flights", filepath.Join(empty, "none")},
			exitFailure,
			"no such file",
		},
		"flights empty": {
			"says what it looks for",
			[]string{"simulate", "--from-flights", empty},
			exitFailure,
			"has no recordings",
		},
		"flights trace": {
			"one history at a time",
			[]string{"simulate", "--from-flights", empty, "--trace", "x.csv"},
			exitUsage,
			"--trace",
		},
		"failures alone": {
			"they are the list of another flag",
			[]string{"simulate", "--failures", "x.csv"},
			exitUsage,
			"give both",
		},
		"goodput of a world": {
			"it has one",
			[]string{"simulate", "--goodput", "x.yaml"},
			exitUsage,
			"a world of its own",
		},
		"goodput of nodes": {
			"no flag is overlooked",
			[]string{"simulate", "--goodput", "--nodes", "80"},
			exitUsage,
			"not --nodes",
		},
		"failures late": {
			"it would be left out",
			[]string{
				"simulate", "--goodput", "--failures",
				write(files, "late.csv", "seconds,node,kind,repair_minutes\n2592001,node-000,GPU,5\n"),
			},
			exitFailure,
			"late.csv:2: seconds 2592001 is past the end",
		},
		"failures none": {
			"names the path",
			[]string{"simulate", "--goodput", "--failures", filepath.Join(empty, "none.csv")},
			exitFailure,
			"no such file",
		},
		"flights format": {
			"lists them",
			[]string{"simulate", "--from-flights", empty, "-o", "xml"},
			exitUsage,
			"json or yaml",
		},
		"flights policy": {
			"names the file",
			[]string{"simulate", "--from-flights", empty, "--compare", filepath.Join(empty, "none.yaml")},
			exitFailure,
			"none.yaml",
		},
		"flights bad": {
			"names file and line",
			[]string{"simulate", "--from-flights", empty, "--compare", bad},
			exitFailure,
			"bad.yaml",
		},
		"generate what": {"lists what there is", []string{"generate", "rayjob"}, exitUsage, "use pytorchjob"},
		"generate": {
			"camel case is the chart's",
			[]string{"generate", "pytorchjob", "--jobName", "a", "--container-image", "i", "--num-pods", "3"},
			exitOK,
			"replicas: 2",
		},
		"generate typo": {
			"a slip of the finger",
			[]string{"generate", "pytorchjob", "--num-podz", "3"},
			exitUsage,
			"did you mean --num-pods?",
		},
		"generate less": {
			"names the value",
			[]string{"generate", "pytorchjob"},
			exitUsage,
			"jobName: must be given",
		},
		"generate file": {
			"names the file",
			[]string{"generate", "pytorchjob", "--values", filepath.Join(empty, "none")},
			exitFailure,
			"no such file",
		},
		"generate line": {
			"names file, line and cure",
			[]string{"generate", "pytorchjob", "--values", write(files, "values.yaml", "jobName: a\nnumPod: 2\n")},
			exitFailure,
			`values.yaml:2:1: numPod: unknown field; did you mean "numPods"?`,
		},
		"wrap nothing": {"names the flag", []string{"wrap"}, exitUsage, "-f FILE"},
		"wrap format": {
			"names those that there are",
			[]string{"wrap", "-f", good, "-o", "table"},
			exitUsage,
			"yaml or json",
		},
		"wrap pods": {
			"says how",
			[]string{"wrap", "-f", good, "--pod-set", "4"},
			exitUsage,
			"write KIND/NAME:PATH=REPLICAS",
		},
		"wrap none": {
			"names the file",
			[]string{"wrap", "-f", filepath.Join(empty, "none")},
			exitFailure,
			"no such file",
		},
		"wrap folder": {
			"says what it looks for",
			[]string{"wrap", "-f", empty},
			exitFailure,
			".yaml, .yml or .json",
		},
		"wrap line": {
			"names file, line and cure",
			[]string{
				"wrap",
				"-f",
				write(files, "cron.yaml", "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}\n"),
			},
			exitFailure,
			"cron.yaml:2:1: CronJob c: kind",
		},
		"run nothing": {"asks for a command", []string{"run", "--image", "x"}, exitUsage, "at least 1 arg"},
		"run option":  {"a slip of the finger", []string{"run", "--gpuz", "1", "--", "x"}, exitUsage, "gpuz"},
		"run format":  {"lists them", []string{"run", "-o", "xml", "--", "x"}, exitUsage, "use yaml or json"},
		"run image": {
			"with the cure",
			[]string{"run", "-o", "yaml", "--kubeconfig", filepath.Join(empty, "none"), "--", "x"},
			exitUsage,
			"--image is missing",
		},
		"run gpus": {
			"names the option",
			[]string{
				"run",
				"-o",
				"yaml",
				"--kubeconfig",
				filepath.Join(empty, "none"),
				"--image",
				"x",
				"--gpus",
				"many",
				"--",
				"x",
			},
			exitUsage,
			"--gpus: \"many\" is no number",
		},
		"run offline": {
			"no cluster is needed to print",
			[]string{"run", "-o", "yaml", "--kubeconfig", filepath.Join(empty, "none"), "--image", "x", "--", "x"},
			exitOK,
			"kind: Job",
		},
		"run nowhere": {
			"one is needed to create",
			[]string{"run", "--kubeconfig", filepath.Join(empty, "none"), "--image", "x", "--", "x"},
			exitFailure,
			"no such file",
		},
		"submit nothing": {"asks for a file", []string{"submit"}, exitUsage, "at least 1 arg"},
		"submit no file": {
			"names it",
			[]string{"submit", filepath.Join(empty, "none")},
			exitFailure,
			"no such file",
		},
		"submit strict": {
			"with the line",
			[]string{
				"submit",
				"--strict",
				"-o",
				"yaml",
				"--image",
				"x",
				"--kubeconfig",
				filepath.Join(empty, "none"),
				write(files, "s.sh", "#!/bin/sh\n#SBATCH --mem-bind=x\n"),
			},
			exitUsage,
			"s.sh:2: --mem-bind has no effect",
		},
		"submit plain": {
			"what runs it?",
			[]string{"submit", "--image", "x", write(files, "t.txt", "true\n")},
			exitFailure,
			"begin with #!/bin/bash",
		},
		"lint nothing": {"names the flag", []string{"lint"}, exitUsage, "-f FILE"},
		"lint nothing there": {
			"before a cluster is asked",
			[]string{"lint", "--cluster"},
			exitUsage,
			"-f FILE",
		},
		"install values": {
			"before a cluster is asked",
			[]string{"install", "--values", filepath.Join(empty, "none.yaml")},
			exitFailure,
			"read values",
		},
		"upgrade values": {
			"before a cluster is asked",
			[]string{"upgrade", "--check", "--values", write(files, "chart.yaml", "replica: 2\n")},
			exitFailure,
			"replica",
		},
		"upgrade format": {
			"names those that there are",
			[]string{"upgrade", "--check", "-o", "xml"},
			exitUsage,
			"yaml or json",
		},
		"lint rule": {
			"a slip of the finger",
			[]string{"lint", "-f", good, "--disable", "no-queu"},
			exitUsage,
			"did you mean no-queue?",
		},
		"lint format": {
			"names those that there are",
			[]string{"lint", "-f", good, "-o", "xml"},
			exitUsage,
			"json, yaml or github",
		},
		"lint errors": {
			"are told by the exit code",
			[]string{
				"lint",
				"-f",
				write(
					files,
					"job.yaml",
					"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {paralelism: 2, template: {spec: {containers: [{name: c, image: 'i:1'}]}}}\n",
				),
			},
			exitFailure,
			`did you mean "parallelism"?`,
		},
		"lint warnings": {
			"are not",
			[]string{
				"lint",
				"-f",
				write(
					files,
					"fine.yaml",
					"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: c, image: i}]}}}\n",
				),
			},
			exitOK,
			"(latest-image)",
		},
		"lint folder": {
			"goes on after what is no manifest, and says so",
			[]string{"lint", "-f", mixed},
			exitOK,
			"values.yaml:1:1: must have an apiVersion and a kind: it is no manifest and left out",
		},
		"lint unread": {
			"goes on, and fails at the end",
			[]string{"lint", "-f", broken},
			exitFailure,
			"(latest-image)",
		},
		"lint one": {
			"that was named is to be one",
			[]string{"lint", "-f", filepath.Join(mixed, "values.yaml")},
			exitFailure,
			"must have an apiVersion and a kind",
		},
		"lint strict": {
			"unless asked for",
			[]string{"lint", "--strict", "-f", filepath.Join(files, "fine.yaml")},
			exitFailure,
			"(latest-image)",
		},
		"convert what": {
			"lists the kinds",
			[]string{"convert", "-f", good},
			exitUsage,
			"--to jobset, job, pytorchjob, trainjob",
		},
		"convert to": {
			"lists the kinds",
			[]string{"convert", "-f", good, "--to", "rayjob"},
			exitUsage,
			"use jobset, job, pytorchjob, trainjob",
		},
		"convert": {
			"without asking a cluster",
			[]string{"convert", "-f", filepath.Join(files, "fine.yaml"), "--to", "jobset"},
			exitOK,
			"kind: JobSet",
		},
		"convert strict": {
			"refuses what is lost",
			[]string{"convert", "--strict", "-f", filepath.Join(files, "fine.yaml"), "--to", "pytorchjob"},
			exitFailure,
			"cannot be said in a pytorchjob",
		},
		"check format": {
			"names those that there are",
			[]string{"check", "-o", "table"},
			exitUsage,
			"wide, json or yaml",
		},
		"check both": {
			"they contradict each other",
			[]string{"check", "-o", "json", "--metrics"},
			exitUsage,
			"give one of them",
		},
		"check often": {
			"a cluster is no toy",
			[]string{"check", "--watch", "--interval", "1ms"},
			exitUsage,
			"must be 1s or more",
		},
		"squeue state": {"lists those that there are", []string{"squeue", "-t", "XX"}, exitUsage, "PD PENDING"},
		"squeue whose": {
			"two who are not one",
			[]string{"squeue", "--me", "-u", "x"},
			exitUsage,
			"--me and -u x",
		},
		"squeue where": {
			"an account is a namespace",
			[]string{"squeue", "-A", "blue", "--namespace", "red"},
			exitUsage,
			"-A blue and --namespace red",
		},
		"sacct fields": {"which it shall be", []string{"sacct", "-l", "-b"}, exitUsage, "-l, -b and -o"},
		"ps whose":     {"two who are not one", []string{"ps", "--me", "-u", "x"}, exitUsage, "--me and -u x"},
		"hist whose":   {"two who are not one", []string{"hist", "--me", "-u", "x"}, exitUsage, "--me and -u x"},
		"top whose":    {"two who are not one", []string{"top", "--me", "-u", "x"}, exitUsage, "--me and -u x"},
		"squeue job": {
			"it takes options only",
			[]string{"squeue", "x"},
			exitUsage,
			"squeue takes no arguments",
		},
		"sacct moment": {"says how", []string{"sacct", "-S", "noon"}, exitUsage, "use 2026-01-31"},
		"sbatch both":  {"one of them", []string{"sbatch", "--wrap", "x", "y"}, exitUsage, "give one of them"},
		"sbatch after": {
			"says what there is",
			[]string{"sbatch", "-d", "singleton", "--wrap", "x"},
			exitUsage,
			"use afterok:JOB",
		},
		"kubectl where": {
			"the wrong directory is an error",
			[]string{"kubectl", "--data-dir", empty, "get", "pods"},
			exitFailure,
			"no cluster",
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

func TestUpKeepsWhatTheLastRunHad(t *testing.T) {
	dir := t.TempDir()
	last := local.ClusterFile{TimeScale: 7}
	last.Fleet.Count, last.Fleet.GPUs, last.Fleet.Pods = 5, 4, 250
	last.Fleet.CPU.Set(10)
	last.Fleet.Memory.Set(1 << 40)
	b, err := json.Marshal(last)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	var o upOptions
	cmd := newUpCommand()
	f := cmd.Flags()
	if err := f.Parse([]string{"--gpus-per-node=16"}); err != nil {
		t.Fatal(err)
	}
	o.dir, o.gpus = dataDir(dir), 16
	cfg, err := o.config(f)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{cfg.Fleet.Count, cfg.Fleet.GPUs, cfg.Fleet.CPU.String(), cfg.TimeScale}
	if diff := cmp.Diff([]any{5, int64(16), "10", 7.0}, got); diff != "" {
		t.Errorf("a flag that is given changes its own value only (-want +got):\n%s", diff)
	}
}

// TestCalledBySlurmsNames: a link by which the program is called says which command is meant.
func TestCalledBySlurmsNames(t *testing.T) {
	for call, want := range map[string]string{"/usr/bin/squeue -h": "squeue -h", "./mlbatch squeue": "squeue", "kubectl-mlbatch ps": "ps", "sbatch": "sbatch"} {
		if got := strings.Join(asCalled(strings.Fields(call)), " "); got != want {
			t.Errorf("%s is mlbatch %s, want mlbatch %s", call, got, want)
		}
	}
}

func TestDetachedCommandLine(t *testing.T) {
	f := newUpCommand().Flags()
	if err := f.Parse([]string{"--detach", "--nodes=5", "--data-dir=x", "--empty"}); err != nil {
		t.Fatal(err)
	}
	got := detachedArgs(f, "/abs/x")
	slices.Sort(got)
	want := []string{"--data-dir=/abs/x", "--empty=true", "--nodes=5", "--report-fd=3", "up"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}

func TestLeadingDataDir(t *testing.T) {
	tests := map[string]struct {
		why  string
		args []string
		dir  dataDir
		rest []string
		err  bool
	}{
		"none": {"kubectl as always", []string{"get", "pods"}, "", []string{"get", "pods"}, false},
		"two":  {"ours is taken off", []string{"--data-dir", "d", "get"}, "d", []string{"get"}, false},
		"one":  {"in either form", []string{"--data-dir=d", "get"}, "d", []string{"get"}, false},
		"later": {
			"further back it is kubectl's or its plugin's",
			[]string{"foo", "--data-dir", "d"},
			"",
			[]string{"foo", "--data-dir", "d"},
			false,
		},
		"missing": {"and must be complete", []string{"--data-dir"}, "", nil, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir, rest, err := leadingDataDir(tc.args)
			if diff := cmp.Diff([]any{tc.dir, tc.rest, tc.err}, []any{dir, rest, err != nil}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

func TestStatusTable(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 5, 0, 0, time.UTC)
	r := report{
		DataDir:     "/d",
		ClusterFile: local.ClusterFile{Phase: local.Running, KubernetesVersion: "v1.37.2"},
		Components: []componentReport{
			{
				ComponentStatus: local.ComponentStatus{
					Name:     "etcd",
					PID:      7,
					Health:   supervise.Ready,
					Restarts: 1,
					Started:  now.Add(-time.Minute),
				},
				MemoryBytes: 50 << 20,
			},
			{
				ComponentStatus: local.ComponentStatus{
					Name:     "controller",
					Health:   supervise.Waiting,
					Message:  "ended: signal: killed",
					Restarts: 3,
				},
			},
		},
	}
	var out bytes.Buffer
	if err := r.print(&out, "", now); err != nil {
		t.Fatal(err)
	}
	want := `running, Kubernetes v1.37.2, data in /d

COMPONENT    PID   UPTIME   RESTARTS   HEALTH                               MEMORY
etcd         7     60s      1          ready                                50 MiB
controller   -     -        3          restarting (ended: signal: killed)   -
total                                                                       50 MiB
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if r.healthy() {
		t.Error("a cluster with a dead component counts as healthy")
	}
	var usage usageError
	if err := r.print(&out, "xml", now); !errors.As(err, &usage) {
		t.Errorf("-o xml: %v, want a usage error", err)
	}
}

// A replica that another one has taken the lead from has not failed.
func TestLosingTheLeadIsNoFailure(t *testing.T) {
	var said bytes.Buffer
	if code := exitOf(
		newControllerCommand(),
		fmt.Errorf("decide: %w", leaderelection.ErrLost),
		&said,
	); code != exitOK ||
		!strings.Contains(said.String(), "another process leads now") {
		t.Errorf("it ends with %d and says %q", code, said.String())
	}
}
