package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

func train() *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "train", UID: "u1"}}
}

func with(w *kueue.Workload, changes ...func(*kueue.Workload)) *kueue.Workload {
	for _, c := range changes {
		c(w)
	}
	return w
}

func ended(c string, reason string) func(*kueue.Workload) {
	return func(w *kueue.Workload) {
		workloadlifecycle.NewConditions(w, &w.Status, now.Add(-time.Hour)).Set(c, metav1.ConditionTrue, reason, "")
	}
}

func classed(w *kueue.Workload) {
	w.Spec.PriorityClassRef = &kueue.PriorityClassRef{
		Group: kueue.PriorityClassGroup(kueue.GroupVersion.Group),
		Kind:  kueue.WorkloadPriorityClassKind,
		Name:  "high",
	}
}

// told gathers what is told of the Workload, in events and in metrics.
func (b bench) told() (out []string) {
	recorder, ok := b.Recorder.(*events.FakeRecorder)
	if !ok {
		b.t.Fatal("another recorder")
	}
	for len(recorder.Events) > 0 {
		out = append(out, <-recorder.Events)
	}
	return out
}

// Each step of the rules is one write to the API server.
func TestSteps(t *testing.T) {
	hour := time.Hour
	cases := map[string]struct {
		why     string
		objects []client.Object
		config  workloadlifecycle.Config
		want    func(b bench, w *kueue.Workload) string // "" if it is as it should be
		told    string
	}{
		"its class got another value": {
			"the priority follows",
			[]client.Object{
				train(), with(of("Job", "batch/v1", "train"), classed),
				&kueue.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 7},
			},
			workloadlifecycle.Config{},
			func(_ bench, w *kueue.Workload) string {
				if w.Spec.Priority == nil || *w.Spec.Priority != 7 {
					return fmt.Sprintf("priority %v", w.Spec.Priority)
				}
				return ""
			}, "",
		},
		"its class is that of pods": {
			"it was read when the Workload was made, and is not followed",
			[]client.Object{
				train(),
				with(
					of("Job", "batch/v1", "train"),
					classed,
					func(w *kueue.Workload) { w.Spec.PriorityClassRef.Kind = "PriorityClass" },
				),
				&kueue.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 7},
			},
			workloadlifecycle.Config{},
			func(_ bench, w *kueue.Workload) string {
				if w.Spec.Priority != nil {
					return fmt.Sprintf("priority %d", *w.Spec.Priority)
				}
				return ""
			},
			"",
		},
		"its class is gone": {
			"it keeps its priority",
			[]client.Object{train(), with(of("Job", "batch/v1", "train"), classed)},
			workloadlifecycle.Config{},
			func(_ bench, w *kueue.Workload) string {
				if w.Spec.Priority != nil {
					return fmt.Sprintf("priority %d", *w.Spec.Priority)
				}
				return ""
			}, "",
		},
		"a rule takes it out of its queue": {
			"it is deactivated",
			[]client.Object{
				train(),
				with(of("Job", "batch/v1", "train"), ended(kueue.WorkloadDeactivationTarget, "TooLong")),
			},
			workloadlifecycle.Config{},
			func(_ bench, w *kueue.Workload) string {
				if *w.Spec.Active {
					return "active"
				}
				return ""
			},
			"",
		},
		"it ran long enough": {
			"the first of three writes says why, and is told once",
			[]client.Object{train(), with(of("Job", "batch/v1", "train"), func(w *kueue.Workload) {
				w.Spec.MaximumExecutionTimeSeconds = new(int32(0))
			})},
			workloadlifecycle.Config{},
			func(_ bench, w *kueue.Workload) string {
				if c := w.Status.Conditions[len(w.Status.Conditions)-1]; c.Type != kueue.WorkloadDeactivationTarget {
					return fmt.Sprintf("conditions %+v", w.Status.Conditions)
				}
				return ""
			},
			"Warning MaximumExecutionTimeExceeded Deactivating the workload: it exceeded the maximum execution time of 0s",
		},
		"its pods were not ready in time": {
			"what keeps them from it is asked of them while they are there",
			[]client.Object{
				train(), of("Job", "batch/v1", "train"),
				&corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{
						Namespace:   "blue",
						Name:        "train-0",
						Annotations: map[string]string{kueue.WorkloadAnnotation: of("Job", "batch/v1", "train").Name},
					},
					Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
						Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "nowhere/x: not found"},
					}}}},
				},
			},
			workloadlifecycle.Config{PodsReady: &workloadlifecycle.PodsReady{}},
			func(_ bench, w *kueue.Workload) string {
				if c := apimeta.FindStatusCondition(
					w.Status.Conditions,
					kueue.WorkloadEvicted,
				); c == nil ||
					!strings.HasSuffix(c.Message, ": pod train-0: ImagePullBackOff: nowhere/x: not found") {
					return fmt.Sprintf("conditions %+v", w.Status.Conditions)
				}
				return ""
			},
			"Normal EvictedDueToPodsReadyTimeoutDueToWaitForStart Exceeded the PodsReady timeout of 0s: pod train-0: ImagePullBackOff: nowhere/x: not found",
		},
		"finished long ago": {
			"it is deleted, and its job stays",
			[]client.Object{train(), with(of("Job", "batch/v1", "train"), ended(kueue.WorkloadFinished, "Succeeded"))},
			workloadlifecycle.Config{Retention: workloadlifecycle.Retention{AfterFinished: &hour}},
			func(b bench, w *kueue.Workload) string {
				if w.DeletionTimestamp == nil || b.has(train()) != nil {
					return fmt.Sprintf("deleted %v, its job: %v", w.DeletionTimestamp, b.has(train()))
				}
				return ""
			},
			"Normal Deleted Deleted: Finished for 1h0m0s, which is as long as it is kept",
		},
		"deactivated by a rule long ago": {
			"its job is deleted, and takes it along",
			[]client.Object{train(), with(of("Job", "batch/v1", "train"), func(w *kueue.Workload) {
				w.Spec.Active, w.Status.Admission, w.Status.Conditions = new(false), nil, nil
			}, ended(kueue.WorkloadEvicted, kueue.ReasonDeactivatedDueTo+"TooLong"))},
			workloadlifecycle.Config{Retention: workloadlifecycle.Retention{AfterDeactivated: &hour}},
			func(b bench, w *kueue.Workload) string {
				if w.DeletionTimestamp != nil || !apierrors.IsNotFound(b.has(train())) {
					return fmt.Sprintf("deleted %v, its job: %v", w.DeletionTimestamp, b.has(train()))
				}
				return ""
			},
			"Normal Deleted Deleted: Evicted for 1h0m0s, which is as long as it is kept",
		},
		"made for a job that is gone": {
			"it ends",
			[]client.Object{with(of("Job", "batch/v1", "train"), func(w *kueue.Workload) { w.OwnerReferences = nil })},
			workloadlifecycle.Config{},
			func(_ bench, w *kueue.Workload) string {
				if c := w.Status.Conditions[len(w.Status.Conditions)-1]; c.Type != kueue.WorkloadFinished ||
					c.Reason != kueue.ReasonOwnerNotFound {
					return fmt.Sprintf("conditions %+v", w.Status.Conditions)
				}
				return ""
			}, "",
		},
		"made by hand": {
			"no job was there that could be gone",
			[]client.Object{
				with(of("Job", "batch/v1", "train"), func(w *kueue.Workload) { w.OwnerReferences, w.Labels = nil, nil }),
			},
			workloadlifecycle.Config{},
			func(_ bench, w *kueue.Workload) string {
				if len(w.Status.Conditions) != 2 {
					return fmt.Sprintf("conditions %+v", w.Status.Conditions)
				}
				return ""
			},
			"",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.objects...)
			b.Config = c.config
			var counted []string
			b.Told = func(w *kueue.Workload, e workloadlifecycle.Event) {
				if w.ResourceVersion != "999" {
					t.Errorf("told of version %s, want it as it was before", w.ResourceVersion)
				}
				counted = append(counted, e.Reason)
			}
			w, _ := b.look()
			if w == nil {
				t.Fatal("it is gone")
			}
			if wrong := c.want(b, w); wrong != "" {
				t.Errorf("%s: %s", c.why, wrong)
			}
			var want, reasons []string
			if c.told != "" {
				want, reasons = []string{c.told}, []string{strings.Fields(c.told)[1]}
			}
			if diff := cmp.Diff(want, b.told()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(reasons, counted); diff != "" {
				t.Errorf("counted (-want +got):\n%s", diff)
			}
		})
	}
}

