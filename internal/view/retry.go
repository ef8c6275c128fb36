package view

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/core"
)

// nodePressure is the code of what a node had too little of: the kubelet's own, Evicted, is that of limits of pods, too.
const nodePressure = "NodePressure"

// FailureOf is how a pod of a job failed in an attempt that began at some time, on a node in such a state.
func FailureOf(pod *corev1.Pod, node core.NodeTrouble, job metav1.Object, began, now time.Time) core.Failure {
	e := EvidenceOf(pod, node)
	out := core.Failure{
		Category: core.CategoryOf(e), ExitCode: e.ExitCode, Pod: pod.Name, Pressure: e.Pressure(),
		Progress: Saved(job, began, now),
	}
	end := now // also of containers that nobody saw end, as on a node that died
	if _, t := Culprit(pod); t != nil {
		end = t.FinishedAt.Time
	}
	if started := StartedAt(pod); !started.IsZero() {
		out.Progress = out.Progress || end.Sub(started) > core.ProgressTime
	}
	return out
}

// StartedAt is since when the container ran that ended a pod or, of one whose containers have not ended, as far as is
// known, since when all of them run; zero if they do not.
func StartedAt(pod *corev1.Pod) (at time.Time) {
	if _, t := Culprit(pod); t != nil {
		return t.StartedAt.Time
	}
	for i := range pod.Status.ContainerStatuses {
		switch s := &pod.Status.ContainerStatuses[i].State; {
		case s.Running == nil && s.Terminated == nil:
			return time.Time{}
		case s.Running != nil && s.Running.StartedAt.After(at):
			at = s.Running.StartedAt.Time
		}
	}
	return at
}

// Saved reports whether a job, or a pod of it, told of a checkpoint since some time.
func Saved(job metav1.Object, since, now time.Time) bool {
	t := LastCheckpoint(job)
	return t.After(since) && !t.After(now)
}

// LastCheckpoint is what a job, or a pod of it, says of its last checkpoint; zero if nothing, or nothing that makes sense.
func LastCheckpoint(o metav1.Object) time.Time {
	if t := readMoment(o.GetAnnotations()[history.CheckpointAnnotation]); t != nil {
		return t.Time
	}
	return time.Time{}
}

// RetryHistory is what attempts that are remembered come to for a policy of retries, of which so many were counted. Pods
// that were replaced while others ran on count like attempts, one by one and once they are summed up: a rule that allows
// two retries allows no third, and a rack that flaps ends a job, whichever of its pods are made anew. Those that one fault
// took were told of as one: see AddAttempt.
func RetryHistory(all history.Attempts, retries int32) core.RetryHistory {
	out := core.RetryHistory{Retries: retries}
	var before time.Time // the end of the one before
	for i := range all.Attempts {
		a := &all.Attempts[i]
		if a.End == nil || a.Category == "" {
			continue
		}
		f := failure(a)
		f.Progress = a.Checkpoint != nil || worked(a, before) > core.ProgressTime
		if a.ReplacedPods == 0 {
			before = a.End.Time
		}
		if a.ExitCode != nil {
			f.ExitCode = *a.ExitCode
		}
		out.Last = append(out.Last, f)
	}
	if all.Earlier != nil { // those of pods that were replaced among them
		for c, n := range all.Earlier.Categories {
			if out.Earlier == nil {
				out.Earlier = map[core.Category]int32{}
			}
			out.Earlier[core.Category(c)] = n
		}
	}
	return out
}

// failure is how an attempt failed, but for what it did and its exit code.
func failure(a *history.Attempt) core.Failure {
	return core.Failure{Category: core.Category(a.Category), Pod: a.Pod, Pressure: a.Reason == nodePressure}
}

// worked is for how long an attempt did something, after the end of the one before: waiting for images is nothing, so that
// of one whose pods did not start, as far as is known, it is 0.
func worked(a *history.Attempt, before time.Time) time.Duration {
	began := a.Start.Time
	if a.Ready == nil {
		return 0
	}
	if a.Ready.After(began) {
		began = a.Ready.Time
	}
	if a.ReplacedPods == 0 && before.After(began) {
		began = before
	}
	return a.End.Sub(began)
}
