package actions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/words"
)

// Goal is what a job is awaited to reach.
type Goal string

// Goals. What a job has left behind counts as reached: one that has succeeded was admitted and
// has run.
const (
	UntilAdmitted  Goal = "admitted"
	UntilRunning   Goal = "running"
	UntilSucceeded Goal = "succeeded"
	UntilEnded     Goal = "ended"
	UntilDeleted   Goal = "deleted"
)

// Goals are all of them.
func Goals() []Goal {
	return []Goal{UntilAdmitted, UntilRunning, UntilSucceeded, UntilEnded, UntilDeleted}
}

// NeverError says that a job will not reach a goal, or has nothing that could.
type NeverError struct{ text string }

// Error is a sentence.
func (e *NeverError) Error() string { return e.text }

// LateError says how a job stands that has not reached a goal in time.
type LateError struct {
	text string
	err  error
}

// Error is a sentence.
func (e *LateError) Error() string { return e.text }

// Unwrap is why there was no more time.
func (e *LateError) Unwrap() error { return e.err }

func never(format string, args ...any) error { return &NeverError{fmt.Sprintf(format, args...)} }

// Await waits until a job has reached a goal, and says how it stands then. A NeverError says that
// it has not and will not; the error of ctx, how it stands when there is no more time.
func Await(ctx context.Context, c client.WithWatch, t *Target, goal Goal) (*Result, error) {
	a := Actor{Client: c}
	err := Follow(
		ctx,
		c,
		t,
		goal == UntilRunning || t.Workload == nil,
		func(gone bool) (bool, error) { return t.reached(goal, gone) },
	)
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return nil, &LateError{
			fmt.Sprintf("%s is not %s but %s, and the time is over", t.title(), goal, t.stands()),
			err,
		}
	case err != nil:
		return nil, err
	case goal == UntilDeleted:
		return a.result(t, string(goal), "%s is deleted.", t.title()), nil
	}
	return a.result(t, string(goal), "%s is %s.", t.title(), t.stands()), nil
}

// stands is how a job stands, such as "waiting (WaitingForQuota)".
func (t *Target) stands() string {
	if t.serves() {
		ready, want := t.ready()
		return fmt.Sprintf("running %d of %s", ready, pods(want))
	}
	j := t.Facts()
	if j.Stage == view.Unqueued || j.Stage == view.Loose || j.Stage == view.Foreign {
		if running := len(j.Pods.Running); running > 0 {
			return fmt.Sprintf("running with %s, in no queue", pods(running))
		}
	}
	text := strings.ToLower(string(j.State))
	if j.Reason != "" && !strings.EqualFold(j.Reason, string(j.State)) && j.State != view.Running {
		text += " (" + j.Reason + ")"
	}
	return text
}

// reached reports whether a goal is reached; the error says that it never will be.
func (t *Target) reached(goal Goal, gone bool) (bool, error) {
	switch {
	case gone && goal == UntilDeleted:
		return true, nil
	case gone:
		return false, never("%s was deleted", t.title())
	case goal == UntilDeleted:
		return false, nil
	case t.serves():
		if goal != UntilRunning {
			return false, never(
				"%s serves until it is deleted, and its pods are queued by themselves: use --for running or deleted",
				t.title(),
			)
		}
		ready, want := t.ready()
		return want > 0 && ready >= want, nil
	}
	j := t.Facts()
	ended, good := t.ended(j)
	switch {
	case ended && (goal == UntilEnded || good):
		return true, nil
	case ended:
		text := t.title() + " has failed"
		if j.Message != "" {
			text += ": " + words.Harmless(strings.TrimSuffix(j.Message, "."))
		}
		return false, never("%s", text)
	case goal == UntilAdmitted && slices.Contains([]view.Stage{view.Foreign, view.Loose}, j.Stage),
		goal == UntilAdmitted && j.Stage == view.Unqueued && j.State == view.Unmanaged:
		return false, never("%s is in no queue and is never admitted: use --for running", t.title())
	case goal == UntilAdmitted:
		return j.Stage == view.Admitted, nil
	case goal == UntilRunning:
		return j.State == view.Running || j.State == view.Unmanaged && j.Pods.AllRun(), nil
	}
	return false, nil
}

// ended reports whether a job has, and whether well. Pods that are in no queue say it themselves.
func (t *Target) ended(j view.Standing) (ended, good bool) {
	if j.Stage == view.Loose && t.Pod != nil && len(t.Pods) == 1 {
		phase := t.Pods[0].Status.Phase
		return phase == corev1.PodSucceeded || phase == corev1.PodFailed, phase == corev1.PodSucceeded
	}
	return j.Stage == view.Ended || j.Stage == view.Finished, j.State == view.Succeeded
}

// serves reports whether the target goes on until it is deleted.
func (t *Target) serves() bool { return t.Set != nil || t.Deployment != nil }

// ready is how many pods or groups of what serves are ready, and how many there are to be.
func (t *Target) ready() (ready, want int) {
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(t.Object())
	if err != nil {
		return 0, 0
	}
	is, _, err := number(o, "status", "readyReplicas")
	if err != nil {
		return 0, 0
	}
	wanted, found, err := number(o, "spec", "replicas")
	if err != nil {
		return 0, 0
	}
	if !found {
		wanted = 1
	}
	return int(is), int(wanted)
}