func (b bench) has(o client.Object) error {
	return b.Client.Get(b.t.Context(), client.ObjectKeyFromObject(o), o)
}

// A write that did not happen is not told; one that came too late is no error.
func TestWritesThatFail(t *testing.T) {
	resource := schema.GroupResource{Resource: "workloads"}
	for name, c := range map[string]struct {
		err   error
		fails bool
	}{
		"conflict":    {apierrors.NewConflict(resource, "w", errors.New("written since")), false},
		"gone":        {apierrors.NewNotFound(resource, "w"), false},
		"server away": {errors.New("connection refused"), true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(
				t,
				train(),
				with(
					of("Job", "batch/v1", "train"),
					func(w *kueue.Workload) { w.Spec.MaximumExecutionTimeSeconds = new(int32(0)) },
				),
			)
			b.Client = interceptor.NewClient(b.Client.(client.WithWatch), interceptor.Funcs{
				SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
					return c.err
				},
				SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
					return c.err
				},
			})
			_, err := b.Reconcile(
				t.Context(),
				reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "blue", Name: "w"}},
			)
			if (err != nil) != c.fails || c.fails && !strings.Contains(err.Error(), "workload blue/w: ") {
				t.Errorf("error %v", err)
			}
			if told := b.told(); len(told) != 0 {
				t.Errorf("told %v", told)
			}
		})
	}
}

