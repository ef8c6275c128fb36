package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	past "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// labQueue refers to the ClusterQueue that lab made.
func labQueue(name string) *kueue.ClusterQueue {
	return &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// active is a check that the queues of a lab are active or not, and say why.
func active(
	t *testing.T,
	c client.Client,
	name string,
	status metav1.ConditionStatus,
	queue, door string,
) func() string {
	t.Helper()
	return func() string {
		var q kueue.ClusterQueue
		var d kueue.LocalQueue
		if err := c.Get(t.Context(), types.NamespacedName{Name: name}, &q); err != nil {
			return err.Error()
		}
		if err := c.Get(t.Context(), types.NamespacedName{Namespace: name, Name: "q"}, &d); err != nil {
			return err.Error()
		}
		for _, has := range []struct {
			list   []metav1.Condition
			reason string
		}{{q.Status.Conditions, queue}, {d.Status.Conditions, door}} {
			if a := apimeta.FindStatusCondition(
				has.list,
				kueue.ClusterQueueActive,
			); a == nil || a.Status != status ||
				a.Reason != has.reason {
				return fmt.Sprintf("Active is %+v, want %s %s", a, status, has.reason)
			}
		}
		return ""
	}
}

// onlyPod is the one unfinished pod of a job.
func onlyPod(t *testing.T, namespace, job string) corev1.Pod {
	t.Helper()
	all := pods(t, namespace, job)
	if len(all) != 1 {
		t.Fatalf("job %s has %d pods, want 1\n%s", job, len(all), story(t))
	}
	return all[0]
}

// runsOn fails if a job's pod is not the one it had.
func runsOn(t *testing.T, namespace, job string, was corev1.Pod) {
	t.Helper()
	if is := onlyPod(t, namespace, job); is.UID != was.UID || is.DeletionTimestamp != nil {
		t.Errorf("job %s was disturbed: its pod is another one, or being deleted", job)
	}
}

const oneCPU = "resources: {limits: {cpu: 1}}"

// unguarded has the webhook of cohorts overlook one, as when two people edit at
// the same moment.
func unguarded(t *testing.T, c client.Client, cohort string) {
	t.Helper()
	var all unstructured.UnstructuredList
	all.SetAPIVersion("admissionregistration.k8s.io/v1")
	all.SetKind("ValidatingWebhookConfigurationList")
	if err := c.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	overlook := []any{map[string]any{"name": "test", "expression": "request.name != '" + cohort + "'"}}
	for i := range all.Items {
		hooks, _, _ := unstructured.NestedSlice(all.Items[i].Object, "webhooks")
		for _, h := range hooks {
			hook := h.(map[string]any)
			if name, _ := hook["name"].(string); !strings.HasPrefix(name, "vcohort.") {
				continue
			}
			conditions, _ := hook["matchConditions"].([]any)
			before := all.Items[i].DeepCopy()
			hook["matchConditions"] = append(overlook, conditions...)
			if err := unstructured.SetNestedSlice(all.Items[i].Object, hooks, "webhooks"); err != nil {
				t.Fatal(err)
			}
			if err := c.Patch(t.Context(), &all.Items[i], client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				hook["matchConditions"] = conditions
				now := all.Items[i].DeepCopy()
				if err := unstructured.SetNestedSlice(now.Object, hooks, "webhooks"); err != nil {
					t.Error(err)
				}
				if err := c.Patch(withoutCancel(t), now, client.MergeFrom(&all.Items[i])); err != nil {
					t.Error(err)
				}
			})
			return
		}
	}
	t.Fatal("cohorts have no webhook")
}

