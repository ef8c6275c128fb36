package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
)

// times creates n of the tutorial's jobs one after the other.
func times(t *testing.T, n int, c client.Client, file, namespace string) []string {
	t.Helper()
	var names []string
	for range n {
		names = append(names, sample(t, c, file, namespace))
	}
	return names
}

// count returns how many of the AppWrappers are in each phase.
func count(t *testing.T, namespace string, names ...string) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, p := range phases(t, namespace, names...) {
		out[p]++
	}
	return out
}

// Queuing: seven short jobs of 8 GPUs each on 24 GPUs. Three run at once, four
// wait, and all finish in the order in which they came.
func TestTutorialQueueing(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	names := times(t, 7, user(t, "alice"), "short", "blue")
	eventually(t, "three run and four wait", func() string {
		if got := count(t, "blue", names...); got["Running"] != 3 || got["Suspended"] != 4 {
			return fmt.Sprintf("phases are %v", got)
		}
		return ""
	})
	for _, n := range names[3:] {
		eventually(t, n+" says why it waits", waits(t, "blue", n, "WaitingForQuota"))
	}
	always(t, "at most three run at any time", func() string {
		if got := count(t, "blue", names...); got["Running"]+got["Resuming"] > 3 {
			return fmt.Sprintf("phases are %v", got)
		}
		return ""
	}, inPhase(t, "Succeeded", "blue", names...))

	var admitted []time.Time
	for _, n := range names {
		c := apimeta.FindStatusCondition(itsWorkload(t, "blue", n).Status.Conditions, kueue.WorkloadAdmitted)
		admitted = append(admitted, c.LastTransitionTime.Time)
	}
	if !slices.IsSortedFunc(admitted, time.Time.Compare) {
		t.Errorf("jobs were not admitted in the order in which they came: %v", admitted)
	}
}

// Borrowing and preemption: four normal jobs, then an important one, then two
// of the other team.
func TestTutorialBorrowingAndPreemption(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	alice, bob := user(t, "alice"), user(t, "bob")
	normal := times(t, 4, alice, "normal", "blue")
	eventually(t, "three normal jobs run", inPhase(t, "Running", "blue", normal[:3]...))
	eventually(t, "the fourth waits", waits(t, "blue", normal[3], "WaitingForQuota"))

	important := sample(t, alice, "important", "blue")
	eventually(t, "the important job runs", inPhase(t, "Running", "blue", important))
	eventually(t, "the newest running normal job was evicted for it", func() string {
		if got := phases(
			t,
			"blue",
			normal...); !slices.Equal(
			got,
			[]string{"Running", "Running", "Suspended", "Suspended"},
		) {
			return fmt.Sprintf("phases are %v", got)
		}
		return ""
	})
	if c := apimeta.FindStatusCondition(
		itsWorkload(t, "blue", normal[2]).Status.Conditions,
		kueue.WorkloadPreempted,
	); c == nil ||
		c.Reason != "InClusterQueue" {
		t.Errorf("the evicted job does not say that its own queue preempted it: %+v", c)
	}

	first := sample(t, bob, "normal", "red")
	eventually(t, "bob's first job gets its quota back", inPhase(t, "Running", "red", first))
	second := sample(t, bob, "normal", "red")
	eventually(t, "bob's second job waits", waits(t, "red", second, "WaitingForQuota"))
	eventually(t, "one of alice's jobs was evicted for it, the important one stays", func() string {
		got := phases(t, "blue", append(slices.Clone(normal), important)...)
		if !slices.Equal(got, []string{"Running", "Suspended", "Suspended", "Suspended", "Running"}) {
			return fmt.Sprintf("phases are %v", got)
		}
		return ""
	})
}

