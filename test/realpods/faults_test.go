package realpods

import (
	"context"
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
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil &&
				p.Status.ContainerStatuses[0].Ready {
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
		out, err := exec.CommandContext(
			context.Background(),
			"nsenter",
			"-t",
			strconv.Itoa(p.PID),
			"-n",
			"ip",
			"link",
			"set",
			node,
			state,
		).CombinedOutput()
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

// nodeLine is what "mlbatch nodes" says of a node.
func nodeLine(ctx context.Context, c *rig.Cluster, node string) (string, error) {
	out, err := c.Run(ctx, "nodes")
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, node+" ") {
			return line, err
		}
	}
	return "", err
}

// mostWritten is how often a job writes 100 MiB to the disk of its node at most.
const mostWritten = 20

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
		err := rig.Await(context.Background(), patience, func(ctx context.Context) error {
			line, err := nodeLine(ctx, c, node)
			if err == nil && (!strings.Contains(line, "Ready") || strings.Contains(line, "DiskPressure")) {
				err = fmt.Errorf("mlbatch nodes says %q", line)
			}
			return err
		})
		if err != nil {
			t.Errorf("the node has room and is not used again: %v", err)
		}
	})
	restarted(t, c, node)
	// Others write to this disk and free some of it meanwhile: it is filled until the node says so.
	written := 0
	eventually(t, func(ctx context.Context) error {
		line, err := nodeLine(ctx, c, node)
		if strings.Contains(line, "DiskPressure") {
			return nil
		}
		if now := podsOf(t, cl, "job-name=fills"); written < mostWritten && len(now) == 1 && now[0].UID == pod.UID {
			command := fmt.Sprintf("dd if=/dev/zero of=/big-%d bs=1M count=100", written)
			if _, failed := c.Run(
				ctx,
				"kubectl",
				"exec",
				"-n",
				"blue",
				pod.Name,
				"--",
				"sh",
				"-c",
				command,
			); failed == nil {
				written++ // otherwise the kubelet has just begun
			}
		}
		return fmt.Errorf("%d times 100 MiB are written, and mlbatch nodes says %q: %w", written, line, err)
	})
	says(t, c, "Evicted", "show", "fills")
	eventually(t, func(context.Context) error {
		if now := runningPod(t, cl, "fills"); now.UID == pod.UID || now.Spec.NodeName == node {
			return fmt.Errorf("%s runs on %s", now.Name, now.Spec.NodeName)
		}
		return nil
	})
}

// TestPodStuckTerminating: nobody can say that a pod has ended whose node is cut off. The job is
// gone for its owner, its node is nobody else's until that is known, and who waits for it is told
// so; when the node is back, the pod ends and the next job starts.
func TestPodStuckTerminating(t *testing.T) {
	c, cl := cluster(t)
	detached(t, c, "stuck", []string{"--gpus", "8"}, "sleep", "3600")
	pod := runningPod(t, cl, "stuck")
	node := pod.Spec.NodeName
	cable(t, c, node, "down")
	t.Cleanup(func() { cable(t, c, node, "up") })
	says(t, c, "has not answered for", "why", "stuck")
	typed(t, c, "cancel", "-n", "blue", "--as", "alice", "--yes", "stuck")
	detached(t, c, "next", []string{"--gpus", "8", "--nodes", "3"}, "sleep", "3600")
	says(t, c, node, "why", "next")
	t.Logf("why says\n%s", alice(t, c, "why", "next"))
	if line, err := nodeLine(t.Context(), c, node); !strings.Contains(line, "blue/stuck") {
		t.Errorf("what the node still may run is not told: %q, %v", line, err)
	}
	cable(t, c, node, "up")
	says(t, c, "3 pods run", "why", "next")
	for _, p := range podsOf(t, cl, "job-name=stuck") {
		t.Errorf("%s is still there: %s", p.Name, p.Status.Phase)
	}
}

// TestPlansAreAnswered: what the controller itself is asked goes through the API server, also
// where nodes are real.
func TestPlansAreAnswered(t *testing.T) {
	c, _ := cluster(t)
	if out := alice(t, c, "capacity"); !strings.Contains(out, "GPUS EACH") {
		t.Errorf("mlbatch capacity says\n%s", out)
	}
}
