package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	ray "github.com/mlbatch/mlbatch/api/ray/v1"
)

// noted puts annotations on the head of a manifest.
func noted(manifest, text string) string {
	return strings.Replace(
		manifest,
		"headGroupSpec: {template: {spec",
		"headGroupSpec: {template: {metadata: {annotations: {"+text+"}}, spec",
		1,
	)
}

// TestRayClusterIsMadeAnew: with Recreate all pods are made anew when the cluster changes, as
// many as are asked for by then, and what it kept in Redis is removed when it is deleted. The
// controller is killed each time.
func TestRayClusterIsMadeAnew(t *testing.T) {
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	create(
		t,
		alice,
		rayCluster(
			"anew",
			"upgradeStrategy: {type: Recreate}, gcsFaultToleranceOptions: {redisAddress: redis},",
			"replicas: 2,",
		),
		"blue",
	)
	eventually(t, "it is ready", rayHas(t, "anew", ray.ClusterReady, "head small-worker-0 small-worker-1"))
	edit(
		t,
		alice,
		rayObject(t, "anew"),
		func(c *ray.RayCluster) { c.Spec.WorkerGroupSpecs[0].Replicas = new(int32(1)) },
	)
	eventually(t, "a worker goes", rayHas(t, "anew", ray.ClusterReady, "head small-worker-0"))
	edit(
		t,
		alice,
		rayObject(t, "anew"),
		func(c *ray.RayCluster) { c.Spec.HeadGroupSpec.Template.Spec.Containers[0].Image = "newer" },
	)
	killController(t)
	eventually(t, "all that is asked for is made anew", func() string {
		var all corev1.PodList
		if err := user(
			t,
			"",
		).List(t.Context(), &all, client.InNamespace("blue"), client.MatchingLabels{"ray.io/cluster": "anew"}); err != nil {
			return err.Error()
		}
		for i := range all.Items {
			if p := &all.Items[i]; p.Labels["mlbatch.dev/attempt"] != "1" || p.Status.Phase != corev1.PodRunning {
				return fmt.Sprintf("%s is of attempt %s, and %s", p.Name, p.Labels["mlbatch.dev/attempt"], p.Status.Phase)
			}
		}
		if got := rayPods(t, "anew"); got != "head small-worker-0" {
			return got
		}
		return ""
	})
	uid := rayObject(t, "anew").UID
	if err := alice.Delete(t.Context(), rayObject(t, "anew")); err != nil {
		t.Fatal(err)
	}
	var sweep batchv1.Job
	eventually(t, "what it kept is removed", func() string {
		if err := user(
			t,
			"",
		).Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "anew-redis-cleanup"}, &sweep); err != nil {
			return err.Error()
		}
		return ""
	})
	if c := rayObject(
		t,
		"anew",
	); sweep.Labels[kueue.QueueNameLabel] != "default-queue" ||
		c != nil && c.UID != uid {
		t.Errorf("%v beside %v", sweep.Labels, c)
	}
	killController(t)
	eventually(t, "it goes", func() string {
		if c := rayObject(t, "anew"); c != nil {
			return fmt.Sprint(c.Finalizers)
		}
		return ""
	})
	awaitEmpty(t, "blue")
	eventually(t, "nothing is left", func() string { return rayTraces(t) })
}

// TestRayJobBesideItsHead: a job that a container beside the head submits fails for good, or is
// tried again with a new cluster, also by another controller than the one that began it.
func TestRayJobBesideItsHead(t *testing.T) {
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	const beside = "submissionMode: SidecarMode, shutdownAfterJobFinishes: true,"
	create(t, alice, noted(rayJob("once", beside), `mlbatch.dev/exit-code: "3"`), "blue")
	create(t, alice, noted(rayJob("twice", beside+"backoffLimit: 1,"), `mlbatch.dev/fail-first: "1"`), "blue")
	eventually(t, "it begins", func() string {
		if c := rayJobObject(t, "twice").Status.RayClusterName; c == "" || rayObject(t, c) == nil {
			return "it has no cluster"
		}
		return ""
	})
	killController(t)
	eventually(t, "it fails", rayJobIs(t, "once", ray.DeploymentFailed))
	if s := rayJobObject(
		t,
		"once",
	).Status; s.JobStatus != ray.JobFailed || s.Reason != ray.AppFailed || *s.Failed != 1 ||
		!strings.Contains(s.Message, "exit code 3") {
		t.Errorf("%+v", s)
	}
	eventually(t, "the second try is better", rayJobIs(t, "twice", ray.DeploymentComplete))
	if s := rayJobObject(
		t,
		"twice",
	).Status; s.JobStatus != ray.JobSucceeded || *s.Failed != 1 ||
		*s.Succeeded != 1 {
		t.Errorf("%+v", s)
	}
	awaitEmpty(t, "blue")
	eventually(t, "nothing is left", func() string { return rayTraces(t) })
}

