package realpods

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mlbatch/mlbatch/test/rig"
)

// alice types a command of mlbatch as a member of team blue; its error is part of what she reads.
func alice(t *testing.T, c *rig.Cluster, args ...string) string {
	t.Helper()
	out, err := c.Run(t.Context(), append(args, "-n", "blue", "--as", "alice")...)
	if err != nil {
		return out + err.Error()
	}
	return out
}

// detached starts a job of alice's, which is cancelled with the test.
func detached(t *testing.T, c *rig.Cluster, name string, flags []string, command ...string) {
	t.Helper()
	args := append(
		[]string{"run", "-n", "blue", "--as", "alice", "--detach", "--image", "busybox:1.36", "--name", name},
		flags...)
	typed(t, c, append(append(args, "--"), command...)...)
	t.Cleanup(func() {
		if _, err := c.Run(context.Background(), "cancel", "-n", "blue", "--yes", "--wait", name); err != nil {
			t.Log(err)
		}
	})
}

// says waits until a command prints a text.
func says(t *testing.T, c *rig.Cluster, want string, args ...string) {
	t.Helper()
	eventually(t, func(context.Context) error {
		if got := alice(t, c, args...); !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
			return fmt.Errorf("mlbatch %s does not say %q:\n%s", strings.Join(args, " "), want, got)
		}
		return nil
	})
}

// podsOf are the pods of a job of team blue.
func podsOf(t *testing.T, cl kubernetes.Interface, selector string) []corev1.Pod {
	t.Helper()
	all, err := cl.CoreV1().Pods("blue").List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	return all.Items
}

// TestJobSetTalks: the pods of a JobSet find each other by the names that its network gives them,
// on several nodes, in queue and quota.
func TestJobSetTalks(t *testing.T) {
	c, _ := cluster(t)
	// The first serves until the second has read, however late that comes up.
	detached(t, c, "talks", []string{"--nodes", "2", "--gpus", "8"}, "sh", "-c", `
if [ "$SLURM_NODEID" = 0 ]; then
	mkdir -p /tmp/cgi-bin
	echo "from $(hostname)" > /tmp/index.html
	printf '#!/bin/sh\ntouch /tmp/read\nprintf "Content-Type: text/plain\\n\\n"\n' > /tmp/cgi-bin/read
	chmod +x /tmp/cgi-bin/read
	httpd -p 8080 -h /tmp
	until [ -e /tmp/read ]; do sleep 0.2; done
	exit 0
fi
until timeout 5 wget -q -O - http://$MLBATCH_MASTER_ADDR:8080; do sleep 0.5; done
timeout 5 wget -q -O - http://$MLBATCH_MASTER_ADDR:8080/cgi-bin/read
exit 0 # the first may have ended before it answered`)
	says(t, c, "from talks-node-0-0", "logs", "talks")
	says(t, c, "Succeeded", "show", "talks")
}

// TestImageThatIsNotThere: who waits for an image is told which, and what to do.
func TestImageThatIsNotThere(t *testing.T) {
	c, _ := cluster(t)
	detached(t, c, "nopull", []string{"--image", "nosuch.example.com/x:1"}, "true")
	says(t, c, `image "nosuch.example.com/x:1": ErrImagePull`, "why", "nopull")
	says(t, c, "put an archive of it", "why", "nopull")
}

// TestMemoryIsALimit: what takes more memory than it asked for is killed by the kernel, and show
// says so.
func TestMemoryIsALimit(t *testing.T) {
	c, _ := cluster(t)
	detached(
		t,
		c,
		"hungry",
		[]string{"--mem", "64Mi", "--retries", "0"},
		"dd",
		"if=/dev/zero",
		"of=/dev/null",
		"bs=300M",
		"count=1",
	)
	says(t, c, "exit code 137 (OOMKilled)", "show", "hungry")
}

// TestNodeIsCutOff: of a pod whose node is cut off nothing is known, and why says so; it is told
// to run again once the cable is back, and was not started a second time.
func TestNodeIsCutOff(t *testing.T) {
	c, cl := cluster(t)
	detached(t, c, "far", []string{"--gpus", "8"}, "sleep", "3600")
	pod := runningPod(t, cl, "far")
	cable(t, c, pod.Spec.NodeName, "down")
	t.Cleanup(func() { cable(t, c, pod.Spec.NodeName, "up") })
	says(t, c, "Node "+pod.Spec.NodeName+" has not answered for", "why", "far")
	cable(t, c, pod.Spec.NodeName, "up")
	says(t, c, "1 pod runs, on "+pod.Spec.NodeName+" (1).", "why", "far")
	eventually(t, func(context.Context) error {
		if got := alice(t, c, "why", "far"); strings.Contains(got, "not answered") {
			return fmt.Errorf("it still is said that\n%s", got)
		}
		return nil
	})
	if now := podsOf(
		t,
		cl,
		"job-name=far",
	); len(now) != 1 || now[0].UID != pod.UID ||
		now[0].Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("its pods are %v", now)
	}
}

// TestNodeDies: a node that ends takes its containers along; what ran there runs again, and its
// quota is counted once.
func TestNodeDies(t *testing.T) {
	c, cl := cluster(t)
	detached(t, c, "moves", []string{"--gpus", "8", "--retries", "3"}, "sleep", "3600")
	running := func() (*corev1.Pod, error) {
		for _, p := range podsOf(t, cl, "job-name=moves") {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil &&
				p.Status.ContainerStatuses[0].Ready {
				return &p, nil
			}
		}
		return nil, fmt.Errorf("its pods are %v", podsOf(t, cl, "job-name=moves"))
	}
	var before *corev1.Pod
	eventually(t, func(context.Context) (err error) {
		before, err = running()
		return err
	})
	back, err := c.Kill(t.Context(), before.Spec.NodeName)
	if err == nil {
		err = back(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error { return allReady(ctx, c) })
	eventually(t, func(context.Context) error {
		now, err := running()
		if err != nil {
			return err
		}
		if now.UID == before.UID &&
			now.Status.ContainerStatuses[0].ContainerID == before.Status.ContainerStatuses[0].ContainerID {
			return fmt.Errorf("container %s is gone, and said to run", now.Status.ContainerStatuses[0].ContainerID)
		}
		return nil
	})
	if got := alice(t, c, "ps"); strings.Count(got, "moves") != 1 {
		t.Errorf("ps says\n%s", got)
	}
}

// TestTutorial: all statements of the tutorial hold where its containers are real.
func TestTutorial(t *testing.T) {
	c, _ := cluster(t)
	cmd := exec.CommandContext(t.Context(), c.Binary, "demo", "all", "--runtime", "containerd")
	cmd.Env = os.Environ()
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "19 of 19 statements of the tutorial hold") {
		t.Errorf("%v\n%s", err, out)
	}
}
