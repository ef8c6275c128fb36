package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
)

const jobNameLabel = "training.kubeflow.org/job-name"

// trainingKind is a kind of kubeflow.org: the field of its roles, these in order with so
// many pods, the container that does the work, and a variable that its pods are told.
type trainingKind struct {
	kind, roles, container, env string
	pods                        []rolePods
}

type rolePods struct {
	role string
	n    int
}

func trainingKinds() []trainingKind {
	masterAndWorkers := []rolePods{{"Master", 1}, {"Worker", 2}}
	return []trainingKind{
		{"PyTorchJob", "pytorchReplicaSpecs", "pytorch", "MASTER_ADDR", masterAndWorkers},
		{"TFJob", "tfReplicaSpecs", "tensorflow", "TF_CONFIG", []rolePods{{"Chief", 1}, {"PS", 1}, {"Worker", 2}}},
		{"XGBoostJob", "xgbReplicaSpecs", "xgboost", "WORKER_ADDRS", masterAndWorkers},
		{"PaddleJob", "paddleReplicaSpecs", "paddle", "PADDLE_MASTER", []rolePods{{"Worker", 3}}},
		{"JAXJob", "jaxReplicaSpecs", "jax", "COORDINATOR_ADDRESS", []rolePods{{"Worker", 3}}},
	}
}

// trainingObjects are empty ones, of each kind.
func trainingObjects() (all []client.Object) {
	for _, k := range trainingKinds() {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("kubeflow.org/v1")
		o.SetKind(k.kind)
		all = append(all, o)
	}
	set := &unstructured.Unstructured{}
	set.SetAPIVersion("jobset.x-k8s.io/v1alpha2")
	set.SetKind("JobSet")
	mpi := &unstructured.Unstructured{}
	mpi.SetAPIVersion("kubeflow.org/v2beta1")
	mpi.SetKind("MPIJob")
	return append(all, set, mpi)
}

// remembered is what is remembered of a job whose pods mlbatch makes; the zero value if nothing is.
func remembered(t testing.TB, job client.Object) recovery.Recovery {
	t.Helper()
	o := &recovery.JobRecovery{}
	err := user(
		t,
		"",
	).Get(t.Context(), client.ObjectKey{Namespace: job.GetNamespace(), Name: string(job.GetUID())}, o)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if r := o.Of(job); r != nil {
		return *r
	}
	return recovery.Recovery{}
}

func (k trainingKind) count() (n int) {
	for _, r := range k.pods {
		n += r.n
	}
	return n
}

// manifest of a job; change are lines for its run policy, and annotations of its pods.
func (k trainingKind) manifest(name, policy, restart string, annotations map[string]string) string {
	var notes []string
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		notes = append(notes, fmt.Sprintf("%s: %q", key, annotations[key]))
	}
	var roles strings.Builder
	for _, r := range k.pods {
		fmt.Fprintf(&roles, `
    %s:
      replicas: %d
      restartPolicy: %s
      template:
        metadata: {annotations: {%s}}
        spec:
          terminationGracePeriodSeconds: 0
          containers: [{name: %s, image: busybox, resources: {limits: {nvidia.com/gpu: 1, cpu: 1, memory: 1Gi}}}]`, r.role, r.n, restart, strings.Join(notes, ", "), k.container)
	}
	return fmt.Sprintf(`
apiVersion: kubeflow.org/v1
kind: %s
metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: default-queue}}
spec:
  runPolicy: {%s}
  %s: %s
`, k.kind, name, policy, k.roles, roles.String())
}

func runFor(d string) map[string]string { return map[string]string{"mlbatch.dev/run-for": d} }

// trainingJob reads a job; nil if it is gone.
func trainingJob(t testing.TB, k trainingKind, name string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("kubeflow.org/v1")
	o.SetKind(k.kind)
	err := user(t, "").Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: name}, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// says waits for a job to have a condition.