// Fault tolerance: a node of a large job is labelled EVICT. The job is reset
// elsewhere, and nothing runs there until the label goes.
func TestTutorialFault(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	admin := user(t, "")
	large := sample(t, user(t, "alice"), "large", "blue")
	eventually(t, "the large job runs", func() string { return runs(t, "blue", large, 4) })
	bad := pods(t, "blue", large)[0].Spec.NodeName
	label(t, admin, bad, `"EVICT"`)
	t.Cleanup(func() { label(t, admin, bad, "null") })

	eventually(t, "no pod is left on the bad node", func() string { return on(t, bad) })
	always(t, "no pod comes back to the bad node", func() string { return on(t, bad) }, func() string {
		return runs(t, "blue", large, 4)
	})
	if w := wrapper(t, "blue", large); w.Status.Retries != 0 {
		t.Errorf("the reset for a bad node used %d of the job's retries", w.Status.Retries)
	}
	eventually(
		t,
		"the slack queue lends nothing while 8 GPUs are missing",
		func() string { return lends(t, admin, "0") },
	)
	label(t, admin, bad, "null")
	eventually(t, "the slack queue lends all again", func() string { return lends(t, admin, "") })

	// node-problem-detector finds something: no label is written by default, and it counts all the same. One node out of
	// service is within what a fault of monitoring may cost; somebody says that it is well.
	says := func(status string) {
		t.Helper()
		at := time.Now().UTC().Format(time.RFC3339)
		patch := fmt.Sprintf(
			`{"status":{"conditions":[{"type":"KernelDeadlock","status":%q,"reason":"AUFSUmountHung","lastTransitionTime":%q}]}}`,
			status,
			at,
		)
		n := &corev1.Node{}
		n.Name = bad
		if err := admin.Status().Patch(
			context.WithoutCancel(t.Context()), n, client.RawPatch(types.StrategicMergePatchType, []byte(patch)),
		); err != nil {
			t.Fatal(err)
		}
	}
	says("True")
	t.Cleanup(func() { says("False") })
	eventually(t, "the slack queue lends less for what was found", func() string { return lends(t, admin, "0") })
	if n := typed[struct{ Items []view.Node }](
		t,
		"",
		"nodes",
	); !slices.ContainsFunc(
		n.Items,
		func(n view.Node) bool {
			return n.Name == bad && n.Health != nil && n.Health.State == "Failed" && n.State == "Closed"
		},
	) {
		t.Errorf("mlbatch nodes does not say that %s is Failed: %+v", bad, n.Items)
	}
	if out, err := cluster.Run(t.Context(), "nodes", "clear", bad, "--reason", "tested by hand"); err != nil ||
		!strings.Contains(out, "node/"+bad+" cleared\n") {
		t.Fatalf("mlbatch nodes clear: %q, %v", out, err)
	}
	eventually(t, "a human's word wins", func() string { return lends(t, admin, "") })
}

// runs is "" when all pods of an AppWrapper run.
func runs(t *testing.T, namespace, name string, n int) string {
	t.Helper()
	if got := inPhase(t, "Running", namespace, name)(); got != "" {
		return got
	}
	running := 0
	for _, p := range pods(t, namespace, name) {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			running++
		}
	}
	if running != n {
		return fmt.Sprintf("%d of %d pods run", running, n)
	}
	return ""
}

// label sets the health label of a node; null removes it.
func label(t testing.TB, c client.Client, node, value string) {
	t.Helper()
	patch := `{"metadata":{"labels":{"autopilot.ibm.com/gpuhealth":` + value + `}}}`
	n := &corev1.Node{}
	n.Name = node
	if err := c.Patch(
		context.WithoutCancel(t.Context()),
		n,
		client.RawPatch(types.MergePatchType, []byte(patch)),
	); err != nil {
		t.Fatal(err)
	}
}

// on names the unfinished pods on a node, "" if there are none.
func on(t *testing.T, node string) string {
	t.Helper()
	for _, p := range pods(t, "blue", "") {
		if p.Spec.NodeName == node {
			return "pod " + p.Name + " is on " + node
		}
	}
	return ""
}

func lends(t *testing.T, c client.Client, want string) string {
	t.Helper()
	var q kueue.ClusterQueue
	if err := c.Get(t.Context(), client.ObjectKey{Name: "slack-cluster-queue"}, &q); err != nil {
		return err.Error()
	}
	for _, r := range q.Spec.ResourceGroups[0].Flavors[0].Resources {
		if r.Name != "nvidia.com/gpu" {
			continue
		}
		got := ""
		if r.LendingLimit != nil {
			got = r.LendingLimit.String()
		}
		if got != want {
			return fmt.Sprintf("lendingLimit of nvidia.com/gpu is %q, want %q", got, want)
		}
	}
	return ""
}