// TestRayJobByHand: a job of InteractiveMode waits until its author has submitted one and says
// how Ray calls it, also if the controller is killed before and after, and ends as that one.
func TestRayJobByHand(t *testing.T) {
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	create(
		t,
		alice,
		strings.Replace(
			rayJob("typed", "submissionMode: InteractiveMode, shutdownAfterJobFinishes: true,"),
			"entrypoint: python a.py, ",
			"",
			1,
		),
		"blue",
	)
	eventually(t, "it waits for its author", rayJobIs(t, "typed", ray.DeploymentWaiting))
	killController(t)
	name := rayJobObject(t, "typed").Status.RayClusterName
	typed := fmt.Sprintf(
		`{apiVersion: v1, kind: Pod, metadata: {name: laptop, labels: {kueue.x-k8s.io/queue-name: default-queue}, annotations: {mlbatch.dev/run-for: 20s}}, spec: {restartPolicy: Never,
  containers: [{name: shell, image: ray, command: [bash, -c, ray job submit -- python a.py], resources: {requests: {cpu: 1}},
  env: [{name: RAY_DASHBOARD_ADDRESS, value: "%s-head-svc.blue.svc.cluster.local:8265"}, {name: RAY_JOB_SUBMISSION_ID, value: raysubmit_1}]}]}}`,
		name,
	)
	eventually(t, "its author submits one, once webhooks answer", func() string {
		if _, err := tryCreate(t, alice, typed, "blue"); err != nil {
			return err.Error()
		}
		return ""
	})
	edit(t, alice, rayJobObject(t, "typed"), func(j *ray.RayJob) {
		if j.Annotations == nil {
			j.Annotations = map[string]string{}
		}
		j.Annotations[ray.SubmissionIDAnnotation] = "raysubmit_1"
	})
	eventually(t, "it runs, or is over", func() string {
		if s := rayJobObject(
			t,
			"typed",
		).Status; s.JobID != "raysubmit_1" ||
			s.JobDeploymentStatus != ray.DeploymentRunning && s.JobDeploymentStatus != ray.DeploymentComplete {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	killController(t)
	eventually(t, "it ends", rayJobIs(t, "typed", ray.DeploymentComplete))
	if s := rayJobObject(t, "typed").Status; s.JobStatus != ray.JobSucceeded {
		t.Errorf("%+v", s)
	}
	eventually(t, "what submitted it is deleted", func() string {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "laptop"}}
		if err := client.IgnoreNotFound(alice.Delete(t.Context(), p)); err != nil { // its webhooks may be down
			return err.Error()
		}
		return ""
	})
	awaitEmpty(t, "blue")
	eventually(t, "nothing is left", func() string { return rayTraces(t) })
}

// TestRayServiceIsSuspended: a service that is held loses its clusters, and serves again with
// another one when it is released; the controller is killed at both.
func TestRayServiceIsSuspended(t *testing.T) {
	awaitEmpty(t, "blue")
	admin := user(t, "")
	create(t, user(t, "alice"), rayService("pause", "upgradeStrategy: {type: None},", "one"), "blue")
	eventually(t, "it serves", serves(t, "pause", ""))
	edit(t, admin, itsWorkload(t, "blue", "pause"), func(w *kueue.Workload) { w.Spec.Active = new(false) })
	killController(t)
	eventually(t, "its cluster goes", func() string {
		s := rayServiceObject(t, "pause")
		var all ray.RayClusterList
		if err := admin.List(t.Context(), &all, client.InNamespace("blue")); err != nil {
			return err.Error()
		}
		if len(all.Items) > 0 || !s.Spec.Suspend ||
			!apimeta.IsStatusConditionTrue(s.Status.Conditions, ray.ServiceSuspended) {
			return fmt.Sprintf("%d clusters, %+v", len(all.Items), s.Status.Conditions)
		}
		return ""
	})
	edit(t, admin, itsWorkload(t, "blue", "pause"), func(w *kueue.Workload) { w.Spec.Active = new(true) })
	killController(t)
	eventually(t, "it serves again", serves(t, "pause", ""))
	if s := rayServiceObject(
		t,
		"pause",
	).Status; s.NumServeEndpoints == 0 ||
		apimeta.IsStatusConditionTrue(s.Conditions, ray.ServiceSuspended) {
		t.Errorf("%+v", s)
	}
	awaitEmpty(t, "blue")
	eventually(t, "nothing is left", func() string { return rayTraces(t) })
}

// TestRayJobGivesItsWorkersBack: with DeleteWorkers the head stays when the job is over, and
// another job starts in the quota of the workers.
func TestRayJobGivesItsWorkersBack(t *testing.T) {
	const ns = "heads"
	admin := lab(t, ns, map[corev1.ResourceName]string{gpu: "2", "cpu": "10", "memory": "10Gi"}, "default-queue")
	t.Cleanup(func() {
		_ = admin.DeleteAllOf(withoutCancel(t), &ray.RayJob{}, client.InNamespace(ns))
		_ = admin.DeleteAllOf(
			withoutCancel(t),
			&batchv1.Job{},
			client.InNamespace(ns),
			client.PropagationPolicy("Background"),
		)
	})
	manifest := strings.Replace(
		rayJob(
			"first",
			"deletionStrategy: {deletionRules: [{policy: DeleteWorkers, condition: {jobStatus: SUCCEEDED}}]},",
		),
		"replicas: 2, ",
		"replicas: 2, numOfHosts: 1, ",
		1,
	)
	at := strings.LastIndex(manifest, "cpu: 1")
	manifest = manifest[:at] + "nvidia.com/gpu: 1, " + manifest[at:] // of the workers
	create(t, admin, manifest, ns)
	eventually(t, "it runs", func() string {
		var j ray.RayJob
		if err := admin.Get(
			t.Context(),
			client.ObjectKey{Namespace: ns, Name: "first"},
			&j,
		); err != nil ||
			j.Status.JobDeploymentStatus != ray.DeploymentRunning &&
				j.Status.JobDeploymentStatus != ray.DeploymentComplete {
			return fmt.Sprintf("%v, %s", err, j.Status.JobDeploymentStatus)
		}
		return ""
	})
	second := labJob(
		"second",
		"labels: {kueue.x-k8s.io/queue-name: default-queue}",
		"parallelism: 2\n  completions: 2",
		"resources: {limits: {nvidia.com/gpu: 1, cpu: 1, memory: 1Gi}}",
	)
	create(t, admin, strings.Replace(second, `"600"`, `"600000"`, 1), ns)
	eventually(t, "another job runs in the quota of its workers, beside its head", func() string {
		var all corev1.PodList
		if err := admin.List(t.Context(), &all, client.InNamespace(ns)); err != nil {
			return err.Error()
		}
		runs := map[string]int{}
		for i := range all.Items {
			if p := &all.Items[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				runs[p.Labels["ray.io/node-type"]]++
			}
		}
		if runs["head"] != 1 || runs["worker"] != 0 || runs[""] != 2 {
			return fmt.Sprint(runs)
		}
		return ""
	})
	w := workloadOf(t, ns, "first")
	if w == nil || isFinished(w) {
		t.Errorf("its Workload holds nothing for its head: %+v", w)
	}
}

// TestFinishedRayJobMakesRoom: a job that is over and keeps its cluster holds quota for it, and lets
// go when others preempt it. It stays as it ended and is not run again.
func TestFinishedRayJobMakesRoom(t *testing.T) {
	const ns = "keeps"
	admin := lab(t, ns, map[corev1.ResourceName]string{gpu: "2", "cpu": "10", "memory": "10Gi"}, "default-queue")
	urgent := &kueue.WorkloadPriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "urgent-over-kept"},
		Value:      1_000_000,
	}
	if err := admin.Create(t.Context(), urgent); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = admin.DeleteAllOf(withoutCancel(t), &ray.RayJob{}, client.InNamespace(ns))
		_ = admin.DeleteAllOf(
			withoutCancel(t),
			&batchv1.Job{},
			client.InNamespace(ns),
			client.PropagationPolicy("Background"),
		)
		_ = admin.Delete(withoutCancel(t), urgent)
	})
	q := &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	edit(t, admin, q, func(q *kueue.ClusterQueue) {
		q.Spec.Preemption = &kueue.ClusterQueuePreemption{WithinClusterQueue: kueue.PreemptionPolicyLowerPriority}
	})
	manifest := rayJob("first", "")
	at := strings.LastIndex(manifest, "cpu: 1")
	create(t, admin, manifest[:at]+"nvidia.com/gpu: 1, "+manifest[at:], ns)
	status := func() ray.JobDeploymentStatus {
		var j ray.RayJob
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "first"}, &j); err != nil {
			t.Fatal(err)
		}
		return j.Status.JobDeploymentStatus
	}
	running := func() map[string]int {
		var all corev1.PodList
		if err := admin.List(t.Context(), &all, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		runs := map[string]int{}
		for i := range all.Items {
			if p := &all.Items[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				runs[p.Labels["ray.io/node-type"]]++
			}
		}
		return runs
	}
	eventually(t, "it is over, and its cluster stays", func() string {
		if runs := running(); status() != ray.DeploymentComplete || runs["worker"] != 2 || runs["head"] != 1 {
			return fmt.Sprint(status(), runs)
		}
		return ""
	})
	second := labJob(
		"second",
		"labels: {kueue.x-k8s.io/queue-name: default-queue, kueue.x-k8s.io/priority-class: urgent-over-kept}",
		"parallelism: 2\n  completions: 2",
		"resources: {limits: {nvidia.com/gpu: 1, cpu: 1, memory: 1Gi}}",
	)
	create(t, admin, strings.Replace(second, `"600"`, `"600000"`, 1), ns)
	killController(t)
	eventually(t, "another job runs in its place", func() string {
		if runs := running(); runs[""] != 2 || runs["worker"]+runs["head"] != 0 {
			return fmt.Sprint(runs)
		}
		return ""
	})
	eventually(t, "its Workload is finished", func() string {
		if w := workloadOf(t, ns, "first"); w == nil || !isFinished(w) {
			return fmt.Sprintf("%+v", w)
		}
		return ""
	})
	if is := status(); is != ray.DeploymentComplete {
		t.Errorf("it is %s", is)
	}
}
