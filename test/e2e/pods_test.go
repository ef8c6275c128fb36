package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// queuedPod is a pod with GPUs that runs so many simulated seconds, with lines for its
// labels, its annotations and its spec.
func queuedPod(name string, gpus, seconds int, labels, annotations, spec string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: default-queue, %s}, annotations: {%s}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  %s
  containers:
  - {name: c, image: busybox, command: [sleep, "%d"], resources: {limits: {nvidia.com/gpu: %d}}}
`, name, labels, annotations, spec, seconds, gpus)
}

// groupPods are the pods of a group, called like it with a number.
func groupPods(group string, count, gpus, seconds int, spec string) []string {
	out := make([]string, count)
	for i := range out {
		out[i] = queuedPod(
			fmt.Sprintf("%s-%d", group, i),
			gpus,
			seconds,
			"kueue.x-k8s.io/pod-group-name: "+group,
			fmt.Sprintf("kueue.x-k8s.io/pod-group-total-count: %q", fmt.Sprint(count)),
			spec,
		)
	}
	return out
}

// named are the pods of a namespace whose names begin in some way.
func named(t testing.TB, namespace, prefix string) []corev1.Pod {
	t.Helper()
	var all corev1.PodList
	if err := user(t, "").List(t.Context(), &all, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all.Items, func(p corev1.Pod) bool { return !strings.HasPrefix(p.Name, prefix) })
}

// inState is a check that so many pods run, and so many are held.
func inState(tb testing.TB, namespace, prefix string, running, held int) func() string {
	tb.Helper()
	return func() string {
		r, h := 0, 0
		for _, p := range named(tb, namespace, prefix) {
			switch {
			case p.DeletionTimestamp != nil:
			case p.Status.Phase == corev1.PodRunning:
				r++
			case len(p.Spec.SchedulingGates) > 0:
				h++
			}
		}
		if r != running || h != held {
			return fmt.Sprintf("%d pods run and %d are held, want %d and %d", r, h, running, held)
		}
		return ""
	}
}

// nothingLeft is a check that nothing is left of pods and of their Workload.
func nothingLeft(tb testing.TB, namespace, prefix, workload string) func() string {
	tb.Helper()
	return func() string {
		if left := named(tb, namespace, prefix); len(left) > 0 {
			return fmt.Sprintf("%d pods are left, the first with finalizers %v", len(left), left[0].Finalizers)
		}
		var w kueue.Workload
		err := user(tb, "").Get(tb.Context(), client.ObjectKey{Namespace: namespace, Name: workload}, &w)
		if !apierrors.IsNotFound(err) {
			return fmt.Sprintf("Workload %s is there: %v", workload, err)
		}
		return ""
	}
}

// deployed is a Deployment or StatefulSet whose pods ask for GPUs.
func deployed(kind, name string, replicas, gpus int, metadata string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: %s
metadata: {name: %s, %s}
spec:
  replicas: %d
  selector: {matchLabels: {app: %s}}
  %s
  template:
    metadata: {labels: {app: %s}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: busybox, command: [sleep, "1000000"], resources: {limits: {nvidia.com/gpu: %d}}}]
`, kind, name, metadata, replicas, name, map[string]string{"StatefulSet": "serviceName: " + name}[kind], name, gpus)
}

const inDefaultQueue = "labels: {kueue.x-k8s.io/queue-name: default-queue}"

// reserved is how many GPUs a namespace's ClusterQueue of the same name has given.
func reserved(tb testing.TB, queue string, want int64) func() string {
	tb.Helper()
	return func() string {
		var q kueue.ClusterQueue
		if err := user(tb, "").Get(tb.Context(), client.ObjectKey{Name: queue}, &q); err != nil {
			return err.Error()
		}
		got := int64(0)
		for _, f := range q.Status.FlavorsReservation {
			for _, r := range f.Resources {
				got += r.Total.Value()
			}
		}
		if got != want {
			return fmt.Sprintf("%d GPUs are reserved, want %d", got, want)
		}
		return ""
	}
}

