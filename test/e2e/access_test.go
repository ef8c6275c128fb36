package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	past "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
)

const podManifest = `
apiVersion: v1
kind: Pod
metadata: {name: bare}
spec:
  containers: [{name: c, image: busybox}]
`

const jobManifest = `
apiVersion: batch/v1
kind: Job
metadata: {name: bare, labels: {kueue.x-k8s.io/queue-name: default-queue}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: busybox}]
`

func wrap(manifest string) string {
	var inner map[string]any
	if err := yaml.Unmarshal([]byte(manifest), &inner); err != nil {
		panic(err)
	}
	out, err := yaml.Marshal(map[string]any{
		"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
		"metadata": map[string]any{"name": "wrapped"},
		"spec":     map[string]any{"components": []any{map[string]any{"template": inner}}},
	})
	if err != nil {
		panic(err)
	}
	return string(out)
}

const roleBinding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: grab}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]
`

const workloadManifest = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: forged}
spec:
  queueName: default-queue
  podSets: [{name: main, count: 1, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}]
`

const jobRecovery = `
apiVersion: mlbatch.dev/v1alpha1
kind: JobRecovery
metadata: {name: 00000000-0000-4000-8000-000000000000}
failures: 0
`

const jobHistory = `
apiVersion: mlbatch.dev/v1alpha1
kind: JobHistory
metadata: {name: jobs-00000001}
records: []
`

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\ndata: {a: b}\n"

// What alice may do in her team's namespace, and what she may not.
func TestAccess(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	cases := map[string]struct {
		why       string
		namespace string
		manifest  string
		allowed   bool
	}{
		"AppWrapper in blue":   {"her way to run jobs", "blue", wrap(jobManifest), true},
		"ConfigMap in blue":    {"not compute, so not counted", "blue", configMap, true},
		"AppWrapper in red":    {"another team's quota", "red", wrap(jobManifest), false},
		"ConfigMap in red":     {"another team's data", "red", configMap, false},
		"bare pod in blue":     {"it is held until it is admitted", "blue", podManifest, true},
		"bare job in blue":     {"it is held until it is admitted", "blue", jobManifest, true},
		"bare pod in red":      {"another team's quota", "red", podManifest, false},
		"workload in blue":     {"it would forge an admission", "blue", workloadManifest, false},
		"recovery in blue":     {"it would have failures forgotten", "blue", jobRecovery, false},
		"history in blue":      {"it would make up what was used", "blue", jobHistory, false},
		"role binding in blue": {"it would make her an admin", "blue", roleBinding, false},
		"role binding through AppWrapper": {
			"the controller must not do for her what she may not",
			"blue",
			wrap(roleBinding),
			false,
		},
	}
	alice := user(t, "alice")
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := tryCreate(t, alice, c.manifest, c.namespace)
			switch {
			case c.allowed && err != nil:
				t.Errorf("%s, but: %v", c.why, err)
			case !c.allowed && err == nil:
				t.Errorf("%s %s was accepted: %s", o.GetKind(), o.GetName(), c.why)
			case !c.allowed && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err):
				t.Errorf("the refusal has another cause: %v", err)
			}
		})
	}
}

func TestAccessToRead(t *testing.T) {
	alice := user(t, "alice")
	for _, l := range []client.ObjectList{&aw.AppWrapperList{}, &kueue.WorkloadList{}, &corev1.PodList{}, &past.JobHistoryList{}, &recovery.JobRecoveryList{}} {
		if err := alice.List(t.Context(), l, client.InNamespace("blue")); err != nil {
			t.Errorf("alice cannot look at %T in blue: %v", l, err)
		}
		if err := alice.List(t.Context(), l, client.InNamespace("red")); !apierrors.IsForbidden(err) {
			t.Errorf("alice looks at %T in red: %v", l, err)
		}
	}
}

// Nothing queues these kinds by themselves: with their operators in the cluster,
// a user who could make one would have GPUs beyond any quota. The API server asks for
// rights before it looks whether the kind exists.
func TestUnqueuedKinds(t *testing.T) {
	cfg := cluster.RESTConfig()
	cfg.Impersonate.UserName = "alice"
	alice, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct{ kind, group, version, resource string }{
		{"SparkApplication", "sparkoperator.k8s.io", "v1beta2", "sparkapplications"},
		{"DaemonSet", "apps", "v1", "daemonsets"},
		{"ReplicationController", "", "v1", "replicationcontrollers"},
	} {
		resource := alice.Resource(
			schema.GroupVersionResource{Group: k.group, Version: k.version, Resource: k.resource},
		).
			Namespace("blue")
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: k.group, Version: k.version, Kind: k.kind})
		o.SetName("free")
		if _, err := resource.Create(t.Context(), o, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("alice creates a %s without a queue: %v", k.kind, err)
		}
		if _, err := resource.Patch(
			t.Context(),
			"free",
			types.MergePatchType,
			[]byte("{}"),
			metav1.PatchOptions{},
		); !apierrors.IsForbidden(
			err,
		) {
			t.Errorf("alice changes a %s: %v", k.kind, err)
		}
	}
	for _, resource := range []string{"rayjobs"} { // those of her AppWrappers
		err := alice.Resource(schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: resource}).
			Namespace("blue").
			Delete(t.Context(), "hers", metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("alice cannot clean up %s: %v", resource, err)
		}
	}
}

