package e2e_test

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gang is an AppWrapper of n pods with the given GPUs each, for some seconds.
func gang(name string, n, gpus, seconds int) string {
	return fmt.Sprintf(`
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {name: %[1]s}
spec:
  components:
  - template:
      apiVersion: batch/v1
      kind: Job
      metadata: {name: %[1]s}
      spec:
        completions: %[2]d
        parallelism: %[2]d
        template:
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 0
            containers:
            - name: c
              image: busybox
              command: ["sh", "-c", "sleep %[4]d"]
              resources: {limits: {nvidia.com/gpu: %[3]d}}
`, name, n, gpus, seconds)
}

// Quota for four pods, but nodes for three only: none starts, and it says why.
func TestNoPartialGang(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	create(t, user(t, "alice"), gang("wide", 4, 5, 600), "blue")
	eventually(t, "it says that 3 of 4 pods fit", waits(t, "blue", "wide", "TopologyPlacementFailed", "3", "4"))
	if n := len(pods(t, "blue", "wide")); n != 0 {
		t.Errorf("%d pods of a gang that does not fit were made", n)
	}
	// A small job behind it is not blocked by it.
	create(t, user(t, "alice"), gang("small", 1, 1, 600), "blue")
	eventually(t, "a small job runs meanwhile", inPhase(t, "Running", "blue", "small"))
}

// Two gangs that both need the same nodes: one runs, then the other; neither
// ever holds a part.
func TestCompetingGangs(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	w := newWitness(t, map[string]int{"left": 3, "right": 3}, func(w *witness, _ change) bool {
		if l, r := w.holds("left"), w.holds("right"); l > 0 && r > 0 {
			w.breaks("left holds nodes with %d pods and right with %d at the same time", l, r)
		}
		return false
	})
	create(t, user(t, "alice"), gang("left", 3, 5, 60), "blue")
	create(t, user(t, "bob"), gang("right", 3, 5, 60), "red")
	always(t, "never both", w.wrong, func() string {
		if got := inPhase(t, "Succeeded", "blue", "left")(); got != "" {
			return got
		}
		if got := inPhase(t, "Succeeded", "red", "right")(); got != "" {
			return got
		}
		return w.all("seen on its nodes", func(h *history) bool { return len(h.pods) == 3 }, "left", "right")()
	})
}

func bound(t *testing.T, namespace, owner string) []corev1.Pod {
	t.Helper()
	var out []corev1.Pod
	for _, p := range pods(t, namespace, owner) {
		if p.Spec.NodeName != "" {
			out = append(out, p)
		}
	}
	return out
}

// A pod group outside the queues: all of it is placed, or none.
const podGroup = `
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: %s}
spec: {minMember: %d}
`

const groupJob = `
apiVersion: batch/v1
kind: Job
metadata: {name: %[1]s}
spec:
  completions: %[2]d
  parallelism: %[2]d
  template:
    metadata: {labels: {scheduling.x-k8s.io/pod-group: %[1]s}}
    spec:
      schedulerName: scheduler-plugins-scheduler
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers:
      - name: c
        image: busybox
        command: ["sh", "-c", "sleep 60"]
        resources: {limits: {nvidia.com/gpu: %[3]d}}
`

func TestPodGroupsOutsideQueues(t *testing.T) {
	awaitEmpty(t, "blue", "red", "default")
	admin := user(t, "")
	for _, name := range []string{"one", "two"} {
		create(t, admin, fmt.Sprintf(podGroup, name, 3), "default")
		create(t, admin, fmt.Sprintf(groupJob, name, 3, 5), "default")
	}
	always(t, "never a part of both", func() string {
		have := map[string]int{}
		for _, p := range bound(t, "default", "") { // both at one moment
			have[p.Labels[batchv1.JobNameLabel]]++
		}
		if have["one"] > 0 && have["two"] > 0 {
			return fmt.Sprintf("bound pods of both: %v", have)
		}
		return ""
	}, func() string {
		for _, name := range []string{"one", "two"} {
			if got := jobSucceeded(t, admin, "default", name); got != "" {
				return got
			}
		}
		return ""
	})
}

// A cordoned node takes no new work, and what was planned there before it was
// cordoned goes elsewhere.
func TestCordonedNodeTakesNothing(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	admin := user(t, "")
	cordon := func(on bool) {
		n := &corev1.Node{}
		n.Name = "node-0"
		patch := fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, on)
		if err := admin.Patch(
			withoutCancel(t),
			n,
			client.RawPatch(types.MergePatchType, []byte(patch)),
		); err != nil {
			t.Fatal(err)
		}
	}
	cordon(true)
	t.Cleanup(func() { cordon(false) })
	create(t, user(t, "alice"), gang("three", 3, 5, 600), "blue")
	eventually(t, "only two nodes take work", waits(t, "blue", "three", "TopologyPlacementFailed", "2", "3"))
	cordon(false)
	eventually(t, "all three take it now", inPhase(t, "Running", "blue", "three"))
}
