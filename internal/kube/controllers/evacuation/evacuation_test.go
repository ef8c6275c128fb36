package evacuation

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/eviction"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

const podIndex = "workload"

func node(name, health string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{nodehealth.HealthLabel: health}},
	}
}

func train(change func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "train", UID: "j"}}
	if change != nil {
		change(j)
	}
	return j
}

// work is the Workload of a job of some kind.
func work(apiVersion, kind string) *kueue.Workload {
	return &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "w", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: apiVersion, Kind: kind, Name: "train", UID: "j", Controller: new(true)},
		}},
	}
}

func pod(name, node string, change func(*corev1.Pod)) *corev1.Pod {
	gpus := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   "blue",
			Name:        name,
			UID:         types.UID(name),
			Annotations: map[string]string{kueue.WorkloadAnnotation: "w"},
		},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: gpus}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if change != nil {
		change(p)
	}
	return p
}

// madeBy says who controls a pod.
func madeBy(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: kind, Name: "web", UID: "s", Controller: new(true)},
		}
	}
}

// workOfGroup is the Workload of a pod group.
func workOfGroup() *kueue.Workload {
	return &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   "blue",
			Name:        "w",
			Annotations: map[string]string{kueue.IsGroupWorkloadAnnotation: "true"},
		},
	}
}

type world struct {
	*reconciler
	told    *events.FakeRecorder
	evicted []string
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{told: events.NewFakeRecorder(100)}
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, NodeIndex, IndexNode).
		WithIndex(
			&corev1.Pod{},
			podIndex,
			func(o client.Object) []string { return []string{o.GetAnnotations()[kueue.WorkloadAnnotation]} },
		).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourceCreate: func(ctx context.Context, in client.Client, sub string, o, what client.Object, opts ...client.SubResourceCreateOption) error {
				w.evicted = append(w.evicted, sub+" "+o.GetName())
				return in.SubResource(sub).Create(ctx, o, what, opts...)
			},
		}).Build()
	w.reconciler = &reconciler{
		Options{
			Evictor:  eviction.Evictor{Client: c, Live: c, Recorder: w.told, Kinds: kinds.All()},
			Avoid:    jobs.AvoidBadGPUs(),
			PodIndex: podIndex,
		},
	}
	return w
}

func (w *world) events() string {
	var out []string
	for len(w.told.Events) > 0 {
		out = append(out, strings.Fields(<-w.told.Events)[1])
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}

// Pods of unwrapped Jobs leave a node labelled EVICT like those of AppWrappers, one by
// one, as long as the Job survives it.
func TestPodsLeave(t *testing.T) {
	leaves := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.Finalizers = new(metav1.Now()), []string{batchv1.JobTrackingFinalizer}
	}
	ignoring := &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		{
			Action:          batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget}},
		},
	}}
	three := []client.Object{pod("a", "bad", nil), pod("b", "bad", nil), pod("c", "bad", nil)}
	for name, tc := range map[string]struct {
		why     string
		job     func(*batchv1.Job)
		owner   *kueue.Workload
		pods    []client.Object
		evicted []string
		events  string
		again   bool // looked at, without anything that happens
	}{
		"on the bad node": {
			why: "the others stay where they are", pods: []client.Object{pod("a", "bad", nil), pod("b", "good", nil), pod("c", "failing", nil), pod("d", "", nil)},
			evicted: []string{"eviction a"}, events: eviction.Evacuated,
		},
		"no GPU": {
			why: "its GPUs are nothing to the pod", pods: []client.Object{pod("a", "bad", func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} })},
		},
		"over": {
			why: "there is nothing to save", pods: []client.Object{
				pod("a", "bad", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), pod("b", "bad", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), pod("c", "bad", leaves),
			},
		},
		"few retries": {
			why: "the Job would fail with the second", job: func(j *batchv1.Job) { j.Spec.BackoffLimit = new(int32(1)) }, pods: three,
			evicted: []string{"eviction a"}, events: eviction.Evacuated + " " + eviction.NotEvacuated,
		},
		"retries in use": {
			why: "what leaves already will be counted", job: func(j *batchv1.Job) { j.Spec.BackoffLimit = new(int32(1)) }, pods: []client.Object{pod("a", "good", leaves), pod("b", "bad", nil)},
			events: eviction.NotEvacuated, again: true,
		},
		"retries used, not counted yet": {
			why: "what was evicted has ended, and the Job does not know yet", job: func(j *batchv1.Job) { j.Spec.BackoffLimit = new(int32(1)) },
			pods: []client.Object{
				pod("a", "good", func(p *corev1.Pod) { leaves(p); p.Status.Phase = corev1.PodFailed }), pod("b", "bad", nil),
			},
			events: eviction.NotEvacuated, again: true,
		},
		"failed of itself, not counted yet": {
			why: "it will be", job: func(j *batchv1.Job) { j.Spec.BackoffLimit = new(int32(1)) },
			pods: []client.Object{
				pod("a", "good", func(p *corev1.Pod) {
					p.Finalizers, p.Status.Phase = []string{batchv1.JobTrackingFinalizer}, corev1.PodFailed
				}), pod("b", "bad", nil),
			},
			events: eviction.NotEvacuated, again: true,
		},
		"failed and counted": {
			why: "once is enough", job: func(j *batchv1.Job) {
				j.Spec.BackoffLimit = new(int32(2))
				j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Failed: []types.UID{"a"}}
			},
			pods: []client.Object{
				pod("a", "good", func(p *corev1.Pod) { leaves(p); p.Status.Phase = corev1.PodFailed }), pod("b", "bad", nil),
			},
			evicted: []string{"eviction b"}, events: eviction.Evacuated,
		},
		"disruptions do not count": {
			why: "the Job says so", job: func(j *batchv1.Job) { j.Spec.BackoffLimit, j.Spec.PodFailurePolicy = new(int32(0)), ignoring }, pods: three,
			evicted: []string{"eviction a", "eviction b", "eviction c"}, events: eviction.Evacuated,
		},
		"AppWrapper": {
			why: "it is reset as a whole", owner: work("workload.codeflare.dev/v1beta2", "AppWrapper"), pods: three,
		},
		"of a Deployment": {
			why: "it makes others", owner: work("v1", "Pod"), pods: []client.Object{pod("a", "bad", madeBy("ReplicaSet"))},
			evicted: []string{"eviction a"}, events: eviction.Evacuated,
		},
		"of a StatefulSet": {
			why: "it makes others", owner: workOfGroup(), pods: []client.Object{pod("a", "bad", madeBy("StatefulSet")), pod("b", "good", madeBy("StatefulSet"))},
			evicted: []string{"eviction a"}, events: eviction.Evacuated,
		},
		"of a user": {
			why: "nobody makes another", owner: work("v1", "Pod"), pods: []client.Object{pod("a", "bad", nil)}, events: eviction.NotEvacuated,
		},
		"a user's group": {
			why: "nobody makes others", owner: workOfGroup(), pods: []client.Object{pod("a", "bad", nil), pod("b", "good", nil)}, events: eviction.NotEvacuated,
		},
		"somebody else's": {
			why: "it is not known whether its pods come back", owner: work("example.com/v1", "Train"), pods: three,
		},
	} {
		t.Run(name, func(t *testing.T) {
			owner := tc.owner
			if owner == nil {
				owner = work("batch/v1", "Job")
			}
			w := newWorld(
				t,
				append(
					[]client.Object{
						train(tc.job),
						owner,
						node("bad", "EVICT"),
						node("failing", "ERR"),
						node("good", "PASS"),
					},
					tc.pods...)...)
			done, err := w.Reconcile(
				t.Context(),
				reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: "w"}},
			)
			if err != nil || (done.RequeueAfter > 0) != tc.again {
				t.Fatalf("%s: %+v, %v", tc.why, done, err)
			}
			if d := cmp.Diff(tc.evicted, w.evicted); d != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, d)
			}
			if got := w.events(); got != tc.events {
				t.Errorf("%s: told %q, want %q", tc.why, got, tc.events)
			}
		})
	}
}

