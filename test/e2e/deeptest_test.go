package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// A test runs on an idle node by the queue, and gives way to a team. After a fault it runs without one: the node that
// fails stays out of service until somebody clears it, and is used when the next one has passed, though the controller is
// killed meanwhile. What a team says of tests has no effect. This needs nodes that nobody else uses.
func TestDeepTests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(`
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
nodeHealth:
  mode: Act
  returnAfter: 0s
  deepTest: {image: mlbatch, command: [sleep, 60s], every: 1h}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	another(t, "--config", file)
	admin := user(t, "")
	text, err := os.ReadFile("../../docs/node-health.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(text), "The tests need a namespace")
	_, page, _ = strings.Cut(page, "```yaml\n")
	manifests, _, _ := strings.Cut(page, "```")
	if out, err := kubectl(t, "", manifests, "apply"); err != nil {
		t.Fatalf("what the page says to apply: %s", out)
	}
	// What docs/node-health.md says that mode Act needs.
	if out, err := kubectl(t, "", `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mlbatch-controller-nodes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: mlbatch-controller-nodes}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: mlbatch-controller}]
`, "apply"); err != nil {
		t.Fatal(out)
	}
	is := func(number int, want func(*batchv1.Job) string) {
		t.Helper()
		eventually(t, fmt.Sprintf("test %d", number), func() string {
			var j batchv1.Job
			name := client.ObjectKey{Namespace: "mlbatch-tests", Name: fmt.Sprintf("deep-test-node-0-%d", number)}
			if err := admin.Get(t.Context(), name, &j); err != nil {
				return err.Error()
			}
			return want(&j)
		})
	}
	ended := func(as batchv1.JobConditionType) func(*batchv1.Job) string {
		return func(j *batchv1.Job) string {
			for _, c := range j.Status.Conditions {
				if c.Type == as && c.Status == corev1.ConditionTrue {
					return ""
				}
			}
			return fmt.Sprintf("%+v", j.Status.Conditions)
		}
	}
	runs := func(j *batchv1.Job) string {
		if j.Status.Active == 0 {
			return "it does not run"
		}
		return ""
	}
	label := func(want string) {
		t.Helper()
		eventually(t, "the node's label", func() string {
			n := &corev1.Node{}
			if err := admin.Get(t.Context(), client.ObjectKey{Name: "node-0"}, n); err != nil {
				return err.Error()
			}
			if got := n.Labels[nodehealth.HealthLabel]; got != want {
				return fmt.Sprintf("%q, want %q: %v", got, want, n.Status.Conditions)
			}
			return ""
		})
	}
	annotate := func(key, value string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %s}}}`, key, value)
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}
		if err := admin.Patch(t.Context(), n, client.RawPatch(types.MergePatchType, patch)); err != nil {
			t.Fatal(err)
		}
	}

	is(1, runs)
	create(t, admin, `
apiVersion: batch/v1
kind: Job
metadata: {name: team, labels: {kueue.x-k8s.io/queue-name: default-queue}}
spec: {template: {spec: {restartPolicy: Never, nodeSelector: {kubernetes.io/hostname: node-0},
  containers: [{name: c, image: busybox, command: [sleep, 10s],
  resources: {requests: {nvidia.com/gpu: 8}, limits: {nvidia.com/gpu: 8}}}]}}}`, "blue")
	eventually(t, "the team has the GPUs that were tested", func() string {
		var j batchv1.Job
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "team"}, &j); err != nil {
			return err.Error()
		}
		return ended(batchv1.JobComplete)(&j)
	})
	is(1, ended(batchv1.JobComplete))

	at := time.Now().UTC().Truncate(time.Second).Format(time.RFC3339)
	annotate("mlbatch.dev/simulate", `"bad-gpus"`)
	annotate("mlbatch.dev/checks", fmt.Sprintf("%q",
		`{"at":"`+at+`","checks":[{"name":"xid","result":"Fatal","at":"`+at+`","message":"XID 79"}]}`))
	is(2, runs)
	label("TESTING")
	is(2, ended(batchv1.JobFailed))
	label("EVICT")

	n := &corev1.Node{}
	if err := admin.Get(t.Context(), client.ObjectKey{Name: "node-0"}, n); err != nil {
		t.Fatal(err)
	}
	create(t, user(t, "alice"), fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata:
  name: deep-test-node-0-9
  labels: {mlbatch.dev/deep-test: "true", kueue.x-k8s.io/queue-name: default-queue}
  annotations: {mlbatch.dev/deep-test: '{"node":"node-0","uid":%q,"number":9,"cause":"AfterFault","tries":1}',
    mlbatch.dev/checks: '{"checks":[{"name":"invasive","result":"Passed","deep":true,"at":"2026-01-01T00:00:00Z"}]}'}
spec: {restartPolicy: Never, containers: [{name: test, image: busybox, command: [sleep, 1s],
  resources: {requests: {cpu: 1}}}]}`, n.UID), "blue")

	annotate("mlbatch.dev/simulate", "null")
	back, err := cluster.Kill(t.Context(), "controller")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cluster.Run(t.Context(), "nodes", "clear", "node-0", "--reason", "GPU replaced"); err != nil {
		t.Fatal(out)
	}
	if err := back(t.Context()); err != nil {
		t.Fatal(err)
	}
	is(3, runs)
	out, err := cluster.Run(t.Context(), "nodes")
	if err != nil || !strings.Contains(out, "waits for a deep test") {
		t.Errorf("a node that was cleared and not tested:\n%s", out)
	}
	is(3, ended(batchv1.JobComplete))
	label("")
	eventually(t, "the node is back", func() string {
		if out, err := cluster.Run(t.Context(), "nodes"); err != nil || !strings.Contains(out, "node-0  Ready") {
			return out
		}
		return ""
	})
}
