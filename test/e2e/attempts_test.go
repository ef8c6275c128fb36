package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	past "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// trials is a wrapped Job of two pods with whole nodes, which begins anew at once whatever ends it.
const trials = `
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata:
  name: %s
  labels: {kueue.x-k8s.io/queue-name: default-queue}
  annotations:
    workload.codeflare.dev.appwrapper/failureGracePeriodDuration: 0s
    workload.codeflare.dev.appwrapper/retryPausePeriodDuration: 0s
spec:
  components:
  - template:
      apiVersion: batch/v1
      kind: Job
      metadata: {name: %[1]s}
      spec:
        parallelism: 2
        completions: 2
        completionMode: Indexed
        backoffLimit: 0
        template:
          metadata: {annotations: {mlbatch.dev/run-for: forever}}
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 0
            priorityClassName: low-priority
            containers:
            - {name: c, image: busybox, resources: {limits: {nvidia.com/gpu: 8}}}
`

// TestAttemptsAreTold: a job is preempted, then its node goes bad, then its pod exits with 1, and then it
// succeeds. show and hist tell all four attempts, and the controller is killed after each.
func TestAttemptsAreTold(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	admin, alice := user(t, ""), user(t, "alice")
	create(t, alice, fmt.Sprintf(trials, "trials"), "blue")
	running := func() []corev1.Pod {
		var out []corev1.Pod
		var all corev1.PodList
		if err := admin.List(
			t.Context(),
			&all,
			client.InNamespace("blue"),
			client.MatchingLabels{aw.AppWrapperLabel: "trials"},
		); err != nil {
			t.Fatal(err)
		}
		for _, p := range all.Items {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				out = append(out, p)
			}
		}
		return out
	}
	attempts := func(n int) []past.Attempt {
		var out []past.Attempt
		eventually(t, fmt.Sprintf("attempt %d runs, and show tells of it", n), func() string {
			shown := typed[why.Details](t, "alice", "show", "blue/trials")
			if shown.Attempts == nil {
				return "it has none"
			}
			if out = shown.Attempts.Attempts.Attempts; len(out) != n || len(running()) != 2 {
				return fmt.Sprintf("%d attempts, %d pods run: %+v", len(out), len(running()), out)
			}
			return ""
		})
		return out
	}
	attempts(1)
	other := &aw.AppWrapper{ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "other"}}
	create(
		t,
		user(t, "bob"),
		strings.NewReplacer("parallelism: 2", "parallelism: 1", "completions: 2", "completions: 1").
			Replace(fmt.Sprintf(trials, other.Name)),
		"red",
	) // what quota is left
	eventually(t, "the other team has the rest", inPhase(t, "Running", "red", other.Name))

	// Who goes first in the queue takes its quota.
	urgent := strings.NewReplacer("low-priority", "high-priority", "forever", "20s", "gpu: 8", "gpu: 2").
		Replace(fmt.Sprintf(trials, "urgent"))
	create(t, alice, urgent, "blue")
	killController(t)
	attempts(2)
	if err := admin.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}

	awaitEmpty(t, "red") // so that there is another node

	// A health check finds its node bad.
	bad := running()[0].Spec.NodeName
	health(t, admin, bad, `"EVICT"`)
	t.Cleanup(func() { health(t, admin, bad, "null") })
	killController(t)
	attempts(3)

	// The program ends with 1.
	failing := running()[0]
	act(t, admin, &failing, map[string]string{"mlbatch.dev/run-for": "1s", "mlbatch.dev/exit-code": "1"})
	killController(t)
	all := attempts(4)
	if f := all[2]; f.ExitCode == nil || *f.ExitCode != 1 || f.Pod != failing.Name {
		t.Errorf("the third ended by %+v, want exit code 1 of %s", f, failing.Name)
	}
	if f := all[1]; len(f.FailedNodes) != 1 || f.FailedNodes[0] != bad {
		t.Errorf("the second ended for nodes %v, want %s", f.FailedNodes, bad)
	}

	for _, p := range running() {
		act(t, admin, &p, map[string]string{"mlbatch.dev/run-for": "1s"})
	}
	var record *past.JobRecord
	eventually(t, "it is recorded", func() string {
		var pages past.JobHistoryList
		if err := alice.List(t.Context(), &pages, client.InNamespace("blue")); err != nil {
			return err.Error()
		}
		for i := range pages.Items {
			for k := range pages.Items[i].Records {
				if r := &pages.Items[i].Records[k]; r.Name == "trials" {
					record = r
					return ""
				}
			}
		}
		return "it is not"
	})
	var why []string
	for i := range record.Attempts {
		a := &record.Attempts[i]
		why = append(why, a.Category)
		if a.End == nil || a.End.Before(&a.Start) || i > 0 && a.Start.Before(record.Attempts[i-1].End) {
			t.Errorf("attempt %d was from %s to %s", i+1, a.Start, a.End)
		}
		if want := 16 * int64(
			a.End.Sub(a.Start.Time).Seconds(),
		); a.GPUSeconds != want ||
			a.Category != "" && a.LostGPUSeconds != want {
			t.Errorf("attempt %d took %d GPU-seconds and lost %d, want %d", i+1, a.GPUSeconds, a.LostGPUSeconds, want)
		}
	}
	if want := []string{"Preemption", "NodeFailure", "UserError", ""}; fmt.Sprint(why) != fmt.Sprint(want) {
		t.Errorf("its attempts ended by %q, want %q", why, want)
	}
	if s := record.AttemptsTotal; s == nil || s.Attempts != 4 || s.Start == nil ||
		!s.Start.Equal(&record.Attempts[0].Start) {
		t.Errorf("in all %+v of %+v", s, record.Attempts)
	}
	out, err := cluster.Run(t.Context(), "hist", "-n", "blue", "--as", "alice", "-o", "wide")
	if want := "4 (NodeFailure 1, Preemption 1, UserError 1)"; err != nil || !strings.Contains(out, want) {
		t.Errorf("hist says, %v:\n%s\nwant %s", err, out, want)
	}
	awaitEmpty(t, "blue", "red")
	failuresDecide(t, alice)
	awaitEmpty(t, "blue")
}

