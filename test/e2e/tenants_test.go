package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stays is a Job with all GPUs whose processes do not heed that they are told to end.
const stays = `
apiVersion: batch/v1
kind: Job
metadata: {name: stays, labels: {kueue.x-k8s.io/queue-name: default-queue}}
spec:
  parallelism: 3
  completions: 3
  template:
    metadata: {annotations: {mlbatch.dev/run-for: forever, mlbatch.dev/stop-after: 24h}}
    spec:
      restartPolicy: Never
      priorityClassName: low-priority
      terminationGracePeriodSeconds: 5
      containers: [{name: c, image: busybox, resources: {limits: {nvidia.com/gpu: 8}}}]
`

// running says how many of a namespace's pods run, of so many.
func running(t *testing.T, namespace string, n int) string {
	t.Helper()
	runs := 0
	for _, p := range pods(t, namespace, "") {
		if p.Status.Phase == corev1.PodRunning {
			runs++
		}
	}
	if runs != n {
		return fmt.Sprintf("%d of %d pods run", runs, n)
	}
	return ""
}

// Whatever time a pod was given to end, it has the longest one that the admin allows (40 s in the
// tests' configuration), and a tenant is refused more.
func TestPodsThatWereGivenLongToEndOutliveNoEviction(t *testing.T) {
	awaitEmpty(t, "blue")
	alice, admin := user(t, "alice"), user(t, "")
	create(t, alice, stays, "blue")
	eventually(t, "it has all GPUs", func() string { return running(t, "blue", 3) })
	day := client.GracePeriodSeconds(100_000)
	all := pods(t, "blue", "")
	if err := alice.Delete(t.Context(), all[0].DeepCopy(), day); err == nil || !strings.Contains(err.Error(), "gracePeriodSeconds") {
		t.Errorf("she may give it a day: %v", err)
	}
	for i := range all {
		if err := admin.Delete(t.Context(), all[i].DeepCopy(), day); err != nil {
			t.Fatal(err)
		}
	}
	if err := alice.Delete(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "stays"}}, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its GPUs are given back", func() string {
		if n := len(pods(t, "blue", "")); n > 0 {
			return fmt.Sprintf("%d pods are left", n)
		}
		return ""
	})
}
