package why

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/words"
)

// neverStarted is what helps a container that never started, and has no log.
const neverStarted = "correct the command or the image, as the message above says: it never started, so that there is no log"

// notStarted reports whether a container ended because the runtime could not start it.
func notStarted(t *corev1.ContainerStateTerminated) bool {
	return t != nil &&
		slices.Contains(
			[]string{"StartError", "ContainerCannotRun", "CreateContainerError", "RunContainerError"},
			t.Reason,
		)
}

// howEnded is the exit code of a container, and what the runtime says of one that it could not
// start.
func howEnded(t *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf(" with exit code %d", t.ExitCode)
	if t.Reason != "" && t.Reason != "Error" {
		text += " (" + t.Reason + ")"
	}
	if notStarted(t) && t.Message != "" {
		text += ": " + t.Message
	}
	return text
}

// failedAt is when the first container of a pod failed; far away if none says so.
func failedAt(pod *corev1.Pod) time.Time { return view.FailedAt(pod) }

// never is later than anything that happens.
func never() time.Time { return time.Unix(1<<40, 0) }

// culprit is how the container ended that failed first; nil if none failed by itself.
func culprit(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	_, t := view.Culprit(pod)
	return t
}

// howFailed is the exit code of a pod, or what was done to it.
func howFailed(pod *corev1.Pod) string {
	t := culprit(pod)
	switch {
	case t != nil:
		return howEnded(t)
	case pod.Status.Reason != "" || pod.Status.Message != "":
		return ": " + cmp.Or(pod.Status.Message, pod.Status.Reason)
	}
	return ""
}

// failures names the pods of a job that failed, the first one first: the others often
// fail because of it.
func (e *Explanation) failures(p JobObjects) {
	const most = 3
	failed := slices.DeleteFunc(
		slices.Clone(p.Pods),
		func(pod corev1.Pod) bool { return pod.Status.Phase != corev1.PodFailed },
	)
	if len(failed) == 0 {
		return
	}
	slices.SortStableFunc(failed, func(a, b corev1.Pod) int {
		return cmp.Or(failedAt(&a).Compare(failedAt(&b)), cmp.Compare(a.Name, b.Name))
	})
	for _, pod := range failed[:min(most, len(failed))] {
		where := ""
		if pod.Spec.NodeName != "" {
			where = " on " + pod.Spec.NodeName
		}
		e.say("Pod %s failed%s%s", pod.Name, where, howFailed(&pod))
	}
	if more := len(failed) - most; more > 0 {
		e.say("%s failed too", words.Count(more, "more pod"))
	}
	e.Helps = fmt.Sprintf("read its log: mlbatch logs %s/%s", p.Asked.Namespace, failed[0].Name)
	if notStarted(culprit(&failed[0])) {
		e.Helps = neverStarted
	}
}