// The user labels say who submitted, whatever the manifest claims.
func TestUserIsStamped(t *testing.T) {
	awaitEmpty(t, "blue")
	m := strings.Replace(
		wrap(jobManifest),
		"name: wrapped",
		"name: wrapped\n  labels: {workload.codeflare.dev/user: bob}",
		1,
	)
	name := create(t, user(t, "alice"), m, "blue")
	if got := wrapper(t, "blue", name).Labels["workload.codeflare.dev/user"]; got != "alice" {
		t.Errorf("the user label says %q, want alice", got)
	}
}

// Who submitted a job is who asked for it, whatever a tenant writes: into a new job, by
// server-side apply, as another field manager, later on, or into what makes jobs.
func TestUserIsNotForged(t *testing.T) {
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	const forged = "labels: {mlbatch.dev/user: bob, kueue.x-k8s.io/queue-name: default-queue}, annotations: {mlbatch.dev/user: bob}"
	job := `{apiVersion: batch/v1, kind: Job, metadata: {name: NAME, namespace: blue, ` + forged + `},
  spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}}`
	of := func(o client.Object, name string) string {
		t.Helper()
		if err := alice.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: name}, o); err != nil {
			t.Fatal(err)
		}
		return o.GetLabels()["mlbatch.dev/user"] + o.GetAnnotations()["mlbatch.dev/user"]
	}
	create(t, alice, strings.Replace(job, "NAME", "forged", 1), "blue")
	if got := of(&batchv1.Job{}, "forged"); got != "alice" {
		t.Errorf("a job that alice created is of %q", got)
	}
	var applied unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(strings.Replace(job, "NAME", "applied", 1)), &applied.Object); err != nil {
		t.Fatal(err)
	}
	for range 2 { // created, and then changed
		err := alice.Apply(
			t.Context(),
			client.ApplyConfigurationFromUnstructured(applied.DeepCopy()),
			client.FieldOwner("mlbatch-controller"),
			client.ForceOwnership,
		)
		if err != nil {
			t.Fatal(err)
		}
		if got := of(&batchv1.Job{}, "applied"); got != "alice" {
			t.Errorf("a job that alice applied is of %q", got)
		}
	}
	relabel := client.RawPatch(
		types.MergePatchType,
		[]byte(`{"metadata": {"labels": {"mlbatch.dev/user": "bob"}, "annotations": {"mlbatch.dev/user": "bob"}}}`),
	)
	changed := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "forged"}}
	if err := alice.Patch(t.Context(), changed, relabel, client.FieldOwner("mlbatch-controller")); err != nil {
		t.Fatal(err)
	}
	if got := of(&batchv1.Job{}, "forged"); got != "alice" {
		t.Errorf("a job that alice relabelled is of %q", got)
	}
	create(
		t,
		alice,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, `+forged+`}, spec: {selector: {matchLabels: {app: web}},
  template: {metadata: {labels: {app: web, mlbatch.dev/user: bob}}, spec: {containers: [{name: c, image: busybox}]}}}}`,
		"blue",
	)
	eventually(t, "a pod of her Deployment, and its Workload, are hers", func() string {
		var pods corev1.PodList
		if err := alice.List(
			t.Context(),
			&pods,
			client.InNamespace("blue"),
			client.MatchingLabels{"app": "web"},
		); err != nil {
			return err.Error()
		}
		if len(pods.Items) == 0 {
			return "there is none"
		}
		if got := pods.Items[0].Labels["mlbatch.dev/user"]; got != "alice" {
			t.Fatalf("her Deployment makes pods of %q", got)
		}
		return ofUser(t, pods.Items[0].Name, "alice")
	})
	for _, name := range []string{"forged", "applied"} {
		eventually(t, "the Workload says it", func() string { return ofUser(t, name, "alice") })
	}
	if err := alice.Delete(
		t.Context(),
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "web"}},
	); err != nil {
		t.Fatal(err)
	}
}

// ofUser says what is wrong if the Workload of an object in blue is not of a user.
func ofUser(t *testing.T, owner, want string) string {
	t.Helper()
	w := workloadOf(t, "blue", owner)
	if w == nil {
		return "there is none"
	}
	if got := w.Annotations[past.UserAnnotation]; got != want {
		return fmt.Sprintf("it is of %q", got)
	}
	return ""
}

// In a team namespace a Job without queue is held, not run, and says so.
func TestJobWithoutQueueIsHeld(t *testing.T) {
	awaitEmpty(t, "blue")
	admin := user(t, "")
	m := strings.Replace(jobManifest, ", labels: {kueue.x-k8s.io/queue-name: default-queue}", "", 1)
	name := create(t, admin, m, "blue")
	var o unstructured.Unstructured
	o.SetAPIVersion("batch/v1")
	o.SetKind("Job")
	get := func() *unstructured.Unstructured {
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: name}, &o); err != nil {
			t.Fatal(err)
		}
		return &o
	}
	if s, _, _ := unstructured.NestedBool(get().Object, "spec", "suspend"); !s {
		t.Fatal("the job was not suspended when it was created")
	}
	eventually(t, "it says that it needs a queue", waits(t, "blue", name, "Misconfigured", kueue.QueueNameLabel))
	edit(t, admin, get(), func(job *unstructured.Unstructured) {
		job.SetLabels(map[string]string{kueue.QueueNameLabel: "default-queue"})
	})
	eventually(t, "with a queue it runs", func() string {
		if n := len(pods(t, "blue", name)); n != 1 {
			return fmt.Sprintf("%d pods", n)
		}
		return ""
	})
}
