package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	ray "github.com/mlbatch/mlbatch/api/ray/v1"
	trainer "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/test/rig"
)

// patience is how long a test waits for something that must happen. It is long
// because the machine may be slow; nothing waits for it when all is well.
const patience = 90 * time.Second

// killController ends the controller as a machine that fails does. Another one is started, and
// answers webhooks before the next test begins.
func killController(t testing.TB) {
	t.Helper()
	back, err := cluster.Kill(t.Context(), "controller")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := back(withoutCancel(t)); err != nil {
			t.Errorf("the controller did not come back: %v", err)
		}
	})
}

// asUser is who asks which API server.
type asUser struct {
	cluster    *rig.Cluster
	host, name string
}

// clients are kept, an asUser each: a new one asks first of all what the API server serves, which
// takes both of them longer than what tests ask for twenty times a second.
var clients sync.Map

// user returns a client that acts as a user; "" is the admin.
func user(t testing.TB, name string) client.Client {
	t.Helper()
	cfg := rest.CopyConfig(cluster.RESTConfig())
	key := asUser{cluster, cfg.Host, name}
	if kept, ok := clients.Load(key); ok {
		return kept.(client.Client)
	}
	cfg.QPS = -1
	if name != "" {
		cfg.Impersonate = rest.ImpersonationConfig{UserName: name}
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	clients.Store(key, c)
	return c
}

// sample creates one of the tutorial's jobs as its user and returns its name.
func sample(t testing.TB, c client.Client, file, namespace string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "examples", "tutorial", file+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return create(t, c, string(data), namespace)
}

// create makes the object that a manifest describes and returns its name.
func create(t testing.TB, c client.Client, manifest, namespace string) string {
	t.Helper()
	o, err := tryCreate(t, c, manifest, namespace)
	if err != nil {
		t.Fatalf("create %s: %v", o.GetKind(), err)
	}
	return o.GetName()
}

func tryCreate(
	t testing.TB,
	c client.Client,
	manifest, namespace string,
) (*unstructured.Unstructured, error) {
	t.Helper()
	var o unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		t.Fatalf("manifest: %v\n%s", err, manifest)
	}
	if namespace != "" {
		o.SetNamespace(namespace)
	}
	err := c.Create(t.Context(), &o)
	if err == nil && o.GetNamespace() != "" {
		made := o.DeepCopy()
		t.Cleanup(func() {
			_ = c.Delete(context.Background(), made, client.PropagationPolicy(metav1.DeletePropagationBackground))
		})
	}
	return &o, err
}

// eventually waits until check returns "", as rig.Await does, and fails with the last answer.
func eventually(t testing.TB, what string, check func() string) {
	t.Helper()
	err := rig.Await(t.Context(), patience, func(context.Context) error {
		if not := check(); not != "" {
			return errors.New(not)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", what, err, story(t), queuesAsServed(t))
	}
}

// queuesAsServed is what the controller counts in its queues, be the statuses of these what they may.
func queuesAsServed(t testing.TB) string {
	t.Helper()
	out, err := cluster.Run(withoutCancel(t), "queue")
	return fmt.Sprintf("mlbatch queue: %v\n%s", err, out)
}

// always checks that something holds as long as until has not happened.
func always(t testing.TB, what string, holds, until func() string) {
	t.Helper()
	eventually(t, what, func() string {
		if broken := holds(); broken != "" {
			t.Fatalf("%s: %s\n%s", what, broken, story(t))
		}
		return until()
	})
}

// wrapper reads an AppWrapper.
func wrapper(t testing.TB, namespace, name string) *aw.AppWrapper {
	t.Helper()
	var w aw.AppWrapper
	if err := user(t, "").Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &w); err != nil {
		t.Fatalf("get appwrapper %s/%s: %v", namespace, name, err)
	}
	return &w
}

// phases returns the phases of AppWrappers, in the order of their names given.
func phases(t testing.TB, namespace string, names ...string) []string {
	t.Helper()
	var all aw.AppWrapperList // all at one moment
	if err := user(t, "").List(t.Context(), &all, client.InNamespace(namespace)); err != nil {
		t.Fatalf("list appwrappers in %s: %v", namespace, err)
	}
	out := make([]string, 0, len(names))
	for _, n := range names {
		at := slices.IndexFunc(all.Items, func(w aw.AppWrapper) bool { return w.Name == n })
		if at < 0 {
			t.Fatalf("appwrapper %s/%s is gone", namespace, n)
		}
		out = append(out, string(all.Items[at].Status.Phase))
	}
	return out
}

// inPhase is a check that all AppWrappers are in a phase.
func inPhase(tb testing.TB, phase, namespace string, names ...string) func() string {
	tb.Helper()
	return func() string {
		got := phases(tb, namespace, names...)
		if slices.ContainsFunc(got, func(p string) bool { return p != phase }) {
			return fmt.Sprintf("phases of %v are %v, want all %s", names, got, phase)
		}
		return ""
	}
}

// workloadOf reads the Workload of a job.
func workloadOf(t testing.TB, namespace, owner string) *kueue.Workload {
	t.Helper()
	var all kueue.WorkloadList
	if err := user(t, "").List(t.Context(), &all, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		if o := metav1.GetControllerOf(&all.Items[i]); o != nil && o.Name == owner {
			return &all.Items[i]
		}
	}
	return nil
}

// itsWorkload is workloadOf where there is one, or will be in a moment.
func itsWorkload(t testing.TB, namespace, owner string) *kueue.Workload {
	t.Helper()
	var w *kueue.Workload
	eventually(t, owner+" has a Workload", func() string {
		if w = workloadOf(t, namespace, owner); w == nil {
			return "it has none"
		}
		return ""
	})
	return w
}

// waits is a check that the job's Workload waits, with words in its reason.
func waits(tb testing.TB, namespace, owner string, words ...string) func() string {
	tb.Helper()
	return func() string {
		w := workloadOf(tb, namespace, owner)
		if w == nil {
			return "it has no workload yet"
		}
		c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadQuotaReserved)
		if c == nil || c.Status != metav1.ConditionFalse {
			return fmt.Sprintf("QuotaReserved is %+v, want False", c)
		}
		for _, word := range words {
			if !strings.Contains(c.Reason+": "+c.Message, word) {
				return fmt.Sprintf("the reason %q does not say %q", c.Reason+": "+c.Message, word)
			}
		}
		return ""
	}
}

