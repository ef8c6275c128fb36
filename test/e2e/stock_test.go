package e2e_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// The tests that run against the API server of a real cluster do: it keeps a
// record of who wrote what, which ours does not of Workloads.
func TestAPIServerIsAsAskedFor(t *testing.T) {
	admin := user(t, "")
	name := create(t, admin, workloadManifest, "blue")
	var w kueue.Workload
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: name}, &w); err != nil {
		t.Fatal(err)
	}
	stock := strings.Contains(os.Getenv("MLBATCH_UP_FLAGS"), "--stock-api-server")
	if recorded := len(w.ManagedFields) > 0; recorded != stock {
		t.Errorf("a record of who wrote what: %v, want %v", recorded, stock)
	}
}

// twoHeld is a Job of two pods that its author holds.
const twoHeld = `
apiVersion: batch/v1
kind: Job
metadata: {name: two-held, labels: {kueue.x-k8s.io/queue-name: default-queue}}
spec:
  completions: 2
  parallelism: 2
  template:
    spec:
      schedulingGates: [{name: example.com/data}]
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers:
      - name: c
        image: busybox
        command: ["sh", "-c", "sleep 600"]
        resources: {limits: {nvidia.com/gpu: 5}}
`

// planned lists the nodes of the pods of a job as its Workload has them, and as the pods have.
func planned(t *testing.T, namespace, job string) (given, have []string) {
	t.Helper()
	if w := workloadOf(t, namespace, job); w != nil && w.Status.Admission != nil {
		for _, ps := range convert.Admission(w.Status.Admission).PodSets {
			for _, p := range ps.Places {
				given = append(given, slices.Repeat([]string{p.Node}, int(p.Count))...)
			}
		}
	}
	for _, p := range pods(t, namespace, job) {
		have = append(have, p.Spec.NodeName)
	}
	slices.Sort(given)
	slices.Sort(have)
	return given, have
}

// Whatever scheduler binds them, pods go where their job was given nodes, together; what holds
// them back until then is not for users to take away.
func TestPodsGoWhereTheirJobWasGivenNodes(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	stock := strings.Contains(os.Getenv("MLBATCH_UP_FLAGS"), "--stock-scheduler")
	w := newWitness(t, map[string]int{"spread": 3}, func(*witness, change) bool { return false })
	create(t, user(t, "alice"), gang("spread", 3, 5, 600), "blue")
	always(t, "on its nodes", w.wrong, func() string {
		if got := inPhase(t, "Running", "blue", "spread")(); got != "" {
			return got
		}
		if given, have := planned(t, "blue", "spread"); len(given) != 3 || !slices.Equal(given, have) {
			return fmt.Sprintf("given %v, has %v", given, have)
		}
		return ""
	})
	scheduler := "mlbatch-scheduler"
	if stock {
		scheduler = corev1.DefaultSchedulerName
	}
	for _, p := range pods(t, "blue", "spread") {
		if p.Spec.SchedulerName != scheduler {
			t.Errorf("pod %s has scheduler %s, want %s", p.Name, p.Spec.SchedulerName, scheduler)
		}
	}
	awaitEmpty(t, "blue", "red")

	admin := user(t, "")
	editor := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue",
			Name:      "editor",
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "editor"}},
	}
	if err := admin.Create(t.Context(), editor); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Delete(t.Context(), editor) })
	create(t, user(t, "alice"), twoHeld, "blue")
	eventually(t, "its pods are there, held", func() string {
		if n := len(pods(t, "blue", "two-held")); n != 2 {
			return fmt.Sprintf("%d pods", n)
		}
		return ""
	})
	let := func(p *corev1.Pod, gate string) error {
		before := p.DeepCopy()
		p.Spec.SchedulingGates = slices.DeleteFunc(
			slices.Clone(p.Spec.SchedulingGates),
			func(g corev1.PodSchedulingGate) bool { return g.Name == gate },
		)
		return user(t, "editor").Patch(t.Context(), p, client.MergeFrom(before))
	}
	for i, p := range pods(t, "blue", "two-held") {
		if stock {
			if err := let(
				p.DeepCopy(),
				kueue.TopologyGate,
			); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) ||
				!strings.Contains(err.Error(), kueue.TopologyGate) {
				t.Errorf("a user lets a pod go anywhere: %v", err)
			}
		}
		if err := let(&p, "example.com/data"); err != nil {
			t.Fatal(err)
		}
		if i == 0 && len(bound(t, "blue", "two-held")) > 0 {
			t.Error("one of two pods has a node")
		}
	}
	eventually(t, "both are on the nodes of their job", func() string {
		if given, have := planned(t, "blue", "two-held"); len(given) != 2 || !slices.Equal(given, have) {
			return fmt.Sprintf("given %v, has %v", given, have)
		}
		return ""
	})
}
