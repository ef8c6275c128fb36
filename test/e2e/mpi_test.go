package e2e_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/local/names"
)

// mpiManifest is a job of a launcher, which runs for so long, and two workers.
func mpiManifest(version, name, runs, settings string) string {
	return fmt.Sprintf(`
apiVersion: kubeflow.org/%s
kind: MPIJob
metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: default-queue}}
spec:
  slotsPerWorker: 2
  %s
  mpiReplicaSpecs:
    Launcher:
      template:
        metadata: {annotations: {mlbatch.dev/run-for: %s}}
        spec:
          terminationGracePeriodSeconds: 0
          containers: [{name: mpi, image: mpi, command: [mpirun, python, train.py], resources: {limits: {cpu: 1, memory: 1Gi}}}]
    Worker:
      replicas: 2
      template:
        spec:
          terminationGracePeriodSeconds: 0
          containers: [{name: mpi, image: mpi, resources: {limits: {nvidia.com/gpu: 1, cpu: 1, memory: 1Gi}}}]
`, version, name, settings, runs)
}

// mpiOwned are names of what a job has beside its pods, with their kinds.
func mpiOwned(t testing.TB, name string) []string {
	t.Helper()
	var out []string
	for _, list := range []client.ObjectList{
		&corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &batchv1.JobList{},
	} {
		if err := user(
			t,
			"",
		).List(t.Context(), list, client.InNamespace("blue"), client.MatchingLabels{jobNameLabel: name}); err != nil {
			t.Fatal(err)
		}
		kind := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", list), "*v1."), "List")
		for _, o := range items(t, list) {
			out = append(out, kind+" "+o.GetName())
		}
	}
	slices.Sort(out)
	return out
}

func items(t testing.TB, list client.ObjectList) (out []client.Object) {
	t.Helper()
	err := apimeta.EachListItem(list, func(o runtime.Object) error {
		if object, is := o.(client.Object); is {
			out = append(out, object)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mpiJob(t testing.TB, version, name string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("kubeflow.org/" + version)
	o.SetKind("MPIJob")
	if err := user(t, "").Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: name}, o); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		t.Fatal(err)
	}
	return o
}

func mpiSays(t testing.TB, name, condition string) func() string {
	t.Helper()
	return func() string {
		o := mpiJob(t, "v2beta1", name)
		if o == nil {
			return "it is gone"
		}
		all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range all {
			if c, is := c.(map[string]any); is && c["type"] == condition && c["status"] == "True" &&
				c["reason"] == "MPIJob"+condition {
				return ""
			}
		}
		return fmt.Sprintf("it says %v", all)
	}
}

// TestMPIJobs of both versions: applied twice, queued, run with all that mpirun needs, and gone
// without a trace.
func TestMPIJobs(t *testing.T) {
	for version, want := range map[string][]string{
		"v2beta1": {"ConfigMap train-config", "Job train-launcher", "Secret train-ssh", "Service train"},
		"v1":      {"ConfigMap train-config", "Role train-launcher", "RoleBinding train-launcher", "ServiceAccount train-launcher"},
	} {
		t.Run(version, func(t *testing.T) {
			awaitEmpty(t, "blue")
			manifest := mpiManifest(version, "train", "60s", "runPolicy: {cleanPodPolicy: Running}")
			for _, again := range []string{"first", "second"} {
				out, err := kubectl(t, "alice", manifest, "apply", "--server-side", "-n", "blue")
				if err != nil || strings.Contains(out, "Warning") {
					t.Fatalf("the %s time: %v\n%s", again, err, out)
				}
			}
			eventually(t, "all of its pods run", trainingRuns(t, "train", 3))
			eventually(t, "it says so", mpiSays(t, "train", "Running"))
			if got := mpiOwned(t, "train"); !slices.Equal(got, want) {
				t.Errorf("it has %v, want %v", got, want)
			}
			stamped := mpiJob(t, "v2beta1", "train").GetAnnotations()["mlbatch.dev/submitted-version"]
			if (stamped == "v1") != (version == "v1") || mpiJob(t, "v1", "train") == nil {
				t.Errorf("it was submitted as %q", stamped)
			}
			w := itsWorkload(t, "blue", "train")
			for _, p := range allPods(t, "train") {
				if p.Annotations[kueue.WorkloadAnnotation] != w.Name ||
					p.Labels[kueue.PodSetLabel] != p.Labels["training.kubeflow.org/replica-type"] {
					t.Errorf("pod %s does not say whose it is: %v %v", p.Name, p.Annotations, p.Labels)
				}
			}
			if version == "v1" {
				launchersMayExecInTheirWorkers(t)
			}
			eventually(t, "it succeeds", mpiSays(t, "train", "Succeeded"))
			eventually(t, "its workers are gone, and its launcher is there for its logs", func() string {
				var left []string
				for _, p := range allPods(t, "train") {
					left = append(left, p.Labels["training.kubeflow.org/replica-type"])
				}
				if !slices.Equal(left, []string{"launcher"}) {
					return fmt.Sprint(left)
				}
				return ""
			})
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
				if owned := mpiOwned(
					t,
					"train",
				); len(owned)+len(allPods(t, "train")) > 0 ||
					workloadOf(t, "blue", "train") != nil {
					return fmt.Sprint(owned, len(allPods(t, "train")))
				}
				return ""
			})
		})
	}
}

