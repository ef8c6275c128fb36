package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

// TestNotice: the pods of a workload that is about to be stopped are told when and why, and what one of them answers
// ends the time. An answer from before the question is none.
func TestNotice(t *testing.T) {
	w := evicted()
	early := pod()
	early.Annotations[kueue.StopAcknowledgedAnnotation] = "true" // its template says so
	ended := pod()
	ended.Name, ended.Status.Phase = "ended", corev1.PodSucceeded
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	b := newBench(t, w, train(), early, ended, node)
	b.Config.MaxStopNotice = time.Minute
	read := func(name string) *corev1.Pod {
		t.Helper()
		p := &corev1.Pod{}
		if err := b.Client.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: name}, p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	b.look()
	told := read("p").Annotations
	if told[kueue.StopAtAnnotation] != now.Add(40*time.Second).Format(time.RFC3339) ||
		told[kueue.StopReasonAnnotation] != "for another" || told[kueue.StopAcknowledgedAnnotation] != "" {
		t.Fatalf("the pod was told %v", told)
	}
	if read("ended").Annotations[kueue.StopAtAnnotation] != "" {
		t.Error("a pod that has ended was told")
	}
	is, again := b.look()
	if !apimeta.IsStatusConditionTrue(is.Status.Conditions, kueue.WorkloadStopNotice) ||
		again != 40*time.Second {
		t.Fatalf("it is looked at again in %s: %+v", again, is.Status.Conditions)
	}
	answer := read("p")
	was := answer.DeepCopy()
	answer.Annotations[kueue.StopAcknowledgedAnnotation] = "true"
	if !telling().Update(event.UpdateEvent{ObjectOld: was, ObjectNew: answer}) {
		t.Error("an answer wakes nobody")
	}
	if telling().Update(event.UpdateEvent{ObjectOld: answer, ObjectNew: answer}) {
		t.Error("each change of a pod that has answered wakes somebody")
	}
	if err := b.Client.Update(t.Context(), answer); err != nil {
		t.Fatal(err)
	}
	is, _ = b.look()
	if c := apimeta.FindStatusCondition(
		is.Status.Conditions,
		kueue.WorkloadStopNotice,
	); c.Reason != kueue.ReasonAcknowledged {
		t.Errorf("it answered, and the condition says %+v", c)
	}
}

// evicted is a Workload that asked for some time and was evicted now.
func evicted() *kueue.Workload {
	w := of("Job", "batch/v1", "train")
	w.Annotations = map[string]string{kueue.StopNoticeAnnotation: "40s"}
	next := w.Status.DeepCopy()
	workloadlifecycle.Evict(
		w, next, now, workloadlifecycle.Eviction{Reason: kueue.ReasonPreempted, Message: "for another"},
	)
	w.Status = *next
	return w
}

// TestNoticeOfManyPods: one pod that cannot be told keeps no other from being told.
func TestNoticeOfManyPods(t *testing.T) {
	objects := []client.Object{evicted(), train(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}
	for i := range 40 {
		p := pod()
		p.Name = fmt.Sprintf("p-%02d", i)
		objects = append(objects, p)
	}
	b := newBench(t, objects...)
	b.Config.MaxStopNotice = time.Minute
	b.Client = interceptor.NewClient(b.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption,
		) error {
			if o.GetName() == "p-00" {
				return errors.New("refused")
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	_, err := b.Reconcile(
		t.Context(),
		reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "blue", Name: "w"}},
	)
	if err == nil || !strings.Contains(err.Error(), "p-00") {
		t.Errorf("that one could not be told: %v", err)
	}
	pods, err := admission.ListPods(t.Context(), b.Client, "blue", "w")
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		told := pods[i].Annotations[kueue.StopAtAnnotation] != ""
		if told != (pods[i].Name != "p-00") {
			t.Errorf("%s was told: %v", pods[i].Name, told)
		}
	}
}

