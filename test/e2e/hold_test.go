package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Attacks on the one rule of what a job holds: quota and place are held exactly
// while an unfinished pod of it exists or may come to exist, whatever made it.

// stubborn is a pod template of one GPU whose container ignores the signal to end
// for a day.
const stubborn = `
      metadata:
        labels: {app: stubborn}
        annotations: {mlbatch.dev/run-for: forever, mlbatch.dev/stop-after: 24h}
      spec:
        RESTART
        terminationGracePeriodSeconds: 86400
        containers: [{name: c, image: busybox, command: [sleep, "1000000"], resources: {limits: {nvidia.com/gpu: 1}}}]`

// wrapped is an AppWrapper of one object.
func wrapped(name, queue, object string) string {
	return fmt.Sprintf(`
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: %s}}
spec:
  components:
  - template:
%s
`, name, queue, indent(object, "      "))
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+by)
}

// mallory may do in a namespace what the cluster lets everybody do who edits
// there.
func mallory(t *testing.T, namespace string) client.Client {
	t.Helper()
	at := metav1.ObjectMeta{Namespace: namespace, Name: "mallory"}
	for _, o := range []client.Object{
		&rbacv1.Role{ObjectMeta: at, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"", "apps", "batch", "workload.codeflare.dev"}, Verbs: []string{"*"},
			Resources: []string{"pods", "deployments", "jobs", "appwrappers"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: at, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "mallory"}},
			RoleRef: rbacv1.RoleRef{Kind: "Role", APIGroup: rbacv1.GroupName, Name: "mallory"},
		},
	} {
		if err := user(t, "").Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the API server knows what mallory may", func() string {
		if !may(t, "mallory", "create", "workload.codeflare.dev", "appwrappers", "", namespace) {
			return "she may not create AppWrappers yet"
		}
		return ""
	})
	return user(t, "mallory")
}

// removeAll lets nothing of an attack stay, whatever keeps it.
func removeAll(t *testing.T, namespace string) {
	t.Helper()
	c, ctx := user(t, ""), withoutCancel(t)
	t.Cleanup(func() {
		background := client.PropagationPolicy(metav1.DeletePropagationBackground)
		for _, o := range []client.Object{&aw.AppWrapper{}, &batchv1.Job{}} {
			_ = c.DeleteAllOf(ctx, o, client.InNamespace(namespace), background)
		}
		var jobs batchv1.JobList
		_ = c.List(ctx, &jobs, client.InNamespace(namespace))
		for i := range jobs.Items {
			_ = c.Patch(
				ctx,
				&jobs.Items[i],
				client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)),
			)
		}
		for range 100 {
			var all corev1.PodList
			if err := c.List(ctx, &all, client.InNamespace(namespace)); err == nil && len(all.Items) == 0 {
				return
			}
			for i := range all.Items {
				_ = c.Patch(
					ctx,
					&all.Items[i],
					client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)),
				)
				_ = c.Delete(ctx, &all.Items[i], client.GracePeriodSeconds(0))
			}
		}
	})
}

// holding are the pods that have a node and have not ended.
func holding(t *testing.T, namespace string) (out []corev1.Pod) {
	t.Helper()
	for _, p := range pods(t, namespace, "") {
		if p.Spec.NodeName != "" {
			out = append(out, p)
		}
	}
	return out
}

// atMost is a check that so many pods of a namespace hold a place, and no more.
func atMost(tb testing.TB, namespace string, n int) func() string {
	tb.Helper()
	return func() string {
		var all corev1.PodList
		if err := user(tb, "").List(tb.Context(), &all, client.InNamespace(namespace)); err != nil {
			return ""
		}
		var have []string
		for _, p := range all.Items {
			if p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				have = append(have, p.Name)
			}
		}
		if len(have) > n {
			return fmt.Sprintf("%d pods hold places, quota is for %d: %v", len(have), n, have)
		}
		return ""
	}
}