func says(tb testing.TB, k trainingKind, name, condition string) func() string {
	tb.Helper()
	return func() string {
		o := trainingJob(tb, k, name)
		if o == nil {
			return "it is gone"
		}
		all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range all {
			if c, is := c.(map[string]any); is && c["type"] == condition && c["status"] == "True" {
				return ""
			}
		}
		return fmt.Sprintf("it says %v", all)
	}
}

// allPods are those of a job, however they are.
func allPods(t testing.TB, name string) []corev1.Pod {
	t.Helper()
	var all corev1.PodList
	if err := user(
		t,
		"",
	).List(t.Context(), &all, client.InNamespace("blue"), client.MatchingLabels{jobNameLabel: name}); err != nil {
		t.Fatal(err)
	}
	return all.Items
}

func trainingRuns(tb testing.TB, name string, n int) func() string {
	tb.Helper()
	return func() string {
		running := 0
		for _, p := range allPods(tb, name) {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				running++
			}
		}
		if running != n {
			return fmt.Sprintf("%d of %d pods run", running, n)
		}
		return ""
	}
}

// TestTrainingJobsOfEveryKind: a user applies a job of each kind, twice; it waits for quota,
// all of its pods run at once and know of each other, it says that it succeeded, and
// nothing is left of it when it is deleted.
func TestTrainingJobsOfEveryKind(t *testing.T) {
	for _, k := range trainingKinds() {
		t.Run(k.kind, func(t *testing.T) {
			awaitEmpty(t, "blue")
			manifest := k.manifest("train", "", "OnFailure", runFor("60s"))
			for _, again := range []string{"first", "second"} {
				if out, err := kubectl(t, "alice", manifest, "apply", "--server-side", "-n", "blue"); err != nil {
					t.Fatalf("the %s time: %v\n%s", again, err, out)
				}
			}
			eventually(t, "all of its pods run", trainingRuns(t, "train", k.count()))
			w := itsWorkload(t, "blue", "train")
			if got := len(w.Spec.PodSets); got != len(k.pods) {
				t.Errorf("it has %d pod sets, want %d", got, len(k.pods))
			}
			for _, p := range allPods(t, "train") {
				if p.Annotations[kueue.WorkloadAnnotation] != w.Name ||
					p.Labels[kueue.PodSetLabel] != p.Labels["training.kubeflow.org/replica-type"] {
					t.Errorf("pod %s does not say whose it is: %v %v", p.Name, p.Annotations, p.Labels)
				}
				if !slices.ContainsFunc(p.Spec.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == k.env }) {
					t.Errorf("pod %s is not told %s", p.Name, k.env)
				}
			}
			var services corev1.ServiceList
			eventually(t, "each pod has a service", func() string {
				if err := user(
					t,
					"",
				).List(t.Context(), &services, client.InNamespace("blue"), client.MatchingLabels{jobNameLabel: "train"}); err != nil ||
					len(services.Items) != k.count() {
					return fmt.Sprintf("%d services, %v", len(services.Items), err)
				}
				return ""
			})
			eventually(t, "it succeeds", says(t, k, "train", "Succeeded"))
			eventually(t, "its Workload is finished", func() string {
				if w := workloadOf(t, "blue", "train"); w == nil || !isFinished(w) {
					return "it is not"
				}
				return ""
			})
			if out, err := kubectl(t, "alice", manifest, "delete", "-n", "blue"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			eventually(t, "nothing is left", func() string {
				if err := user(
					t,
					"",
				).List(t.Context(), &services, client.InNamespace("blue"), client.MatchingLabels{jobNameLabel: "train"}); err != nil {
					return err.Error()
				}
				if n := len(allPods(t, "train")) + len(services.Items); n > 0 || workloadOf(t, "blue", "train") != nil {
					return fmt.Sprintf("%d pods and services, Workload %v", n, workloadOf(t, "blue", "train"))
				}
				return ""
			})
		})
	}
}

