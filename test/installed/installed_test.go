package installed

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/test/rig"
)

// programs are what is installed.
func programs() []string { return []string{install.ControllerComponent, install.SchedulerComponent} }

// TestInstalled: what "mlbatch install" leaves works, is spread over nodes, and fits the strictest
// pod security, which its namespace asks for.
func TestInstalled(t *testing.T) {
	c := admin(t)
	if !strings.Contains(said, "mlbatch is installed in namespace mlbatch-system") ||
		strings.Contains(said, "unknown authority") {
		t.Errorf("install said\n%s", said)
	}
	for _, program := range programs() {
		if err := whole(t.Context(), c, program); err != nil {
			t.Error(err)
		}
		pods, err := podsOf(t.Context(), c, program)
		if err != nil {
			t.Fatal(err)
		}
		if len(pods) != 2 || pods[0].Spec.NodeName == pods[1].Spec.NodeName {
			t.Errorf(
				"the replicas of %s are %d, on %s and %s",
				program,
				len(pods),
				pods[0].Spec.NodeName,
				pods[len(pods)-1].Spec.NodeName,
			)
		}
		for _, p := range pods {
			if n := p.Status.ContainerStatuses[0].RestartCount; n != 0 {
				t.Errorf("%s was started again %d times", p.Name, n)
			}
		}
	}
	var ns corev1.Namespace
	if err := c.Get(
		t.Context(),
		client.ObjectKey{Name: system},
		&ns,
	); err != nil ||
		ns.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("the namespace's labels are %v, %v", ns.Labels, err)
	}
	if got := typed(t, "doctor"); !strings.Contains(got, "Nothing is wrong") {
		t.Errorf("doctor says\n%s", got)
	}
	if got := typed(
		t,
		"install",
		"--image="+shared.Image(),
	); strings.Contains(got, "created") ||
		strings.Contains(got, "changed") {
		t.Errorf("a second install says\n%s", got)
	}
}

// TestStoredBeforeIsRead: an object that was stored in v1beta1 before mlbatch was installed did not keep
// its pods from getting ready, and is read in v1beta2.
func TestStoredBeforeIsRead(t *testing.T) {
	c := admin(t)
	var class kueue.WorkloadPriorityClass
	if err := c.Get(t.Context(), client.ObjectKey{Name: stored}, &class); err != nil || class.Value != 7 {
		t.Fatalf("its value is %d: %v", class.Value, err)
	}
	if err := whole(t.Context(), c, install.ControllerComponent); err != nil {
		t.Error(err)
	}
}

// TestQuotaIsReclaimed: a team borrows what the other lends and gives it back to it, with real
// pods that are ended for it.
func TestQuotaIsReclaimed(t *testing.T) {
	admin(t)
	detached(t, "blue", "alice", "borrows", []string{"--gpus", "8", "--nodes", "2"}, "sleep", "3600")
	shows(t, "2 pods run", "why", "-n", "blue", "borrows")
	detached(t, "red", "bob", "own", []string{"--gpus", "8"}, "sleep", "3600")
	shows(t, "1 pod runs", "why", "-n", "red", "own")
	shows(t, "It ran before and was stopped", "why", "-n", "blue", "borrows")
}

// TestBadInputIsRefused: webhooks are asked, by their Service, and say what is wrong.
func TestBadInputIsRefused(t *testing.T) {
	c := admin(t)
	cq := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kueue.x-k8s.io/v1beta2",
		"kind":       "ClusterQueue",
		"metadata":   map[string]any{"name": "wrong"},
		"spec": map[string]any{
			"preemption": map[string]any{
				"reclaimWithinCohort": "Never",
				"borrowWithinCohort":  map[string]any{"policy": "LowerPriority"},
			},
		},
	}}
	if err := c.Create(t.Context(), cq); err == nil || !strings.Contains(err.Error(), "reclaimWithinCohort") {
		t.Errorf("it is answered by %v", err)
	}
}

// longest is how long controllers wait for what they read from, before they give up and the process
// ends (controller-runtime's CacheSyncTimeout), and a little more.
const longest = 2*time.Minute + 15*time.Second

// TestStandbysStay: who waits for the lead goes on doing so, longer than anything that would end
// it; so does who leads.
func TestStandbysStay(t *testing.T) {
	c := admin(t)
	for _, program := range programs() {
		var pods []corev1.Pod
		eventually(t, func(ctx context.Context) (err error) {
			if pods, err = podsOf(ctx, c, program); err != nil {
				return err
			}
			for _, p := range pods {
				s := p.Status.ContainerStatuses[0]
				if s.RestartCount > 0 {
					return nil // it is told below
				}
				if s.State.Running == nil || time.Since(s.State.Running.StartedAt.Time) < longest {
					return fmt.Errorf("%s has not run for %s: %+v", p.Name, longest, s.State)
				}
			}
			return nil
		})
		for _, p := range pods {
			if s := p.Status.ContainerStatuses[0]; s.RestartCount > 0 {
				t.Errorf("%s ended by itself: %+v", p.Name, s.LastTerminationState.Terminated)
			}
		}
	}
}

