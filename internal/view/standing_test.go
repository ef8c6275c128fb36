package view_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
)

// at is so many minutes after the Workload was made.
func at(minutes int) metav1.Time {
	return metav1.NewTime(time.Date(2026, 1, 1, 0, minutes, 0, 0, time.UTC))
}

func yes(kind, reason string, minutes int) metav1.Condition {
	return metav1.Condition{
		Type:               kind,
		Status:             metav1.ConditionTrue,
		Reason:             reason,
		Message:            "message of " + reason,
		LastTransitionTime: at(minutes),
	}
}

func no(kind, reason string, minutes int) metav1.Condition {
	c := yes(kind, reason, minutes)
	c.Status = metav1.ConditionFalse
	return c
}

// workload waits in queue "q".
func workload(conditions ...metav1.Condition) *kueue.Workload {
	w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "w", CreationTimestamp: at(0)}}
	w.Spec.QueueName, w.Status.Conditions = "q", conditions
	return w
}

// holder has quota of "cq" for two pods.
func holder(conditions ...metav1.Condition) *kueue.Workload {
	w := workload(conditions...)
	w.Status.Admission = &kueue.Admission{
		ClusterQueue:      "cq",
		PodSetAssignments: []kueue.PodSetAssignment{{Count: new(int32(2))}},
	}
	return w
}

func with[T any](o *T, change func(*T)) *T { change(o); return o }

func wrapper(phase appwrapper.AppWrapperPhase, conditions ...metav1.Condition) *appwrapper.AppWrapper {
	return &appwrapper.AppWrapper{Status: appwrapper.AppWrapperStatus{Phase: phase, Conditions: conditions}}
}

func job(conditions ...batchv1.JobCondition) *batchv1.Job {
	return &batchv1.Job{Status: batchv1.JobStatus{Conditions: conditions}}
}

func pods(phases ...corev1.PodPhase) (out []corev1.Pod) {
	for _, p := range phases {
		out = append(out, corev1.Pod{Status: corev1.PodStatus{Phase: p}})
	}
	return out
}