// TestTrainingJobIsTriedAgain: pods that a signal ended are made anew, as often as the job
// allows, and no oftener.
func TestTrainingJobIsTriedAgain(t *testing.T) {
	k := trainingKinds()[0]
	awaitEmpty(t, "blue")
	fails := map[string]string{"mlbatch.dev/run-for": "10s", "mlbatch.dev/exit-code": "137"}
	once := maps.Clone(fails)
	once["mlbatch.dev/fail-first"] = "1"
	alice := user(t, "alice")
	create(t, alice, k.manifest("mends", "backoffLimit: 3", "ExitCode", once), "blue")
	eventually(t, "it succeeds after its retries", says(t, k, "mends", "Succeeded"))
	if n := remembered(t, trainingJob(t, k, "mends")).Failures; n < 1 || n > 3 {
		t.Errorf("%d failures are counted of 3 pods that fail once at the same time", n)
	}
	create(t, alice, k.manifest("broken", "backoffLimit: 2", "ExitCode", fails), "blue")
	eventually(t, "it fails", says(t, k, "broken", "Failed"))
	if why := remembered(t, trainingJob(t, k, "broken")).Reason; why != "BackoffLimitExceeded" {
		t.Errorf("it failed for %q", why)
	}
	wrong := maps.Clone(fails)
	wrong["mlbatch.dev/exit-code"] = "2"
	create(t, alice, k.manifest("wrong", "backoffLimit: 2", "ExitCode", wrong), "blue")
	eventually(t, "a wrong argument is not tried again", says(t, k, "wrong", "Failed"))
	if why := remembered(t, trainingJob(t, k, "wrong")).Reason; why != "PodFailed" {
		t.Errorf("it failed for %q", why)
	}
	awaitEmpty(t, "blue")
}

// TestTrainingJobIsPreempted: all of its pods go before others get its quota, and it comes
// back as its user wrote it.
func TestTrainingJobIsPreempted(t *testing.T) {
	k := trainingKinds()[0]
	awaitEmpty(t, "blue", "red")
	alice := user(t, "alice")
	low := strings.ReplaceAll(
		k.manifest("patient", "", "OnFailure", runFor("400s")),
		"nvidia.com/gpu: 1",
		"nvidia.com/gpu: 8",
	)
	low = strings.ReplaceAll(
		low,
		"terminationGracePeriodSeconds: 0",
		"terminationGracePeriodSeconds: 0\n          priorityClassName: low-priority",
	)
	create(t, alice, low, "blue")
	eventually(t, "it runs", trainingRuns(t, "patient", 3))
	before := trainingJob(t, k, "patient").Object["spec"]
	// It takes back what the other one borrowed.
	high := strings.ReplaceAll(
		strings.ReplaceAll(low, "low-priority", "high-priority"),
		"nvidia.com/gpu: 8",
		"nvidia.com/gpu: 2",
	)
	high = strings.ReplaceAll(strings.ReplaceAll(high, "name: patient", "name: urgent"), "400s", "60s")
	create(t, alice, high, "blue")
	eventually(t, "the urgent job runs, and nothing of the other is left", func() string {
		urgent, patient := allPods(t, "urgent"), allPods(t, "patient")
		if len(urgent) > 0 && len(patient) > 0 {
			t.Errorf("pods of both: %d and %d", len(urgent), len(patient))
		}
		return trainingRuns(t, "urgent", 3)()
	})
	if c := apimeta.FindStatusCondition(
		itsWorkload(t, "blue", "patient").Status.Conditions,
		kueue.WorkloadPreempted,
	); c == nil {
		t.Error("it was not preempted")
	}
	eventually(t, "it says so", says(t, k, "patient", "Suspended"))
	eventually(t, "it comes back", trainingRuns(t, "patient", 3))
	after := trainingJob(t, k, "patient").Object["spec"]
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("its spec was %v and is %v", before, after)
	}
	awaitEmpty(t, "blue", "red")
}