// What another client writes meanwhile stays, and the step is taken on the next look.
func TestRivalIsNotOverwritten(t *testing.T) {
	b := newBench(
		t,
		train(),
		with(
			of("Job", "batch/v1", "train"),
			func(w *kueue.Workload) { w.Spec.MaximumExecutionTimeSeconds = new(int32(0)) },
		),
	)
	server, meets := b.Client, 0
	b.Client = interceptor.NewClient(b.Client.(client.WithWatch), interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			if meets++; meets == 1 {
				var w kueue.Workload
				if err := server.Get(ctx, client.ObjectKeyFromObject(o), &w); err != nil {
					return err
				}
				w.Status.AdmissionChecks = []kueue.AdmissionCheckState{{Name: "theirs", State: kueue.CheckStateReady}}
				if err := server.Status().Update(ctx, &w); err != nil {
					return err
				}
			}
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
	})
	if w, _ := b.look(); apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadDeactivationTarget) ||
		len(b.told()) != 0 {
		t.Fatalf("it was overtaken, and says %v", w.Status.Conditions)
	}
	if w, _ := b.look(); meets != 2 ||
		!apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadDeactivationTarget) ||
		len(w.Status.AdmissionChecks) != 1 {
		t.Errorf("after %d writes: conditions %v, checks %v", meets, w.Status.Conditions, w.Status.AdmissionChecks)
	}
}

// What cannot be read is an error: nothing may be decided without it.
func TestReadsThatFail(t *testing.T) {
	full := func() []client.Object {
		return []client.Object{
			train(), with(of("Job", "batch/v1", "train"), classed, func(w *kueue.Workload) { w.Spec.QueueName = "q" }),
			&kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "q"}},
			&kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "cq"}},
			&kueue.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}},
		}
	}
	away := errors.New("connection refused")
	for what, fails := range map[string]func(client.Object) bool{
		"read WorkloadPriorityClass high: ":                func(o client.Object) bool { _, ok := o.(*kueue.WorkloadPriorityClass); return ok },
		"read LocalQueue blue/q: ":                         func(o client.Object) bool { _, ok := o.(*kueue.LocalQueue); return ok },
		"read ClusterQueue cq: ":                           func(o client.Object) bool { _, ok := o.(*kueue.ClusterQueue); return ok },
		"read Job train that owns workload blue/w: ":       func(o client.Object) bool { _, ok := o.(*batchv1.Job); return ok },
		"connection refused":                               func(o client.Object) bool { _, ok := o.(*kueue.Workload); return ok },
		"list pods of workload blue/w: connection refused": nil,
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t, full()...)
			b.Client = interceptor.NewClient(b.Client.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if fails != nil && fails(o) {
						return away
					}
					return c.Get(ctx, key, o, opts...)
				},
				List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
					if fails == nil {
						return away
					}
					return c.List(ctx, l, opts...)
				},
			})
			_, err := b.Reconcile(
				t.Context(),
				reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "blue", Name: "w"}},
			)
			if err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("error %v, want %q", err, what)
			}
		})
	}
	t.Run("all is there", func(t *testing.T) { newBench(t, full()...).look() })
	t.Run("the Workload is gone", func(t *testing.T) {
		if w, again := newBench(t).look(); w != nil || again != 0 {
			t.Errorf("look again in %s", again)
		}
	})
}