// A cohort that is its own ancestor disables the queues below it, with a
// condition; what runs goes on, and all heals when it is mended.
func TestCohortCycle(t *testing.T) {
	admin := lab(t, "ring", map[corev1.ResourceName]string{"cpu": "4"}, "q")
	upper := &kueue.Cohort{ObjectMeta: metav1.ObjectMeta{Name: "ring-upper"}}
	lower := &kueue.Cohort{
		ObjectMeta: metav1.ObjectMeta{Name: "ring-lower"},
		Spec:       kueue.CohortSpec{ParentName: "ring-upper"},
	}
	for _, c := range []*kueue.Cohort{upper, lower} {
		if err := admin.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.Delete(withoutCancel(t), c) })
	}
	edit(t, admin, labQueue("ring"), func(q *kueue.ClusterQueue) { q.Spec.CohortName = "ring-lower" })
	create(t, admin, labJob("before", "labels: {kueue.x-k8s.io/queue-name: q}", "", oneCPU), "ring")
	eventually(t, "it runs", jobPods(t, "ring", "before", 1))
	pod := onlyPod(t, "ring", "before")

	unguarded(t, admin, "ring-upper")
	edit(t, admin, upper, func(c *kueue.Cohort) { c.Spec.ParentName = "ring-lower" })
	eventually(
		t,
		"its members are disabled",
		active(t, admin, "ring", metav1.ConditionFalse, "CohortCycle", kueue.ReasonClusterQueueIsInactive),
	)
	create(t, admin, labJob("during", "labels: {kueue.x-k8s.io/queue-name: q}", "", oneCPU), "ring")
	eventually(t, "new jobs wait", waits(t, "ring", "during", "form a cycle"))
	runsOn(t, "ring", "before", pod)

	edit(t, admin, upper, func(c *kueue.Cohort) { c.Spec.ParentName = "" })
	eventually(
		t,
		"they heal",
		active(t, admin, "ring", metav1.ConditionTrue, kueue.ReasonReady, kueue.ReasonReady),
	)
	eventually(t, "the job that waited runs", jobPods(t, "ring", "during", 1))
	runsOn(t, "ring", "before", pod)
}

// Another value of a priority class counts for all jobs of the class: those that
// wait change places, those that run go on.
func TestPriorityClassChanges(t *testing.T) {
	admin := lab(t, "ranks", map[corev1.ResourceName]string{"cpu": "1"}, "q")
	low := &kueue.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "ranks-low"}, Value: 10}
	high := &kueue.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "ranks-high"}, Value: 20}
	for _, c := range []*kueue.WorkloadPriorityClass{low, high} {
		if err := admin.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.Delete(withoutCancel(t), c) })
	}
	submit := func(name, class string) {
		create(
			t,
			admin,
			labJob(
				name,
				"labels: {kueue.x-k8s.io/queue-name: q, kueue.x-k8s.io/priority-class: "+class+"}",
				"",
				oneCPU,
			),
			"ranks",
		)
	}
	submit("first", "ranks-low")
	eventually(t, "the first runs", jobPods(t, "ranks", "first", 1))
	pod := onlyPod(t, "ranks", "first")
	submit("lesser", "ranks-low")
	submit("greater", "ranks-high")
	eventually(t, "the lesser waits", waits(t, "ranks", "lesser", "WaitingForQuota"))
	eventually(t, "the greater waits", waits(t, "ranks", "greater", "WaitingForQuota"))

	edit(t, admin, low, func(c *kueue.WorkloadPriorityClass) { c.Value = 30 })
	for _, name := range []string{"first", "lesser"} {
		eventually(t, name+" has the new value", func() string {
			if p := itsWorkload(t, "ranks", name).Spec.Priority; *p != 30 {
				return fmt.Sprintf("its priority is %d", *p)
			}
			return ""
		})
	}
	runsOn(t, "ranks", "first", pod)
	finish(t, admin, pod)
	eventually(t, "the job that was the lesser is next", jobPods(t, "ranks", "lesser", 1))
	if d := waits(t, "ranks", "greater")(); d != "" {
		t.Errorf("the job that was the greater: %s", d)
	}
}

