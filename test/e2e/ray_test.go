package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	ray "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/test/corpus"
)

// rayCluster is a manifest of one; more are lines of its spec.
func rayCluster(name, more, group string) string {
	const pod = "template: {spec: {terminationGracePeriodSeconds: 0, containers: [{name: ray, image: ray, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}"
	return fmt.Sprintf(
		`{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: default-queue}},
  spec: {%s headGroupSpec: {%s}, workerGroupSpecs: [{groupName: small, %s %s}]}}`,
		name,
		more,
		pod,
		group,
		pod,
	)
}

// rayObject reads a cluster; nil if it is gone.
func rayObject(t testing.TB, name string) *ray.RayCluster {
	t.Helper()
	c := &ray.RayCluster{}
	err := user(t, "").Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: name}, c)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rayPods are names of pods of a cluster that are ready and stay.
func rayPods(t testing.TB, name string) string {
	t.Helper()
	var all corev1.PodList
	if err := user(
		t,
		"",
	).List(t.Context(), &all, client.InNamespace("blue"), client.MatchingLabels{"ray.io/cluster": name}); err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range all.Items {
		if p := &all.Items[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			out = append(out, strings.TrimPrefix(p.Name, name+"-"))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// rayHas waits for a cluster to be in a state with pods of these names.
func rayHas(t testing.TB, name string, state ray.ClusterState, pods string) func() string {
	t.Helper()
	return func() string {
		c := rayObject(t, name)
		if c == nil {
			return "it is gone"
		}
		if got := rayPods(t, name); got != pods || c.Status.State != state {
			return fmt.Sprintf("it is %q with pods %q: %+v", c.Status.State, got, c.Status.Conditions)
		}
		return ""
	}
}

// rayTraces are what is left of clusters.
func rayTraces(t testing.TB) string {
	t.Helper()
	var left []string
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.ServiceList{}, &corev1.SecretList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}} {
		if err := user(
			t,
			"",
		).List(t.Context(), list, client.InNamespace("blue"), client.HasLabels{"ray.io/cluster"}); err != nil {
			t.Fatal(err)
		}
		u, err := yaml.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		var names struct {
			Items []struct {
				Metadata struct{ Name string }
			}
		}
		if err := yaml.Unmarshal(u, &names); err != nil {
			t.Fatal(err)
		}
		for _, i := range names.Items {
			left = append(left, fmt.Sprintf("%T %s", list, i.Metadata.Name))
		}
	}
	return strings.Join(left, ", ")
}

// TestRayCluster: a user applies a cluster, twice; it waits for quota, head and workers come
// up together, it says that it is ready, and nothing is left of it when it is deleted.
func TestRayCluster(t *testing.T) {
	awaitEmpty(t, "blue")
	manifest := rayCluster("tune", "", "replicas: 2, minReplicas: 1, maxReplicas: 4,")
	for _, again := range []string{"first", "second"} {
		if out, err := kubectl(t, "alice", manifest, "apply", "--server-side", "-n", "blue"); err != nil {
			t.Fatalf("the %s time: %v\n%s", again, err, out)
		}
	}
	eventually(t, "it is ready", rayHas(t, "tune", ray.ClusterReady, "head small-worker-0 small-worker-1"))
	w := itsWorkload(t, "blue", "tune")
	if got := fmt.Sprint(
		w.Spec.PodSets[0].Name,
		w.Spec.PodSets[0].Count,
		w.Spec.PodSets[1].Name,
		w.Spec.PodSets[1].Count,
	); len(w.Spec.PodSets) != 2 ||
		got != "head1small2" {
		t.Errorf("its pod sets are %s", got)
	}
	c := rayObject(t, "tune")
	if c.Status.Head.PodIP == "" || c.Status.ReadyWorkerReplicas != 2 ||
		c.Status.Head.ServiceName != "tune-head-svc" ||
		c.Status.AvailableWorkerReplicas != 2 ||
		c.Status.DesiredCPU.String() != "3" {
		t.Errorf("%+v", c.Status)
	}
	var head corev1.Service
	if err := user(
		t,
		"",
	).Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "tune-head-svc"}, &head); err != nil ||
		head.Spec.ClusterIP != "None" {
		t.Errorf("%+v, %v", head.Spec, err)
	}
	if out, err := kubectl(t, "alice", manifest, "delete", "-n", "blue"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "nothing is left", func() string {
		if workloadOf(t, "blue", "tune") != nil {
			return "its Workload is"
		}
		return rayTraces(t)
	})
}

