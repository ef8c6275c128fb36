package realpods

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// applied applies manifests as alice.
func applied(t *testing.T, manifest string) {
	t.Helper()
	c, _ := cluster(t)
	file := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	typed(t, c, "kubectl", "apply", "-n", "blue", "--as", "alice", "-f", file)
	t.Cleanup(func() {
		if _, err := c.Run(
			context.Background(),
			"kubectl",
			"delete",
			"-n",
			"blue",
			"--ignore-not-found",
			"--wait=false",
			"-f",
			file,
		); err != nil {
			t.Log(err)
		}
	})
}

// training fits a line by gradient descent, each rank on its half of the points, and saves where
// it is to the volume. It goes beyond the 20th step only when it was stopped before: whoever stops it has
// time for that.
const training = `
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, path = dist.get_rank(), "/data/state.pt"
w, step = torch.zeros(2), 0
if os.path.exists(path):
    state = torch.load(path)
    w, step = state["w"], state["step"]
    print("resumes at step", step, flush=True)
resumed = step > 0
x = torch.linspace(-1, 1, 64)[rank::dist.get_world_size()]
y = 3 * x + 1
while step < 120:
    if step == 20 and not resumed:
        dist.all_reduce(torch.zeros(1)) # until one of them is killed
        time.sleep(0.25)
        continue
    error = w[0] * x + w[1] - y
    gradient = torch.stack([(error * x).mean(), error.mean()])
    dist.all_reduce(gradient)
    w -= 0.2 * gradient
    step += 1
    if rank == 0:
        torch.save({"w": w, "step": step}, path + ".part")
        os.replace(path + ".part", path)
        print("step", step, flush=True)
    time.sleep(0.25)
print("learned %.2f x + %.2f" % (w[0], w[1]), flush=True)
`

// TestPyTorchJobTrains: two real processes train a model together by gloo, on two nodes, and
// save it to a volume. A pod and a kubelet are killed meanwhile: it goes on from what it saved, and
// learns what there is to learn.
func TestPyTorchJobTrains(t *testing.T) {
	c, cl := cluster(t)
	image(
		t,
		c,
		"mlbatch.test/torch:1",
		nil,
		"python3-minimal",
		"python3.11-minimal",
		"libpython3.11-minimal",
		"libpython3.11-stdlib",
		"python3-numpy",
		"python3-typing-extensions",
		"libtorch1.13",
		"python3-torch",
	)
	role := func(name string) string {
		return fmt.Sprintf(`
    %s:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers:
          - name: pytorch
            image: mlbatch.test/torch:1
            command: [/usr/bin/python3, -c, %s]
            resources: {limits: {nvidia.com/gpu: 8}}
            volumeMounts: [{name: data, mountPath: /data}]
          volumes: [{name: data, persistentVolumeClaim: {claimName: checkpoints}}]`, name, strconv.Quote(training))
	}
	applied(t, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: checkpoints}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: learns, labels: {kueue.x-k8s.io/queue-name: default-queue}}
spec:
  pytorchReplicaSpecs:`+role("Master")+role("Worker")+"\n")
	reaches := func(step int) {
		t.Helper()
		eventually(t, func(context.Context) error {
			out := alice(t, c, "logs", "learns")
			last := 0
			for _, m := range regexp.MustCompile(`\bstep (\d+)`).FindAllStringSubmatch(out, -1) {
				n, err := strconv.Atoi(m[1])
				if err != nil {
					return err
				}
				last = max(last, n)
			}
			if last < step {
				return fmt.Errorf(
					"it is at step %d, and not at %d:\n%s\n%s",
					last,
					step,
					out,
					alice(t, c, "why", "learns"),
				)
			}
			return nil
		})
	}
	reaches(10)
	typed(t, c, "kubectl", "delete", "pod", "-n", "blue", "learns-worker-0", "--wait=false")
	eventually(t, func(context.Context) error {
		if out := alice(t, c, "logs", "learns"); !strings.Contains(out, "resumes at step") {
			return fmt.Errorf("it did not go on from what it saved:\n%s", out)
		}
		return nil
	})
	reaches(40)
	pods := podsOf(t, cl, "training.kubeflow.org/job-name=learns,training.kubeflow.org/replica-type=master")
	if len(pods) != 1 {
		t.Fatalf("its masters are %v", pods)
	}
	back, err := c.Kill(t.Context(), pods[0].Spec.NodeName+"-kubelet")
	if err == nil {
		err = back(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	says(t, c, "Succeeded", "show", "learns")
	if out := alice(t, c, "logs", "learns"); !strings.Contains(out, "learned 3.00 x + 1.00") {
		t.Errorf("it did not learn the line:\n%s", out)
	}
}

// TestMPIJobRuns: a launcher reaches its workers by ssh, with the keys that it is given, and starts
// processes that talk.
func TestMPIJobRuns(t *testing.T) {
	c, _ := cluster(t)
	image(t, c, "mlbatch.test/mpi:1", map[string]string{
		"/etc/passwd":          "root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/bin/false\n",
		"/etc/group":           "root:x:0:\nnogroup:x:65534:\n",
		"/etc/ssh/ssh_config":  "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n",
		"/etc/ssh/sshd_config": "PermitRootLogin yes\nStrictModes no\nUsePAM no\nPidFile /run/sshd.pid\n",
	}, "openmpi-bin", "openmpi-common", "libopenmpi3", "libpmix2", "openssh-server", "openssh-client")
	applied(t, `
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: speaks, labels: {kueue.x-k8s.io/queue-name: default-queue}}
spec:
  slotsPerWorker: 1
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - name: launcher
            image: mlbatch.test/mpi:1
            command: [sh, -c, "exec mpirun.openmpi --allow-run-as-root -np 2 sh -c 'echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(hostname)'"]
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: worker
            image: mlbatch.test/mpi:1
            command: [sh, -c, "ssh-keygen -A && exec /usr/sbin/sshd -De"]
            resources: {limits: {nvidia.com/gpu: 8}}
`)
	says(t, c, "Succeeded", "show", "speaks")
	out := alice(t, c, "logs", "speaks")
	for rank := range 2 {
		if want := fmt.Sprintf("rank %d of 2 on speaks-worker-%d", rank, rank); !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