// pods returns the unfinished pods in a namespace, of one AppWrapper or Job if named.
func pods(t testing.TB, namespace, owner string) []corev1.Pod {
	t.Helper()
	var all corev1.PodList
	if err := user(t, "").List(t.Context(), &all, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all.Items, func(p corev1.Pod) bool {
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		other := owner != "" && p.Labels[aw.AppWrapperLabel] != owner && p.Labels[batchv1.JobNameLabel] != owner
		return ended || other
	})
}

// awaitEmpty waits until a namespace is empty, so that tests do not see each other.
func awaitEmpty(t testing.TB, namespaces ...string) {
	t.Helper()
	c := user(t, "")
	for _, ns := range namespaces {
		for _, o := range append(trainingObjects(), &aw.AppWrapper{}, &batchv1.Job{}, &ray.RayService{}, &ray.RayJob{}, &ray.RayCluster{}, &trainer.TrainJob{}) {
			if err := c.DeleteAllOf(
				t.Context(),
				o,
				client.InNamespace(ns),
				client.PropagationPolicy(metav1.DeletePropagationBackground),
			); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "the cluster becomes empty", func() string {
		for _, ns := range namespaces {
			var ws kueue.WorkloadList
			if err := c.List(t.Context(), &ws, client.InNamespace(ns)); err != nil {
				return err.Error()
			}
			var aws aw.AppWrapperList
			if err := c.List(t.Context(), &aws, client.InNamespace(ns)); err != nil {
				return err.Error()
			}
			if n := len(pods(t, ns, "")); n+len(ws.Items)+len(aws.Items) > 0 {
				return fmt.Sprintf(
					"%d workloads, %d appwrappers and %d pods are left in %s",
					len(ws.Items),
					len(aws.Items),
					n,
					ns,
				)
			}
		}
		return ""
	})
}

// story is what the cluster looks like, for failures.
func story(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	c := user(t, "")
	var ws kueue.WorkloadList
	var aws aw.AppWrapperList
	var ps corev1.PodList
	var es corev1.EventList
	for _, l := range []client.ObjectList{&ws, &aws, &ps, &es} {
		if err := c.List(context.Background(), l); err != nil {
			fmt.Fprintf(&b, "list: %v\n", err)
		}
	}
	for _, w := range aws.Items {
		fmt.Fprintf(
			&b,
			"appwrapper %s/%s phase=%s suspend=%v\n",
			w.Namespace,
			w.Name,
			w.Status.Phase,
			w.Spec.Suspend,
		)
	}
	for _, w := range ws.Items {
		fmt.Fprintf(&b, "workload %s/%s\n", w.Namespace, w.Name)
		for _, c := range w.Status.Conditions {
			fmt.Fprintf(&b, "    %s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	for _, p := range ps.Items {
		fmt.Fprintf(&b, "pod %s/%s %s on %q", p.Namespace, p.Name, p.Status.Phase, p.Spec.NodeName)
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
				fmt.Fprintf(&b, ": %s", c.Message)
			}
		}
		b.WriteString("\n")
	}
	slices.SortFunc(
		es.Items,
		func(a, b corev1.Event) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) },
	)
	for _, e := range es.Items[max(len(es.Items)-40, 0):] {
		fmt.Fprintf(
			&b,
			"event %s %s/%s %s: %s\n",
			e.CreationTimestamp.Format(time.TimeOnly),
			e.InvolvedObject.Kind,
			e.InvolvedObject.Name,
			e.Reason,
			e.Message,
		)
	}
	return b.String()
}

// withoutCancel is the test's context, usable in cleanups.
func withoutCancel(tb testing.TB) context.Context {
	tb.Helper()
	return context.WithoutCancel(tb.Context())
}

// jobSucceeded is "" once a Job is complete.
func jobSucceeded(t testing.TB, c client.Client, namespace, name string) string {
	t.Helper()
	var j batchv1.Job
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &j); err != nil {
		return err.Error()
	}
	for _, cond := range j.Status.Conditions {
		if cond.Type == batchv1.JobComplete && cond.Status == corev1.ConditionTrue {
			return ""
		}
	}
	return fmt.Sprintf("job %s has %d of %d pods done", name, j.Status.Succeeded, *j.Spec.Completions)
}

func isFinished(w *kueue.Workload) bool {
	return apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadFinished)
}