// TestRayClusterScales: workers that are named go first, a worker that is lost is made anew,
// and more than was admitted is queued again.
func TestRayClusterScales(t *testing.T) {
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	create(t, alice, rayCluster("elastic", "", "replicas: 3,"), "blue")
	eventually(
		t,
		"it is ready",
		rayHas(t, "elastic", ray.ClusterReady, "head small-worker-0 small-worker-1 small-worker-2"),
	)
	patch := func(text string) {
		t.Helper()
		if err := alice.Patch(
			t.Context(),
			rayObject(t, "elastic"),
			client.RawPatch(types.JSONPatchType, []byte(text)),
		); err != nil {
			t.Fatal(err)
		}
	}
	patch(
		`[{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 2}, {"op": "add", "path": "/spec/workerGroupSpecs/0/scaleStrategy", "value": {"workersToDelete": ["elastic-small-worker-1"]}}]`,
	)
	eventually(
		t,
		"the one that was named goes",
		rayHas(t, "elastic", ray.ClusterReady, "head small-worker-0 small-worker-2"),
	)
	patch(
		`[{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 3}, {"op": "remove", "path": "/spec/workerGroupSpecs/0/scaleStrategy"}]`,
	)
	eventually(
		t,
		"what it was admitted with comes back at once",
		rayHas(t, "elastic", ray.ClusterReady, "head small-worker-0 small-worker-1 small-worker-2"),
	)
	var lost corev1.Pod
	key := client.ObjectKey{Namespace: "blue", Name: "elastic-small-worker-2"}
	if err := user(t, "").Get(t.Context(), key, &lost); err != nil {
		t.Fatal(err)
	}
	if err := user(t, "").Delete(t.Context(), &lost); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a worker that is lost is made anew, of that name or another", func() string {
		var p corev1.Pod
		if err := user(t, "").Get(t.Context(), key, &p); err == nil && p.UID == lost.UID {
			return "it is there"
		}
		if got := rayPods(t, "elastic"); len(strings.Fields(got)) != 4 {
			return got
		}
		return ""
	})
	patch(`[{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 4}]`)
	eventually(t, "more is queued again, and runs", func() string {
		w := workloadOf(t, "blue", "elastic")
		if w == nil || w.Spec.PodSets[1].Count != 4 {
			return "it was not admitted with more"
		}
		if got := rayPods(t, "elastic"); len(strings.Fields(got)) != 5 {
			return got
		}
		return ""
	})
	awaitEmpty(t, "blue")
}

// TestRayClusterGrows: the head of a cluster that grows by itself may change how many workers
// it has, up to what was admitted, and nothing of any other cluster.
func TestRayClusterGrows(t *testing.T) {
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	create(
		t,
		alice,
		rayCluster("grows", "enableInTreeAutoscaling: true,", "replicas: 1, maxReplicas: 3,"),
		"blue",
	)
	create(t, alice, rayCluster("other", "", "replicas: 1,"), "blue")
	eventually(t, "it is ready", rayHas(t, "grows", ray.ClusterReady, "head small-worker-0"))
	w := itsWorkload(t, "blue", "grows")
	if n := w.Spec.PodSets[1].Count; n != 3 {
		t.Errorf("it was admitted with %d workers, and may have 3", n)
	}
	scaler := user(t, "system:serviceaccount:blue:grows")
	more := client.RawPatch(
		types.JSONPatchType,
		[]byte(`[{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 3}]`),
	)
	eventually(t, "its head may", func() string { // rights take a moment
		if err := scaler.Patch(t.Context(), rayObject(t, "grows"), more); err != nil {
			return err.Error()
		}
		return ""
	})
	eventually(
		t,
		"it grows",
		rayHas(t, "grows", ray.ClusterReady, "head small-worker-0 small-worker-1 small-worker-2"),
	)
	if again := itsWorkload(t, "blue", "grows"); again.UID != w.UID {
		t.Error("it was queued again")
	}
	if err := scaler.Patch(t.Context(), rayObject(t, "other"), more); !apierrors.IsForbidden(err) {
		t.Errorf("it changes another cluster: %v", err)
	}
	if err := scaler.List(
		t.Context(),
		&corev1.SecretList{},
		client.InNamespace("blue"),
	); !apierrors.IsForbidden(
		err,
	) {
		t.Errorf("it reads Secrets: %v", err)
	}
	awaitEmpty(t, "blue")
	eventually(t, "nothing is left", func() string { return rayTraces(t) })
}