// A stopped queue, of either kind, takes back what is only reserved; what was
// admitted runs on, unless the queue is drained; and all comes back when it is
// started.
func TestStopPolicies(t *testing.T) {
	admin := user(t, "")
	checked(t, admin)
	quota := func(n string) func(*kueue.ClusterQueue) {
		return func(q *kueue.ClusterQueue) {
			q.Spec.ResourceGroups[0].Flavors[0].Resources[0].NominalQuota = resource.MustParse(n)
		}
	}
	queue := labQueue("checked-cluster-queue")
	door := &kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "checked"}}
	edit(t, admin, queue, quota("2"))
	defer func() { // not a cleanup: it needs the test's context
		awaitEmpty(t, "blue")
		edit(t, admin, queue, quota("1"))
	}()
	answering(t, admin, metav1.ConditionTrue)
	for _, name := range []string{"ruled", "asking"} {
		create(t, admin, fmt.Sprintf(checkedJob, name), "blue")
		eventually(t, name+" has quota", func() string { return reservedOnly(t, name) })
	}
	stop := map[string]func(kueue.StopPolicy){
		"ClusterQueue": func(p kueue.StopPolicy) {
			edit(t, admin, queue, func(q *kueue.ClusterQueue) { q.Spec.StopPolicy = &p })
		},
		"LocalQueue": func(p kueue.StopPolicy) {
			edit(t, admin, door, func(q *kueue.LocalQueue) { q.Spec.StopPolicy = &p })
		},
	}
	for _, kind := range []string{"ClusterQueue", "LocalQueue"} {
		for _, policy := range []kueue.StopPolicy{kueue.StopPolicyHold, kueue.StopPolicyHoldAndDrain} {
			answer(t, admin, "ruled", kueue.CheckStateReady)
			eventually(t, "one runs", func() string { return jobRuns(t, "ruled", 1) })
			pod := onlyPod(t, "blue", "ruled")
			what := fmt.Sprintf("%s of the %s: ", policy, kind)
			stop[kind](policy)
			eventually(t, what+"the reservation is gone", waits(t, "blue", "asking", "Suspended"))
			if policy == kueue.StopPolicyHoldAndDrain {
				eventually(
					t,
					what+"it is drained",
					func() string { return told(t, admin, "ruled", "EvictedDueTo"+kind+"Stopped") },
				)
				eventually(t, what+"its pod is gone", jobPods(t, "blue", "ruled", 0))
				eventually(t, what+"it waits", waits(t, "blue", "ruled", "stopped"))
			}
			stop[kind](kueue.StopPolicyNone)
			eventually(
				t,
				what+"started, the workload that asked asks again",
				func() string { return reservedOnly(t, "asking") },
			)
			if policy == kueue.StopPolicyHold {
				runsOn(t, "blue", "ruled", pod)
				continue
			}
			eventually(
				t,
				what+"started, the workload that was drained is back",
				func() string { return is(t, admin, "ruled", kueue.WorkloadRequeued, "True", kind+"Restarted") },
			)
			eventually(t, what+"and asks anew", func() string { return reservedOnly(t, "ruled") })
		}
	}
}

// Which namespaces a queue serves follows its selector and their labels at once.
func TestNamespaceSelector(t *testing.T) {
	admin := lab(t, "chosen", map[corev1.ResourceName]string{"cpu": "4"}, "q")
	selects := func(tier string) {
		edit(t, admin, labQueue("chosen"), func(q *kueue.ClusterQueue) {
			q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"example.com/tier": tier}}
		})
	}
	selects("gold")
	create(t, admin, labJob("first", "labels: {kueue.x-k8s.io/queue-name: q}", "", oneCPU), "chosen")
	eventually(
		t,
		"its namespace is not selected",
		waits(t, "chosen", "first", "Misconfigured", "namespaceSelector"),
	)
	edit(
		t,
		admin,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "chosen"}},
		func(n *corev1.Namespace) { n.Labels["example.com/tier"] = "gold" },
	)
	eventually(t, "its namespace got the label", jobPods(t, "chosen", "first", 1))
	pod := onlyPod(t, "chosen", "first")
	selects("silver")
	create(t, admin, labJob("second", "labels: {kueue.x-k8s.io/queue-name: q}", "", oneCPU), "chosen")
	eventually(
		t,
		"the queue serves others now",
		waits(t, "chosen", "second", "Misconfigured", "namespaceSelector"),
	)
	runsOn(t, "chosen", "first", pod)
	selects("gold")
	eventually(t, "the queue serves it again", jobPods(t, "chosen", "second", 1))
}