// The pods of a Deployment wait one by one, and go on one by one as quota comes back.
func TestDeploymentRunsAsQuotaAllows(t *testing.T) {
	admin := lab(t, "served", map[corev1.ResourceName]string{"nvidia.com/gpu": "2"}, "default-queue")
	create(t, admin, deployed("Deployment", "web", 3, 1, inDefaultQueue), "served")
	eventually(t, "two of three pods run", inState(t, "served", "web", 2, 1))
	eventually(t, "and have all the quota", reserved(t, "served", 2))
	if err := admin.Patch(
		t.Context(),
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "served", Name: "web"}},
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":1}}`)),
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "scaled down, one is left", inState(t, "served", "web", 1, 0))
	eventually(t, "with its quota only", reserved(t, "served", 1))
	one := named(t, "served", "web")[0]
	if err := admin.Delete(t.Context(), &one); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another pod takes its place", func() string {
		for _, p := range named(t, "served", "web") {
			if p.UID != one.UID && p.Status.Phase == corev1.PodRunning {
				return ""
			}
		}
		return "none runs"
	})
	var d appsv1.Deployment
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "served", Name: "web"}, &d); err != nil {
		t.Fatal(err)
	}
	generation := d.Generation
	for range 2 { // from the server's side, twice
		if err := apply(t, admin, deployed("Deployment", "web", 1, 1, inDefaultQueue), "served"); err != nil {
			t.Fatal(err)
		}
	}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "served", Name: "web"}, &d); err != nil {
		t.Fatal(err)
	}
	if d.Generation != generation || d.Spec.Template.Labels[kueue.QueueNameLabel] != "default-queue" {
		t.Errorf(
			"applied again it changed from generation %d to %d, its pods have labels %v",
			generation,
			d.Generation,
			d.Spec.Template.Labels,
		)
	}
	if err := admin.Delete(
		t.Context(),
		&d,
		client.PropagationPolicy(metav1.DeletePropagationBackground),
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it leaves no pod and holds no quota", func() string {
		if n := len(named(t, "served", "web")); n > 0 {
			return fmt.Sprintf("%d pods are left", n)
		}
		return reserved(t, "served", 0)()
	})
}

// apply writes a manifest as kubectl apply --server-side does.
func apply(t *testing.T, c client.Client, manifest, namespace string) error {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		t.Fatal(err)
	}
	o.SetNamespace(namespace)
	return c.Apply(
		t.Context(),
		client.ApplyConfigurationFromUnstructured(o),
		client.FieldOwner("kubectl"),
		client.ForceOwnership,
	)
}

// A StatefulSet starts once there is quota for all its pods. What it is scaled up by
// waits by itself, and what it is scaled down by gives quota back.
func TestStatefulSetIsScaled(t *testing.T) {
	admin := lab(t, "stateful", map[corev1.ResourceName]string{"nvidia.com/gpu": "4"}, "default-queue")
	withoutPods(t, admin, "stateful")
	create(t, admin, queuedPod("first", 3, 1000000, "", "", ""), "stateful")
	eventually(t, "another pod runs", inState(t, "stateful", "first", 1, 0))
	create(t, admin, deployed("StatefulSet", "db", 2, 1, inDefaultQueue), "stateful")
	eventually(t, "its first pod is held", inState(t, "stateful", "db", 0, 1))
	always(t, "one of two GPUs does not do", inState(t, "stateful", "db", 0, 1), func() string {
		w := groupOf(t, "stateful", "statefulset-db")
		if w == nil || w.Spec.PodSets[0].Count != 2 {
			return "it has no Workload of two pods"
		}
		if c := apimeta.FindStatusCondition(
			w.Status.Conditions,
			kueue.WorkloadQuotaReserved,
		); c == nil ||
			c.Status != metav1.ConditionFalse {
			return fmt.Sprintf("QuotaReserved is %v", c)
		}
		return ""
	})
	if err := admin.Delete(
		t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "stateful", Name: "first"}},
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both pods run", inState(t, "stateful", "db", 2, 0))
	scale := func(n int) {
		t.Helper()
		if err := admin.Patch(
			t.Context(),
			&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "stateful", Name: "db"}},
			client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)),
		); err != nil {
			t.Fatal(err)
		}
	}
	scale(5)
	eventually(t, "four of five pods run, the quota is used up", inState(t, "stateful", "db", 4, 1))
	eventually(t, "it is", reserved(t, "stateful", 4))
	scale(1)
	eventually(t, "one pod is left", inState(t, "stateful", "db", 1, 0))
	eventually(t, "with its quota only", reserved(t, "stateful", 1))
	scale(0)
	eventually(t, "nothing holds quota", reserved(t, "stateful", 0))
	scale(2)
	eventually(t, "both pods run again", inState(t, "stateful", "db", 2, 0))
	eventually(t, "with quota for both", reserved(t, "stateful", 2))
}

