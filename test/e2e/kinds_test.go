package e2e_test

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

const podSpec = `{restartPolicy: %s, terminationGracePeriodSeconds: 0, containers: [{name: c, image: busybox, command: [sleep, "600"], resources: {limits: {nvidia.com/gpu: 2}}}]}`

// An AppWrapper runs whatever it wraps, as one gang, and leaves nothing behind.
func TestWrappedKinds(t *testing.T) {
	never, always := fmt.Sprintf(podSpec, "Never"), fmt.Sprintf(podSpec, "Always")
	cases := map[string]struct {
		component string
		pods      int
	}{
		"Pod": {"{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: " + never + "}", 1},
		"Job": {
			"{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {parallelism: 3, completions: 3, template: {spec: " + never + "}}}",
			3,
		},
		"Deployment": {
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {replicas: 2, selector: {matchLabels: {a: x}}, template: {metadata: {labels: {a: x}}, spec: " + always + "}}}",
			2,
		},
		"StatefulSet": {
			"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x}, spec: {replicas: 2, serviceName: x, selector: {matchLabels: {a: x}}, template: {metadata: {labels: {a: x}}, spec: " + always + "}}}",
			2,
		},
	}
	for kind, c := range cases {
		t.Run(kind, func(t *testing.T) {
			awaitEmpty(t, "blue")
			create(t, user(t, "alice"), wrap(c.component), "blue")
			eventually(t, "all its pods run", func() string { return runs(t, "blue", "wrapped", c.pods) })
			w := itsWorkload(t, "blue", "wrapped")
			if got := w.Status.Admission.PodSetAssignments[0].ResourceUsage["nvidia.com/gpu"]; got.Value() != int64(
				2*c.pods,
			) {
				t.Errorf("it counts as %s GPUs, want %d", got.String(), 2*c.pods)
			}
			awaitEmpty(t, "blue")
		})
	}
}

// A Job with more completions than pods at a time gives quota back as its last
// pods end.
func TestJobGivesQuotaBackAsItEnds(t *testing.T) {
	awaitEmpty(t, "blue")
	admin := user(t, "")
	// The second of two pods goes on long after the first.
	create(t, admin, `
apiVersion: batch/v1
kind: Job
metadata: {name: tail, labels: {kueue.x-k8s.io/queue-name: default-queue}}
spec:
  parallelism: 2
  completions: 2
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers:
      - {name: c, image: busybox, command: [sleep, "600"], resources: {limits: {nvidia.com/gpu: 8}}}
`, "blue")
	eventually(t, "both pods run", func() string { return jobRuns(t, "tail", 2) })
	finish(t, admin, pods(t, "blue", "tail")[0])
	eventually(t, "one pod's quota is back", func() string {
		w := itsWorkload(t, "blue", "tail")
		if len(w.Status.ReclaimablePods) != 1 || w.Status.ReclaimablePods[0].Count != 1 {
			return fmt.Sprintf("reclaimable pods are %+v", w.Status.ReclaimablePods)
		}
		var q kueue.ClusterQueue
		if err := admin.Get(t.Context(), client.ObjectKey{Name: "blue-cluster-queue"}, &q); err != nil {
			return err.Error()
		}
		for _, r := range q.Status.FlavorsReservation[0].Resources {
			if r.Name == "nvidia.com/gpu" && r.Total.Value() != 8 {
				return fmt.Sprintf("%s GPUs are reserved, want 8", r.Total.String())
			}
		}
		return ""
	})
}

func jobRuns(t *testing.T, name string, n int) string {
	t.Helper()
	running := 0
	for _, p := range pods(t, "blue", name) {
		if p.Status.Phase == corev1.PodRunning {
			running++
		}
	}
	if running != n {
		return fmt.Sprintf("%d of %d pods run", running, n)
	}
	return ""
}

// finish lets a pod end well at once, as its node would say.
func finish(t *testing.T, c client.Client, p corev1.Pod) {
	t.Helper()
	before := p.DeepCopy() // others write it, too
	p.Status.Phase = corev1.PodSucceeded
	for i := range p.Status.ContainerStatuses {
		p.Status.ContainerStatuses[i].State = corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"},
		}
	}
	if err := c.Status().Patch(t.Context(), &p, client.StrategicMergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// A Job of a lower priority makes room for an important one, and comes back
// after it.
func TestJobIsPreemptedAndComesBack(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	admin := user(t, "")
	job := func(name, class string, seconds int) string {
		return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: default-queue}}
spec:
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      priorityClassName: %s
      containers:
      - {name: c, image: busybox, command: [sleep, "%d"], resources: {limits: {nvidia.com/gpu: 8}}}
`, name, class, seconds)
	}
	for _, name := range []string{"first", "second", "patient"} {
		create(t, admin, job(name, "low-priority", 400), "blue")
		eventually(t, name+" runs", func() string { return jobRuns(t, name, 1) })
	}
	create(t, admin, job("urgent", "high-priority", 40), "blue")
	eventually(
		t,
		"the urgent job has its turn",
		func() string { return jobSucceeded(t, admin, "blue", "urgent") },
	)
	if c := apimeta.FindStatusCondition(
		itsWorkload(t, "blue", "patient").Status.Conditions,
		kueue.WorkloadPreempted,
	); c == nil {
		t.Error("the newest job was not preempted for it")
	}
	eventually(
		t,
		"the patient job runs to its end",
		func() string { return jobSucceeded(t, admin, "blue", "patient") },
	)
	var j batchv1.Job
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "patient"}, &j); err != nil {
		t.Fatal(err)
	}
	if j.Status.Failed != 0 {
		t.Errorf("%d pods failed: an eviction is not a failure", j.Status.Failed)
	}
}