// A tenant deletes the pods of his job again and again. They ignore the signal
// to end, so that each replacement would be one more that runs.
func TestDeletedPodsKeepTheirPlaces(t *testing.T) {
	const ns = "greedy"
	lab(t, ns, map[corev1.ResourceName]string{gpu: "2"}, "greedy")
	tenant := mallory(t, ns)
	removeAll(t, ns)
	create(t, tenant, wrapped("wrap", "greedy", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: hoard}
spec:
  replicas: 1
  selector: {matchLabels: {app: stubborn}}
  template:`+strings.ReplaceAll(strings.Replace(stubborn, "        RESTART\n", "", 1), "\n      ", "\n    ")), ns)
	create(t, tenant, `
apiVersion: batch/v1
kind: Job
metadata: {name: plain, labels: {kueue.x-k8s.io/queue-name: greedy}}
spec:
  template:`+strings.ReplaceAll(strings.NewReplacer("RESTART", "restartPolicy: Never", "86400", "40").Replace(stubborn), "\n      ", "\n    "), ns)
	eventually(t, "both run", func() string { // a pod that has not begun is gone at once
		running := 0
		for _, p := range holding(t, ns) {
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running != 2 {
			return fmt.Sprintf("%d pods", running)
		}
		return ""
	})
	for _, whose := range []string{"", "wrap", "wrap"} { // a Job waits longer from one to the next
		for _, p := range pods(t, ns, whose) {
			if err := tenant.Delete(t.Context(), &p); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
		}
		always(t, "no pod more than quota", atMost(t, ns, 2), func() string {
			waiting, want := 0, map[string]int{"": 2, "wrap": 1}[whose]
			for _, p := range pods(t, ns, whose) {
				if c := scheduledCondition(
					&p,
				); p.Spec.NodeName == "" && p.DeletionTimestamp == nil && c != nil &&
					strings.Contains(c.Message, "was deleted and keeps its place on node") {
					waiting++
				}
			}
			if waiting != want {
				return fmt.Sprintf("%d replacements wait for the places of deleted pods, want %d", waiting, want)
			}
			return ""
		})
	}
	// Another's nominal quota finds its place: no team has more than its own.
	const victim = "victim"
	lab(t, victim, map[corev1.ResourceName]string{gpu: "22"}, "victim")
	removeAll(t, victim)
	create(
		t,
		user(t, ""),
		labJob(
			"wide",
			"labels: {kueue.x-k8s.io/queue-name: victim}",
			"parallelism: 22\n  completions: 22",
			"resources: {limits: {nvidia.com/gpu: 1}}",
		),
		victim,
	)
	always(t, "a job within its nominal quota runs", atMost(t, ns, 2), jobPods(t, victim, "wide", 22))
	eventually(t, "on its places", func() string {
		if n := len(holding(t, victim)); n != 22 {
			return fmt.Sprintf("%d of 22 pods have nodes", n)
		}
		return ""
	})
	// What waits is woken when a place is free.
	for _, p := range holding(t, ns) {
		if err := tenant.Delete(t.Context(), &p, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the replacements run", func() string {
		n := 0
		for _, p := range holding(t, ns) {
			if p.DeletionTimestamp == nil {
				n++
			}
		}
		if n != 2 {
			return fmt.Sprintf("%d of 2 replacements have nodes", n)
		}
		return ""
	})
}

func scheduledCondition(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c
		}
	}
	return nil
}

// released is "" once a job's Workload has no quota.
func released(t *testing.T, namespace, job string) string {
	t.Helper()
	if w := workloadOf(t, namespace, job); w != nil && w.Status.Admission != nil && !isFinished(w) {
		return "its Workload holds quota"
	}
	return ""
}

// A tenant puts finalizers on what runs, so that nothing of it ever goes.
func TestFinalizersHoldNoQuota(t *testing.T) {
	const ns = "sticky"
	lab(t, ns, map[corev1.ResourceName]string{gpu: "2"}, "sticky")
	tenant := mallory(t, ns)
	removeAll(t, ns)
	template := strings.NewReplacer(
		"RESTART",
		"restartPolicy: Never",
		"stop-after: 24h",
		"stop-after: 10ms",
		"86400",
		"1",
	).
		Replace(stubborn)
	create(t, tenant, wrapped("wrap", "sticky", `
apiVersion: batch/v1
kind: Job
metadata: {name: inner}
spec:
  template:`+strings.ReplaceAll(template, "\n      ", "\n    ")), ns)
	create(t, tenant, `
apiVersion: batch/v1
kind: Job
metadata: {name: plain, labels: {kueue.x-k8s.io/queue-name: sticky}}
spec:
  template:`+strings.ReplaceAll(template, "\n      ", "\n    "), ns)
	eventually(t, "both run", func() string {
		if n := len(holding(t, ns)); n != 2 {
			return fmt.Sprintf("%d pods", n)
		}
		return ""
	})
	stick := func(o client.Object) {
		t.Helper()
		patch := client.RawPatch(
			"application/merge-patch+json",
			fmt.Appendf(nil, `{"metadata":{"finalizers":%s}}`, `["example.com/hold"]`),
		)
		if err := user(t, "").Patch(t.Context(), o, patch); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range pods(t, ns, "") {
		stick(&p)
	}
	for _, name := range []string{"inner", "plain"} {
		stick(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}})
	}
	if err := tenant.Delete(
		t.Context(),
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "plain"}},
		client.PropagationPolicy(metav1.DeletePropagationBackground),
	); err != nil {
		t.Fatal(err)
	}
	for _, job := range []string{"wrap", "plain"} { // an administrator wants the quota back
		edit(t, user(t, ""), itsWorkload(t, ns, job), func(w *kueue.Workload) { w.Spec.Active = new(false) })
	}
	for _, job := range []string{"wrap", "plain"} {
		eventually(t, job+" gives its quota back", func() string { return released(t, ns, job) })
	}
	if n := len(holding(t, ns)); n != 0 {
		t.Errorf("%d pods run without quota", n)
	}
	var inner batchv1.Job
	if err := user(t, "").Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "inner"}, &inner); err != nil ||
		inner.DeletionTimestamp == nil {
		t.Errorf("the wrapped Job: %v, deleted %v; the finalizer should keep it", err, inner.DeletionTimestamp)
	}
	w := wrapper(t, ns, "wrap")
	if err := tenant.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the AppWrapper goes", func() string { return stillThere(t, w) })
}

func stillThere(t *testing.T, o client.Object) string {
	t.Helper()
	err := user(t, "").Get(t.Context(), client.ObjectKeyFromObject(o), o)
	if apierrors.IsNotFound(err) {
		return ""
	}
	return fmt.Sprintf("%s is still there (%v), finalizers %v", o.GetName(), err, o.GetFinalizers())
}

// A tenant's Job says that it is a part of his running AppWrapper.
func TestForgedOwner(t *testing.T) {
	const ns = "forger"
	lab(t, ns, map[corev1.ResourceName]string{gpu: "1"}, "forger")
	tenant := mallory(t, ns)
	removeAll(t, ns)
	template := strings.ReplaceAll(
		strings.NewReplacer("RESTART", "restartPolicy: Never", "86400", "1", "stop-after: 24h", "stop-after: 10ms").
			Replace(stubborn),
		"\n      ",
		"\n    ",
	)
	create(t, tenant, wrapped("wrap", "forger", `
apiVersion: batch/v1
kind: Job
metadata: {name: inner}
spec:
  template:`+template), ns)
	eventually(t, "the AppWrapper runs, and its Job is recorded", func() string {
		components := wrapper(t, ns, "wrap").Status.ComponentStatus
		if n := len(holding(t, ns)); n != 1 || len(components) != 1 || components[0].UID == "" {
			return fmt.Sprintf("%d pods, of components %+v", n, components)
		}
		return ""
	})
	owner := wrapper(t, ns, "wrap")
	create(t, tenant, fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata:
  name: free
  labels: {kueue.x-k8s.io/queue-name: forger}
  ownerReferences: [{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, name: wrap, uid: %s, controller: true}]
spec:
  template:%s`, owner.UID, template), ns)
	start := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":false}}`))
	for range 3 {
		if err := tenant.Patch(
			t.Context(),
			&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "free"}},
			start,
		); err != nil {
			t.Fatal(err)
		}
	}
	always(t, "it runs for nothing", atMost(t, ns, 1), waits(t, ns, "free", "WaitingForQuota"))
}