// decides makes a job, and returns how long it took until its pod was bound.
func decides(t *testing.T, c client.Client, name string) time.Duration {
	t.Helper()
	j := queued(name, 1)
	began := time.Now()
	eventually(
		t,
		func(ctx context.Context) error { return client.IgnoreAlreadyExists(c.Create(ctx, j.DeepCopy())) },
	)
	t.Cleanup(func() { remove(t, c, j) })
	eventually(t, func(ctx context.Context) error {
		var pods corev1.PodList
		if err := c.List(
			ctx,
			&pods,
			client.InNamespace("blue"),
			client.MatchingLabels{batchv1.JobNameLabel: name},
		); err != nil {
			return err
		}
		if len(pods.Items) != 1 || pods.Items[0].Spec.NodeName == "" {
			return fmt.Errorf("%d pods of %s, bound none", len(pods.Items), name)
		}
		return nil
	})
	return time.Since(began)
}

// TestLeaderIsKilled: when the process that leads is killed, or its pod deleted without grace, the
// other replica goes on deciding, and no write is lost.
func TestLeaderIsKilled(t *testing.T) {
	c := admin(t)
	for _, program := range programs() {
		for how, kill := range map[string]func(p *corev1.Pod) error{
			"process killed": func(p *corev1.Pod) error { return killProcess(t, p) },
			"pod deleted":    func(p *corev1.Pod) error { return c.Delete(t.Context(), p, client.GracePeriodSeconds(0)) },
		} {
			t.Run(program+", "+how, func(t *testing.T) {
				eventually(t, func(ctx context.Context) error { return whole(ctx, c, program) })
				pod, was := leads(t, c, program)
				if err := kill(pod); err != nil {
					t.Fatal(err)
				}
				t.Logf(
					"the next job is placed after %s",
					decides(
						t,
						c,
						strings.ToLower(strings.NewReplacer(" ", "-", ",", "").Replace(program+" "+how)),
					).Round(10*time.Millisecond),
				)
				if _, now := leads(t, c, program); now == was {
					t.Errorf("%s leads, as before", now)
				}
				eventually(t, func(ctx context.Context) error { return whole(ctx, c, program) })
			})
		}
	}
}

// killProcess ends the process of a pod's container, which this machine sees.
func killProcess(t *testing.T, p *corev1.Pod) error {
	t.Helper()
	// Its hostname, which only its namespaces know, tells it from those of other pods.
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `for p in $(pgrep -x mlbatch); do
	[ "$(nsenter -t $p -u hostname)" = "`+p.Name+`" ] && kill -9 $p && exit 0
done; exit 1`).CombinedOutput()
	if err != nil {
		return fmt.Errorf("kill the process of %s: %w: %s", p.Name, err, out)
	}
	return nil
}

// TestRollingRestart: while both programs are replaced pod by pod, every job that is written is
// taken, held until it is admitted, and placed.
func TestRollingRestart(t *testing.T) {
	c := admin(t)
	before := map[string]bool{}
	for _, program := range programs() {
		pods, err := podsOf(t.Context(), c, program)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pods {
			before[p.Name] = true
		}
		typed(t, "kubectl", "rollout", "restart", "-n", system, "deployment/mlbatch-"+program)
	}
	n := 0
	eventually(t, func(ctx context.Context) error {
		j := queued(fmt.Sprintf("rolling-%d", n), 1)
		n++
		if err := c.Create(ctx, j); err != nil {
			t.Fatalf("job %d: %v", n, err)
		}
		if j.Spec.Suspend == nil || !*j.Spec.Suspend {
			t.Fatalf("job %d was not held", n)
		}
		if err := c.Delete(ctx, j, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Fatalf("job %d: %v", n, err)
		}
		for _, program := range programs() {
			if err := whole(ctx, c, program); err != nil {
				return err
			}
			pods, err := podsOf(ctx, c, program)
			if err != nil {
				return err
			}
			for _, p := range pods {
				if before[p.Name] {
					return fmt.Errorf("%s is still there", p.Name)
				}
			}
		}
		return nil
	})
	t.Logf("%d jobs were written meanwhile", n)
	decides(t, c, "rolled")
}

// TestNodeOfTheLeadersDies: a node that is lost takes a replica along, and mlbatch goes on.
func TestNodeOfTheLeadersDies(t *testing.T) {
	c := admin(t)
	pod, _ := leads(t, c, install.ControllerComponent)
	back, err := shared.Kill(t.Context(), pod.Spec.NodeName)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the next job is placed after %s", decides(t, c, "survives").Round(10*time.Millisecond))
	if err := back(t.Context()); err != nil {
		t.Error(err)
	}
	for _, program := range programs() {
		eventually(t, func(ctx context.Context) error { return whole(ctx, c, program) })
	}
}

