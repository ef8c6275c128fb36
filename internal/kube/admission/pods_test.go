package admission

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Which events of pods are looked at: those after which quota may be free, or a pod
// has no node.
func TestPodsEnding(t *testing.T) {
	pod := func(phase corev1.PodPhase, refusedBy ...string) *corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		for range refusedBy {
			p.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(time.Unix(1000, 0)),
			}}
		}
		return p
	}
	runs, done, lost := pod(corev1.PodRunning), pod(corev1.PodSucceeded), pod(corev1.PodPending, "all")
	funcs := endings()
	for name, tc := range map[string]struct {
		was, is client.Object
		want    bool
	}{
		"ends": {runs, done, true}, "goes on": {runs, runs, false}, "ended before": {done, done, false},
		"has no node": {pod(corev1.PodPending), lost, true}, "still has none": {lost, lost, false}, "has one": {lost, runs, false},
		"no pod": {&batchv1.Job{}, &batchv1.Job{}, false},
	} {
		if got := funcs.Update(event.UpdateEvent{ObjectOld: tc.was, ObjectNew: tc.is}); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if funcs.Create(event.CreateEvent{Object: runs}) || !funcs.Delete(event.DeleteEvent{Object: runs}) || funcs.Generic(event.GenericEvent{Object: runs}) {
		t.Error("a pod that is new frees nothing, one that is gone may")
	}
}
