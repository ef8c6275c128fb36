package admission

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

// Which events of pods are looked at: those after which quota may be free, or a pod
// has no node.
func TestPodsEnding(t *testing.T) {
	pod := func(phase corev1.PodPhase, refusedBy ...string) *corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		for range refusedBy {
			p.Status.Conditions = []corev1.PodCondition{
				{
					Type:               corev1.PodScheduled,
					Status:             corev1.ConditionFalse,
					Reason:             corev1.PodReasonUnschedulable,
					LastTransitionTime: metav1.NewTime(time.Unix(1000, 0)),
				},
			}
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
	if funcs.Create(event.CreateEvent{Object: runs}) || !funcs.Delete(event.DeleteEvent{Object: runs}) ||
		funcs.Generic(event.GenericEvent{Object: runs}) {
		t.Error("a pod that is new frees nothing, one that is gone may")
	}
}

// What keeps pods from being ready is told in the words of the runtime, whatever stage they are at.
func TestTroubleOfPods(t *testing.T) {
	status := func(s corev1.ContainerState, last *corev1.ContainerStateTerminated) corev1.PodStatus {
		return corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{
				{State: s, LastTerminationState: corev1.ContainerState{Terminated: last}},
			},
		}
	}
	waits := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	ended := func(code int32, reason, message string) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	unplaced := corev1.PodStatus{Conditions: []corev1.PodCondition{
		{
			Type:    corev1.PodScheduled,
			Status:  corev1.ConditionFalse,
			Reason:  corev1.PodReasonUnschedulable,
			Message: "no node has room",
		},
	}}
	inInit := status(waits("PodInitializing", ""), nil)
	inInit.InitContainerStatuses = status(waits("ErrImagePull", "nowhere/x: not found"), nil).ContainerStatuses
	long := status(waits("ErrImagePull", strings.Repeat("x", 10_000)), nil)
	for name, tc := range map[string]struct {
		is   corev1.PodStatus
		want string
	}{
		"runs":              {status(runs, nil), ""},
		"starts":            {status(waits("ContainerCreating", ""), nil), ""},
		"image":             {status(waits("ImagePullBackOff", "nowhere/x: not found"), nil), "pod a: ImagePullBackOff: nowhere/x: not found"},
		"image of an init":  {inInit, "pod a: ErrImagePull: nowhere/x: not found"},
		"command":           {status(corev1.ContainerState{Terminated: ended(128, "StartError", `exec: "x": not found`)}, nil), `pod a: it ended with exit code 128 (StartError): exec: "x": not found`},
		"crashes":           {status(waits("CrashLoopBackOff", ""), ended(3, "Error", "")), "pod a: CrashLoopBackOff, after it ended with exit code 3"},
		"runs, and crashed": {status(runs, ended(3, "Error", "")), "pod a: it ended with exit code 3"},
		"ended well":        {status(runs, ended(0, "Completed", "")), ""},
		"no node":           {unplaced, "pod a: no node has room"},
		"refused by a node": {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "UnexpectedAdmissionError", Message: "no device"}, "pod a: UnexpectedAdmissionError: no device"},
		"much to say":       {long, "pod a: ErrImagePull: " + strings.Repeat("x", longestTrouble-len("ErrImagePull: ")) + "..."},
	} {
		pods := []corev1.Pod{
			{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Status: tc.is},
			{ObjectMeta: metav1.ObjectMeta{Name: "0"}, Status: status(runs, nil)},
			{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: tc.is},
		}
		if got := Trouble(pods); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// A gang of which one pod has its node, and another may not be bound to its own, is called back after a while: no node
// says that this pod is unschedulable.
func TestRefusedBindOfOnePodIsDue(t *testing.T) {
	at := time.Unix(1000, 0)
	pod := func(name, node string, conditions ...corev1.PodCondition) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PodSpec{NodeName: node},
			Status:     corev1.PodStatus{Phase: corev1.PodPending, Conditions: conditions},
		}
	}
	scheduled := func(reason string, since time.Time) corev1.PodCondition {
		return corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: "denied",
			LastTransitionTime: metav1.NewTime(since),
		}
	}
	told := func(since time.Time) corev1.PodCondition {
		return corev1.PodCondition{
			Type: kueue.PodNodesRefused, Status: corev1.ConditionTrue, Message: "main: n1=0: denied",
			LastTransitionTime: metav1.NewTime(since),
		}
	}
	failed := scheduled(corev1.PodReasonSchedulerError, at)
	for name, c := range map[string]struct {
		pods []corev1.Pod
		due  time.Duration // after at; 0 for at once, -1 for never
	}{
		"all are bound": {[]corev1.Pod{pod("a", "n1", told(at)), pod("b", "n2")}, -1},
		"none is bound": {[]corev1.Pod{pod("a", "", failed, told(at)), pod("b", "")}, 0},
		"one is bound": {
			[]corev1.Pod{pod("a", "n1"), pod("b", "", failed, told(at))}, workloadlifecycle.RefusalPatience,
		},
		"two are refused": {
			[]corev1.Pod{pod("a", "n1"), pod("b", "", told(at.Add(time.Second))), pod("c", "", told(at))},
			workloadlifecycle.RefusalPatience,
		},
		"one is unschedulable since": {
			[]corev1.Pod{
				pod("a", "n1"), pod("b", "", failed, told(at)),
				pod("c", "", scheduled(corev1.PodReasonUnschedulable, at.Add(time.Second))),
			},
			time.Second + workloadlifecycle.RefusalPatience,
		},
		"nothing is told": {[]corev1.Pod{pod("a", "n1"), pod("b", "", failed)}, -1},
	} {
		is := CountPods(c.pods)
		left, due := workloadlifecycle.Refused{
			Nodes: is.Nodes, Why: is.Why, Since: is.Refused, Ran: is.Bound > 0,
		}.Due(at)
		got := left
		if !due && left == 0 {
			got = -1
		}
		if got != c.due {
			t.Errorf("%s: due after %v, want %v", name, got, c.due)
		}
	}
}
