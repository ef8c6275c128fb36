package e2e_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// TestW15NodesAreRemembered: what a node had is kept where docs/node-health.md says, so that
// its loss can be told and one day acknowledged.
func TestW15NodesAreRemembered(t *testing.T) {
	eventually(t, "each node has its key", func() string {
		var known corev1.ConfigMap
		if err := user(t, "").Get(t.Context(), client.ObjectKey{Namespace: "mlbatch-system", Name: "mlbatch-nodes"}, &known); err != nil {
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

// TestU8TypoAdmitsNothing: a slip in a flavor's labels takes no quota for pods that
// could run nowhere. The job and the queue say what is in the way; once the flavor says
// that its nodes come on demand, quota is given.
func TestU8TypoAdmitsNothing(t *testing.T) {
	awaitEmpty(t, "blue")
	admin := user(t, "")
	create(t, admin, `{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: typo}, spec: {nodeLabels: {gpu: h1000}}}`, "")
	create(t, admin, `{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: typo}, spec: {namespaceSelector: {}, resourceGroups: [ {coveredResources: [cpu, memory, nvidia.com/gpu, pods], flavors: [{name: typo, resources: [ {name: cpu, nominalQuota: 100}, {name: memory, nominalQuota: 1000G}, {name: nvidia.com/gpu, nominalQuota: 8}, {name: pods, nominalQuota: 100}]}]}]}}`, "")
	create(t, admin, `{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: typo}, spec: {clusterQueue: typo}}`, "blue")
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
	eventually(t, "it says why it waits", waits(t, "blue", "lost", "no node has the labels of flavor typo (gpu=h1000)"))
	eventually(t, "the queue says so, too", func() string {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(queue), queue); err != nil {
			return err.Error()
		}
		const want = "Can admit new workloads, but not with flavor(s) typo: no node has the labels (spec.nodeLabels)"
		if c := apimeta.FindStatusCondition(queue.Status.Conditions, kueue.ClusterQueueActive); c == nil || c.Message != want {
			return "Active is " + c.String()
		}
		return ""
	})
	if err := admin.Patch(t.Context(), flavor, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"mlbatch.dev/nodes-on-demand":"true"}}}`))); err != nil {
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
