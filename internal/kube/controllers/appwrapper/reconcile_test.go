package appwrapper

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awv1beta2 "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
)

func TestLife(t *testing.T) {
	x := newWorld(t, wrapper(jobManifest))
	x.reconcileAll()
	if diff := cmp.Diff([]string{"status"}, x.writes); diff != "" {
		t.Errorf("waiting costs one write (-want +got)\n%s", diff)
	}
	x.admit()
	mark := len(x.writes)
	x.to("Running")
	if diff := cmp.Diff([]string{"status", "create Job", "status"}, x.since(mark)); diff != "" {
		t.Errorf("starting costs three writes (-want +got)\n%s", diff)
	}
	x.run(0, corev1.PodPending)
	mark = len(x.writes)
	x.reconcileAll()
	for _, p := range x.pods() {
		p.Status.Phase = corev1.PodRunning
		x.status(&p)
		x.reconcileAll()
	}
	if diff := cmp.Diff([]string{"status"}, x.since(mark)); diff != "" {
		t.Errorf("pods that start cost one write, however many they are (-want +got)\n%s", diff)
	}
	if x.recheck != 0 {
		t.Errorf("a running AppWrapper is looked at again after %s; it is watched", x.recheck)
	}
	x.finish()
	mark = len(x.writes)
	x.to("Succeeded")
	if diff := cmp.Diff([]string{"status"}, x.since(mark)); diff != "" {
		t.Errorf("ending costs one write (-want +got)\n%s", diff)
	}
	want := "QuotaReserved=False/Succeeded ResourcesDeployed=True/Resuming PodsReady=False/Succeeded Unhealthy=False/Resuming"
	if got := x.conditions(); got != want {
		t.Errorf("conditions at the end\n%s\nwant\n%s", got, want)
	}
	if diff := cmp.Diff([]string(nil), x.told()); diff != "" {
		t.Errorf("the ordinary way is told by phases alone: events (-want +got)\n%s", diff)
	}
	x.clock.SetTime(x.clock.Now().Add(7 * 24 * time.Hour))
	x.reconcileAll()
	if len(x.jobs())+len(x.pods()) != 0 || x.phase() != "Succeeded" {
		t.Errorf("after a week %d jobs and %d pods are left, phase %s", len(x.jobs()), len(x.pods()), x.phase())
	}
	if got := testutil.ToFloat64(x.r.count.phases.WithLabelValues("blue", "Succeeded")); got != 1 {
		t.Errorf("appwrapper_phase_total for Succeeded is %v", got)
	}
}

func TestCreatedJob(t *testing.T) {
	x := running(t, jobManifest)
	jobs := x.jobs()
	if len(jobs) != 1 {
		t.Fatalf("%d jobs", len(jobs))
	}
	j := jobs[0]
	if !strings.HasPrefix(j.Name, "short-") || len(j.Name) != len("short-")+5 {
		t.Errorf("name %q is not made from the generateName", j.Name)
	}
	if !metav1.IsControlledBy(&j, x.get()) || j.Labels[awv1beta2.AppWrapperLabel] != "short" {
		t.Errorf("owner %v, labels %v", j.OwnerReferences, j.Labels)
	}
	if j.Spec.TTLSecondsAfterFinished != nil {
		t.Error("a Job that deletes itself would look as if a user deleted it")
	}
	status := x.get().Status.ComponentStatus
	if len(status) != 1 || status[0].Name != j.Name || *status[0].PodSets[0].Replicas != 2 ||
		status[0].Conditions[0].Reason != "ComponentCreatedSuccessfully" {
		t.Errorf("component status %+v", status)
	}
}

