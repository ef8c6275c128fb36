package mpijob_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/api/kubeflow/v2beta1"
)

// write puts the files of a job's launcher into a folder.
func write(t *testing.T, j *v2beta1.MPIJob) string {
	t.Helper()
	dir := t.TempDir()
	files, _ := artifacts(t, j)["ConfigMap a-config"].Object.(*corev1.ConfigMap)
	for name, text := range files.Data {
		executable(t, filepath.Join(dir, name), text)
	}
	return dir
}

func executable(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// call runs a script with programs of ours in the path before all others.
func call(t *testing.T, programs map[string]string, script string, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range programs {
		executable(t, filepath.Join(dir, name), "#!/bin/sh\n"+text)
	}
	cmd := exec.CommandContext(context.Background(), script, args...)
	cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestKubexec: mpirun calls it like rsh, with options or a domain or without.
func TestKubexec(t *testing.T) {
	dir := write(
		t,
		decode(
			t,
			"mainContainer: side, ROLES: {Launcher: {POD}, Worker: {replicas: 1, template: {spec: {containers: [{name: mpi}, {name: side}]}}}}",
			"v1",
		),
	)
	kubectl := map[string]string{"kubectl": `printf "<%s>" "$@"`}
	for name, args := range map[string][]string{
		"Open MPI":    {"a-worker-0", "orted", "-mca x", "'y z'"},
		"options":     {"-x", "-q", "a-worker-0", "orted", "-mca x", "'y z'"},
		"with domain": {"a-worker-0.a.b.svc", "orted", "-mca x", "'y z'"},
	} {
		out, err := call(t, kubectl, filepath.Join(dir, "kubexec.sh"), args...)
		if want := "<exec><a-worker-0><--container><side><--></bin/sh><-c><orted -mca x 'y z'>"; err != nil ||
			out != want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, out, want)
		}
	}
	if _, err := exec.LookPath("kubectl"); err == nil {
		return // of the machine
	}
	out, err := call(t, nil, filepath.Join(dir, "kubexec.sh"), "a-worker-0", "true")
	if err == nil || !strings.Contains(out, "mlbatch.dev/kubectl-image") {
		t.Errorf("without kubectl it must say what to do: %v\n%s", err, out)
	}
}

// TestFirstContainer is the one that commands run in, if the author names none.
func TestFirstContainer(t *testing.T) {
	dir := write(t, decode(t, "PAIR", "v1"))
	out, err := call(
		t,
		map[string]string{"kubectl": `printf "<%s>" "$@"`},
		filepath.Join(dir, "kubexec.sh"),
		"a-worker-0",
		"true",
	)
	if err != nil || !strings.Contains(out, "<--container><mpi>") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestDiscoverHosts(t *testing.T) {
	const hosts = "slotsPerWorker: 4, ROLES: {Launcher: {POD}, Worker: {replicas: 3, POD}}"
	for name, tc := range map[string]struct {
		why      string
		job      *v2beta1.MPIJob
		programs map[string]string
		want     string
	}{
		"ready": {
			"only ready workers have an address", decode(t, hosts),
			map[string]string{"getent": `[ "$1 $2" != "hosts a-worker-1.a.b.svc" ]`},
			"a-worker-0.a.b.svc:4\na-worker-2.a.b.svc:4\n",
		},
		"Intel's form": {"the list has the slots behind a colon", decode(t, "mpiImplementation: Intel, "+hosts), map[string]string{"getent": "true"}, "a-worker-0.a.b.svc:4\na-worker-1.a.b.svc:4\na-worker-2.a.b.svc:4\n"},
		"none":         {"it is no mistake that none is ready", decode(t, hosts), map[string]string{"getent": "false"}, ""},
		"running": {
			"v1 asks for the pods", decode(t, hosts, "v1"),
			map[string]string{"kubectl": `[ "$1 $2 $3 $4 $5" = "get pods a-worker-0 a-worker-1 a-worker-2" ] && printf 'a-worker-0   Running\na-worker-2   Pending\n'`},
			"a-worker-0:4\n",
		},
		"no workers": {"there is nobody to ask for", decode(t, "ROLES: {Launcher: {POD}}", "v1"), map[string]string{"kubectl": "echo asked"}, ""},
	} {
		out, err := call(t, tc.programs, filepath.Join(write(t, tc.job), "discover_hosts.sh"))
		if err != nil || out != tc.want {
			t.Errorf("%s: %s: %v\n got %s\nwant %s", name, tc.why, err, out, tc.want)
		}
	}
}