// The rules are asked with the queue that a Workload has its quota in, else with the
// one behind its local queue.
func TestGatherQueues(t *testing.T) {
	objects := []client.Object{
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "q"},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: "local"},
		},
		&kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "nowhere"}},
		&kueue.ClusterQueue{
			ObjectMeta: metav1.ObjectMeta{Name: "local"},
		},
		&kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "cq"}},
	}
	for name, c := range map[string]struct {
		why                string
		queue, admitted    string
		wantLocal, wantSet string
	}{
		"waits":                  {"the one that it waits for", "q", "", "q", "local"},
		"has quota":              {"the one that it has quota in, though its local queue leads elsewhere by now", "q", "cq", "q", "cq"},
		"no queue":               {"none", "", "", "", ""},
		"queue is gone":          {"none", "away", "", "", ""},
		"local queue to nowhere": {"none", "nowhere", "", "nowhere", ""},
		"cluster queue is gone":  {"it cannot be asked", "q", "away", "q", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := with(
				of("Job", "batch/v1", "train"),
				func(w *kueue.Workload) { w.Spec.QueueName = kueue.LocalQueueName(c.queue) },
			)
			if w.Status.Admission = nil; c.admitted != "" {
				w.Status.Admission = &kueue.Admission{ClusterQueue: kueue.ClusterQueueReference(c.admitted)}
			}
			b := newBench(t, append(objects, w)...)
			f, _, ok, err := b.gather(t.Context(), client.ObjectKeyFromObject(w))
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			local, set := "", ""
			if f.LocalQueue != nil {
				local = f.LocalQueue.Name
			}
			if f.ClusterQueue != nil {
				set = f.ClusterQueue.Name
			}
			if local != c.wantLocal || set != c.wantSet {
				t.Errorf("queues %q and %q, want %q and %q: %s", local, set, c.wantLocal, c.wantSet, c.why)
			}
		})
	}
}

// Whether a reconciler looks after a Workload depends on the job that owns it.
func TestGatherJob(t *testing.T) {
	again := train()
	again.UID = "u2"
	for name, c := range map[string]struct {
		why     string
		w       *kueue.Workload
		job     client.Object
		owned   bool
		leaving bool // the Workload is being deleted
		wants   bool
	}{
		"there":                 {"its reconciler does", of("Job", "batch/v1", "train"), train(), true, false, true},
		"there, deleted":        {"its reconciler does, and knows when all has stopped", of("Job", "batch/v1", "train"), train(), true, true, true},
		"not seen yet":          {"it came before its Workload", of("Job", "batch/v1", "train"), nil, true, false, true},
		"gone, deleted":         {"no reconciler does", of("Job", "batch/v1", "train"), nil, true, true, false},
		"made again, deleted":   {"the other job has a Workload of its own", of("Job", "batch/v1", "train"), again, true, true, false},
		"made again":            {"the garbage collector will", of("Job", "batch/v1", "train"), again, true, false, true},
		"unknown kind":          {"the controller that handles it", of("Other", "example.com/v1", "train"), nil, true, false, true},
		"unknown kind, deleted": {"a kind that is not handled here keeps nothing", of("Other", "example.com/v1", "train"), nil, true, true, false},
		"no job":                {"no reconciler", with(of("Job", "batch/v1", "train"), func(w *kueue.Workload) { w.OwnerReferences = nil }), nil, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{c.w}
			if c.job != nil {
				objects = append(objects, c.job)
			}
			b := newBench(t, objects...)
			if c.leaving {
				b.delete(c.w)
			}
			f, _, ok, err := b.gather(t.Context(), client.ObjectKeyFromObject(c.w))
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if f.Owned != c.wants || f.Orphan == c.owned {
				t.Errorf("owned %v, want %v; orphan %v: %s", f.Owned, c.wants, f.Orphan, c.why)
			}
		})
	}
}