// TestRayClusterInAppWrapper: it runs with what the wrapper was given.
func TestRayClusterInAppWrapper(t *testing.T) {
	awaitEmpty(t, "blue")
	inner := strings.Replace(
		rayCluster("inner", "", "replicas: 2,"),
		", labels: {kueue.x-k8s.io/queue-name: default-queue}",
		"",
		1,
	)
	create(t, user(t, "alice"), wrap(inner), "blue")
	eventually(t, "all its pods run", rayHas(t, "inner", ray.ClusterReady, "head small-worker-0 small-worker-1"))
	awaitEmpty(t, "blue")
}

// TestRayCorpus applies every manifest of the corpus twice, sees each come to the state that
// it should, and nothing left of it when it is deleted.
func TestRayCorpus(t *testing.T) {
	awaitEmpty(t, "blue")
	alice, admin := user(t, "alice"), user(t, "")
	open := map[string]string{} // by kind and name
	for _, m := range corpus.Ray() {
		if m.Privileged {
			continue // the namespace is a team's
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(m.Text), &o.Object); err != nil {
			t.Fatal(err)
		}
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[kueue.QueueNameLabel] = "default-queue"
		o.SetLabels(labels)
		o.SetNamespace("blue")
		for _, time := range []string{"first", "second"} {
			same := client.ApplyConfigurationFromUnstructured(o.DeepCopy())
			if err := alice.Apply(t.Context(), same, client.FieldOwner("alice")); err != nil {
				t.Errorf("%s %s, the %s time: %v", m.Kind, m.Name, time, err)
			}
		}
		open[o.GetName()] = m.Ends
	}
	eventually(t, "all come to their states", func() string {
		for _, o := range rayAll(t, admin) {
			want := open[o.GetName()]
			if is := rayState(&o); want != "" && is == want {
				delete(open, o.GetName())
				if err := alice.Delete(t.Context(), &o); err != nil { // others may need its room
					t.Error(err)
				}
			} else if want != "" && is == "Failed" {
				t.Fatalf("%s: %v", o.GetName(), o.Object["status"])
			}
		}
		for name := range open {
			return fmt.Sprintf("%d are not, such as %s", len(open), name)
		}
		return ""
	})
	awaitEmpty(t, "blue")
	eventually(t, "nothing is left", func() string { return rayTraces(t) })
}

// rayAll are the objects of Ray's kinds that users made.
func rayAll(t testing.TB, c client.Client) []unstructured.Unstructured {
	t.Helper()
	var out []unstructured.Unstructured
	for _, kind := range []string{"RayCluster", "RayJob", "RayService"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(ray.GroupVersion.WithKind(kind + "List"))
		if err := c.List(t.Context(), list, client.InNamespace("blue")); err != nil {
			t.Fatal(err)
		}
		out = append(out, list.Items...)
	}
	return out
}

// rayState is what `kubectl get` shows of one.
func rayState(o *unstructured.Unstructured) string {
	field := map[string]string{
		"RayCluster": "state",
		"RayJob":     "jobDeploymentStatus",
		"RayService": "serviceStatus",
	}
	s, _, _ := unstructured.NestedString(o.Object, "status", field[o.GetKind()])
	return s
}

// rayJob is a manifest of one; more are lines of its spec.
func rayJob(name, more string) string {
	const pod = "template: {spec: {terminationGracePeriodSeconds: 0, containers: [{name: ray, image: ray, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}"
	return fmt.Sprintf(
		`{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: default-queue}},
  spec: {%s entrypoint: python a.py, rayClusterSpec: {headGroupSpec: {%s}, workerGroupSpecs: [{groupName: small, replicas: 2, %s}]}}}`,
		name,
		more,
		pod,
		pod,
	)
}

// rayJobObject reads a job; nil if it is gone.
func rayJobObject(t testing.TB, name string) *ray.RayJob {
	t.Helper()
	j := &ray.RayJob{}
	err := user(t, "").Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: name}, j)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func rayJobIs(t testing.TB, name string, status ray.JobDeploymentStatus) func() string {
	t.Helper()
	return func() string {
		j := rayJobObject(t, name)
		if j == nil || j.Status.JobDeploymentStatus != status {
			return fmt.Sprintf("it is %+v", j)
		}
		return ""
	}
}