// Every stage of a job, the state that it is in and what is told of it.
func TestStandingOf(t *testing.T) {
	queue := map[string]string{kueue.QueueNameLabel: "q"}
	reserved, admitted := yes(
		kueue.WorkloadQuotaReserved,
		"QuotaReserved",
		3,
	), yes(
		kueue.WorkloadAdmitted,
		"Admitted",
		3,
	)
	evicted := yes(kueue.WorkloadEvicted, "Preempted", 5)
	eviction := &view.Eviction{Reason: "Preempted", Message: "message of Preempted", At: at(5).Time}
	stopping := &view.Eviction{
		Reason:  "Preempted",
		Message: "message of Preempted",
		At:      at(5).Time,
		Lost:    view.Lost{RanSeconds: 120},
	}
	refusal := no(kueue.WorkloadQuotaReserved, "WaitingForQuota", 4)
	released := no(kueue.WorkloadQuotaReserved, "Pending", 7)
	released.Message = evicted.Message
	running := view.Pods{Wanted: 2, Running: pods(corev1.PodRunning, corev1.PodRunning)}
	for name, c := range map[string]struct {
		why  string
		of   view.Objects
		want view.Standing
	}{
		"failed wrapper": {"it says so itself, whatever its Workload says", view.Objects{
			AppWrapper: wrapper(appwrapper.AppWrapperFailed, yes(appwrapper.Unhealthy, "FoundFailedPods", 9)), Workload: holder(reserved, admitted),
		}, view.Standing{Stage: view.Ended, State: view.Failed, Reason: "FoundFailedPods", Message: "message of FoundFailedPods", LocalQueue: "q", Pods: view.Pods{Wanted: 2}}},
		"failed for no known reason": {
			"it has a reason all the same",
			view.Objects{AppWrapper: wrapper(appwrapper.AppWrapperFailed)},
			view.Standing{Stage: view.Ended, State: view.Failed, Reason: "Failed"},
		},
		"succeeded wrapper": {
			"",
			view.Objects{AppWrapper: wrapper(appwrapper.AppWrapperSucceeded)},
			view.Standing{Stage: view.Ended, State: view.Succeeded, Reason: "Succeeded"},
		},
		"failed Job": {"conditions that are not true say nothing", view.Objects{Job: job(
			batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionFalse}, batchv1.JobCondition{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue},
			batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "m", LastTransitionTime: at(2)},
		)}, view.Standing{Stage: view.Ended, State: view.Failed, Reason: "BackoffLimitExceeded", Message: "m", Since: at(2).Time}},
		"complete Job": {
			"",
			view.Objects{Job: job(batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: at(2)})},
			view.Standing{Stage: view.Ended, State: view.Succeeded, Reason: "Complete", Since: at(2).Time},
		},
		"of another controller": {
			"it is left alone",
			view.Objects{Job: with(job(), func(j *batchv1.Job) { j.Spec.ManagedBy = new("example.com/other") })},
			view.Standing{Stage: view.Foreign, State: view.Unmanaged, Reason: "ManagedBy", Manager: "example.com/other"},
		},
		"wrapper of another controller": {
			"it is left alone too",
			view.Objects{AppWrapper: with(wrapper(""), func(aw *appwrapper.AppWrapper) { aw.Spec.ManagedBy = new("kueue.x-k8s.io/multikueue") })},
			view.Standing{Stage: view.Foreign, State: view.Unmanaged, Reason: "ManagedBy", Manager: "kueue.x-k8s.io/multikueue"},
		},
		"of ours by name": {
			"that is the same as no name",
			view.Objects{Job: with(job(), func(j *batchv1.Job) { j.Spec.ManagedBy, j.Labels = new(batchv1.JobControllerName), queue })},
			view.Standing{Stage: view.NotRecorded, State: view.Waiting, Reason: "NoWorkload", LocalQueue: "q"},
		},
		"loose": {
			"no quota holds it back",
			view.Objects{Loose: true, Team: true, Pods: pods(corev1.PodRunning, corev1.PodSucceeded)},
			view.Standing{Stage: view.Loose, State: view.Unmanaged, Reason: "NotQueued", Pods: view.Pods{Wanted: 1, Running: pods(corev1.PodRunning), Ended: 1}},
		},
		"no queue": {"Kubernetes runs it", view.Objects{Job: job()}, view.Standing{Stage: view.Unqueued, State: view.Unmanaged, Reason: "NoQueue"}},
		"no queue in a team's namespace": {
			"it must have one",
			view.Objects{Job: job(), Team: true},
			view.Standing{Stage: view.Unqueued, State: view.Held, Reason: "NoQueue"},
		},
		"wrapper without a queue": {"no controller runs it", view.Objects{AppWrapper: wrapper("")}, view.Standing{Stage: view.Unqueued, State: view.Held, Reason: "NoQueue"}},
		"refused": {
			"the event says why",
			view.Objects{Job: with(job(), func(j *batchv1.Job) { j.Labels = queue }), Refused: &corev1.Event{Reason: "WorkloadRefused", Message: "exceeded quota"}},
			view.Standing{Stage: view.Refused, State: view.Held, Reason: "WorkloadRefused", Message: "exceeded quota", LocalQueue: "q"},
		},
		"never to run": {
			"the AppWrapper says why",
			view.Objects{AppWrapper: with(wrapper("", yes(appwrapper.Unhealthy, "Invalid", 1)), func(aw *appwrapper.AppWrapper) { aw.Labels = queue })},
			view.Standing{Stage: view.NotRecorded, State: view.Waiting, Reason: "NoWorkload", Message: "message of Invalid", LocalQueue: "q"},
		},
		"finished": {
			"also if it is still admitted",
			view.Objects{Workload: holder(reserved, admitted, yes(kueue.WorkloadFinished, "Failed", 8))},
			view.Standing{Stage: view.Finished, State: view.Failed, Reason: "Failed", Message: "message of Failed", Since: at(8).Time, LocalQueue: "q", ClusterQueue: "cq", Pods: view.Pods{Wanted: 2}},
		},
		"finished well": {
			"",
			view.Objects{Job: job(), Workload: workload(yes(kueue.WorkloadFinished, "Succeeded", 8))},
			view.Standing{Stage: view.Finished, State: view.Succeeded, Reason: "Succeeded", Message: "message of Succeeded", Since: at(8).Time, LocalQueue: "q"},
		},
		"evicted": {
			"its pods still run",
			view.Objects{Workload: holder(reserved, admitted, evicted), Pods: pods(corev1.PodRunning, corev1.PodRunning)},
			view.Standing{Stage: view.Evicted, State: view.Stopping, Reason: "Preempted", Message: "message of Preempted", Since: at(5).Time, LocalQueue: "q", ClusterQueue: "cq", Eviction: stopping, Pods: running},
		},
		"checks": {
			"quota alone does not start it",
			view.Objects{Workload: holder(reserved, no(kueue.WorkloadAdmitted, "UnsatisfiedAdmissionChecks", 3))},
			view.Standing{Stage: view.Checking, State: view.Waiting, Reason: "UnsatisfiedAdmissionChecks", Since: at(3).Time, LocalQueue: "q", ClusterQueue: "cq", Pods: view.Pods{Wanted: 2}},
		},
		"no pods yet": {
			"",
			view.Objects{Workload: holder(reserved, admitted)},
			view.Standing{Stage: view.Admitted, State: view.Starting, Reason: "Admitted", Since: at(3).Time, LocalQueue: "q", ClusterQueue: "cq", Pods: view.Pods{Wanted: 2}},
		},
		"one pod waits": {
			"",
			view.Objects{Workload: holder(reserved, admitted), Pods: pods(corev1.PodRunning, corev1.PodPending)},
			view.Standing{
				Stage: view.Admitted, State: view.Starting, Reason: "Admitted", Since: at(3).Time, LocalQueue: "q", ClusterQueue: "cq",
				Pods: view.Pods{Wanted: 2, Running: pods(corev1.PodRunning), Waiting: pods(corev1.PodPending)},
			},
		},
		"runs": {
			"",
			view.Objects{Workload: holder(reserved, admitted), Pods: pods(corev1.PodRunning, corev1.PodRunning)},
			view.Standing{Stage: view.Admitted, State: view.Running, Reason: "Admitted", Since: at(3).Time, LocalQueue: "q", ClusterQueue: "cq", Pods: running},
		},
		"made smaller": {
			"its job asks for fewer pods than it has quota for, and does not wait for the others",
			view.Objects{Workload: with(holder(reserved, admitted), func(w *kueue.Workload) {
				w.Status.Admission.PodSetAssignments[0].Name = "main"
				w.Annotations = map[string]string{kueue.FewerPodsAnnotation: "main=1"}
			}), Pods: pods(corev1.PodRunning)},
			view.Standing{Stage: view.Admitted, State: view.Running, Reason: "Admitted", Since: at(3).Time, LocalQueue: "q", ClusterQueue: "cq", Pods: view.Pods{Wanted: 1, Running: pods(corev1.PodRunning)}},
		},
		"ended, and keeps pods": {
			"it has ended by its own account, whoever still waits for what it kept",
			view.Objects{Workload: holder(reserved, admitted), Other: &view.Other{Ended: true, Succeeded: true, Message: "done", At: at(9).Time}, Pods: pods(corev1.PodRunning)},
			view.Standing{
				Stage: view.Ended, State: view.Succeeded, Reason: "Succeeded", Message: "done", Since: at(9).Time, LocalQueue: "q", ClusterQueue: "cq",
				Pods: view.Pods{Wanted: 2, Running: pods(corev1.PodRunning)},
			},
		},
		"runs on after failures": {
			"how pods ended is told",
			view.Objects{Workload: holder(reserved, admitted), Pods: pods(corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed)},
			view.Standing{
				Stage: view.Admitted, State: view.Running, Reason: "Admitted", Since: at(3).Time, LocalQueue: "q", ClusterQueue: "cq",
				Pods: view.Pods{Wanted: 2, Running: pods(corev1.PodRunning), Ended: 2, Failed: 1},
			},
		},
		"runs to its end": {
			"what ended counts as started",
			view.Objects{Workload: holder(reserved, admitted), Pods: pods(corev1.PodRunning, corev1.PodSucceeded)},
			view.Standing{
				Stage: view.Admitted, State: view.Running, Reason: "Admitted", Since: at(3).Time, LocalQueue: "q", ClusterQueue: "cq",
				Pods: view.Pods{Wanted: 2, Running: pods(corev1.PodRunning), Ended: 1},
			},
		},
		"reset": {"its pods are made anew", view.Objects{
			AppWrapper: wrapper(appwrapper.AppWrapperResetting, yes(appwrapper.Unhealthy, "FoundNoExecuteNodes", 6)),
			Workload:   holder(reserved, admitted), Pods: pods(corev1.PodRunning, corev1.PodRunning),
		}, view.Standing{Stage: view.Admitted, State: view.Resetting, Reason: "FoundNoExecuteNodes", Since: at(3).Time, LocalQueue: "q", ClusterQueue: "cq", Pods: running}},
		"suspended": {
			"",
			view.Objects{AppWrapper: wrapper(appwrapper.AppWrapperSuspending), Workload: holder(reserved, admitted), Pods: pods(corev1.PodRunning, corev1.PodRunning)},
			view.Standing{Stage: view.Admitted, State: view.Stopping, Reason: "Suspending", Since: at(3).Time, LocalQueue: "q", ClusterQueue: "cq", Pods: running},
		},
		"deactivated": {
			"by a user",
			view.Objects{Workload: with(workload(), func(w *kueue.Workload) { w.Spec.Active = new(false) })},
			view.Standing{Stage: view.Deactivated, State: view.Held, Reason: "Deactivated", LocalQueue: "q"},
		},
		"deactivated by a limit": {
			"the eviction says which",
			view.Objects{Workload: with(workload(yes(kueue.WorkloadEvicted, "DeactivatedDueToMaximumExecutionTimeExceeded", 5)), func(w *kueue.Workload) { w.Spec.Active = new(false) })},
			view.Standing{
				Stage: view.Deactivated, State: view.Held, Reason: "DeactivatedDueToMaximumExecutionTimeExceeded", Message: "message of DeactivatedDueToMaximumExecutionTimeExceeded", LocalQueue: "q",
				Eviction: &view.Eviction{
					Reason: "DeactivatedDueToMaximumExecutionTimeExceeded", Cause: "MaximumExecutionTimeExceeded", Message: "message of DeactivatedDueToMaximumExecutionTimeExceeded",
					Rule: "spec.maximumExecutionTimeSeconds of its Workload", At: at(5).Time,
				},
			},
		},
		"recorded without a queue": {
			"no queue looks at it",
			view.Objects{Workload: with(workload(refusal), func(w *kueue.Workload) { w.Spec.QueueName = "" })},
			view.Standing{Stage: view.Unqueued, State: view.Held, Reason: "NoQueue"},
		},
		"new": {
			"the scheduler has not looked at it",
			view.Objects{Workload: workload()},
			view.Standing{Stage: view.Queued, State: view.Waiting, Reason: "PendingEvaluation", Since: at(0).Time, LocalQueue: "q"},
		},
		"waits": {
			"as was written",
			view.Objects{Workload: workload(refusal), Answer: &visibility.Explanation{Reason: "none"}},
			view.Standing{
				Stage: view.Queued, State: view.Waiting, Reason: "WaitingForQuota", Message: "message of WaitingForQuota", Since: at(0).Time, LocalQueue: "q",
				Decision: &view.Decision{Code: core.WaitingForQuota, Message: "message of WaitingForQuota", At: at(4).Time},
			},
		},
		"waits, and a controller answers": {"that counts, and not what was written", view.Objects{
			Workload: workload(refusal), Answer: &visibility.Explanation{Waiting: true, At: at(9), Reason: "TopologyPlacementFailed", Cause: "NodesShort", Message: "m"},
		}, view.Standing{
			Stage: view.Queued, State: view.Waiting, Reason: "TopologyPlacementFailed", Message: "m", Since: at(0).Time, LocalQueue: "q",
			Decision: &view.Decision{Code: core.TopologyPlacementFailed, Cause: core.NodesShort, Message: "m", At: at(9).Time, Live: true},
		}},
		"waits again": {
			"since it gave back its quota, and the scheduler has not looked at it since",
			view.Objects{Workload: workload(evicted, released)},
			view.Standing{Stage: view.Queued, State: view.Waiting, Reason: "PendingEvaluation", Since: at(7).Time, LocalQueue: "q", Eviction: eviction},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, view.StandingOf(c.of)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}