// TestTrainingJobSurvivesTheController: it is killed while pods are made, fail and end.
func TestTrainingJobSurvivesTheController(t *testing.T) {
	k := trainingKinds()[0]
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	once := map[string]string{
		"mlbatch.dev/run-for":    "60s",
		"mlbatch.dev/exit-code":  "137",
		"mlbatch.dev/fail-first": "1",
	}
	create(t, alice, k.manifest("hardy", "backoffLimit: 6", "ExitCode", once), "blue")
	for _, when := range []struct {
		what string
		is   func() string
	}{
		{"some of its pods are made", func() string {
			if len(allPods(t, "hardy")) == 0 {
				return "none is"
			}
			return ""
		}},
		{"a failure is counted", func() string {
			if remembered(t, trainingJob(t, k, "hardy")).Failures == 0 {
				return "none is"
			}
			return ""
		}},
	} {
		eventually(t, when.what, when.is)
		killController(t)
	}
	eventually(t, "it succeeds", says(t, k, "hardy", "Succeeded"))
	if n := remembered(t, trainingJob(t, k, "hardy")).Failures; n > 3 {
		t.Errorf("%d failures are counted of 3 pods", n)
	}
	awaitEmpty(t, "blue")
}

// TestTrainingJobsInAppWrappers: the wrapper's users need not know that there is another way.
func TestTrainingJobsInAppWrappers(t *testing.T) {
	for _, k := range trainingKinds() {
		t.Run(k.kind, func(t *testing.T) {
			awaitEmpty(t, "blue")
			inner := strings.Replace(
				k.manifest("inner", "", "OnFailure", runFor("60s")),
				", labels: {kueue.x-k8s.io/queue-name: default-queue}",
				"",
				1,
			)
			create(t, user(t, "alice"), wrap(inner), "blue")
			eventually(t, "all its pods run", trainingRuns(t, "inner", k.count()))
			eventually(t, "it succeeds", inPhase(t, string(aw.AppWrapperSucceeded), "blue", "wrapped"))
			awaitEmpty(t, "blue")
		})
	}
}

// TestForgedOwnerRunsNothing: a job that says it is a part of an AppWrapper that knows
// nothing of it waits for quota like any other.
func TestForgedOwnerRunsNothing(t *testing.T) {
	k := trainingKinds()[0]
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	create(
		t,
		alice,
		wrap(
			`{apiVersion: batch/v1, kind: Job, metadata: {name: real}, spec: {template: {spec: `+fmt.Sprintf(
				podSpec,
				"Never",
			)+`}}}`,
		),
		"blue",
	)
	eventually(t, "the AppWrapper runs", func() string { return runs(t, "blue", "wrapped", 1) })
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(
		[]byte(k.manifest("forged", "suspend: false", "OnFailure", runFor("60s"))),
		&o.Object,
	); err != nil {
		t.Fatal(err)
	}
	owner := wrapper(t, "blue", "wrapped")
	o.SetNamespace("blue")
	o.SetLabels(nil)
	o.SetOwnerReferences(
		[]metav1.OwnerReference{*metav1.NewControllerRef(owner, aw.GroupVersion.WithKind(aw.AppWrapperKind))},
	)
	if err := alice.Create(t.Context(), o); err != nil {
		t.Logf("refused: %v", err)
	}
	eventually(t, "it has a Workload of its own, or is not there", func() string {
		if trainingJob(t, k, "forged") == nil {
			return ""
		}
		w := workloadOf(t, "blue", "forged")
		if w == nil {
			return "it has none"
		}
		for _, p := range allPods(t, "forged") {
			if p.Annotations[kueue.WorkloadAnnotation] != w.Name {
				t.Errorf("pod %s runs for Workload %q", p.Name, p.Annotations[kueue.WorkloadAnnotation])
			}
		}
		return ""
	})
	awaitEmpty(t, "blue")
}