// Of the pods of a job that is gone, those that hold quota are deleted, once, and one that cannot be keeps no other.
func TestStopPods(t *testing.T) {
	named := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		p := pod()
		p.Name = name
		p.UID = "" // the fake client does not look at it
		change(p)
		return p
	}
	w := of("Job", "batch/v1", "train")
	objects := []client.Object{
		named("a-runs", func(*corev1.Pod) {}),
		named("b-ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		named("c-another's", func(p *corev1.Pod) { p.Annotations[kueue.WorkloadAnnotation] = "other" }),
		named("d-leaves", func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: now}, []string{"example.com/hold"}
		}),
		named("e-runs", func(*corev1.Pod) {}),
	}
	b := newBench(t, objects...)
	var lock sync.Mutex
	var deleted []string
	fails := ""
	b.Client = interceptor.NewClient(b.Client.(client.WithWatch), interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			lock.Lock()
			deleted = append(deleted, o.GetName())
			lock.Unlock()
			if o.GetName() == fails {
				return errors.New("connection refused")
			}
			if fails == "gone" {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, o.GetName())
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	stop := func() error {
		pods, err := admission.ListPods(t.Context(), b.Client, w.Namespace, w.Name)
		if err != nil {
			t.Fatal(err)
		}
		return b.stopPods(t.Context(), pods)
	}
	fails = "a-runs"
	if err := stop(); err == nil ||
		!strings.Contains(err.Error(), "delete pod a-runs, whose job is gone: connection refused") {
		t.Errorf("error %v", err)
	}
	slices.Sort(deleted)
	if diff := cmp.Diff([]string{"a-runs", "e-runs"}, deleted); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
	fails, deleted = "gone", nil
	if err := stop(); err != nil {
		t.Errorf("pods that are gone: %v", err)
	}
	fails, deleted = "", nil
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a-runs"}, deleted); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
}

// What changes elsewhere leads to the Workloads that it concerns, unless they have
// ended.
func TestWhoIsWoken(t *testing.T) {
	wl := func(ns, name string, changes ...func(*kueue.Workload)) *kueue.Workload {
		w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		return with(w, changes...)
	}
	in := func(queue string) func(*kueue.Workload) {
		return func(w *kueue.Workload) { w.Spec.QueueName = kueue.LocalQueueName(queue) }
	}
	has := func(queue string) func(*kueue.Workload) {
		return func(w *kueue.Workload) {
			w.Status.Admission = &kueue.Admission{ClusterQueue: kueue.ClusterQueueReference(queue)}
		}
	}
	notClass := func(w *kueue.Workload) { classed(w); w.Spec.PriorityClassRef.Kind = "PriorityClass" }
	other := func(w *kueue.Workload) { classed(w); w.Spec.PriorityClassRef.Name = "low" }
	b := newBench(
		t,
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "q"},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: "cq"},
		},
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "q"},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: "theirs"},
		},
		wl(
			"blue",
			"waits",
			in("q"),
			classed,
		),
		wl("blue", "runs", in("q"), has("cq"), notClass),
		wl("blue", "moved", in("q"), has("theirs"), other),
		wl(
			"blue",
			"ended",
			in("q"),
			classed,
			ended(kueue.WorkloadFinished, "Succeeded"),
		),
		wl("blue", "elsewhere", in("r")),
		wl("red", "theirs", in("q"), classed),
		with(of("Job", "batch/v1", "train"), in("none")),
	)
	one := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	ctx := t.Context()
	for what, c := range map[string]struct {
		got  []reconcile.Request
		want []string
	}{
		"class":               {b.ofClass(ctx, &kueue.WorkloadPriorityClass{ObjectMeta: one("high")}), []string{"blue/waits", "red/theirs"}},
		"cluster queue":       {b.ofClusterQueue(ctx, &kueue.ClusterQueue{ObjectMeta: one("cq")}), []string{"blue/runs", "blue/w", "blue/waits"}},
		"other cluster queue": {b.ofClusterQueue(ctx, &kueue.ClusterQueue{ObjectMeta: one("theirs")}), []string{"blue/moved", "red/theirs"}},
		"local queue":         {b.ofLocalQueue(ctx, &kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "q"}}), []string{"blue/moved", "blue/runs", "blue/waits"}},
		"job":                 {b.ofJob(ctx, train()), []string{"blue/w"}},
		"another job":         {b.ofJob(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "train", UID: "u2"}}), nil},
		"pod":                 {workloadOfPod(ctx, pod()), []string{"blue/w"}},
		"pod of no job":       {workloadOfPod(ctx, &corev1.Pod{}), nil},
	} {
		t.Run(what, func(t *testing.T) {
			var got []string
			for _, r := range c.got {
				got = append(got, r.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
		})
	}
	away := interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("connection refused")
		},
	}
	b.Client = interceptor.NewClient(b.Client.(client.WithWatch), away)
	if len(
		b.ofJob(ctx, train()),
	)+len(
		b.ofClusterQueue(ctx, &kueue.ClusterQueue{ObjectMeta: one("cq")}),
	)+len(
		b.ofClass(ctx, &kueue.WorkloadPriorityClass{}),
	) != 0 {
		t.Error("a workload is woken though nothing could be listed")
	}
}

