package realpods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mlbatch/mlbatch/test/rig"
)

// runningPod waits until a job of alice's has one pod and that runs.
func runningPod(t *testing.T, cl kubernetes.Interface, job string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, func(context.Context) error {
		for _, p := range podsOf(t, cl, "job-name="+job) {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && p.Status.ContainerStatuses[0].Ready {
				pod = &p
				return nil
			}
		}
		return fmt.Errorf("its pods are %v", podsOf(t, cl, "job-name="+job))
	})
	return pod
}

// cable pulls or plugs in that of a node.
func cable(t *testing.T, c *rig.Cluster, node, state string) {
	t.Helper()
	all, err := c.Components(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.Name != "network" {
			continue
		}
		out, err := exec.CommandContext(context.Background(), "nsenter", "-t", strconv.Itoa(p.PID), "-n", "ip", "link", "set", node, state).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

// restarted kills the kubelet of a node, which then reads its configuration anew.
func restarted(t *testing.T, c *rig.Cluster, node string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	back, err := c.Kill(ctx, node+"-kubelet")
	if err == nil {
		err = back(ctx)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestDiskFills: a job fills the disk of its node. The kubelet ends it, the node takes no more,
// and both are told; the job runs again elsewhere, and the node is used again when it has room.
func TestDiskFills(t *testing.T) {
	c, cl := cluster(t)
	detached(t, c, "fills", []string{"--gpus", "8", "--retries", "3"}, "sleep", "3600")
	pod := runningPod(t, cl, "fills")
	node := pod.Spec.NodeName
	// The node's disk is this machine's: it is small in that it counts as full 100 MiB from here.
	var disk syscall.Statfs_t
	if err := syscall.Statfs(c.Dir, &disk); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(c.Dir, "nodes", node, "etc", "kubelet.yaml")
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	full := int64(disk.Bavail)*disk.Bsize>>20 - 100
	small := strings.ReplaceAll(string(was), "fs.available: 100Mi", fmt.Sprintf("fs.available: %dMi", full))
	if small == string(was) {
		t.Fatalf("there is no threshold in\n%s", was)
	}
	if err := os.WriteFile(file, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(file, was, 0o600); err != nil {
			t.Error(err)
		}
		restarted(t, c, node)
		eventually(t, func(context.Context) error {
			if out := typed(t, c, "nodes", node); !strings.Contains(out, "Ready") || strings.Contains(out, "DiskPressure") {
				return errors.New(out)
			}
			return nil
		})
	})
	restarted(t, c, node)
	typed(t, c, "kubectl", "exec", "-n", "blue", pod.Name, "--", "dd", "if=/dev/zero", "of=/big", "bs=1M", "count=400")
	says(t, c, "DiskPressure", "nodes", node)
	says(t, c, "Evicted", "show", "fills")
	eventually(t, func(context.Context) error {
		if now := runningPod(t, cl, "fills"); now.UID == pod.UID || now.Spec.NodeName == node {
			return fmt.Errorf("%s runs on %s", now.Name, now.Spec.NodeName)
		}
		return nil
	})
}

// TestPodStuckTerminating: nobody can say that a pod has ended whose node is cut off. Its GPUs are
// nobody else's until that is known, and whoever waits for them is told so; when the node is back,
// the pod ends and the next job starts.
func TestPodStuckTerminating(t *testing.T) {
	c, cl := cluster(t)
	detached(t, c, "stuck", []string{"--gpus", "8"}, "sleep", "3600")
	pod := runningPod(t, cl, "stuck")
	cable(t, c, pod.Spec.NodeName, "down")
	t.Cleanup(func() { cable(t, c, pod.Spec.NodeName, "up") })
	says(t, c, "has not answered for", "why", "stuck")
	typed(t, c, "cancel", "-n", "blue", "--as", "alice", "--yes", "stuck")
	t.Logf("\n%s", alice(t, c, "ps"))
	t.Logf("\n%s", alice(t, c, "why", "stuck"))
	t.Logf("\n%s", typed(t, c, "nodes"))
	t.Logf("\n%s", typed(t, c, "ps", "-A"))
	t.Logf("\n%s", alice(t, c, "capacity"))
	cable(t, c, pod.Spec.NodeName, "up")
}