// failuresDecide: what is called wrongly is not tried again, and says why; nor is what its policy rules out, while a
// policy that makes no sense is refused with the entry and the cure.
func failuresDecide(t *testing.T, alice client.Client) {
	t.Helper()
	short := func(name, code, says string) string {
		return strings.NewReplacer(
			"forever", `1s, mlbatch.dev/exit-code: "`+code+`"`, "gpu: 8", "gpu: 1",
			"  annotations:\n", "  annotations:\n"+says,
		).Replace(fmt.Sprintf(trials, name))
	}
	const policy = "    mlbatch.dev/retry-policy: '%s'\n"
	create(t, alice, short("misused", "2", ""), "blue")
	create(t, alice, short("ruled", "7", fmt.Sprintf(policy, "UserError exit 7: Fail")), "blue")
	for name, want := range map[string]string{
		"misused": `no retry mends that (rule "UserError exit 2,126,127: Fail" of the defaults)`,
		"ruled":   `no retry mends that (rule "UserError exit 7: Fail" of the job)`,
	} {
		eventually(t, name+" fails at once", inPhase(t, "Failed", "blue", name))
		var w aw.AppWrapper
		if err := alice.Get(t.Context(), types.NamespacedName{Namespace: "blue", Name: name}, &w); err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, c := range w.Status.Conditions {
			if c.Type == aw.Unhealthy {
				said = c.Message
			}
		}
		if w.Status.Retries != 0 || !strings.Contains(said, want) {
			t.Errorf("%s was tried again %d times: %q, want %s", name, w.Status.Retries, said, want)
		}
	}
	if s := typed[why.Details](t, "alice", "show", "blue/ruled").Retries; s == nil || len(s.Policies) != 1 ||
		s.Policies[0].From != "the job" {
		t.Errorf("show says of its retries %+v", s)
	}
	_, err := tryCreate(t, alice, short("nonsense", "1", fmt.Sprintf(policy, "NodeFailure: Fail")), "blue")
	if err == nil || !strings.Contains(err.Error(), "is not the job's own failure") {
		t.Errorf("a policy without sense: %v", err)
	}
}

// health writes what a health check found of a node, in JSON.
func health(t *testing.T, c client.Client, node, found string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata": {"labels": {"autopilot.ibm.com/gpuhealth": %s}}}`, found)
	if err := c.Patch(
		withoutCancel(t),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
		client.RawPatch(types.MergePatchType, []byte(patch)),
	); err != nil {
		t.Error(err)
	}
}

// act has a simulated pod that runs do what annotations say.
func act(t *testing.T, c client.Client, p *corev1.Pod, how map[string]string) {
	t.Helper()
	next := p.DeepCopy()
	for key, value := range how {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, key, value)
	}
	if err := c.Patch(t.Context(), next, client.MergeFrom(p)); err != nil {
		t.Fatal(err)
	}
}