// A Workload is looked at when a node of its pods turns bad, and when a pod of it gets
// to such a node.
func TestWhoIsLookedAt(t *testing.T) {
	bad, good := node("bad", "evict"), node("good", "PASS")
	stranger := pod("x", "bad", func(p *corev1.Pod) { p.Annotations = nil })
	w := newWorld(t, bad, good, pod("a", "bad", nil), pod("b", "bad", nil), pod("c", "good", nil), stranger)
	want := []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: "blue", Name: "w"}}}
	for name, tc := range map[string]struct{ got, want []reconcile.Request }{
		"bad node":      {w.ofNode(t.Context(), bad), want},
		"pod arrives":   {w.ofPod(t.Context(), pod("a", "bad", nil)), want},
		"on a good one": {w.ofPod(t.Context(), pod("c", "good", nil)), nil},
		"on none":       {w.ofPod(t.Context(), pod("d", "gone", nil)), nil},
	} {
		if d := cmp.Diff(tc.want, tc.got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	turns, comes := w.turnsBad(), arrives()
	waiting, placed := pod("a", "", nil), pod("a", "bad", nil)
	for name, tc := range map[string]struct{ got, want bool }{
		"turns bad":       {turns.Update(event.UpdateEvent{ObjectOld: good, ObjectNew: bad}), true},
		"is bad":          {turns.Update(event.UpdateEvent{ObjectOld: bad, ObjectNew: bad}), false},
		"turns good":      {turns.Update(event.UpdateEvent{ObjectOld: bad, ObjectNew: good}), false},
		"comes bad":       {turns.Create(event.CreateEvent{Object: bad}), true},
		"comes good":      {turns.Create(event.CreateEvent{Object: good}), false},
		"node is gone":    {turns.Delete(event.DeleteEvent{Object: bad}), false},
		"pod is placed":   {comes.Update(event.UpdateEvent{ObjectOld: waiting, ObjectNew: placed}), true},
		"pod changes":     {comes.Update(event.UpdateEvent{ObjectOld: placed, ObjectNew: placed}), false},
		"pod was placed":  {comes.Create(event.CreateEvent{Object: placed}), true},
		"pod comes":       {comes.Create(event.CreateEvent{Object: waiting}), false},
		"stranger comes":  {comes.Create(event.CreateEvent{Object: stranger}), false},
		"pod is gone":     {comes.Delete(event.DeleteEvent{Object: placed}), false},
		"something else":  {comes.Generic(event.GenericEvent{Object: placed}), false},
		"some other node": {turns.Generic(event.GenericEvent{Object: bad}), false},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: let through %v", name, tc.got)
		}
	}
}