// TestRayJob: a user applies a job, twice; its cluster comes up, the job is submitted to it,
// ends, its cluster goes, and nothing is left of it when it is deleted.
func TestRayJob(t *testing.T) {
	awaitEmpty(t, "blue")
	manifest := rayJob("learn", "shutdownAfterJobFinishes: true,")
	for _, again := range []string{"first", "second"} {
		if out, err := kubectl(t, "alice", manifest, "apply", "--server-side", "-n", "blue"); err != nil {
			t.Fatalf("the %s time: %v\n%s", again, err, out)
		}
	}
	eventually(t, "it runs", rayJobIs(t, "learn", ray.DeploymentRunning))
	cluster := rayJobObject(t, "learn").Status.RayClusterName
	if got := rayPods(t, cluster); got != "head small-worker-0 small-worker-1" {
		t.Errorf("its cluster %s has pods %s", cluster, got)
	}
	w := itsWorkload(t, "blue", "learn")
	if n := len(w.Spec.PodSets); n != 3 || w.Spec.PodSets[2].Name != "submitter" {
		t.Errorf("its pod sets are %+v", w.Spec.PodSets)
	}
	if workloadOf(t, "blue", cluster) != nil {
		t.Error("its cluster is queued by itself")
	}
	eventually(t, "it is done", rayJobIs(t, "learn", ray.DeploymentComplete))
	if s := rayJobObject(t, "learn").Status; s.JobStatus != ray.JobSucceeded || *s.Succeeded != 1 {
		t.Errorf("%+v", s)
	}
	eventually(t, "its cluster has gone", func() string {
		if rayObject(t, cluster) != nil || rayPods(t, cluster) != "" {
			return "it has not"
		}
		return ""
	})
	eventually(t, "its Workload is finished", func() string {
		if w := workloadOf(t, "blue", "learn"); w == nil || !isFinished(w) {
			return "it is not"
		}
		return ""
	})
	var submitter batchv1.Job
	if err := user(
		t,
		"alice",
	).Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "learn"}, &submitter); err != nil ||
		submitter.DeletionTimestamp != nil {
		t.Errorf("the Job that submitted it has gone, and the log with it: %v", err)
	}
	if out, err := kubectl(t, "alice", manifest, "delete", "-n", "blue"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "nothing is left", func() string {
		if workloadOf(t, "blue", "learn") != nil {
			return "its Workload is"
		}
		return rayTraces(t)
	})
}

// TestRayJobInAClusterThatExists: a job names a cluster and no pod that submits it, as KubeRay's sample
// does. It waits for the cluster, says so, and its submitter has the image of the head.
func TestRayJobInAClusterThatExists(t *testing.T) {
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	create(
		t,
		alice,
		`{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: visits, labels: {kueue.x-k8s.io/queue-name: default-queue}},
  spec: {entrypoint: python a.py, clusterSelector: {ray.io/cluster: shared}}}`,
		"blue",
	)
	eventually(t, "it says what it waits for", func() string {
		var all corev1.EventList
		if err := alice.List(t.Context(), &all, client.InNamespace("blue")); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(all.Items, func(e corev1.Event) bool {
			return e.Reason == "BasisNotFound" && strings.Contains(e.Message, "until there is a RayCluster shared")
		}) {
			return "it does not"
		}
		return ""
	})
	create(t, alice, rayCluster("shared", "", "replicas: 1,"), "blue")
	eventually(t, "it is done", rayJobIs(t, "visits", ray.DeploymentComplete))
	var submitter batchv1.Job
	if err := alice.Get(
		t.Context(),
		client.ObjectKey{Namespace: "blue", Name: "visits"},
		&submitter,
	); err != nil ||
		submitter.Spec.Template.Spec.Containers[0].Image != "ray" {
		t.Errorf("%+v, %v", submitter.Spec.Template.Spec, err)
	}
	awaitEmpty(t, "blue")
}