// launchersMayExecInTheirWorkers and do nothing else; neither does the controller.
func launchersMayExecInTheirWorkers(t *testing.T) {
	t.Helper()
	admin := user(t, "")
	may := func(who, verb, resource, sub, name string) bool {
		r := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: who,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace:   "blue",
				Verb:        verb,
				Resource:    resource,
				Subresource: sub,
				Name:        name,
			},
		}}
		if err := admin.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		return r.Status.Allowed
	}
	const launcher = "system:serviceaccount:blue:train-launcher"
	eventually(t, "the launcher may run commands in its workers", func() string {
		if !may(launcher, "create", "pods", "exec", "train-worker-1") ||
			!may(launcher, "get", "pods", "", "train-worker-0") {
			return "it may not"
		}
		return ""
	})
	for _, other := range []string{"train-launcher", "train-worker-2", "somebody-elses", ""} {
		if may(launcher, "create", "pods", "exec", other) || may(launcher, "get", "pods", "", other) {
			t.Errorf("the launcher has rights to pod %q", other)
		}
	}
	for _, resource := range []string{"secrets", "configmaps", "pods"} {
		if may(launcher, "list", resource, "", "") || may(launcher, "create", resource, "", "") {
			t.Errorf("the launcher has rights to %s", resource)
		}
	}
	cmd := exec.CommandContext(
		t.Context(),
		cluster.Binary,
		"kubectl",
		"--data-dir",
		cluster.Dir,
		"exec",
		"-n",
		"blue",
		"--as",
		names.ControllerUser,
		"train-worker-0",
		"--",
		"true",
	)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "not do so itself") {
		t.Errorf("the controller runs commands in pods: %v\n%s", err, out)
	}
}