// TestNoticeOnDeadNodes: a job whose pods are all on nodes that are gone or not heard of saves nothing, and recovers at once.
func TestNoticeOnDeadNodes(t *testing.T) {
	node := func(ready corev1.ConditionStatus) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		return n
	}
	for _, c := range []struct {
		node *corev1.Node
		over bool
	}{
		{node(corev1.ConditionTrue), false},
		{node(corev1.ConditionUnknown), true},
		{node(corev1.ConditionFalse), true},
		{nil, true},
	} {
		objects := []client.Object{evicted(), train(), pod()}
		if c.node != nil {
			objects = append(objects, c.node)
		}
		b := newBench(t, objects...)
		b.Config.MaxStopNotice = time.Minute
		w, _ := b.look()
		is := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadStopNotice)
		if over := is.Reason == kueue.ReasonNothingRuns; over != c.over {
			t.Errorf("on node %+v: %s", c.node, is.Reason)
		}
	}
}

// TestNoticeOverwritesNoAnswer: a pod that was told already, which is not seen yet, and has answered, is not told again.
func TestNoticeOverwritesNoAnswer(t *testing.T) {
	w := of("Job", "batch/v1", "train")
	b := newBench(t, w, pod())
	pods, err := admission.ListPods(t.Context(), b.Client, w.Namespace, w.Name)
	stale := notLeaving(pods)
	if err != nil || len(stale) != 1 {
		t.Fatal(stale, err)
	}
	answered := stale[0].DeepCopy()
	answered.Annotations[kueue.StopAcknowledgedAnnotation] = "true"
	if err := b.Client.Update(t.Context(), answered); err != nil {
		t.Fatal(err)
	}
	if err := b.tell(t.Context(), stale[0], "2026-01-01T00:00:00Z", "for another"); err == nil {
		t.Error("what the pod answered was overwritten")
	}
}

// TestCheckpointsOfPodsAreNoted: a pod or the job tells of a checkpoint, and the last one that can be true is noted on the
// Workload, which is there when the pods are gone.
func TestCheckpointsOfPodsAreNoted(t *testing.T) {
	at := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339) }
	for _, tc := range []struct{ why, pod, job, noted, want string }{
		{"a pod tells", at(-time.Minute), "", "", at(-time.Minute)},
		{"the job tells", "", at(-time.Minute), "", at(-time.Minute)},
		{"both do, and the later one counts", at(-2 * time.Minute), at(-time.Minute), "", at(-time.Minute)},
		{"a pod tells of the future", at(time.Minute), "", "", ""},
		{"a pod tells of another attempt", at(-2 * time.Hour), "", "", ""},
		{"it is no time", "yesterday", "", "", ""},
		{"one was noted a moment ago", at(-5 * time.Second), "", at(-10 * time.Second), at(-10 * time.Second)},
		{"it came soon after one that was noted long ago", at(-time.Minute), "", at(-70 * time.Second), at(-time.Minute)},
		{"it goes back", at(-5 * time.Minute), "", at(-time.Minute), at(-time.Minute)},
	} {
		w := of("Job", "batch/v1", "train")
		for i := range w.Status.Conditions {
			w.Status.Conditions[i].LastTransitionTime = metav1.NewTime(now.Add(-time.Hour))
		}
		say := func(o client.Object, text string) {
			if text == "" {
				return
			}
			all := o.GetAnnotations()
			if all == nil {
				all = map[string]string{}
			}
			all[history.CheckpointAnnotation] = text
			o.SetAnnotations(all)
		}
		job, p := train(), pod()
		say(job, tc.job)
		say(p, tc.pod)
		say(w, tc.noted)
		b := newBench(t, w, job, p)
		b.look()
		is, again := b.look()
		if got := is.Annotations[history.CheckpointAnnotation]; got != tc.want {
			t.Errorf("%s: noted is %q, want %q", tc.why, got, tc.want)
		}
		if again != 0 && again < time.Second || tc.noted == at(-10*time.Second) && again != 20*time.Second {
			t.Errorf("%s: it is looked at again in %s", tc.why, again)
		}
	}
}
