package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// typedBy is what a command prints that a user types.
func typedBy(t *testing.T, as string, args ...string) (string, error) {
	t.Helper()
	return cluster.Run(t.Context(), append(args, "--as", as)...)
}

// typing fails unless a command prints certain words.
func typing(t *testing.T, as, want string, args ...string) string {
	t.Helper()
	out, err := typedBy(t, as, args...)
	if err != nil || !strings.Contains(out, want) {
		t.Fatalf("%s types %v: %q, %v; want %q", as, args, out, err, want)
	}
	return out
}

// refused fails unless a command fails with certain words.
func refused(t *testing.T, as, want string, args ...string) {
	t.Helper()
	out, err := typedBy(t, as, args...)
	if err == nil || !strings.Contains(err.Error()+out, want) {
		t.Fatalf("%s types %v: %q, %v; want it refused with %q", as, args, out, err, want)
	}
}

// TestTouch: a member of a team follows a job of two ranks that fail and start again, holds one
// that runs, releases it, waits for it and cancels it.
func TestTouch(t *testing.T) {
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	create(t, alice, `
apiVersion: batch/v1
kind: Job
metadata: {name: flaky, labels: {kueue.x-k8s.io/queue-name: default-queue}}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  template:
    metadata: {annotations: {mlbatch.dev/run-for: 2s, mlbatch.dev/fail-first: "1", mlbatch.dev/exit-code: "3"}}
    spec:
      restartPolicy: OnFailure
      containers: [{name: c, image: busybox, command: [train], resources: {requests: {cpu: 1}}}]
`, "blue")
	out := typing(t, "alice", "ended with exit code 0", "logs", "-f", "blue/flaky")
	for _, rank := range []string{"0 | ", "1 | "} {
		if n := strings.Count(out, rank+"started on "); n != 2 {
			t.Errorf(
				"rank %s began %d times, not twice: it was started again, and each run is told once\n%s",
				rank,
				n,
				out,
			)
		}
		if !strings.Contains(out, rank+"ended with exit code 3") ||
			!strings.Contains(out, rank+"ended with exit code 0") {
			t.Errorf("rank %s is to fail and then to succeed:\n%s", rank, out)
		}
	}
	typing(t, "alice", "1 | ended with exit code 0", "logs", "blue/flaky", "--tail", "1")
	typing(t, "alice", "ended with exit code 3", "logs", "blue/flaky", "--previous", "--rank", "1")
	typing(t, "alice", "succeeded", "wait", "blue/flaky", "--for", "succeeded")

	create(t, alice, `
apiVersion: batch/v1
kind: Job
metadata: {name: held, labels: {kueue.x-k8s.io/queue-name: default-queue, sweep: touch}}
spec:
  template:
    metadata: {annotations: {mlbatch.dev/run-for: forever}}
    spec:
      restartPolicy: Never
      containers: [{name: c, image: busybox, resources: {requests: {cpu: 1}}}]
`, "blue")
	typing(t, "alice", "is running", "wait", "blue/held", "--for", "running", "--timeout", "2m")
	refused(t, "alice", "--stop", "hold", "blue/held")
	typing(t, "alice", "is held", "hold", "blue/held", "--stop")
	eventually(t, "its pods are gone", func() string {
		if n := len(pods(t, "blue", "held")); n > 0 {
			return "there are pods"
		}
		return ""
	})
	refused(t, "alice", "held (Deactivated)", "wait", "blue/held", "--for", "running", "--timeout", "1s")
	refused(t, "alice", "held", "logs", "blue/held")

	// Of a Workload she may change nothing but that, and what an administrator holds she does
	// not release.
	w := itsWorkload(t, "blue", "held")
	for why, patch := range map[string]string{
		"others would wait longer":       `{"spec":{"priority":1000}}`,
		"it would run in another queue":  `{"spec":{"queueName":"other"}}`,
		"it would be counted as smaller": `[{"op":"replace","path":"/spec/podSets/0/count","value":0}]`,
		"a boost is a priority":          `{"metadata":{"annotations":{"kueue.x-k8s.io/priority-boost":"5"}}}`,
		"it would outlive its job":       `{"metadata":{"ownerReferences":null}}`,
		"she would be the administrator": `{"metadata":{"annotations":{"` + kueue.HeldByAnnotation + `":"alice"}}}`,
		"nobody could delete it":         `{"metadata":{"finalizers":["example.com/a"]}}`,
	} {
		kind := types.MergePatchType
		if patch[0] == '[' {
			kind = types.JSONPatchType
		}
		err := alice.Patch(t.Context(), w.DeepCopy(), client.RawPatch(kind, []byte(patch)))
		if err == nil || !strings.Contains(err.Error(), "mlbatch-workload-hold") {
			t.Errorf("%s: %s: %v", why, patch, err)
		}
	}
	typing(t, "alice", "queues again", "release", "blue/held")
	if out, err := cluster.Run(t.Context(), "hold", "blue/held", "--stop"); err != nil {
		t.Fatalf("an administrator holds it: %v: %s", err, out)
	}
	refused(t, "alice", "ask for its release", "release", "blue/held")
	err := alice.Patch(
		t.Context(),
		itsWorkload(t, "blue", "held"),
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"active":true}}`)),
	)
	if err == nil || !strings.Contains(err.Error(), "an administrator holds this job") {
		t.Errorf("alice releases what an administrator holds: %v", err)
	}
	if out, err := cluster.Run(t.Context(), "release", "blue/held"); err != nil {
		t.Fatalf("he releases it: %v: %s", err, out)
	}
	typing(t, "alice", "is running", "wait", "blue/held", "--for", "running", "--timeout", "2m")

	// Again from the beginning, by one word.
	before := pods(t, "blue", "held")[0].UID
	typing(t, "alice", "queues again", "requeue", "blue/held")
	eventually(t, "it runs in a new pod", func() string {
		for _, p := range pods(t, "blue", "held") {
			if p.UID != before && p.Status.Phase == corev1.PodRunning {
				return ""
			}
		}
		return "it does not"
	})
	if out, err := cluster.Run(
		t.Context(),
		"exec",
		"blue/held",
		"--as",
		"alice",
		"--",
		"ls",
	); err == nil ||
		!strings.Contains(err.Error(), "simulated node") {
		t.Errorf("alice may run commands in her pods, which simulated nodes do not: %v: %s", err, out)
	}

	refused(t, "bob", "forbidden", "cancel", "blue/held")
	out = typing(t, "alice", "blue/held", "cancel", "-n", "blue", "-l", "sweep=touch", "--wait", "-o", "json")
	var done struct {
		Items []struct{ Name, Action string }
	}
	if err := json.Unmarshal(
		[]byte(out),
		&done,
	); err != nil || len(done.Items) != 1 ||
		done.Items[0].Action != "cancelled" {
		t.Errorf("cancel prints %s (%v)", out, err)
	}
	if n := len(pods(t, "blue", "held")); n > 0 {
		t.Errorf("cancel has waited, and there are %d pods", n)
	}
	typing(t, "alice", "blue/held", "wait", "blue/held", "--for", "deleted")
	typing(t, "alice", "cancelled", "cancel", "blue/flaky", "--wait")
	eventually(t, "its Workload is collected, once its end is recorded", func() string {
		if err := alice.Get(
			t.Context(),
			client.ObjectKey{Namespace: "blue", Name: w.Name},
			&kueue.Workload{},
		); !apierrors.IsNotFound(
			err,
		) {
			return fmt.Sprintf("it is there (%v)", err)
		}
		return ""
	})
}