// TestRayJobIsTriedAgain: each try has a cluster of its own, and there are as many as the job
// allows.
func TestRayJobIsTriedAgain(t *testing.T) {
	awaitEmpty(t, "blue")
	create(
		t,
		user(t, "alice"),
		rayJob("broken", `backoffLimit: 1, submitterConfig: {backoffLimit: 0}, shutdownAfterJobFinishes: true,
  submitterPodTemplate: {metadata: {annotations: {mlbatch.dev/exit-code: "1", mlbatch.dev/run-for: 20s}}, spec: {restartPolicy: Never, containers: [{name: s, image: i, resources: {limits: {cpu: 1}}}]}},`),
		"blue",
	)
	clusters := map[string]bool{}
	eventually(t, "it fails", func() string {
		if name := rayJobObject(t, "broken").Status.RayClusterName; name != "" {
			clusters[name] = true
		}
		return rayJobIs(t, "broken", ray.DeploymentFailed)()
	})
	if s := rayJobObject(
		t,
		"broken",
	).Status; len(clusters) != 2 || *s.Failed != 2 || s.Reason != "AppFailed" ||
		s.JobStatus != ray.JobFailed {
		t.Errorf("it ran in %v: %+v", clusters, s)
	}
	awaitEmpty(t, "blue")
}

// TestRayJobByHTTP: the dashboard is asked to run a job and tells how it ends; each try has a
// cluster of its own.
func TestRayJobByHTTP(t *testing.T) {
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	const end = "submissionMode: HTTPMode, shutdownAfterJobFinishes: true,"
	note := func(text string) func(string) string { // on the head's pod
		return func(m string) string {
			return strings.Replace(
				m,
				"headGroupSpec: {template: {spec",
				"headGroupSpec: {template: {metadata: {annotations: {"+text+"}}, spec",
				1,
			)
		}
	}
	create(t, alice, note(`mlbatch.dev/job-run-for: 30s`)(rayJob("asked", end)), "blue")
	create(
		t,
		alice,
		note(
			`mlbatch.dev/job-fail-first: "1", mlbatch.dev/job-run-for: 10s`,
		)(
			rayJob("again", end+"backoffLimit: 1,"),
		),
		"blue",
	)
	create(
		t,
		alice,
		note(`mlbatch.dev/job-exit-code: "3", mlbatch.dev/job-run-for: 10s`)(rayJob("bad", end)),
		"blue",
	)
	eventually(t, "it runs", rayJobIs(t, "asked", ray.DeploymentRunning))
	if w := itsWorkload(t, "blue", "asked"); len(w.Spec.PodSets) != 2 {
		t.Errorf("its pod sets are %+v", w.Spec.PodSets)
	}
	eventually(t, "it is done", rayJobIs(t, "asked", ray.DeploymentComplete))
	if s := rayJobObject(
		t,
		"asked",
	).Status; s.JobStatus != ray.JobSucceeded || s.RayJobInfo == nil || s.RayJobInfo.EndTime == nil ||
		s.Message == "" {
		t.Errorf("%+v", s)
	}
	eventually(t, "the second try is better", rayJobIs(t, "again", ray.DeploymentComplete))
	if s := rayJobObject(t, "again").Status; *s.Failed != 1 || s.JobStatus != ray.JobSucceeded {
		t.Errorf("%+v", s)
	}
	eventually(t, "it fails", rayJobIs(t, "bad", ray.DeploymentFailed))
	if s := rayJobObject(
		t,
		"bad",
	).Status; s.Reason != ray.AppFailed ||
		!strings.Contains(s.Message, "exit code 3") {
		t.Errorf("%+v", s)
	}
	awaitEmpty(t, "blue")
}

// rayService is a manifest of one; more are lines of its spec.
func rayService(name, more, image string) string {
	const pod = "template: {spec: {terminationGracePeriodSeconds: 0, containers: [{name: ray, image: IMAGE, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}"
	return strings.ReplaceAll(
		fmt.Sprintf(
			`{apiVersion: ray.io/v1, kind: RayService, metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: default-queue}},
  spec: {%s serveConfigV2: "applications: [{name: fruit, import_path: a, deployments: [{name: Market}]}]", rayClusterConfig: {headGroupSpec: {%s}, workerGroupSpecs: [{groupName: small, replicas: 1, %s}]}}}`,
			name,
			more,
			pod,
			pod,
		),
		"IMAGE",
		image,
	)
}

func rayServiceObject(t testing.TB, name string) *ray.RayService {
	t.Helper()
	s := &ray.RayService{}
	if err := user(t, "").Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: name}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// serves waits for a service that answers requests by another cluster than one.
func serves(t testing.TB, name, but string) func() string {
	t.Helper()
	return func() string {
		s := rayServiceObject(t, name)
		if c := s.Status.ActiveServiceStatus.RayClusterName; s.Status.ServiceStatus != ray.ServiceRunning ||
			c == "" ||
			c == but {
			return fmt.Sprintf("%+v", s.Status.Conditions)
		}
		return ""
	}
}

