package e2e_test

import (
	"fmt"
	"os/exec"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// One change for a person is one for the jobs, however many objects it is written to: a class's
// value, or the class of ten equal jobs, of which half run and the others could evict them
// if their priority were lower. Nobody is evicted in between.
func TestPrioritiesOfManyJobsChangeAtOnce(t *testing.T) {
	const namespace, jobs = "crowd", 10
	admin := lab(t, namespace, map[corev1.ResourceName]string{"cpu": "5"}, "q")
	edit(t, admin, labQueue(namespace), func(q *kueue.ClusterQueue) {
		q.Spec.Preemption = &kueue.ClusterQueuePreemption{WithinClusterQueue: kueue.PreemptionPolicyLowerPriority}
	})
	classes := map[string]*kueue.WorkloadPriorityClass{}
	for name, value := range map[string]int32{"crowd-usual": 10, "crowd-other": 50, "crowd-lesser": 1, "crowd-urgent": 1000} {
		classes[name] = &kueue.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if err := admin.Create(t.Context(), classes[name]); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.Delete(withoutCancel(t), classes[name]) })
	}
	submit := func(name, class string) {
		create(
			t,
			admin,
			labJob(
				name,
				"labels: {kueue.x-k8s.io/queue-name: q, kueue.x-k8s.io/priority-class: "+class+"}",
				"",
				oneCPU,
			),
			namespace,
		)
	}
	names := make([]string, jobs)
	for i := range names {
		names[i] = fmt.Sprintf("job-%d", i)
		submit(names[i], "crowd-usual")
	}
	eventually(t, "half of them run", func() string {
		if n := len(pods(t, namespace, "")); n != 5 {
			return fmt.Sprintf("%d pods, want 5", n)
		}
		return ""
	})
	first := map[string]bool{}
	for _, p := range pods(t, namespace, "") {
		first[string(p.UID)] = true
	}
	// kept counts the pods of the beginning that run undisturbed.
	kept := func() (n int) {
		for _, p := range pods(t, namespace, "") {
			if first[string(p.UID)] && p.DeletionTimestamp == nil {
				n++
			}
		}
		return n
	}
	undisturbed := func() string {
		if n := kept(); n != 5 {
			return fmt.Sprintf("%d of the 5 that ran still do", n)
		}
		return ""
	}
	have := func(value int32) func() string {
		return func() string {
			for _, name := range names {
				if p := itsWorkload(t, namespace, name).Spec.Priority; *p != value {
					return fmt.Sprintf("the priority of %s is %d, want %d", name, *p, value)
				}
			}
			return ""
		}
	}
	label := func(class string) {
		out, err := exec.CommandContext(
			t.Context(),
			cluster.Binary,
			"kubectl",
			"--data-dir",
			cluster.Dir,
			"label",
			"jobs",
			"--all",
			"--overwrite",
			"-n",
			namespace,
			kueue.PriorityClassLabel+"="+class,
		).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, value := range []int32{20, 30, 5, 10} {
		edit(t, admin, classes["crowd-usual"], func(c *kueue.WorkloadPriorityClass) { c.Value = value })
		always(t, fmt.Sprintf("the class is worth %d", value), undisturbed, have(value))
	}
	for class, value := range map[string]int32{"crowd-other": 50, "crowd-lesser": 1} {
		label(class)
		always(t, "all are "+class, undisturbed, have(value))
	}
	// What should evict does, once all that is decided, and evicts one.
	submit("urgent", "crowd-urgent")
	eventually(t, "the urgent one runs", jobPods(t, namespace, "urgent", 1))
	if n := kept(); n != 4 {
		t.Errorf(
			"%d of the 5 that ran at the beginning still do, want all but the one that the urgent one evicted",
			n,
		)
	}
	awaitEmpty(t, namespace)
}