// TestUpgradeCheck: the same program would change nothing.
func TestUpgradeCheck(t *testing.T) {
	admin(t)
	if got := typed(
		t,
		"upgrade",
		"--check",
		"--image="+shared.Image(),
	); !strings.Contains(
		got,
		"0 objects would change",
	) {
		t.Errorf("it says\n%s", got)
	}
}

// previousVariable names the commit that TestUpgradeAndBack upgrades from.
const previousVariable = "MLBATCH_PREVIOUS"

// TestUpgradeAndBack: the program of an earlier commit is upgraded to this one, taken back, and upgraded
// again. What runs then runs on, what comes is decided, and the older program goes over the newer
// only for those who say so.
func TestUpgradeAndBack(t *testing.T) {
	c := admin(t)
	commit := os.Getenv(previousVariable)
	if commit == "" {
		commit = "HEAD~1"
	}
	older, err := shared.Release(t.Context(), commit, "v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	newer, err := shared.Release(t.Context(), "", "v0.2.0")
	if err != nil {
		t.Fatal(err)
	}
	detached(t, "blue", "alice", "outlives", []string{"--gpus", "1"}, "sleep", "3600")
	shows(t, "1 pod runs", "why", "-n", "blue", "outlives")
	before, err := onlyPod(t, c, "outlives")
	if err != nil {
		t.Fatal(err)
	}
	installed := func(r rig.Release, version string, flags ...string) {
		t.Helper()
		if out, err := shared.RunWith(
			t.Context(),
			r.Program,
			append([]string{"install", "--image=" + r.Image}, flags...)...); err != nil {
			t.Fatalf("install %s: %v\n%s", version, err, out)
		}
		for _, program := range programs() {
			if err := whole(t.Context(), c, program); err != nil {
				t.Errorf("with %s: %v", version, err)
			}
			pods, err := podsOf(t.Context(), c, program)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range pods {
				if got := p.Spec.Containers[0].Image; got != r.Image {
					t.Errorf("with %s %s has image %s", version, p.Name, got)
				}
			}
		}
		decides(t, c, "with-"+strings.NewReplacer(".", "-").Replace(version)+fmt.Sprint(len(flags)))
		if now, err := onlyPod(t, c, "outlives"); err != nil || now != before {
			t.Errorf("with %s: %s is now %s: %v", version, before, now, err)
		}
		if out, err := shared.RunWith(
			t.Context(),
			r.Program,
			"doctor",
		); err != nil ||
			!strings.Contains(out, "Nothing is wrong") {
			t.Errorf("with %s: %v\n%s", version, err, out)
		}
	}
	installed(older, "v0.1.0")
	out, err := shared.RunWith(t.Context(), newer.Program, "upgrade", "--check", "--image="+newer.Image)
	if !strings.Contains(out, "v0.1.0") || !strings.Contains(out, "can be taken back") {
		t.Errorf("the check says %v\n%s", err, out)
	}
	installed(newer, "v0.2.0")
	if out, err := shared.RunWith(
		t.Context(),
		older.Program,
		"install",
		"--image="+older.Image,
	); err == nil ||
		!strings.Contains(err.Error()+out, "mlbatch-version") {
		t.Errorf("the older one over the newer: %v\n%s", err, out)
	}
	installed(older, "v0.1.0", "--ignore=mlbatch-version")
	installed(newer, "v0.2.0", "--ignore=mlbatch-version")
	typed(t, "install", "--image="+shared.Image()) // for the tests that follow
}

// onlyPod is the pod of a job that runs.
func onlyPod(t *testing.T, c client.Client, job string) (string, error) {
	t.Helper()
	var pods corev1.PodList
	if err := c.List(
		t.Context(),
		&pods,
		client.InNamespace("blue"),
		client.MatchingLabels{batchv1.JobNameLabel: job},
	); err != nil {
		return "", err
	}
	if len(pods.Items) != 1 || pods.Items[0].Status.Phase != corev1.PodRunning {
		return "", fmt.Errorf("its pods are %v", pods.Items)
	}
	return string(pods.Items[0].UID), nil
}

// TestUninstall: jobs run on while mlbatch is not there, and it goes on from there when it is back.
func TestUninstall(t *testing.T) {
	c := admin(t)
	detached(t, "blue", "alice", "stays", []string{"--gpus", "8"}, "sleep", "3600")
	shows(t, "1 pod runs", "why", "-n", "blue", "stays")
	before, err := onlyPod(t, c, "stays")
	if err != nil {
		t.Fatal(err)
	}
	typed(t, "uninstall", "--keep-crds", "--yes")
	if now, err := onlyPod(t, c, "stays"); err != nil || now != before {
		t.Errorf("without mlbatch: %s is now %s: %v", before, now, err)
	}
	if _, err := shared.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	decides(t, c, "again")
	if now, err := onlyPod(t, c, "stays"); err != nil || now != before {
		t.Errorf("with mlbatch again: %s is now %s: %v", before, now, err)
	}
	shows(t, "1 pod runs", "why", "-n", "blue", "stays")
}
