package e2e_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// TestNodesAreRemembered: what a node had is kept where docs/node-health.md says, so that
// its loss can be told and one day acknowledged.
func TestNodesAreRemembered(t *testing.T) {
	eventually(t, "each node has its key", func() string {
		var known corev1.ConfigMap
		if err := user(
			t,
			"",
		).Get(t.Context(), client.ObjectKey{Namespace: "mlbatch-system", Name: "mlbatch-nodes"}, &known); err != nil {
			return err.Error()
		}
		for _, name := range []string{"node-0", "node-1", "node-2"} {
			if known.Data[name] == "" {
				return "nothing is remembered of " + name
			}
		}
		return ""
	})
}

// TestTypoAdmitsNothing: a slip in a flavor's labels takes no quota for pods that
// could run nowhere. The job and the queue say what is in the way; once the flavor says
// that its nodes come on demand, quota is given.
func TestTypoAdmitsNothing(t *testing.T) {
	awaitEmpty(t, "blue")
	admin := user(t, "")
	create(
		t,
		admin,
		`{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: typo}, spec: {nodeLabels: {gpu: h1000}}}`,
		"",
	)
	create(
		t,
		admin,
		`{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: typo}, spec: {namespaceSelector: {}, resourceGroups: [ {coveredResources: [cpu, memory, nvidia.com/gpu, pods], flavors: [{name: typo, resources: [ {name: cpu, nominalQuota: 100}, {name: memory, nominalQuota: 1000G}, {name: nvidia.com/gpu, nominalQuota: 8}, {name: pods, nominalQuota: 100}]}]}]}}`,
		"",
	)
	create(
		t,
		admin,
		`{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: typo}, spec: {clusterQueue: typo}}`,
		"blue",
	)
	flavor := &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "typo"}}
	queue := &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "typo"}}
	t.Cleanup(func() {
		local := &kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "typo"}}
		for _, o := range []client.Object{local, queue, flavor} {
			if err := admin.Delete(withoutCancel(t), o); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		}
	})
	job := `{apiVersion: batch/v1, kind: Job, metadata: {name: lost, labels: {kueue.x-k8s.io/queue-name: typo}}, spec: {template: {spec: {restartPolicy: Never, containers: [ {name: c, image: busybox, command: [sleep, "600"], resources: {requests: {cpu: 1, memory: 1Gi}}}]}}}}`
	create(t, admin, job, "blue")
	eventually(
		t,
		"it says why it waits",
		waits(t, "blue", "lost", "no node has the labels of flavor typo (gpu=h1000)"),
	)
	eventually(t, "the queue says so, too", func() string {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(queue), queue); err != nil {
			return err.Error()
		}
		const want = "Can admit new workloads, but not with flavor(s) typo: no node has the labels (spec.nodeLabels)"
		if c := apimeta.FindStatusCondition(
			queue.Status.Conditions,
			kueue.ClusterQueueActive,
		); c == nil ||
			c.Message != want {
			return "Active is " + c.String()
		}
		return ""
	})
	if err := admin.Patch(
		t.Context(),
		flavor,
		client.RawPatch(
			"application/merge-patch+json",
			[]byte(`{"metadata":{"annotations":{"mlbatch.dev/nodes-on-demand":"true"}}}`),
		),
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its nodes come on demand", func() string {
		if w := workloadOf(t, "blue", "lost"); w == nil || w.Status.Admission == nil {
			return "it has no quota"
		}
		return ""
	})
	awaitEmpty(t, "blue")
}

// TestEvictMovesPodsOfJobs: pods of a Job that no AppWrapper wraps leave a node labelled
// EVICT, too. Kubernetes makes others, on other nodes; the Job keeps its quota and goes on.
func TestEvictMovesPodsOfJobs(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	admin := user(t, "")
	create(
		t,
		admin,
		labJob(
			"train",
			"labels: {kueue.x-k8s.io/queue-name: default-queue}",
			"parallelism: 2",
			`resources: {requests: {cpu: 1, memory: 1Gi}, limits: {nvidia.com/gpu: 4}}`,
		),
		"blue",
	)
	runs := func(not string) func() string {
		return func() string {
			running := 0
			for _, p := range pods(t, "blue", "train") {
				if p.Spec.NodeName == not {
					return "pod " + p.Name + " is on " + not
				}
				if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
					running++
				}
			}
			if running != 2 {
				return fmt.Sprintf("%d of 2 pods run", running)
			}
			return ""
		}
	}
	eventually(t, "the Job runs", runs("no node"))
	was := itsWorkload(t, "blue", "train")
	bad := pods(t, "blue", "train")[0].Spec.NodeName
	label(t, admin, bad, `"EVICT"`)
	t.Cleanup(func() { label(t, admin, bad, "null") })

	eventually(t, "no pod is left on the bad node, and all run elsewhere", runs(bad))
	is := itsWorkload(t, "blue", "train")
	if is.UID != was.UID || apimeta.FindStatusCondition(is.Status.Conditions, kueue.WorkloadEvicted) != nil ||
		!apimeta.IsStatusConditionTrue(is.Status.Conditions, kueue.WorkloadAdmitted) {
		t.Errorf("it lost its quota: %+v", is.Status.Conditions)
	}
	label(t, admin, bad, "null")
	awaitEmpty(t, "blue")
}