func TestBadNode(t *testing.T) {
	x := running(t, jobManifest)
	x.label("node-1", "EVICT")
	requests := x.r.onNode(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
	if len(requests) != 1 || requests[0].NamespacedName != x.key {
		t.Fatalf("the node leads to %v", requests)
	}
	mark := len(x.writes)
	if err := x.reconcile(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(
		[]string{"status", "delete Job", "delete Pod", "delete Pod"},
		x.since(mark),
	); diff != "" {
		t.Errorf("one look at a bad node must delete everything (-want +got)\n%s", diff)
	}
	if n := len(x.pods()); n != 0 {
		t.Errorf("%d pods are left", n)
	}
	x.to("Running")
	x.run(0, corev1.PodRunning)
	w := x.get()
	if w.Status.Retries != 0 {
		t.Errorf("moving off a node used %d retries", w.Status.Retries)
	}
	terms := x.pods()[0].Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 1 ||
		terms[0].MatchExpressions[0].Operator != corev1.NodeSelectorOpNotIn {
		t.Errorf("pods may come back to the node: %+v", terms)
	}
	if got := testutil.ToFloat64(x.r.count.resets.WithLabelValues("blue", "AutopilotNoExecute")); got != 1 {
		t.Errorf("appwrapper_resets_total is %v", got)
	}
}

func TestBadNodeWithoutGPUs(t *testing.T) {
	x := running(t, strings.ReplaceAll(jobManifest, "nvidia.com/gpu", "cpu"))
	x.label("node-1", "EVICT")
	x.reconcileAll()
	if x.phase() != "Running" {
		t.Errorf("pods without GPUs leave a node for its GPUs: %s", x.phase())
	}
}

func TestPreemption(t *testing.T) {
	x := running(t, jobManifest)
	hold(t, x)
	x.stop()
	x.reconcileAll()
	if x.phase() != "Suspending" || !strings.Contains(x.conditions(), "QuotaReserved=True") {
		t.Fatalf("while a pod ends: phase %s, %s", x.phase(), x.conditions())
	}
	letGo(t, x)
	x.to("Suspended")
	want := "QuotaReserved=False/Suspended ResourcesDeployed=False/Suspended PodsReady=False/Suspended Unhealthy=False/Suspended DeletingResources=False/DeletionCompleted"
	if got := x.conditions(); got != want {
		t.Errorf("conditions\n%s\nwant\n%s", got, want)
	}
	x.admit()
	x.to("Running")
	if name := x.jobs()[0].Name; x.created[name] != 2 {
		t.Errorf("created %v", x.created)
	}
}

const holder = "test/holds"

// hold keeps one pod from going when it is deleted.
func hold(t *testing.T, x *world) {
	t.Helper()
	p := x.pods()[0]
	p.Finalizers = []string{holder}
	if err := x.server.Update(t.Context(), &p); err != nil {
		t.Fatal(err)
	}
}

func letGo(t *testing.T, x *world) {
	t.Helper()
	for _, p := range x.pods() {
		p.Finalizers = nil
		if err := x.server.Update(t.Context(), &p); err != nil {
			t.Fatal(err)
		}
	}
}

func TestForcedDeletion(t *testing.T) {
	x := running(t, jobManifest)
	hold(t, x)
	x.stop()
	x.reconcileAll()
	x.told()
	x.clock.SetTime(x.clock.Now().Add(10 * time.Minute))
	mark := len(x.writes)
	for range 2 {
		if err := x.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"status", "delete Pod", "delete Pod"}, x.since(mark)); diff != "" {
		t.Errorf("every look forces again, the status tells it once (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"DeletionForced"}, x.told()); diff != "" {
		t.Errorf("events (-want +got)\n%s", diff)
	}
	if x.recheck != 5*time.Second || !strings.Contains(x.conditions(), "QuotaReserved=True") {
		t.Errorf("recheck %s, %s", x.recheck, x.conditions())
	}
}

func TestDeletion(t *testing.T) {
	x := running(t, jobManifest)
	if err := x.server.Delete(t.Context(), x.get()); err != nil {
		t.Fatal(err)
	}
	x.reconcileAll()
	if x.phase() != "gone" || len(x.jobs())+len(x.pods()) != 0 {
		t.Errorf("phase %s, %d jobs, %d pods", x.phase(), len(x.jobs()), len(x.pods()))
	}
}

func TestDeletionOfKindThatIsGone(t *testing.T) {
	w := wrapper(jobManifest, `{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"w"}}`)
	w.Finalizers = []string{awv1beta2.AppWrapperFinalizer}
	now := metav1.Now()
	w.DeletionTimestamp = &now
	w.Status.Phase = awv1beta2.AppWrapperRunning
	w.Status.ComponentStatus = []awv1beta2.AppWrapperComponentStatus{
		{Name: "w", Kind: "Widget", APIVersion: "example.org/v1"},
	}
	x := newWorld(t, w)
	x.r.live = noKind{x.server}
	x.reconcileAll()
	if x.phase() != "gone" {
		t.Errorf("an AppWrapper whose component's kind was deleted must still go: %s", x.phase())
	}
}

// noKind is an API server that does not know Widgets.
type noKind struct{ client.Reader }

func (n noKind) Get(
	ctx context.Context,
	key client.ObjectKey,
	o client.Object,
	opts ...client.GetOption,
) error {
	if gvk := o.GetObjectKind().GroupVersionKind(); gvk.Kind == "Widget" {
		return &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	}
	return n.Reader.Get(ctx, key, o, opts...)
}

func TestForeignObject(t *testing.T) {
	named := strings.ReplaceAll(jobManifest, `"generateName":"short-"`, `"name":"taken"`)
	cases := map[string]struct {
		why   string
		owner []metav1.OwnerReference
	}{
		"nobody's": {why: "an object that a user made is not ours to take or to delete"},
		"an earlier AppWrapper of the same name": {
			why: "owners are told apart by UID and not by name",
			owner: []metav1.OwnerReference{
				{
					APIVersion: "workload.codeflare.dev/v1beta2",
					Kind:       "AppWrapper",
					Name:       "short",
					UID:        "another",
					Controller: new(true),
				},
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			foreign := &batchv1.Job{
				ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "taken", OwnerReferences: c.owner},
			}
			x := newWorld(t, wrapper(named), foreign)
			x.reconcileAll()
			x.admit()
			x.to("Failed")
			x.reconcileAll()
			if len(x.jobs()) != 1 || !strings.Contains(x.conditions(), "Unhealthy=True/CreateFailed") ||
				strings.Contains(x.conditions(), "QuotaReserved=True") {
				t.Errorf("%s: %d jobs, %s", c.why, len(x.jobs()), x.conditions())
			}
		})
	}
}

func TestManagedByOthers(t *testing.T) {
	w := wrapper(jobManifest)
	w.Spec.ManagedBy = new("kueue.x-k8s.io/multikueue")
	w.Spec.Suspend = false
	x := newWorld(t, w)
	x.reconcileAll()
	if len(x.writes) != 0 {
		t.Errorf("wrote %v", x.writes)
	}
}

func TestMissingComponent(t *testing.T) {
	x := running(t, jobManifest, serviceManifest)
	if err := x.server.Delete(
		t.Context(),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "front"}},
	); err != nil {
		t.Fatal(err)
	}
	x.to("Failed")
	if !strings.Contains(x.conditions(), "Unhealthy=True/MissingComponent") {
		t.Error(x.conditions())
	}
}