// groupOf is the Workload of a group whose name begins in some way.
func groupOf(t testing.TB, namespace, prefix string) *kueue.Workload {
	t.Helper()
	var all kueue.WorkloadList
	if err := user(t, "").List(t.Context(), &all, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		if strings.HasPrefix(all.Items[i].Name, prefix) {
			return &all.Items[i]
		}
	}
	return nil
}

// The Jobs of a CronJob wait in the queue that it names.
func TestJobsOfCronJobsAreQueued(t *testing.T) {
	awaitEmpty(t, "blue")
	alice := user(t, "alice")
	name := create(t, alice, `
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, `+inDefaultQueue+`}
spec:
  schedule: "* * * * *"
  concurrencyPolicy: Forbid
  jobTemplate: {spec: {template: {spec: `+fmt.Sprintf(podSpec, "Never")+`}}}
`, "blue")
	eventually(t, "a Job of it was admitted", func() string {
		var all batchv1.JobList
		if err := alice.List(t.Context(), &all, client.InNamespace("blue")); err != nil {
			return err.Error()
		}
		for i := range all.Items {
			j := &all.Items[i]
			if !strings.HasPrefix(j.Name, name) || j.Labels[kueue.QueueNameLabel] != "default-queue" {
				continue
			}
			if w := workloadOf(t, "blue", j.Name); w == nil || w.Status.Admission == nil {
				return "its Job is not admitted"
			}
			return jobRuns(t, j.Name, 1)
		}
		return "it made no Job in its queue"
	})
}

// withoutPods empties a namespace of pods when a test ends.
func withoutPods(t *testing.T, c client.Client, namespace string) {
	t.Helper()
	t.Cleanup(func() { _ = c.DeleteAllOf(withoutCancel(t), &corev1.Pod{}, client.InNamespace(namespace)) })
}

// A group starts as a whole or not at all, ends with its last pod and leaves nothing.
func TestPodGroupStartsAsAWhole(t *testing.T) {
	admin := lab(t, "pods", map[corev1.ResourceName]string{"nvidia.com/gpu": "4"}, "default-queue")
	withoutPods(t, admin, "pods")
	first := groupPods("first", 3, 1, 6000, "")
	for _, m := range first[:2] {
		create(t, admin, m, "pods")
	}
	always(t, "a group that lacks a pod is held", inState(t, "pods", "first", 0, 2), func() string {
		var es corev1.EventList
		if err := admin.List(t.Context(), &es, client.InNamespace("pods")); err != nil {
			return err.Error()
		}
		if !slices.ContainsFunc(es.Items, func(e corev1.Event) bool {
			return e.Reason == "GroupIncomplete" &&
				strings.Contains(e.Message, "waits until all of its 3 pods are created")
		}) {
			return "nobody is told what it waits for"
		}
		return ""
	})
	create(t, admin, first[2], "pods")
	eventually(t, "all pods of the group run", inState(t, "pods", "first", 3, 0))
	for _, m := range groupPods("second", 2, 1, 60, "") {
		create(t, admin, m, "pods")
	}
	always(t, "there is quota for one of two: none runs", inState(t, "pods", "second", 0, 2), func() string {
		var w kueue.Workload
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "pods", Name: "second"}, &w); err != nil {
			return err.Error()
		}
		if c := apimeta.FindStatusCondition(
			w.Status.Conditions,
			kueue.WorkloadQuotaReserved,
		); c == nil ||
			c.Status != metav1.ConditionFalse {
			return fmt.Sprintf("QuotaReserved is %v", c)
		}
		return ""
	})
	if err := admin.DeleteAllOf(
		t.Context(),
		&corev1.Pod{},
		client.InNamespace("pods"),
		client.MatchingLabels{kueue.PodGroupNameLabel: "first"},
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first group is gone", nothingLeft(t, "pods", "first", "first"))
	eventually(t, "the second one ran to its end", func() string {
		var w kueue.Workload
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "pods", Name: "second"}, &w); err != nil {
			return err.Error()
		}
		if c := apimeta.FindStatusCondition(
			w.Status.Conditions,
			kueue.WorkloadFinished,
		); c == nil ||
			c.Reason != kueue.ReasonSucceeded {
			return fmt.Sprintf("Finished is %v", c)
		}
		for _, p := range named(t, "pods", "second") {
			if len(p.Finalizers) > 0 {
				return fmt.Sprintf("pod %s has finalizers %v", p.Name, p.Finalizers)
			}
		}
		return ""
	})
}