// TestControllerBindsNoOthers: what it may bind for launchers of MPIJobs is of no use for more.
func TestControllerBindsNoOthers(t *testing.T) {
	controller := user(t, names.ControllerUser)
	eventually(t, "it has its rights", func() string {
		err := controller.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "x"}, &rbacv1.Role{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprint(err)
	})
	owner := []metav1.OwnerReference{{APIVersion: "kubeflow.org/v2beta1", Kind: "MPIJob", Name: "x", UID: "u"}}
	binding := func(change func(*rbacv1.RoleBinding)) *rbacv1.RoleBinding {
		b := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "x", OwnerReferences: owner},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "x"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "blue", Name: "x"}},
		}
		change(b)
		return b
	}
	run := rbacv1.PolicyRule{
		APIGroups: []string{""},
		Resources: []string{"pods/exec"},
		Verbs:     []string{"create"},
	}
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "x"},
		Rules:      []rbacv1.PolicyRule{run},
	}
	admin := user(t, "")
	if err := admin.Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Delete(withoutCancel(t), role) })
	for name, b := range map[string]*rbacv1.RoleBinding{
		"to a user": binding(func(b *rbacv1.RoleBinding) {
			b.Subjects[0] = rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "x"}
		}),
		"of another namespace": binding(func(b *rbacv1.RoleBinding) { b.Subjects[0].Namespace = "red" }),
		"under another name":   binding(func(b *rbacv1.RoleBinding) { b.Name = "y" }),
		"to itself": binding(func(b *rbacv1.RoleBinding) {
			b.Subjects[0] = rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: names.ControllerUser}
		}),
		"its own, to an account": binding(func(b *rbacv1.RoleBinding) {
			b.Name, b.RoleRef = "z", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "mlbatch-controller-team"}
		}),
	} {
		if err := controller.Create(t.Context(), b); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("the controller binds %s: %v", name, err)
			_ = admin.Delete(t.Context(), b)
		}
	}
	named := func(names ...string) rbacv1.PolicyRule {
		r := run
		r.ResourceNames = names
		return r
	}
	for name, r := range map[string]*rbacv1.Role{
		"commands in all pods":       {ObjectMeta: metav1.ObjectMeta{Name: "y-launcher"}, Rules: []rbacv1.PolicyRule{run}},
		"commands in pods of others": {ObjectMeta: metav1.ObjectMeta{Name: "y-launcher"}, Rules: []rbacv1.PolicyRule{named("y-worker-0", "z-worker-0")}},
		"commands for no launcher":   {ObjectMeta: metav1.ObjectMeta{Name: "y"}, Rules: []rbacv1.PolicyRule{named("y-worker-0")}},
		"rights that it has not": {
			ObjectMeta: metav1.ObjectMeta{Name: "y-launcher"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/ephemeralcontainers"}, Verbs: []string{"update"}}},
		},
	} {
		r.Namespace = "blue"
		if err := controller.Create(t.Context(), r); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("the controller makes a role with %s: %v", name, err)
			_ = admin.Delete(t.Context(), r)
		}
	}
}