func TestFailedJob(t *testing.T) {
	cases := map[string]struct {
		why, reason, phase string
		retries            int32
	}{
		"gave up":            {"another attempt may do better", "BackoffLimitExceeded", "Resetting", 1},
		"pod failure policy": {"the user's own policy says that it will not", "PodFailurePolicy", "Failed", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			x := running(t, jobManifest)
			x.jobCondition(batchv1.JobFailed, c.reason)
			x.reconcileAll()
			if w := x.get(); string(w.Status.Phase) != c.phase || w.Status.Retries != c.retries {
				t.Errorf("%s: phase %s, %d retries", c.why, w.Status.Phase, w.Status.Retries)
			}
		})
	}
}

func TestLaggingCache(t *testing.T) {
	notFound := func(o client.Object) error {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "jobs"}, o.GetName())
	}
	t.Run("of jobs", func(t *testing.T) {
		x := running(t, jobManifest)
		x.cache.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*batchv1.Job); ok {
				return notFound(o)
			}
			return c.Get(ctx, key, o, opts...)
		}
		x.reconcileAll()
		if x.phase() != "Running" {
			t.Errorf("a Job that the cache does not show yet is not missing: %s", x.phase())
		}
		x.stop()
		x.reconcileAll()
		if x.phase() != "Suspended" || len(x.jobs()) != 0 {
			t.Errorf("phase %s with %d jobs left", x.phase(), len(x.jobs()))
		}
	})
	t.Run("of pods", func(t *testing.T) {
		x := running(t, jobManifest)
		hold(t, x)
		x.cache.List = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil }
		x.stop()
		x.reconcileAll()
		if x.phase() != "Suspending" || !strings.Contains(x.conditions(), "QuotaReserved=True") {
			t.Errorf(
				"quota must not be released while a pod that the cache does not show exists: %s %s",
				x.phase(),
				x.conditions(),
			)
		}
	})
	t.Run("of AppWrappers", func(t *testing.T) {
		x := running(t, jobManifest)
		x.stop()
		stale := x.get()
		stale.ResourceVersion = "1" // it has been written since
		x.cache.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if w, ok := o.(*awv1beta2.AppWrapper); ok && stale != nil {
				stale.DeepCopyInto(w)
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		}
		for range 3 { // the same old state, again and again
			if err := x.reconcile(); err != nil {
				t.Errorf("a conflict is not an error: %v", err)
			}
		}
		if x.recheck == 0 {
			t.Error("after a conflict it must be tried again")
		}
		stale = nil
		x.to("Suspended")
		if diff := cmp.Diff([]string{"Suspending", "Suspended"}, x.told()); diff != "" {
			t.Errorf("a write that did not happen is not told (-want +got)\n%s", diff)
		}
	})
}

