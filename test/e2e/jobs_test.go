package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// lab makes a namespace of no team with a ClusterQueue of its own, which gives
// these amounts of the default flavor, behind LocalQueues of these names.
func lab(
	t *testing.T,
	namespace string,
	quota map[corev1.ResourceName]string,
	queues ...kueue.LocalQueueName,
) client.Client {
	t.Helper()
	admin := user(t, "")
	group := kueue.ResourceGroup{Flavors: []kueue.FlavorQuotas{{Name: "default-flavor"}}}
	for _, name := range slices.Sorted(maps.Keys(quota)) {
		group.CoveredResources = append(group.CoveredResources, name)
		group.Flavors[0].Resources = append(
			group.Flavors[0].Resources,
			kueue.ResourceQuota{Name: name, NominalQuota: resource.MustParse(quota[name])},
		)
	}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: kueue.ClusterQueueSpec{
			ResourceGroups: []kueue.ResourceGroup{group}, NamespaceSelector: &metav1.LabelSelector{},
		}},
	}
	for _, q := range queues {
		objects = append(objects, &kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: string(q)},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: kueue.ClusterQueueReference(namespace)},
		})
	}
	for _, o := range objects {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
	t.Cleanup(func() {
		for _, o := range slices.Backward(objects[1:]) {
			_ = admin.Delete(withoutCancel(t), o)
		}
	})
	return admin
}