// A group makes room for a more important pod, and is gone then.
func TestPodGroupIsPreempted(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	admin := user(t, "")
	withoutPods(t, admin, "blue")
	for _, m := range groupPods("low", 3, 8, 6000, "priorityClassName: low-priority") {
		create(t, admin, m, "blue")
	}
	eventually(t, "the group runs", inState(t, "blue", "low", 3, 0))
	create(t, admin, queuedPod("urgent", 8, 60, "", "", "priorityClassName: high-priority"), "blue")
	eventually(t, "the group is gone", nothingLeft(t, "blue", "low", "low"))
	eventually(t, "the important pod had its turn", func() string {
		for _, p := range named(t, "blue", "urgent") {
			if p.Status.Phase == corev1.PodSucceeded && len(p.Finalizers) == 0 {
				return ""
			}
		}
		return "it has not succeeded"
	})
}

// A manifest that is applied again, from the server's side, takes away nothing that
// holds a pod or starts it.
func TestPodAppliedAgain(t *testing.T) {
	awaitEmpty(t, "blue")
	withoutPods(t, user(t, ""), "blue")
	alice := user(t, "alice")
	text := strings.Replace(queuedPod("again", 1, 1000000, "", "", ""), "default-queue", "nowhere", 1)
	for range 2 {
		if err := apply(t, alice, text, "blue"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "it is held", inState(t, "blue", "again", 0, 1))
	text = strings.Replace(text, "nowhere", "default-queue", 1)
	if err := apply(t, alice, text, "blue"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "in the right queue it runs", inState(t, "blue", "again", 1, 0))
	if err := apply(t, alice, text, "blue"); err != nil {
		t.Fatal(err)
	}
	p := named(t, "blue", "again")[0]
	if !slices.Contains(p.Finalizers, kueue.PodFinalizer) || p.Annotations[kueue.WorkloadAnnotation] == "" ||
		p.Labels[kueue.ManagedLabel] != "true" {
		t.Errorf("it lost what it is known by: %v %v %v", p.Finalizers, p.Labels, p.Annotations)
	}
}

// A pod that says that it belongs to a running job waits as any other one, and
// nobody but the admission takes its gate.
func TestForgedOwnerIsQueued(t *testing.T) {
	awaitEmpty(t, "blue")
	admin := user(t, "")
	withoutPods(t, admin, "blue")
	create(
		t,
		admin,
		`{apiVersion: batch/v1, kind: Job, metadata: {name: real, labels: {kueue.x-k8s.io/queue-name: default-queue}}, spec: {template: {spec: `+
			fmt.Sprintf(
				podSpec,
				"Never",
			)+`}}}`,
		"blue",
	)
	eventually(t, "a Job runs", jobPods(t, "blue", "real", 1))
	eventually(t, "its pod runs", func() string { return jobRuns(t, "real", 1) })
	theirs := pods(t, "blue", "real")[0]
	if slices.Contains(theirs.Finalizers, kueue.PodFinalizer) || theirs.Labels[kueue.ManagedLabel] != "" {
		t.Error("a pod of a Job that is queued already was queued again")
	}
	forged := queuedPod(
		"forged",
		1,
		6000,
		"",
		kueue.WorkloadAnnotation+": "+theirs.Annotations[kueue.WorkloadAnnotation],
		"",
	)
	forged = strings.Replace(
		forged,
		"metadata: {name: forged,",
		"metadata: {name: forged, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: real, controller: true, uid: "+
			string(
				theirs.OwnerReferences[0].UID,
			)+"}],",
		1,
	)
	forged = strings.Replace(
		forged,
		"kueue.x-k8s.io/queue-name: default-queue",
		"kueue.x-k8s.io/queue-name: nowhere",
		1,
	)
	create(t, admin, forged, "blue")
	eventually(t, "it is held", inState(t, "blue", "forged", 0, 1))
	var p corev1.Pod
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "forged"}, &p); err != nil {
		t.Fatal(err)
	}
	if p.Annotations[kueue.WorkloadAnnotation] != "" {
		t.Error("it still names the Job's Workload")
	}
	alice := user(t, "alice")
	for name, change := range map[string]struct {
		o     client.Object
		patch string
	}{
		"takes the gate":               {&p, `{"spec":{"schedulingGates":null}}`},
		"takes the finalizer":          {&p, `{"metadata":{"finalizers":null}}`},
		"frees a running pod":          {&theirs, `{"metadata":{"ownerReferences":null,"annotations":{"kueue.x-k8s.io/workload":null}}}`},
		"binds it":                     {&p, `{"spec":{"nodeName":"node-0"}}`},
		"says that a job has admitted": {&p, `{"metadata":{"annotations":{"kueue.x-k8s.io/workload":"w"}}}`},
	} {
		err := alice.Patch(t.Context(), change.o, client.RawPatch(types.MergePatchType, []byte(change.patch)))
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			t.Errorf("alice %s: %v", name, err)
		}
	}
	counted := strings.Replace(
		jobManifest,
		"  template:\n",
		"  template:\n    metadata: {annotations: {kueue.x-k8s.io/workload: "+theirs.Annotations[kueue.WorkloadAnnotation]+"}}\n",
		1,
	)
	if _, err := tryCreate(t, alice, counted, "blue"); !apierrors.IsInvalid(err) {
		t.Errorf("alice makes a Job whose pods are counted with another one: %v", err)
	}
}