func TestSuspendedWhileItWasCreated(t *testing.T) {
	x := newWorld(t, wrapper(jobManifest))
	x.reconcileAll()
	x.admit()
	x.before = func(what string) {
		if what == "create Job" {
			x.before = nil
			x.stop()
		}
	}
	x.to("Suspended")
	if len(x.jobs()) != 0 || strings.Contains(x.conditions(), "QuotaReserved=True") {
		t.Errorf("%d jobs, %s", len(x.jobs()), x.conditions())
	}
}

func TestWarnings(t *testing.T) {
	w := wrapper(jobManifest)
	w.Annotations = map[string]string{"workload.codeflare.dev.appwrapper/retryLimit": "many"}
	x := newWorld(t, w)
	x.reconcileAll()
	if diff := cmp.Diff([]string{"InvalidAnnotation"}, x.told()); diff != "" {
		t.Errorf("events (-want +got)\n%s", diff)
	}
}

// script is a life with everything in it, told what to do after each phase.
func script(x *world) {
	x.t.Helper()
	x.reconcileAll()
	x.admit()
	x.to("Running")
	x.run(0, corev1.PodRunning)
	x.reconcileAll()
	x.label("node-1", "EVICT") // a reset
	x.reconcileAll()
	x.to("Running")
	x.label("node-1", "PASS")
	x.run(0, corev1.PodRunning)
	x.reconcileAll()
	x.stop() // a preemption
	x.to("Suspended")
	x.admit()
	x.to("Running")
	x.run(0, corev1.PodRunning)
	x.reconcileAll()
	x.finish()
	x.to("Succeeded")
}