// AppWrappers that are deleted in the foreground go, with their quota.
func TestForegroundDeletion(t *testing.T) {
	const ns, n = "foreground", 12
	lab(t, ns, map[corev1.ResourceName]string{"cpu": "4"}, "foreground")
	removeAll(t, ns)
	admin := user(t, "")
	var names []string
	for i := range n {
		names = append(names, create(t, admin, wrapped(fmt.Sprintf("wrap-%d", i), "foreground", fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: inner-%d}
spec:
  template:
    metadata: {annotations: {mlbatch.dev/stop-after: 10ms}}
    spec:
      restartPolicy: Never
      containers: [{name: c, image: busybox, command: [sleep, "600"], resources: {requests: {cpu: 100m}}}]`, i)), ns))
	}
	eventually(t, "all run", inPhase(t, "Running", ns, names...))
	for _, name := range names {
		w := &aw.AppWrapper{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		if err := admin.Delete(
			t.Context(),
			w,
			client.PropagationPolicy(metav1.DeletePropagationForeground),
		); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "nothing is left", func() string {
		var ws kueue.WorkloadList
		var aws aw.AppWrapperList
		for _, l := range []client.ObjectList{&ws, &aws} {
			if err := admin.List(context.Background(), l, client.InNamespace(ns)); err != nil {
				return err.Error()
			}
		}
		if len(ws.Items)+len(aws.Items) > 0 {
			return fmt.Sprintf("%d Workloads and %d AppWrappers", len(ws.Items), len(aws.Items))
		}
		return ""
	})
}

// A running Job is asked for more pods than it was admitted with: it is
// queued again for all of them, and says why.
func TestJobThatGrowsIsQueuedForAllItsPods(t *testing.T) {
	const ns = "grows"
	lab(t, ns, map[corev1.ResourceName]string{"cpu": "4"}, "grows")
	removeAll(t, ns)
	admin := user(t, "")
	create(
		t,
		admin,
		labJob(
			"wide",
			"labels: {kueue.x-k8s.io/queue-name: grows}",
			"parallelism: 1",
			"resources: {requests: {cpu: 1}}",
		),
		ns,
	)
	eventually(t, "it runs", jobPods(t, ns, "wide", 1))
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "wide"}}
	edit(t, admin, j, func(j *batchv1.Job) { j.Spec.Parallelism = ptr.To[int32](20) })
	eventually(t, "it waits for all, and says so", waits(t, ns, "wide", "request 20 > maximum capacity (4)"))
	eventually(t, "none hangs", jobPods(t, ns, "wide", 0))
	edit(t, admin, j, func(j *batchv1.Job) { j.Spec.Parallelism = ptr.To[int32](3) })
	eventually(t, "what there is quota for runs", jobPods(t, ns, "wide", 3))
}
