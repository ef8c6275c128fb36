package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// filteredJob is a Job of the default queue of a team, with more of the pods' spec and labels.
func filteredJob(name string, count int, more string) string {
	return fmt.Sprintf(
		`{apiVersion: batch/v1, kind: Job, metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: default-queue}}, spec: {parallelism: %d, completions: %d,
  template: {metadata: {labels: {app: %s}}, spec: {restartPolicy: Never, %s}}}}`,
		name,
		count,
		count,
		name,
		more,
	)
}

// filteredContainer is what its container is.
const filteredContainer = `name: c, image: busybox, command: [sh, -c, "sleep 600"], resources: {limits: {nvidia.com/gpu: 1}}`

// onNodes says on how many nodes so many pods of a Job run.
func onNodes(tb testing.TB, name string, count, nodes int) func() string {
	tb.Helper()
	return func() string {
		on := map[string]bool{}
		all := pods(tb, "blue", name)
		for i := range all {
			if all[i].Status.Phase == corev1.PodRunning {
				on[all[i].Spec.NodeName] = true
			}
		}
		if len(all) != count || len(on) != nodes {
			return fmt.Sprintf("%d pods, running on %v", len(all), on)
		}
		return ""
	}
}

// patched changes an object of the cluster for a test.
func patched(t *testing.T, o client.Object, patch, back string) {
	t.Helper()
	admin := user(t, "")
	if err := admin.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.Patch(
			withoutCancel(t),
			o,
			client.RawPatch(types.MergePatchType, []byte(back)),
		); err != nil {
			t.Error(err)
		}
	})
}

// TestHostPortsAreOnePerNode: pods with one host port go to as many nodes, whichever jobs they are of.
func TestHostPortsAreOnePerNode(t *testing.T) {
	awaitEmpty(t, "blue")
	patched(
		t,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue"}},
		`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}`,
		`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}`,
	)
	const port = `containers: [{` + filteredContainer + `, ports: [{containerPort: 8471, hostPort: 8471}]}]`
	alice := user(t, "alice")
	create(t, alice, filteredJob("ports", 2, port), "blue")
	create(t, alice, filteredJob("third-port", 1, port), "blue")
	eventually(t, "two pods run on two nodes", onNodes(t, "ports", 2, 2))
	eventually(t, "another job gets the third node", onNodes(t, "third-port", 1, 1))
	create(t, alice, filteredJob("fourth-port", 1, port), "blue")
	eventually(
		t,
		"no node has the port any more",
		waits(t, "blue", "fourth-port", "in the way: host port 8471/TCP"),
	)
}

// TestRuntimeClassChoosesNodes: a RuntimeClass says which nodes its pods get.
func TestRuntimeClassChoosesNodes(t *testing.T) {
	awaitEmpty(t, "blue")
	patched(
		t,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}},
		`{"metadata": {"labels": {"kata": "yes"}}}`,
		`{"metadata": {"labels": {"kata": null}}}`,
	)
	admin := user(t, "")
	create(
		t,
		admin,
		`{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: kata}, handler: kata, scheduling: {nodeSelector: {kata: "yes"}}, overhead: {podFixed: {cpu: 250m}}}`,
		"",
	)
	t.Cleanup(func() {
		if err := admin.Delete(
			withoutCancel(t),
			&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "kata"}},
		); err != nil {
			t.Error(err)
		}
	})
	create(
		t,
		user(t, "alice"),
		filteredJob("sandboxed", 1, `runtimeClassName: kata, containers: [{`+filteredContainer+`}]`),
		"blue",
	)
	eventually(t, "it runs where the runtime is", onNodes(t, "sandboxed", 1, 1))
	if node := pods(t, "blue", "sandboxed")[0].Spec.NodeName; node != "node-2" {
		t.Errorf("it runs on %s, and only node-2 has the runtime", node)
	}
}