// TestCrashes kills the process at every single write of a life, once before
// the write took effect and once after, and expects the same end.
func TestCrashes(t *testing.T) {
	whole := newWorld(t, wrapper(jobManifest, serviceManifest))
	script(whole)
	want := picture(t, whole)
	for k := 1; k <= len(whole.writes); k++ {
		for _, effect := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d %s effect %v", k, whole.writes[k-1], effect), func(t *testing.T) {
				x := newWorld(t, wrapper(jobManifest, serviceManifest))
				x.crash = crash{at: k, effect: effect}
				script(x)
				if diff := cmp.Diff(want, picture(t, x)); diff != "" {
					t.Errorf("another end than without the crash (-want +got)\n%s", diff)
				}
				for name, n := range x.created {
					// What was created and not recorded is not believed.
					if more := n - whole.created[name]; more != 0 && more != 1 {
						t.Errorf("%s was created %d times, and %d times without the crash", name, n, whole.created[name])
					}
				}
			})
		}
	}
}

// An API server in trouble creates the component and refuses its record, again and
// again. As long as the process lives it knows what it created; what it did not create
// itself it does not believe.
func TestCreatedIsKnownBeforeItIsRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		dies    bool
		created int
	}{"alive": {false, 1}, "dies once": {true, 2}} {
		t.Run(name, func(t *testing.T) {
			x := newWorld(t, wrapper(jobManifest))
			x.reconcileAll()
			x.admit()
			fails := 0
			x.before = func(what string) {
				if what == "status" && len(x.created) > 0 && fails < 3 {
					fails++
					x.crash.at = len(x.writes) + 1
				}
			}
			for fails < 3 {
				_ = x.reconcile()
				if c.dies && fails == 2 {
					x.r.made.of, c.dies = nil, false
				}
			}
			x.to("Running")
			if got := x.created[x.jobs()[0].Name]; got != c.created {
				t.Errorf("created %d times, want %d", got, c.created)
			}
			if n := len(x.r.made.of); n != 0 {
				t.Errorf("%d AppWrappers are remembered after they were recorded", n)
			}
		})
	}
}

// picture is what matters at the end: the objects without their times and UIDs.
func picture(t *testing.T, x *world) string {
	t.Helper()
	status := x.get().Status
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	for i := range status.ComponentStatus {
		if status.ComponentStatus[i].UID == "" {
			t.Errorf("component %s is not recorded", status.ComponentStatus[i].Name)
		}
		status.ComponentStatus[i].UID = ""
		for k := range status.ComponentStatus[i].Conditions {
			status.ComponentStatus[i].Conditions[k].LastTransitionTime = metav1.Time{}
		}
	}
	var names []string
	for _, j := range x.jobs() {
		names = append(names, j.Name)
	}
	out, err := json.MarshalIndent(map[string]any{
		"status": status, "jobs": names, "pods": len(x.pods()),
	}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestWaitsForItsBasis: an AppWrapper whose pods are not known yet does nothing, started or not:
// one without components would be done. It can be deleted.
func TestWaitsForItsBasis(t *testing.T) {
	for _, suspended := range []bool{true, false} {
		w := wrapper(
			`{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","metadata":{"name":"t"},"spec":{"runtimeRef":{"name":"r"}}}`,
		)
		w.Spec.Suspend, w.Finalizers = suspended, []string{awv1beta2.AppWrapperFinalizer}
		x := newWorld(t, w)
		x.reconcileAll()
		if len(x.writes) > 0 || x.phase() != "" {
			t.Errorf("suspended %v: phase %q, writes %v", suspended, x.phase(), x.writes)
		}
		if err := x.server.Delete(t.Context(), x.get()); err != nil {
			t.Fatal(err)
		}
		x.reconcileAll()
		if err := x.server.Get(
			t.Context(),
			client.ObjectKeyFromObject(w),
			&awv1beta2.AppWrapper{},
		); !apierrors.IsNotFound(
			err,
		) {
			t.Errorf("suspended %v: deleted, it is still there: %v", suspended, err)
		}
	}
}