// labJob is a Job with lines for its metadata, its spec and its container.
func labJob(name, metadata, spec, container string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s, %s}
spec:
  %s
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: busybox, command: [sleep, "600"], %s}]
`, name, metadata, spec, container)
}

func edit[T client.Object](t *testing.T, c client.Client, o T, change func(T)) {
	t.Helper()
	eventually(t, "edit "+o.GetName(), func() string {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err.Error()
		}
		change(o)
		if err := c.Update(t.Context(), o); err != nil {
			return err.Error()
		}
		return ""
	})
}

// jobPods is a check that a Job has so many unfinished pods.
func jobPods(tb testing.TB, namespace, job string, n int) func() string {
	tb.Helper()
	return func() string {
		if got := len(pods(tb, namespace, job)); got != n {
			return fmt.Sprintf("%d pods, want %d", got, n)
		}
		return ""
	}
}

// What counts against quota is what the namespace's LimitRange fills in and the
// installation's transformations make of it; pods still get what they ask for.
func TestRequestsAreCounted(t *testing.T) {
	admin := lab(
		t,
		"scratch",
		map[corev1.ResourceName]string{"cpu": "4", "example.com/scratch": "15"},
		kueue.DefaultLocalQueueName,
	)
	limits := &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: "scratch", Name: "small"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{
				Type:           corev1.LimitTypeContainer,
				DefaultRequest: corev1.ResourceList{"cpu": resource.MustParse("1")},
				Max:            corev1.ResourceList{"cpu": resource.MustParse("2")},
			},
		}},
	}
	if err := admin.Create(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	const tenGB = `resources: {requests: {ephemeral-storage: 10G}}`
	// They name no queue: the namespace has a default one.
	create(t, admin, labJob("first", "labels: {example.com/project: p}", "", tenGB), "scratch")
	eventually(t, "the first runs", jobPods(t, "scratch", "first", 1))
	w := itsWorkload(t, "scratch", "first")
	usage := w.Status.Admission.PodSetAssignments[0].ResourceUsage
	if cpu, units := usage["cpu"], usage["example.com/scratch"]; cpu.String() != "1" || units.String() != "10" ||
		len(usage) != 2 {
		t.Errorf("it counts %v, want 1 of cpu and 10 of scratch", usage)
	}
	if w.Labels["example.com/project"] != "p" {
		t.Errorf("labels of the workload are %v", w.Labels)
	}
	p := pods(t, "scratch", "first")[0]
	if q := p.Spec.Containers[0].Resources.Requests["ephemeral-storage"]; q.String() != "10G" {
		t.Errorf("the pod requests %s of ephemeral-storage", q.String())
	}
	if p.Labels[kueue.ClusterQueueNameLabel] != "scratch" || p.Labels[kueue.LocalQueueNameLabel] != "default" {
		t.Errorf("labels of the pod are %v", p.Labels)
	}

	create(t, admin, labJob("second", "", "", tenGB), "scratch")
	eventually(
		t,
		"the second waits for scratch",
		waits(t, "scratch", "second", "WaitingForQuota", "example.com/scratch", "5 more needed"),
	)
	asked := itsWorkload(t, "scratch", "second").Status.ResourceRequests
	if len(asked) != 1 || asked[0].Resources.Cpu().String() != "1" {
		t.Errorf("it asks for %+v", asked)
	}

	create(t, admin, labJob("wide", "", "", `resources: {limits: {cpu: 3}}`), "scratch")
	eventually(
		t,
		"the wide one cannot run",
		waits(t, "scratch", "wide", "Misconfigured", "ask for at most 2 (LimitRange small)"),
	)
	edit(t, admin, limits, func(l *corev1.LimitRange) {
		l.Spec.Limits[0].Max["cpu"] = resource.MustParse("3")
		l.Spec.Limits[0].Default["cpu"] = resource.MustParse("3")
	})
	eventually(t, "the rule was changed, so it runs", jobPods(t, "scratch", "wide", 1))
}

// A Job that can do with fewer pods starts with those that quota allows, and is
// as its author wrote it when it stops.
func TestPartialAdmission(t *testing.T) {
	admin := lab(t, "partial", map[corev1.ResourceName]string{"cpu": "3"}, "q")
	create(t, admin, labJob(
		"part",
		`labels: {kueue.x-k8s.io/queue-name: q}, annotations: {kueue.x-k8s.io/job-min-parallelism: "2", kueue.x-k8s.io/job-completions-equal-parallelism: "true"}`,
		"parallelism: 5\n  completions: 5\n  completionMode: Indexed",
		"resources: {limits: {cpu: 1}}",
	), "partial")
	eventually(t, "three of five pods run", jobPods(t, "partial", "part", 3))
	size := func(want int32, suspended bool) func() string {
		return func() string {
			var j batchv1.Job
			if err := admin.Get(
				t.Context(),
				types.NamespacedName{Namespace: "partial", Name: "part"},
				&j,
			); err != nil {
				return err.Error()
			}
			if *j.Spec.Parallelism != want || *j.Spec.Completions != want || *j.Spec.Suspend != suspended {
				return fmt.Sprintf(
					"parallelism %d, completions %d, suspended %v",
					*j.Spec.Parallelism,
					*j.Spec.Completions,
					*j.Spec.Suspend,
				)
			}
			return ""
		}
	}
	eventually(t, "it has the size it was given", size(3, false))
	w := itsWorkload(t, "partial", "part")
	edit(t, admin, w, func(w *kueue.Workload) { w.Spec.Active = new(false) })
	eventually(t, "stopped, it has its own size", size(5, true))
	edit(
		t,
		admin,
		&kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "partial"}},
		func(q *kueue.ClusterQueue) {
			q.Spec.ResourceGroups[0].Flavors[0].Resources[0].NominalQuota = resource.MustParse("9")
		},
	)
	edit(t, admin, w, func(w *kueue.Workload) { w.Spec.Active = new(true) })
	eventually(t, "with more quota it runs whole", size(5, false))
	eventually(t, "with all its pods", jobPods(t, "partial", "part", 5))
}

// A waiting Job moves to another queue, and one with a gate
// waits until the gate is open.
func TestQueueMoveAndGates(t *testing.T) {
	admin := lab(t, "moving", map[corev1.ResourceName]string{"cpu": "8"}, "closed", "open")
	edit(
		t,
		admin,
		&kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "moving", Name: "closed"}},
		func(q *kueue.LocalQueue) {
			q.Spec.StopPolicy = new(kueue.StopPolicyHold)
		},
	)
	create(t, admin, labJob(
		"mover",
		`labels: {kueue.x-k8s.io/queue-name: closed}, annotations: {kueue.x-k8s.io/admission-gated-by: "example.com/a,example.com/b"}`,
		"",
		"resources: {limits: {cpu: 1}}",
	), "moving")
	gated := waits(t, "moving", "mover", "AdmissionGated")
	eventually(t, "it is gated", gated)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "moving", Name: "mover"}}
	edit(t, admin, j, func(j *batchv1.Job) { j.Labels[kueue.QueueNameLabel] = "open" })
	edit(t, admin, j, func(j *batchv1.Job) { j.Annotations[kueue.AdmissionGatedByAnnotation] = "example.com/b" })
	eventually(t, "its workload moves, and is still gated", func() string {
		w := itsWorkload(t, "moving", "mover")
		if w.Spec.QueueName != "open" || w.Annotations[kueue.AdmissionGatedByAnnotation] != "example.com/b" {
			return fmt.Sprintf(
				"queue %s, gated by %q",
				w.Spec.QueueName,
				w.Annotations[kueue.AdmissionGatedByAnnotation],
			)
		}
		return gated()
	})
	j.Annotations[kueue.AdmissionGatedByAnnotation] = "example.com/c"
	if err := admin.Update(t.Context(), j); err == nil || !strings.Contains(err.Error(), "only be removed") {
		t.Errorf("another gate: %v", err)
	}
	edit(t, admin, j, func(j *batchv1.Job) { delete(j.Annotations, kueue.AdmissionGatedByAnnotation) })
	eventually(t, "all agreed, so it runs", jobPods(t, "moving", "mover", 1))
	move := []byte(`{"metadata":{"labels":{"` + kueue.QueueNameLabel + `":"closed"}}}`)
	if err := admin.Patch(
		t.Context(),
		j,
		client.RawPatch(types.MergePatchType, move),
	); err == nil ||
		!strings.Contains(err.Error(), kueue.QueueNameLabel) {
		t.Errorf("a running Job moved: %v", err)
	}
}

// A Job takes over a Workload that was made beforehand, whichever comes first.
func TestPrebuiltWorkload(t *testing.T) {
	admin := lab(t, "prebuilt", map[corev1.ResourceName]string{"cpu": "8"}, "q")
	create(
		t,
		admin,
		labJob("late", `labels: {kueue.x-k8s.io/queue-name: q, kueue.x-k8s.io/prebuilt-workload-name: made-before}`,
			"parallelism: 2\n  completions: 2", "resources: {limits: {cpu: 1}}"),
		"prebuilt",
	)
	create(t, admin, `
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: made-before}
spec:
  queueName: q
  podSets: [{name: main, count: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox, resources: {limits: {cpu: 1}}}]}}}]
`, "prebuilt")
	eventually(t, "it runs on the workload made before", jobPods(t, "prebuilt", "late", 2))
	if w := workloadOf(t, "prebuilt", "late"); w == nil || w.Name != "made-before" {
		t.Errorf("its workload is %+v", w)
	}
	create(t, admin, `
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: for-others}
spec:
  queueName: q
  podSets: [{name: main, count: 1, template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox, resources: {limits: {cpu: 1}}}]}}}]
`, "prebuilt")
	create(
		t,
		admin,
		labJob(
			"greedy",
			`labels: {kueue.x-k8s.io/queue-name: q, kueue.x-k8s.io/prebuilt-workload-name: for-others}`,
			"parallelism: 3\n  completions: 3",
			"resources: {limits: {cpu: 1}}",
		),
		"prebuilt",
	)
	eventually(t, "it is for other pods", func() string {
		w := workloadOf(t, "prebuilt", "greedy")
		if w == nil || !isFinished(w) {
			return "the workload has not ended"
		}
		return jobPods(t, "prebuilt", "greedy", 0)()
	})
}
