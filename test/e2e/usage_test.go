package e2e_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

const usageQueue = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: usage-cluster-queue}
spec:
  namespaceSelector: {}
  admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: usage, resources: [{name: cpu, nominalQuota: 1}]}
`

// usageJob runs until it is deleted. Its name is that of its LocalQueue, and more.
func usageJob(queue, more string) string {
	return `{apiVersion: batch/v1, kind: Job, metadata: {name: ` + queue + more + `, labels: {kueue.x-k8s.io/queue-name: ` + queue + `}},
		spec: {template: {spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0,
		containers: [{name: c, image: busybox, command: [sleep, "36000"], resources: {requests: {cpu: 1}}}]}}}}`
}

// What LocalQueues used in the past outlasts the controller: the one that used more
// before it was killed still waits behind the one that used less.
func TestUsageOutlastsTheController(t *testing.T) {
	awaitEmpty(t, "blue")
	admin := user(t, "")
	create(t, admin, "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: usage}}", "")
	create(t, admin, usageQueue, "")
	t.Cleanup(func() {
		ctx := withoutCancel(t)
		_ = admin.Delete(ctx, &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "usage-cluster-queue"}})
		_ = admin.Delete(ctx, &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "usage"}})
	})
	for _, name := range []string{"heavy", "light", "other"} {
		create(
			t,
			admin,
			"{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: "+name+"}, spec: {clusterQueue: usage-cluster-queue}}",
			"blue",
		)
	}
	used := func(queue string) int64 {
		var q kueue.LocalQueue
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: queue}, &q); err != nil {
			t.Fatal(err)
		}
		if q.Status.FairSharing == nil || q.Status.FairSharing.AdmissionFairSharingStatus == nil {
			return 0
		}
		cpu := q.Status.FairSharing.AdmissionFairSharingStatus.ConsumedResources["cpu"]
		return cpu.ScaledValue(-9)
	}
	admitted := func(name string) func() string {
		return func() string { return is(t, admin, name, kueue.WorkloadAdmitted, "True", "Admitted") }
	}
	end := func(name string) {
		t.Helper()
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name}}
		if err := admin.Delete(
			t.Context(),
			j,
			client.PropagationPolicy(metav1.DeletePropagationBackground),
		); err != nil {
			t.Fatal(err)
		}
	}

	create(t, admin, usageJob("heavy", "-past"), "blue")
	eventually(t, "it runs", admitted("heavy-past"))
	eventually(t, "its use is written", func() string {
		if used("heavy") == 0 {
			return "nothing is consumed"
		}
		return ""
	})
	end("heavy-past")
	create(t, admin, usageJob("other", ""), "blue")
	eventually(t, "the queue is full", admitted("other"))
	create(t, admin, usageJob("heavy", ""), "blue")
	eventually(t, "the first to come waits", waits(t, "blue", "heavy", "WaitingForQuota"))
	create(t, admin, usageJob("light", ""), "blue")
	eventually(t, "and so does the second", waits(t, "blue", "light", "WaitingForQuota"))

	before, restarts := used("heavy"), restartsOf(t, "controller")
	killController(t)
	eventually(t, "the controller died", func() string {
		if restartsOf(t, "controller") == restarts {
			return "it has not been restarted"
		}
		return ""
	})
	awaitHealthy(t)
	end("other")
	eventually(t, "the one that used less comes first", func() string {
		if problem := admitted("heavy")(); problem == "" {
			t.Fatalf(
				"what was used is forgotten: the job of the queue that used more was admitted first\n%s",
				story(t),
			)
		}
		return admitted("light")()
	})
	// It ages by halves of a week, and nothing was added.
	if now := used("heavy"); now > before || now < before*9/10 {
		t.Errorf("%d billionths of a core were consumed, and %d after the restart", before, now)
	}
}