// A job that its admission contradicts stays as it is until its author changes
// it; then it is queued anew.
func TestCouldNotStart(t *testing.T) {
	admin := user(t, "")
	checked(t, admin)
	answering(t, admin, metav1.ConditionTrue)
	manifest := strings.Replace(
		checkedJob,
		"restartPolicy: Never",
		"restartPolicy: Never\n      nodeSelector: {kubernetes.io/hostname: node-2}",
		1,
	)
	create(t, admin, fmt.Sprintf(manifest, "torn"), "blue")
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "torn"}}
	eventually(t, "it has quota", func() string { return reservedOnly(t, "torn") })
	answer(t, admin, "torn", kueue.CheckStateReady, func(c *kueue.AdmissionCheckState) {
		c.PodSetUpdates = []kueue.PodSetUpdate{
			{Name: "main", NodeSelector: map[string]string{"kubernetes.io/hostname": "node-1"}},
		}
	})
	eventually(
		t,
		"it cannot start",
		func() string { return is(t, admin, "torn", kueue.WorkloadFinished, "True", kueue.ReasonFailedToStart) },
	)
	eventually(t, "its end is recorded", func() string {
		if slices.Contains(itsWorkload(t, "blue", "torn").Finalizers, past.Finalizer) {
			return "its Workload waits for that"
		}
		return ""
	})
	ended := itsWorkload(t, "blue", "torn")
	killController(t)
	edit(t, admin, j, func(j *batchv1.Job) {
		metav1.SetMetaDataAnnotation(&j.ObjectMeta, "example.com/note", "no change of its pods")
	})
	create(t, admin, fmt.Sprintf(checkedJob, "other"), "blue")
	eventually(t, "its quota is another's", func() string { return reservedOnly(t, "other") })
	if w := workloadOf(
		t,
		"blue",
		"torn",
	); w == nil || w.UID != ended.UID ||
		w.ResourceVersion != ended.ResourceVersion {
		t.Errorf("its workload was touched: %+v", w)
	}
	if err := admin.Delete(
		t.Context(),
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "other"}},
		client.PropagationPolicy(metav1.DeletePropagationBackground),
	); err != nil {
		t.Fatal(err)
	}
	edit(t, admin, j, func(j *batchv1.Job) { j.Spec.Template.Spec.NodeSelector = nil })
	eventually(t, "mended, it is queued anew", func() string { return reservedOnly(t, "torn") })
	answer(t, admin, "torn", kueue.CheckStateReady)
	eventually(t, "and runs", func() string { return jobRuns(t, "torn", 1) })
	awaitEmpty(t, "blue")
}

// A job that was stopped asks for the pods that are left, not for those that are
// done.
func TestStoppedJobAsksForWhatIsLeft(t *testing.T) {
	admin := lab(t, "halfway", map[corev1.ResourceName]string{"cpu": "3"}, "q")
	create(
		t,
		admin,
		labJob("long", "labels: {kueue.x-k8s.io/queue-name: q}", "parallelism: 3\n  completions: 3", oneCPU),
		"halfway",
	)
	eventually(t, "three pods run", func() string {
		for _, p := range pods(t, "halfway", "long") {
			if p.Status.Phase != corev1.PodRunning {
				return "pod " + p.Name + " does not run"
			}
		}
		return jobPods(t, "halfway", "long", 3)()
	})
	finish(t, admin, pods(t, "halfway", "long")[0])
	eventually(t, "one is done", func() string {
		if r := itsWorkload(t, "halfway", "long").Status.ReclaimablePods; len(r) != 1 || r[0].Count != 1 {
			return fmt.Sprintf("reclaimable pods are %+v", r)
		}
		return ""
	})
	w := itsWorkload(t, "halfway", "long")
	edit(t, admin, w, func(w *kueue.Workload) { w.Spec.Active = new(false) })
	eventually(t, "it is stopped", func() string {
		if w := itsWorkload(t, "halfway", "long"); w.Status.Admission != nil {
			return "it has quota"
		}
		return jobPods(t, "halfway", "long", 0)()
	})
	edit(t, admin, labQueue("halfway"), func(q *kueue.ClusterQueue) {
		q.Spec.ResourceGroups[0].Flavors[0].Resources[0].NominalQuota = resource.MustParse("2")
	})
	edit(t, admin, w, func(w *kueue.Workload) { w.Spec.Active = new(true) })
	eventually(t, "quota for two is enough", jobPods(t, "halfway", "long", 2))
	eventually(t, "they have nodes", func() string {
		for _, p := range pods(t, "halfway", "long") {
			if p.Spec.NodeName == "" {
				return "pod " + p.Name + " has no node"
			}
		}
		return ""
	})
}
