package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// whyAs types "mlbatch why" as a user.
func whyAs(t *testing.T, as, job string) (why.Explanation, string) {
	t.Helper()
	out, err := cluster.Run(t.Context(), "why", job, "--as", as, "-o", "json")
	if err != nil {
		t.Fatalf("why %s as %s: %v", job, as, err)
	}
	var e why.Explanation
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return e, out
}

// Long after a reclaim the reason is true when it is read, others are
// known by queue and UID only, and what is advised helps.
func TestReasonsAreTrueWhenRead(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	alice, bob := user(t, "alice"), user(t, "bob")
	create(t, alice, gang("alice-secret", 3, 8, 6000), "blue")
	eventually(t, "alice has it all", inPhase(t, "Running", "blue", "alice-secret"))
	create(t, bob, gang("bob-first", 1, 8, 6000), "red")
	eventually(t, "bob takes back what is his", inPhase(t, "Running", "red", "bob-first"))
	create(t, bob, gang("bob-second", 1, 8, 6000), "red")
	eventually(t, "bob borrows", inPhase(t, "Running", "red", "bob-second"))
	if err := bob.Delete(
		t.Context(),
		wrapper(t, "red", "bob-first"),
		client.PropagationPolicy("Background"),
	); err != nil {
		t.Fatal(err)
	}
	uid := string(itsWorkload(t, "red", "bob-second").UID)

	var answer *visibility.Explanation
	eventually(t, "alice is told which workload holds it now", func() string {
		e, text := whyAs(t, "alice", "blue/alice-secret")
		answer = e.Answer
		switch {
		case answer == nil:
			return "no controller answered: " + text
		case len(answer.Holders) != 1 || string(answer.Holders[0].UID) != uid:
			return fmt.Sprintf("held by %+v, not by %s", answer.Holders, uid)
		case strings.Contains(text, "bob-"):
			t.Fatalf("alice learns names of bob's jobs: %s", text)
		}
		return ""
	})
	count := int32(0)
	for _, a := range answer.Advice {
		if a.Kind == "FewerPods" && a.Allowed {
			count = a.Count
		}
		if a.Kind == "Uncordon" && a.Allowed {
			t.Errorf("alice is told to do what she may not: %+v", a)
		}
	}
	if count == 0 {
		t.Fatalf("fewer pods are not advised: %+v", answer.Advice)
	}

	// Conditions and events tell bob nothing of alice's jobs, nor may he ask.
	create(t, bob, gang("bob-waits", 4, 8, 6000), "red")
	eventually(t, "bob is told why he waits", func() string {
		e, text := whyAs(t, "bob", "red/bob-waits")
		if e.Answer == nil {
			return "no controller answered: " + text
		}
		if strings.Contains(text, "alice-secret") {
			t.Fatalf("bob learns names of alice's jobs: %s", text)
		}
		return ""
	})
	path := "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/blue/workloads/" + itsWorkload(
		t,
		"blue",
		"alice-secret",
	).Name + "/explanation"
	if out, err := cluster.Run(
		t.Context(),
		"kubectl",
		"--data-dir",
		cluster.Dir,
		"get",
		"--raw",
		path,
		"--as",
		"bob",
	); err == nil ||
		!strings.Contains(err.Error(), "forbidden") {
		t.Errorf("bob asks about alice's job: %v: %s", err, out)
	}
	out, err := cluster.Run(
		t.Context(),
		"kubectl",
		"--data-dir",
		cluster.Dir,
		"get",
		"events,workloads",
		"-n",
		"red",
		"-o",
		"yaml",
		"--as",
		"bob",
	)
	if err != nil || strings.Contains(out, "alice-secret") {
		t.Errorf("bob reads of alice's job in his namespace: %v: %s", err, out)
	}

	// What was advised helps.
	if err := alice.Delete(
		t.Context(),
		wrapper(t, "blue", "alice-secret"),
		client.PropagationPolicy("Background"),
	); err != nil {
		t.Fatal(err)
	}
	create(t, alice, gang("alice-smaller", int(count), 8, 60), "blue")
	eventually(t, "it runs with as many pods as were advised", inPhase(t, "Running", "blue", "alice-smaller"))
}
