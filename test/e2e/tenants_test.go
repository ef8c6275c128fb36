package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
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
	if err := alice.Delete(
		t.Context(),
		all[0].DeepCopy(),
		day,
	); err == nil ||
		!strings.Contains(err.Error(), "gracePeriodSeconds") {
		t.Errorf("she may give it a day: %v", err)
	}
	for i := range all {
		if err := admin.Delete(t.Context(), all[i].DeepCopy(), day); err != nil {
			t.Fatal(err)
		}
	}
	if err := alice.Delete(
		t.Context(),
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "stays"}},
		client.PropagationPolicy(metav1.DeletePropagationBackground),
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its GPUs are given back", func() string {
		if n := len(pods(t, "blue", "")); n > 0 {
			return fmt.Sprintf("%d pods are left", n)
		}
		return ""
	})
}

// A component whose owner and labels were taken off it ends with its AppWrapper, and a tenant may not
// take them.
func TestComponentsEndWithTheirAppWrapper(t *testing.T) {
	awaitEmpty(t, "blue")
	alice, admin := user(t, "alice"), user(t, "")
	for _, kind := range []string{"StatefulSet", "Deployment"} {
		t.Run(kind, func(t *testing.T) {
			manifest := wrapperManifest(
				"  - template: {apiVersion: apps/v1, kind: " + kind + ", metadata: {name: taken}, spec: {replicas: 3, serviceName: x, selector: {matchLabels: {a: b}}, " +
					"template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: busybox, resources: {limits: {nvidia.com/gpu: 1}}}]}}}}\n",
			)
			if kind == "Deployment" {
				manifest = strings.Replace(manifest, "serviceName: x, ", "", 1)
			}
			name := create(t, alice, manifest, "blue")
			eventually(t, "it runs", func() string { return running(t, "blue", 3) })
			set := &unstructured.Unstructured{}
			set.SetAPIVersion("apps/v1")
			set.SetKind(kind)
			set.SetNamespace("blue")
			set.SetName("taken")
			strip := client.RawPatch(
				types.MergePatchType,
				[]byte(`{"metadata":{"ownerReferences":null,"labels":null}}`),
			)
			if err := alice.Patch(
				t.Context(),
				set,
				strip,
			); err == nil ||
				!strings.Contains(err.Error(), "ownerReferences") {
				t.Errorf("she may take its owner: %v", err)
			}
			if err := admin.Patch(t.Context(), set, strip); err != nil {
				t.Fatal(err)
			}
			w := &aw.AppWrapper{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name}}
			if err := alice.Delete(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			eventually(t, "all is gone", func() string {
				if err := admin.Get(
					t.Context(),
					client.ObjectKeyFromObject(set),
					set,
				); client.IgnoreNotFound(err) != nil ||
					err == nil {
					return fmt.Sprintf("the %s is left: %v", kind, err)
				}
				if n := len(pods(t, "blue", "")); n > 0 {
					return fmt.Sprintf("%d pods are left", n)
				}
				if err := admin.Get(
					t.Context(),
					client.ObjectKeyFromObject(w),
					w,
				); client.IgnoreNotFound(err) != nil ||
					err == nil {
					return fmt.Sprintf("the AppWrapper is left: %v", err)
				}
				return ""
			})
		})
	}
}

// A job takes no Workload of a pod group that runs, whose quota would be free then.
func TestNoJobTakesTheWorkloadOfAGroup(t *testing.T) {
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	create(
		t,
		alice,
		"{apiVersion: v1, kind: Pod, metadata: {name: member, labels: {kueue.x-k8s.io/queue-name: default-queue, kueue.x-k8s.io/pod-group-name: steals}, "+
			"annotations: {kueue.x-k8s.io/pod-group-total-count: \"1\", mlbatch.dev/run-for: forever}}, spec: {restartPolicy: Never, containers: [{name: c, image: busybox, resources: {limits: {nvidia.com/gpu: 1}}}]}}",
		"blue",
	)
	eventually(t, "it runs", func() string { return running(t, "blue", 1) })
	thief := strings.Replace(
		strings.Replace(
			stays,
			"name: stays, labels: {",
			"name: thief, labels: {kueue.x-k8s.io/prebuilt-workload-name: steals, ",
			1,
		),
		"parallelism: 3\n  completions: 3",
		"parallelism: 1",
		1,
	)
	if _, err := tryCreate(
		t,
		alice,
		thief,
		"blue",
	); err == nil || !strings.Contains(err.Error(), "prebuilt-workload-name") ||
		!strings.Contains(err.Error(), "group of pods") {
		t.Errorf("a Job may take it: %v", err)
	}
	if w := workloadNamed(t, "blue", "steals"); len(w.OwnerReferences) > 0 || len(w.Status.Conditions) == 0 {
		t.Errorf("the group has lost it: %+v", w)
	}
	if err := alice.Delete(
		t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "member"}},
	); err != nil {
		t.Fatal(err)
	}
	awaitEmpty(t, "blue")
}

func workloadNamed(t *testing.T, namespace, name string) *kueue.Workload {
	t.Helper()
	w := &kueue.Workload{}
	if err := user(
		t,
		"",
	).Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, w); err != nil {
		t.Fatal(err)
	}
	return w
}
