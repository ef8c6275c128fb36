package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// simulatedRack is the label of racks of mlbatch up.
const simulatedRack = "cloud.provider.com/topology-rack"

// withNativeGangs starts a cluster of 3 racks of 4 nodes of 8 GPUs, whose Kubernetes has gangs of its own.
func withNativeGangs(t *testing.T) {
	t.Helper()
	another(
		t,
		"--nodes", "12", "--racks", "3",
		"--kube-feature-gates", "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,WorkloadWithJob=true",
		"--kube-runtime-config", "scheduling.k8s.io/v1beta1=true",
	)
}

// nativeGroup creates a PodGroup of a gang in one rack.
func nativeGroup(t *testing.T, c client.Client, name string, least int) {
	t.Helper()
	create(
		t,
		c,
		fmt.Sprintf(`{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: %s}, spec: {
		schedulingPolicy: {gang: {minCount: %d}}, schedulingConstraints: {topology: [{key: %s}]}}}`,
			name, least, simulatedRack),
		"blue",
	)
}

// nativePods creates pods of a PodGroup, of so many GPUs each.
func nativePods(t *testing.T, c client.Client, group string, n, gpus int) {
	t.Helper()
	for i := range n {
		create(t, c, queuedPod(fmt.Sprintf("%s-%d", group, i), gpus, 1000000, "", "",
			"schedulingGroup: {podGroupName: "+group+"}"), "blue")
	}
}

// nativelyScheduled says what a PodGroup, the one whose name begins so, has in its condition.
func nativelyScheduled(
	t *testing.T,
	prefix string,
	status metav1.ConditionStatus,
	reason, words string,
) func() string {
	t.Helper()
	return func() string {
		var all schedulingv1beta1.PodGroupList
		if err := user(t, "").List(t.Context(), &all, client.InNamespace("blue")); err != nil {
			return err.Error()
		}
		for i := range all.Items {
			g := &all.Items[i]
			if !strings.HasPrefix(g.Name, prefix) {
				continue
			}
			c := apimeta.FindStatusCondition(g.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
			if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, words) {
				return fmt.Sprintf("its condition is %+v", c)
			}
			return ""
		}
		return "there is no such PodGroup"
	}
}

// podsCalled are the pods whose names begin with that of their owner.
func podsCalled(t *testing.T, owner string) []corev1.Pod {
	t.Helper()
	var all corev1.PodList
	if err := user(t, "").List(t.Context(), &all, client.InNamespace("blue")); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all.Items, func(p corev1.Pod) bool { return !strings.HasPrefix(p.Name, owner+"-") })
}

// runInOneRack waits until so many pods whose names begin so run, all of them in one rack, which it returns.
func runInOneRack(t *testing.T, owner string, n int) (rack string) {
	t.Helper()
	eventually(t, owner+" runs in one rack", func() string {
		racks, running := map[string]bool{}, 0
		for _, p := range podsCalled(t, owner) {
			if p.Status.Phase != corev1.PodRunning {
				continue
			}
			var node corev1.Node
			if err := user(t, "").Get(t.Context(), client.ObjectKey{Name: p.Spec.NodeName}, &node); err != nil {
				return err.Error()
			}
			rack = node.Labels[simulatedRack]
			racks[rack] = true
			running++
		}
		if running != n || len(racks) != 1 {
			return fmt.Sprintf("%d pods run, in racks %v", running, racks)
		}
		return ""
	})
	return rack
}

// TestNativeGangs: pods that name a PodGroup of Kubernetes start together in the rack that it asks for, and the PodGroup
// says so, or why not; so does that of a Job with spec.scheduling. What it says may change as long as they wait.
func TestNativeGangs(t *testing.T) {
	withNativeGangs(t)
	admin, alice := user(t, ""), user(t, "alice")
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse

	nativeGroup(t, alice, "train", 8)
	nativePods(t, alice, "train", 7, 2)
	eventually(t, "it says that a pod is missing",
		nativelyScheduled(t, "train", no, "Unschedulable", "all of its 8 pods"))
	create(
		t,
		alice,
		queuedPod("train-last", 2, 1000000, "", "", "schedulingGroup: {podGroupName: train}"),
		"blue",
	)
	rack := runInOneRack(t, "train", 8)
	eventually(t, "it says that they have their nodes", nativelyScheduled(t, "train", yes, "Scheduled", "8"))
	create(
		t,
		alice,
		queuedPod("train-more", 2, 1000000, "", "", "schedulingGroup: {podGroupName: train}"),
		"blue",
	)
	if more := runInOneRack(t, "train", 9); more != rack {
		t.Errorf("the gang is in %s, and one that comes later in %s", rack, more)
	}

	nativeGroup(t, alice, "large", 5)
	nativePods(t, alice, "large", 5, 8)
	eventually(t, "it says that no rack can hold it",
		nativelyScheduled(t, "large", no, "Unschedulable", "no "+simulatedRack))
	if err := alice.Patch(
		t.Context(),
		&schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "large"}},
		client.RawPatch(
			"application/merge-patch+json",
			[]byte(`{"spec":{"schedulingPolicy":{"gang":{"minCount":4}}}}`),
		),
	); err != nil {
		t.Fatal(err)
	}
	runInOneRack(t, "large", 4)
	eventually(t, "four are enough", nativelyScheduled(t, "large", yes, "Scheduled", "4"))

	job := `{apiVersion: batch/v1, kind: Job, metadata: {name: %[1]s, labels: {kueue.x-k8s.io/queue-name: default-queue}}, spec: {
		parallelism: %[2]d, completions: %[2]d, scheduling: {schedulingPolicy: {gang: {}}, schedulingConstraints: {topology: [{key: ` + simulatedRack + `}]}},
		template: {spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [
			{name: c, image: busybox, command: [sleep, "1000000"], resources: {limits: {nvidia.com/gpu: 8}}}]}}}}`
	create(t, alice, fmt.Sprintf(job, "wide", 5), "blue")
	eventually(t, "the PodGroup of a Job says that no rack can hold it",
		nativelyScheduled(t, "wide-", no, "Unschedulable", "no "+simulatedRack))
	create(t, alice, fmt.Sprintf(job, "near", 3), "blue")
	runInOneRack(t, "near", 3)
	eventually(t, "the PodGroup of a Job says that they have their nodes",
		nativelyScheduled(t, "near-", yes, "Scheduled", "3"))
	for _, p := range podsCalled(t, "near") {
		if p.Spec.SchedulingGroup == nil || p.Labels["kueue.x-k8s.io/managed"] != "" {
			t.Errorf("pod %s of a queued Job is in group %v, and is queued by itself", p.Name, p.Spec.SchedulingGroup)
		}
	}

	back, err := cluster.Kill(t.Context(), "controller")
	if err == nil {
		err = back(context.WithoutCancel(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Delete(
		t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "train-0"}},
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was scheduled once stays so", nativelyScheduled(t, "train", yes, "Scheduled", "8"))
}
