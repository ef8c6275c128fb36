package pytorchjob_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pytorchjob"
)

// sum adds up the ranks of all processes, and 1 for each.
const sum = `
import datetime, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
t = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(t)
print("sum", t.item(), "of", dist.get_world_size())
`

// TestGloo starts one process for each pod of a job with exactly the variables that the
// pod is given, and torch finds its way with them. Only the name of the master is
// another: there is no DNS for it here.
func TestGloo(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3 and torch: install the Debian package python3-torch")
	}
	if out, err := exec.CommandContext(
		t.Context(),
		python,
		"-c",
		"import torch.distributed",
	).CombinedOutput(); err != nil {
		t.Skipf(
			"needs torch: install the Debian package python3-torch (%s)",
			strings.TrimSpace(string(out[max(0, len(out)-200):])),
		)
	}
	j := &api.PyTorchJob{}
	manifest := fmt.Sprintf(`
metadata: {name: a, namespace: b, uid: u}
spec:
  nprocPerNode: "1"
  pytorchReplicaSpecs:
    Master: {template: {spec: {containers: [{name: pytorch, ports: [{name: pytorchjob-port, containerPort: %d}]}]}}}
    Worker: {template: {spec: {containers: [{name: pytorch}]}}}`, freePort(t))
	if err := yaml.UnmarshalStrict([]byte(manifest), j); err != nil {
		t.Fatal(err)
	}
	kind := pytorchjob.Kind()
	plan, err := kind.Running.Operator.Compile(j)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	type process struct {
		name string
		cmd  *exec.Cmd
		out  bytes.Buffer
	}
	var all []*process
	for i := range plan.Roles {
		for index := range plan.Roles[i].Count {
			pod, err := plan.Pod(
				j,
				kind.GVK(),
				podplan.Member{Role: plan.Roles[i].Name, Index: index},
				&podplan.RetryState{},
				nil,
			)
			if err != nil {
				t.Fatal(err)
			}
			p := &process{name: pod.Name, cmd: exec.CommandContext(ctx, python, "-c", sum)}
			p.cmd.Env = environment(pod.Spec.Containers[0].Env)
			p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
			if err := p.cmd.Start(); err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
	}
	for _, p := range all {
		if err := p.cmd.Wait(); err != nil || !strings.Contains(p.out.String(), "sum 3 of 2") {
			t.Errorf("%s: %v\n%s", p.name, err, p.out.String())
		}
	}
}

// environment is what a process in a pod has, besides what it needs to find torch.
func environment(vars []corev1.EnvVar) []string {
	env := []string{"HOME=/tmp", "GLOO_SOCKET_IFNAME=lo"}
	for _, name := range []string{"PATH", "PYTHONPATH", "LD_LIBRARY_PATH"} {
		env = append(env, name+"="+os.Getenv(name))
	}
	for _, v := range vars {
		env = append(env, v.Name+"="+strings.ReplaceAll(v.Value, "a-master-0", "127.0.0.1"))
	}
	return env
}

func freePort(t *testing.T) int {
	t.Helper()
	var c net.ListenConfig
	l, err := c.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address, _ := l.Addr().(*net.TCPAddr)
	return address.Port
}
