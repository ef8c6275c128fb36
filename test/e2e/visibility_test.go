package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/api/visibility/v1beta2"
)

// pendingIn asks which workloads wait, as a user; "" is the admin.
func pendingIn(t *testing.T, as, path string) (*v1beta2.PendingWorkloadsSummary, error) {
	t.Helper()
	args := []string{
		"kubectl",
		"--data-dir",
		cluster.Dir,
		"get",
		"--raw",
		"/apis/visibility.kueue.x-k8s.io/" + path,
	}
	if as != "" {
		args = append(args, "--as", as)
	}
	out, err := cluster.Run(t.Context(), args...)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	var s v1beta2.PendingWorkloadsSummary
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return &s, nil
}

// What waits is told in order: to the admin of every queue, to users of their own.
func TestPendingWorkloads(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	alice, bob := user(t, "alice"), user(t, "bob")
	create(t, alice, gang("runs", 3, 8, 600), "blue")
	eventually(t, "alice has it all", inPhase(t, "Running", "blue", "runs"))
	for _, name := range []string{"one", "two", "three"} {
		create(t, alice, gang(name, 3, 8, 600), "blue")
	}
	create(t, bob, gang("his", 4, 8, 600), "red") // never fits, so that it keeps waiting

	const line = "v1beta2/clusterqueues/blue-cluster-queue/pendingworkloads"
	eventually(t, "three wait", func() string {
		s, err := pendingIn(t, "", line)
		if err != nil {
			return err.Error()
		}
		if len(s.Items) != 3 {
			return fmt.Sprintf("%d items", len(s.Items))
		}
		for i, w := range s.Items {
			if w.Namespace != "blue" || len(w.OwnerReferences) != 1 || w.LocalQueueName != "default-queue" ||
				w.PositionInClusterQueue != int32(i) || w.PositionInLocalQueue != int32(i) {
				t.Fatalf("item %d: %+v", i, w)
			}
		}
		return ""
	})
	for _, path := range []string{"v1beta1/clusterqueues/blue-cluster-queue/pendingworkloads?limit=1&offset=2", "v1beta2/namespaces/blue/localqueues/default-queue/pendingworkloads?limit=1&offset=2"} {
		s, err := pendingIn(t, "", path)
		if err != nil || len(s.Items) != 1 || s.Items[0].PositionInClusterQueue != 2 {
			t.Errorf("%s: %v, %+v", path, err, s)
		}
	}
	const blue, red = "v1beta2/namespaces/blue/localqueues/default-queue/pendingworkloads", "v1beta2/namespaces/red/localqueues/default-queue/pendingworkloads"
	for _, c := range []struct {
		as, path string
		items    int // -1: forbidden
		why      string
	}{
		{"alice", blue, 3, "her own queue"},
		{"alice", red, -1, "another team's queue"},
		{"alice", line, -1, "a ClusterQueue is the admin's to see"},
		{"bob", red, 1, "his own queue"},
		{"bob", blue, -1, "another team's queue"},
		{"mallory", blue, -1, "a stranger"},
	} {
		s, err := pendingIn(t, c.as, c.path)
		switch {
		case c.items < 0 && (err == nil || !strings.Contains(err.Error(), "forbidden")):
			t.Errorf("%s at %s is not forbidden (%s): %v", c.as, c.path, c.why, err)
		case c.items >= 0 && (err != nil || len(s.Items) != c.items):
			t.Errorf("%s at %s (%s): %v, %+v, want %d items", c.as, c.path, c.why, err, s, c.items)
		}
	}
	if _, err := pendingIn(
		t,
		"",
		"v1beta2/clusterqueues/none/pendingworkloads",
	); err == nil ||
		!strings.Contains(err.Error(), "not found") {
		t.Errorf("a queue that does not exist: %v", err)
	}
}

// The API server shows what the aggregated API says of itself.
func TestVisibilityIsDescribed(t *testing.T) {
	for _, path := range []string{"/openapi/v2", "/openapi/v3/apis/visibility.kueue.x-k8s.io/v1beta2", "/openapi/v3/apis/visibility.kueue.x-k8s.io/v1beta1"} {
		eventually(t, path, func() string {
			out, err := cluster.Run(t.Context(), "kubectl", "--data-dir", cluster.Dir, "get", "--raw", path)
			switch {
			case err != nil:
				return fmt.Sprintf("%v: %.300s", err, out)
			case !strings.Contains(out, ".PendingWorkloadsSummary") || !strings.Contains(out, "positionInClusterQueue"):
				return "it does not describe PendingWorkloadsSummary"
			}
			return ""
		})
	}
	out, err := cluster.Run(
		t.Context(),
		"kubectl",
		"--data-dir",
		cluster.Dir,
		"api-resources",
		"--api-group",
		"visibility.kueue.x-k8s.io",
	)
	if err != nil {
		t.Errorf("discovery: %v: %s", err, out)
	}
}