func serveSelector(t testing.TB, name string) string {
	t.Helper()
	var s corev1.Service
	if err := user(
		t,
		"",
	).Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: name + "-serve-svc"}, &s); err != nil {
		return err.Error()
	}
	return s.Spec.Selector["ray.io/cluster"]
}

// TestRayService: a user applies a service, twice; it serves, another cluster takes over when
// its pods change, a head that is lost is told again what to serve, also after the controller
// was killed, and nothing is left when it is deleted.
func TestRayService(t *testing.T) {
	awaitEmpty(t, "blue")
	const how = "upgradeStrategy: {type: NewCluster}, rayClusterDeletionDelaySeconds: 1,"
	for _, again := range []string{"first", "second"} {
		if out, err := kubectl(
			t,
			"alice",
			rayService("fruit", how, "one"),
			"apply",
			"--server-side",
			"-n",
			"blue",
		); err != nil {
			t.Fatalf("the %s time: %v\n%s", again, err, out)
		}
	}
	eventually(t, "it serves", serves(t, "fruit", ""))
	first := rayServiceObject(t, "fruit").Status.ActiveServiceStatus.RayClusterName
	eventually(t, "its head and its worker answer", func() string { // the head may do so first
		s := rayServiceObject(t, "fruit").Status
		if app := s.ActiveServiceStatus.Applications["fruit"]; s.NumServeEndpoints != 2 ||
			app.Status != "RUNNING" ||
			app.Deployments["Market"].Status != "HEALTHY" {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	if w := itsWorkload(t, "blue", "fruit"); len(w.Spec.PodSets) != 2 || w.Spec.PodSets[0].Count != 2 {
		t.Errorf("its pod sets are %+v", w.Spec.PodSets)
	}
	eventually(t, "requests find it", func() string {
		if got := serveSelector(t, "fruit"); got != first {
			return got
		}
		return ""
	})
	if out, err := kubectl(
		t,
		"alice",
		rayService("fruit", how, "two"),
		"apply",
		"--server-side",
		"-n",
		"blue",
	); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "another cluster takes over", serves(t, "fruit", first))
	second := rayServiceObject(t, "fruit").Status.ActiveServiceStatus.RayClusterName
	eventually(t, "requests find that one, and the first goes", func() string {
		if got := serveSelector(t, "fruit"); got != second || rayObject(t, first) != nil {
			return got
		}
		return ""
	})
	head := &corev1.Pod{}
	if err := user(
		t,
		"",
	).Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: second + "-head"}, head); err != nil {
		t.Fatal(err)
	}
	if err := user(t, "").Delete(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	killController(t)
	eventually(t, "its head is made anew", func() string {
		is := &corev1.Pod{}
		if err := user(
			t,
			"",
		).Get(t.Context(), client.ObjectKeyFromObject(head), is); err != nil ||
			is.UID == head.UID ||
			is.Status.Phase != corev1.PodRunning {
			return fmt.Sprintf("%v, %s", err, is.Status.Phase)
		}
		return ""
	})
	eventually(t, "it serves again", func() string {
		s := rayServiceObject(t, "fruit").Status
		if s.NumServeEndpoints != 2 || s.ActiveServiceStatus.RayClusterName != second ||
			s.ActiveServiceStatus.Applications["fruit"].Status != "RUNNING" {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	awaitEmpty(t, "blue")
	eventually(t, "nothing is left", func() string { return rayTraces(t) })
}

// TestRayServiceInAppWrapper: it serves with what the wrapper was given, and makes no second
// cluster.
func TestRayServiceInAppWrapper(t *testing.T) {
	awaitEmpty(t, "blue")
	inner := strings.Replace(
		rayService("wrapped", "upgradeStrategy: {type: None},", "one"),
		", labels: {kueue.x-k8s.io/queue-name: default-queue}",
		"",
		1,
	)
	create(t, user(t, "alice"), wrap(inner), "blue")
	eventually(t, "it serves", func() string {
		var s ray.RayService
		if err := user(
			t,
			"",
		).Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "wrapped"}, &s); err != nil ||
			s.Status.ServiceStatus != ray.ServiceRunning {
			return fmt.Sprintf("%v, %+v", err, s.Status.Conditions)
		}
		return ""
	})
	awaitEmpty(t, "blue")
}
