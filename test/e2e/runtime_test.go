package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// runtimeJob is a Job of one pod with all GPUs of the queue of a namespace.
func runtimeJob(name, class string) string {
	return fmt.Sprintf(
		`{apiVersion: batch/v1, kind: Job, metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: default-queue, kueue.x-k8s.io/priority-class: %s}}, spec: {
  template: {spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [
    {name: c, image: busybox, command: [sh, -c, "sleep 6000"], resources: {limits: {nvidia.com/gpu: 8}}}]}}}}`,
		name,
		class,
	)
}

// TestJobsRunForTheirMinimumRuntime: a job that could be stopped for a more important one runs for the minimum
// runtime of its queue first, why says until when, and then it is stopped without anything else happening.
func TestJobsRunForTheirMinimumRuntime(t *testing.T) {
	const minimum = 20 * time.Second
	admin := lab(t, "patient", map[corev1.ResourceName]string{"nvidia.com/gpu": "8"}, "default-queue")
	var q kueue.ClusterQueue
	if err := admin.Get(t.Context(), client.ObjectKey{Name: "patient"}, &q); err != nil {
		t.Fatal(err)
	}
	annotate := func(o client.Object, value string) error {
		return admin.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil,
			`{"metadata":{"annotations":{%q:%q}}}`, kueue.MinimumRuntimeAnnotation, value)))
	}
	for _, bad := range []string{"20", "soon", "-1m"} {
		if err := annotate(&q, bad); err == nil || !strings.Contains(err.Error(), "a duration like 30m") {
			t.Errorf("a minimum runtime of %q: %v", bad, err)
		}
	}
	for name, value := range map[string]int32{"patient-low": 1, "patient-high": 2} {
		c := &kueue.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if err := admin.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.Delete(withoutCancel(t), c) })
		if err := annotate(c, "soon"); err == nil || !strings.Contains(err.Error(), "a duration like 30m") {
			t.Errorf("a class with a minimum runtime of soon: %v", err)
		}
	}
	edit(t, admin, &q, func(q *kueue.ClusterQueue) {
		q.Spec.Preemption = &kueue.ClusterQueuePreemption{WithinClusterQueue: kueue.PreemptionPolicyLowerPriority}
	})
	if err := annotate(&q, minimum.String()); err != nil {
		t.Fatal(err)
	}
	create(t, admin, runtimeJob("low", "patient-low"), "patient")
	eventually(t, "the first runs", inState(t, "patient", "low", 1, 0))
	began := apimeta.FindStatusCondition(
		workloadOf(t, "patient", "low").Status.Conditions,
		kueue.WorkloadQuotaReserved,
	).LastTransitionTime.Time
	create(t, admin, runtimeJob("high", "patient-high"), "patient")
	eventually(t, "why says until when", func() string {
		out, err := cluster.Run(t.Context(), "why", "-n", "patient", "high")
		if err != nil ||
			!strings.Contains(strings.Join(strings.Fields(out), " "), "have run for their minimum runtime at") {
			return fmt.Sprintf("%v: %s", err, out)
		}
		return ""
	})
	eventually(t, "the more important one runs", inState(t, "patient", "high", 1, 0))
	w := workloadOf(t, "patient", "low")
	evicted := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadEvicted)
	if evicted == nil || evicted.LastTransitionTime.Sub(began) < minimum {
		t.Errorf("it had quota since %s, and was evicted at %+v, after less than %s", began, evicted, minimum)
	}
}