// The controller dies while a group starts, and again while it ends: the count is
// right and nothing is left.
func TestPodGroupSurvivesTheController(t *testing.T) {
	admin := lab(t, "killed", map[corev1.ResourceName]string{"nvidia.com/gpu": "4"}, "default-queue")
	withoutPods(t, admin, "killed")
	group := groupPods("g", 4, 1, 100, "")
	for i, m := range group {
		if i == 2 {
			killController(t)
		}
		eventually(t, "create a pod while the controller comes back", func() string {
			if _, err := tryCreate(t, admin, m, "killed"); err != nil && !apierrors.IsAlreadyExists(err) {
				return err.Error()
			}
			return ""
		})
	}
	eventually(t, "a pod of it runs", func() string {
		for _, p := range named(t, "killed", "g") {
			if p.Status.Phase != corev1.PodPending {
				return ""
			}
		}
		return "none does"
	})
	killController(t)
	if err := admin.Delete(
		t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "killed", Name: "g-0"}},
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a pod takes the place of the deleted one, or it had succeeded", func() string {
		var p corev1.Pod
		err := admin.Get(t.Context(), client.ObjectKey{Namespace: "killed", Name: "g-0"}, &p)
		switch {
		case err == nil && p.Status.Phase == corev1.PodSucceeded:
			return ""
		case err == nil:
			return "it ends still"
		}
		again := strings.Replace(group[0], "name: g-0", "name: g-again", 1)
		if _, err := tryCreate(t, admin, again, "killed"); err != nil && !apierrors.IsAlreadyExists(err) {
			return err.Error()
		}
		return ""
	})
	eventually(t, "the group ends well", func() string {
		var w kueue.Workload
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "killed", Name: "g"}, &w); err != nil {
			return err.Error()
		}
		if c := apimeta.FindStatusCondition(
			w.Status.Conditions,
			kueue.WorkloadFinished,
		); c == nil ||
			c.Reason != kueue.ReasonSucceeded {
			return fmt.Sprintf("Finished is %v", c)
		}
		return ""
	})
	if err := admin.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("killed")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is left", nothingLeft(t, "killed", "g", "g"))
}