// TestPodsRunWhereTheirVolumeIs: a claim that is bound to the disk of a node has its pods planned there,
// and a job that cannot go there says what keeps it away.
func TestPodsRunWhereTheirVolumeIs(t *testing.T) {
	awaitEmpty(t, "blue")
	admin, alice := user(t, ""), user(t, "alice")
	create(
		t,
		admin,
		`{apiVersion: v1, kind: PersistentVolume, metadata: {name: disk-of-node-2}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: "", persistentVolumeReclaimPolicy: Retain,
  hostPath: {path: /data}, claimRef: {namespace: blue, name: data}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-2]}]}]}}}}`,
		"",
	)
	t.Cleanup(func() {
		if err := admin.Delete(
			withoutCancel(t),
			&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk-of-node-2"}},
		); err != nil {
			t.Error(err)
		}
	})
	claim := create(
		t,
		alice,
		`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: "", resources: {requests: {storage: 1Gi}}}}`,
		"blue",
	)
	eventually(t, "the claim is bound", func() string {
		var c corev1.PersistentVolumeClaim
		if err := admin.Get(
			t.Context(),
			client.ObjectKey{Namespace: "blue", Name: claim},
			&c,
		); err != nil ||
			c.Status.Phase != corev1.ClaimBound {
			return fmt.Sprintf("%v, %v", c.Status.Phase, err)
		}
		return ""
	})
	const data = `volumes: [{name: data, persistentVolumeClaim: {claimName: data}}], containers: [{` + filteredContainer + `}]`
	create(t, alice, filteredJob("near-its-data", 2, data), "blue")
	eventually(t, "both pods run where the data is", onNodes(t, "near-its-data", 2, 1))
	if node := pods(t, "blue", "near-its-data")[0].Spec.NodeName; node != "node-2" {
		t.Errorf("they run on %s, and only node-2 has the disk", node)
	}
	create(
		t,
		alice,
		filteredJob("elsewhere", 1, `nodeSelector: {kubernetes.io/hostname: node-1}, `+data),
		"blue",
	)
	eventually(
		t,
		"it says what keeps it from node-1",
		waits(t, "blue", "elsewhere", "the volume of claim data, which is on kubernetes.io/hostname"),
	)
}

// TestPodsThatKeepApartGetNodesOfTheirOwn: three on three nodes, and a fourth is known to have none.
func TestPodsThatKeepApartGetNodesOfTheirOwn(t *testing.T) {
	awaitEmpty(t, "blue")
	apart := func(name string) string {
		return `affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: ` + name +
			`}}}]}}, containers: [{` + filteredContainer + `}]`
	}
	alice := user(t, "alice")
	create(t, alice, filteredJob("apart", 3, apart("apart")), "blue")
	create(t, alice, filteredJob("too-many", 4, apart("too-many")), "blue")
	eventually(t, "three run on three nodes", onNodes(t, "apart", 3, 3))
	eventually(t, "four never can", waits(
		t,
		"blue",
		"too-many",
		"all 3 node(s)",
		"together hold only 3 out of 4 pod(s), even if empty, because of the required podAntiAffinity over app=too-many",
	))
}

// TestNodesThatRefuseAreLeftOut: a job that wants to be near a pod, which no plan knows, is tried on
// each node once. It holds nothing while all refuse it, says what they answered, and starts as soon
// as the pod is there.
func TestNodesThatRefuseAreLeftOut(t *testing.T) {
	awaitEmpty(t, "blue")
	const near = `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, namespaces: [default], labelSelector: {matchLabels: {app: friend}}}]}}, containers: [{` + filteredContainer + `}]`
	create(t, user(t, "alice"), filteredJob("near", 1, near), "blue")
	eventually(
		t,
		"all nodes refuse it, and it says so",
		waits(t, "blue", "near", "3 node(s)", "refused its pods (node(s) didn't match pod affinity rules)"),
	)
	w := itsWorkload(t, "blue", "near")
	if w.Status.Admission != nil || w.Status.AccumulatedPastExecutionTimeSeconds != nil {
		t.Errorf("it holds %v and used %v s", w.Status.Admission, w.Status.AccumulatedPastExecutionTimeSeconds)
	}
	out, err := cluster.Run(t.Context(), "why", "job/near", "-n", "blue")
	out = strings.Join(strings.Fields(out), " ") // it is wrapped
	if err != nil || strings.Contains(out, "waitForPodsReady") || strings.Contains(out, "had run for") ||
		!strings.Contains(out, "didn't match pod affinity rules") {
		t.Errorf("why says (%v):\n%s", err, out)
	}
	admin := user(t, "")
	create(
		t,
		admin,
		`{apiVersion: v1, kind: Pod, metadata: {name: friend, labels: {app: friend}}, spec: {nodeName: node-1, restartPolicy: Never, terminationGracePeriodSeconds: 0, tolerations: [{operator: Exists}],
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}, containers: [{name: c, image: busybox, command: [sleep, "6000"], securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}`,
		"default",
	)
	t.Cleanup(func() {
		if err := admin.Delete(
			withoutCancel(t),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "friend"}},
		); client.IgnoreNotFound(
			err,
		) != nil {
			t.Error(err)
		}
	})
	eventually(t, "it runs beside the pod that it wanted", onNodes(t, "near", 1, 1))
	if node := pods(t, "blue", "near")[0].Spec.NodeName; node != "node-1" {
		t.Errorf("it runs on %s, and the pod on node-1", node)
	}
	for _, e := range itsWorkload(t, "blue", "near").Status.SchedulingStats.Evictions {
		if e.Reason == kueue.ReasonNodesRefused && e.Count != 3 {
			t.Errorf("it was tried in vain %d times, on three nodes", e.Count)
		}
	}
}
