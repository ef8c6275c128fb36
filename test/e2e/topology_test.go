package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

const rackLabel = "example.com/rack"

// racked puts node-0 into a rack and the others into another, and makes a queue whose flavor has a Topology that
// says so.
func racked(t *testing.T) client.Client {
	t.Helper()
	for name, rack := range map[string]string{"node-0": "small", "node-1": "large", "node-2": "large"} {
		patched(
			t,
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
			`{"metadata":{"labels":{"`+rackLabel+`":"`+rack+`"}}}`,
			`{"metadata":{"labels":{"`+rackLabel+`":null}}}`,
		)
	}
	admin := user(t, "")
	objects := []client.Object{
		&kueue.Topology{
			ObjectMeta: metav1.ObjectMeta{Name: "racks"},
			Spec:       kueue.TopologySpec{Levels: []kueue.TopologyLevel{{NodeLabel: rackLabel}}},
		},
		&kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "racked"}, Spec: kueue.ResourceFlavorSpec{
			NodeLabels:   map[string]string{corev1.LabelOSStable: "linux"},
			TopologyName: new(kueue.TopologyReference("racks")),
		}},
		&kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "racked"}, Spec: kueue.ClusterQueueSpec{
			NamespaceSelector: &metav1.LabelSelector{},
			Preemption:        &kueue.ClusterQueuePreemption{WithinClusterQueue: kueue.PreemptionPolicyLowerPriority},
			ResourceGroups: []kueue.ResourceGroup{{
				CoveredResources: []corev1.ResourceName{"nvidia.com/gpu"},
				Flavors: []kueue.FlavorQuotas{{Name: "racked", Resources: []kueue.ResourceQuota{
					{Name: "nvidia.com/gpu", NominalQuota: resource.MustParse("100")},
				}}},
			}},
		}},
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "racked"},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: "racked"},
		},
	}
	for _, o := range objects {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
	t.Cleanup(func() {
		for _, o := range slices.Backward(objects) {
			_ = admin.Delete(withoutCancel(t), o)
		}
	})
	return admin
}

// nearJob is a Job of pods with a whole node each that must be in one rack.
func nearJob(name string, pods int, class string) string {
	return fmt.Sprintf(
		`{apiVersion: batch/v1, kind: Job, metadata: {name: %[1]s, labels: {kueue.x-k8s.io/queue-name: racked}}, spec: {
  parallelism: %[2]d, completions: %[2]d, template: {
    metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: %[4]s}}, spec: {
      priorityClassName: %[3]s, restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [
        {name: c, image: busybox, command: [sh, -c, "sleep 6000"], resources: {limits: {nvidia.com/gpu: 8}}}]}}}}`,
		name,
		pods,
		class,
		rackLabel,
	)
}

// gangOn says on which nodes a Job's pods must run.
func gangOn(tb testing.TB, name string, nodes ...string) func() string {
	tb.Helper()
	return func() string {
		var at []string
		for _, p := range pods(tb, "blue", name) {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				at = append(at, p.Spec.NodeName)
			}
		}
		slices.Sort(at)
		if !slices.Equal(at, nodes) {
			return fmt.Sprintf("its pods run on %v, want %v", at, nodes)
		}
		return ""
	}
}

// TestGangsRunInOneRack: a gang waits, with the rack that comes nearest as the reason, although nodes and quota are
// free; a more important one takes the place of what is in its rack, and of nothing else.
func TestGangsRunInOneRack(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	admin := racked(t)
	create(t, admin, nearJob("first", 1, "low-priority"), "blue")
	eventually(t, "one pod leaves the large rack whole", gangOn(t, "first", "node-0"))
	create(t, admin, nearJob("second", 1, "low-priority"), "blue")
	eventually(t, "another has the next rack", gangOn(t, "second", "node-1"))
	create(t, admin, nearJob("pair", 2, "low-priority"), "blue")
	eventually(t, "no rack has two nodes", waits(t, "blue", "pair",
		"TopologyPlacementFailed", "no "+rackLabel+" of flavor racked has room for its 2 pod(s)",
		"large comes nearest, with room for 1"))
	create(t, admin, nearJob("production", 2, "high-priority"), "blue")
	eventually(t, "production has the large rack", gangOn(t, "production", "node-1", "node-2"))
	eventually(t, "who was in it waits", waits(t, "blue", "second", "TopologyPlacementFailed"))
	if wrong := gangOn(t, "first", "node-0")(); wrong != "" {
		t.Errorf("who was in the other rack: %s", wrong)
	}
	create(t, admin, nearJob("triple", 3, "high-priority"), "blue")
	eventually(
		t,
		"three never fit",
		waits(t, "blue", "triple", "even if empty: large, the largest, would hold 2"),
	)
	out, err := cluster.Run(t.Context(), "topology", "--topology", "racks")
	if err != nil || !strings.Contains(out, "large") {
		t.Errorf("mlbatch topology: %v\n%s", err, out)
	}
	awaitEmpty(t, "blue")
}