// TestMPIJobIsStopped and comes back: its workers go, its launcher is held back.
func TestMPIJobIsStopped(t *testing.T) {
	for _, version := range []string{"v2beta1", "v1"} {
		t.Run(version, func(t *testing.T) {
			awaitEmpty(t, "blue")
			create(
				t,
				user(t, "alice"),
				mpiManifest(version, "patient", "200s", "runPolicy: {cleanPodPolicy: All}"),
				"blue",
			)
			eventually(t, "it runs", mpiSays(t, "patient", "Running"))
			before := fmt.Sprint(mpiJob(t, "v2beta1", "patient").Object["spec"])
			setActive := func(is bool) {
				t.Helper()
				w := itsWorkload(t, "blue", "patient")
				patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"active":%v}}`, is))
				if err := user(t, "").Patch(t.Context(), w, patch); err != nil {
					t.Fatal(err)
				}
			}
			setActive(false)
			eventually(t, "it says that it is suspended", mpiSays(t, "patient", "Suspended"))
			eventually(t, "no pod is left", trainingRuns(t, "patient", 0))
			if n := len(allPods(t, "patient")); n > 0 {
				t.Errorf("%d pods are left", n)
			}
			var job batchv1.Job
			err := user(t, "").Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "patient-launcher"}, &job)
			switch {
			case version == "v1" && !apierrors.IsNotFound(err), version != "v1" && err != nil:
				t.Error(err)
			case version != "v1" && !*job.Spec.Suspend:
				t.Error("its launcher is not held back")
			}
			setActive(true)
			eventually(t, "it runs again", trainingRuns(t, "patient", 3))
			eventually(t, "and says so", mpiSays(t, "patient", "Running"))
			if after := fmt.Sprint(
				mpiJob(t, "v2beta1", "patient").Object["spec"],
			); after != strings.ReplaceAll(
				before,
				"suspend:true",
				"suspend:false",
			) {
				t.Errorf("its spec was %s and is %s", before, after)
			}
			awaitEmpty(t, "blue")
		})
	}
}

// TestMPIJobLauncherComesLast, if its author wants it, and in v1 always.
func TestMPIJobLauncherComesLast(t *testing.T) {
	for version, settings := range map[string]string{"v2beta1": "launcherCreationPolicy: WaitForWorkersReady", "v1": ""} {
		t.Run(version, func(t *testing.T) {
			awaitEmpty(t, "blue")
			create(t, user(t, "alice"), mpiManifest(version, "last", "10s", settings), "blue")
			eventually(t, "it succeeds", mpiSays(t, "last", "Succeeded"))
			var ready, made metav1.Time
			var pods corev1.PodList
			if err := user(
				t,
				"",
			).List(t.Context(), &pods, client.InNamespace("blue"), client.MatchingLabels{jobNameLabel: "last"}); err != nil {
				t.Fatal(err)
			}
			for _, p := range pods.Items {
				if p.Labels["training.kubeflow.org/replica-type"] == "launcher" {
					made = p.CreationTimestamp
					continue
				}
				for _, c := range p.Status.Conditions {
					if c.Type == corev1.PodReady && ready.Before(&c.LastTransitionTime) && c.Status == corev1.ConditionTrue {
						ready = c.LastTransitionTime
					}
				}
			}
			if made.Before(&ready) {
				t.Errorf("its launcher was made at %s, and its workers were ready at %s", made, ready)
			}
			awaitEmpty(t, "blue")
		})
	}
}

// TestMPILaunchersNeedTheirWorkers: on simulated nodes mpirun takes its time once all of its
// hosts are up, and not while the last of them still begins.
func TestMPILaunchersNeedTheirWorkers(t *testing.T) {
	awaitEmpty(t, "blue")
	slow := strings.Replace(
		mpiManifest("v2beta1", "needs", "10s", "runPolicy: {cleanPodPolicy: None}"),
		"containers: [{name: mpi, image: mpi, resources: {limits: {nvidia",
		"initContainers: [{name: data, image: data, command: [sleep, 60s]}]\n          containers: [{name: mpi, image: mpi, resources: {limits: {nvidia",
		1,
	)
	create(t, user(t, "alice"), slow, "blue")
	eventually(t, "it succeeds", mpiSays(t, "needs", "Succeeded"))
	var up, ended metav1.Time
	for _, p := range allPods(t, "needs") {
		for _, c := range p.Status.ContainerStatuses {
			switch {
			case c.State.Terminated != nil:
				ended = c.State.Terminated.FinishedAt
			case c.State.Running != nil && up.Before(&c.State.Running.StartedAt):
				up = c.State.Running.StartedAt
			}
		}
	}
	if up.IsZero() || ended.Before(&up) {
		t.Errorf("its workers were up at %s, and its launcher ended at %s", up, ended)
	}
	awaitEmpty(t, "blue")
}

// TestMPIJobsInAppWrappers: of both versions, which is known from the component alone.
func TestMPIJobsInAppWrappers(t *testing.T) {
	for _, version := range []string{"v2beta1", "v1"} {
		t.Run(version, func(t *testing.T) {
			awaitEmpty(t, "blue")
			inner := strings.Replace(
				mpiManifest(version, "inner", "60s", ""),
				", labels: {kueue.x-k8s.io/queue-name: default-queue}",
				"",
				1,
			)
			create(t, user(t, "alice"), wrap(inner), "blue")
			eventually(t, "all its pods run", trainingRuns(t, "inner", 3))
			if stamped := mpiJob(t, "v2beta1", "inner").GetAnnotations()["mlbatch.dev/submitted-version"]; (stamped == "v1") != (version == "v1") {
				t.Errorf("it runs as %q", stamped)
			}
			eventually(t, "it succeeds", inPhase(t, string(aw.AppWrapperSucceeded), "blue", "wrapped"))
			awaitEmpty(t, "blue")
		})
	}
}
