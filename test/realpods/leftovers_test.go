package realpods

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/test/rig"
)

// allReady says what of a cluster is not.
func allReady(ctx context.Context, c *rig.Cluster) error {
	all, err := c.Components(ctx)
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.Health != "ready" {
			return fmt.Errorf("%s is %s", p.Name, p.Health)
		}
	}
	return nil
}

// traces are all things on this machine that real nodes may leave behind.
func traces(t *testing.T) []string {
	t.Helper()
	var all []string
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		all = append(all, "interface "+i.Name)
	}
	for what, pattern := range map[string]string{"cgroup": "/sys/fs/cgroup/*/mlbatch-*", "cgroup of pods": "/sys/fs/cgroup/mlbatch-*", "namespace": "/run/netns/*"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			all = append(all, what+" "+n)
		}
	}
	for what, file := range map[string]string{"mount": "/proc/self/mounts", "route": "/proc/net/route"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			all = append(all, what+" "+strings.TrimSpace(line))
		}
	}
	rules, err := exec.CommandContext(t.Context(), "nft", "list", "ruleset").Output()
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, "rules "+string(rules))
	for _, setting := range []string{"vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward", "net/netfilter/nf_conntrack_max"} {
		value, err := os.ReadFile("/proc/sys/" + setting)
		if err != nil {
			continue // this kernel has none
		}
		all = append(all, "setting "+setting+" "+strings.TrimSpace(string(value)))
	}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2"} {
		out, _ := exec.CommandContext(t.Context(), "pidof", name).Output() // it fails where there is none
		for pid := range strings.FieldsSeq(string(out)) {
			all = append(all, "process "+name+" "+pid)
		}
	}
	slices.Sort(all)
	return all
}

// news are the traces that were not there before.
func news(t *testing.T, before []string) []string {
	t.Helper()
	return slices.DeleteFunc(traces(t), func(s string) bool { return slices.Contains(before, s) })
}

// TestNothingIsLeft: a cluster of one node that is killed resumes with its pods, and one that
// is taken down leaves nothing on the machine, whether it was killed before or not.
func TestNothingIsLeft(t *testing.T) {
	first, _ := cluster(t)
	before := traces(t)
	c, err := first.Another(t.Context(), os.Stderr, "--runtime=containerd", "--nodes=1", "--empty")
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	defer func() {
		if !stopped {
			_ = c.Stop() // the test failed already
		}
	}()
	cl := clientOf(t, c)
	ns := namespace(t, cl)
	create(
		t,
		cl,
		ns,
		busybox("stays", "sleep 3600", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }),
	)
	inPhase(t, cl, ns, "stays", corev1.PodRunning)
	if len(news(t, before)) == 0 {
		t.Fatal("a running cluster leaves no trace: this test looks at the wrong things")
	}
	if err := c.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	cl = clientOf(t, c)
	eventually(t, func(ctx context.Context) error { return allReady(ctx, c) })
	p := inPhase(t, cl, ns, "stays", corev1.PodRunning)
	eventually(t, func(context.Context) error {
		p = inPhase(t, cl, ns, "stays", corev1.PodRunning)
		if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].RestartCount == 0 {
			return fmt.Errorf("its container did not start again: %+v", p.Status.ContainerStatuses)
		}
		return nil
	})
	// Killed, and then taken down by hand.
	if err := c.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	typed(t, c, "down", "--delete", "--data-dir", c.Dir)
	stopped = true
	if left := news(t, before); len(left) > 0 {
		t.Errorf("after down --delete there still is\n%s", strings.Join(left, "\n"))
	}
	if _, err := os.Stat(c.Dir); !os.IsNotExist(err) {
		t.Errorf("the data directory is still there: %v", err)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
}