// Events that concern Workloads are let through, and no others.
func TestWhatIsLetThrough(t *testing.T) {
	stays, leaves := train(), train()
	leaves.DeletionTimestamp = &metav1.Time{Time: now}
	stopped := &kueue.LocalQueue{Spec: kueue.LocalQueueSpec{StopPolicy: new(kueue.StopPolicyHold)}}
	for what, c := range map[string]struct{ got, want bool }{
		"a job that stays":            {leaving().Create(event.CreateEvent{Object: stays}), false},
		"a job that leaves":           {leaving().Create(event.CreateEvent{Object: leaves}), true},
		"a job that is marked":        {leaving().Update(event.UpdateEvent{ObjectOld: stays, ObjectNew: leaves}), true},
		"a job that is gone":          {leaving().Delete(event.DeleteEvent{Object: stays}), true},
		"something about a job":       {leaving().Generic(event.GenericEvent{Object: leaves}), false},
		"a queue that is open":        {changedRules().Create(event.CreateEvent{Object: &kueue.LocalQueue{}}), false},
		"a queue that is stopped":     {changedRules().Create(event.CreateEvent{Object: stopped}), true},
		"a queue that stops":          {changedRules().Update(event.UpdateEvent{ObjectOld: &kueue.LocalQueue{}, ObjectNew: stopped}), true},
		"a queue that opens":          {changedRules().Update(event.UpdateEvent{ObjectOld: stopped, ObjectNew: &kueue.LocalQueue{}}), true},
		"a queue that stays stopped":  {changedRules().Update(event.UpdateEvent{ObjectOld: stopped, ObjectNew: stopped}), false},
		"a queue that is gone":        {changedRules().Delete(event.DeleteEvent{Object: stopped}), false},
		"something about a queue":     {changedRules().Generic(event.GenericEvent{Object: stopped}), false},
		"something that rules nobody": {changedRules().Update(event.UpdateEvent{ObjectOld: stays, ObjectNew: leaves}), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: let through %v, want %v", what, c.got, c.want)
		}
	}
}

// The job is told what the checks of its Workload say.
func TestAnswersAreTold(t *testing.T) {
	b := newBench(t)
	was := of("Job", "batch/v1", "train")
	is := was.DeepCopy()
	is.Status.AdmissionChecks = []kueue.AdmissionCheckState{{Name: "budget", State: kueue.CheckStateReady}}
	free := is.DeepCopy()
	free.OwnerReferences = nil
	b.tellAnswers(t.Context(), event.UpdateEvent{ObjectOld: was, ObjectNew: free}, nil)
	b.tellAnswers(t.Context(), event.UpdateEvent{ObjectOld: was, ObjectNew: is}, nil)
	b.tellAnswers(t.Context(), event.UpdateEvent{ObjectOld: is, ObjectNew: is}, nil)
	if diff := cmp.Diff([]string{"Normal UpdatedAdmissionCheck budget is Ready"}, b.told()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
