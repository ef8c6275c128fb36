package submit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/view"
)

// exited is a pod that ended with a code.
func exited(code int32) []corev1.Pod {
	var p corev1.Pod
	p.Status.ContainerStatuses = []corev1.ContainerStatus{
		{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}},
	}
	return []corev1.Pod{p}
}

// seen is how a job stands at a time.
type seen struct {
	view.Standing
	pods []corev1.Pod
	gone bool
}

func TestSession(t *testing.T) {
	waits := seen{
		Standing: view.Standing{
			State:    view.Waiting,
			Stage:    view.Queued,
			Reason:   "WaitingForQuota",
			Decision: &view.Decision{},
		},
	}
	starts := seen{
		Standing: view.Standing{State: view.Starting, Pods: view.Pods{Wanted: 2, Running: make([]corev1.Pod, 1)}},
	}
	runs := seen{
		Standing: view.Standing{State: view.Running, Pods: view.Pods{Wanted: 2, Running: make([]corev1.Pod, 2)}},
	}
	ends := seen{Standing: view.Standing{State: view.Starting, Pods: view.Pods{Wanted: 2, Ended: 1}}}
	good := seen{Standing: view.Standing{State: view.Succeeded, Stage: view.Ended}}
	bad := seen{Standing: view.Standing{State: view.Failed, Stage: view.Ended, Message: "no more tries"}}
	late := seen{
		Standing: view.Standing{
			State:  view.Held,
			Stage:  view.Deactivated,
			Reason: "DeactivatedDueToMaximumExecutionTimeExceeded",
		},
	}
	waitsFor := func(reason, message string) seen {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x-1"}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}},
		}
		return seen{Standing: starts.Standing, pods: []corev1.Pod{p}}
	}
	tests := map[string]struct {
		why    string
		states []seen
		final  []corev1.Pod
		width  int
		logs   int
		want   Result
		notes  string
	}{
		"good": {
			"each change is told once",
			[]seen{waits, waits, starts, runs, runs, ends, good},
			nil,
			0,
			1,
			Result{},
			"x waits: 4 GPUs; 2 before it\nx starts: 1 of 2 pods run\nx runs\nx succeeded\n",
		},
		"stuck": {
			"what the runtime says is told as it was first said",
			[]seen{
				starts,
				waitsFor("ErrImagePull", "not found"),
				waitsFor("ImagePullBackOff", "back-off"),
				runs,
				good,
			},
			nil,
			0,
			1,
			Result{},
			"x starts: 1 of 2 pods run\nx starts: 1 of 2 pods run; pod x-1 cannot start: ErrImagePull: not found\nx runs\nx succeeded\n",
		},
		"bad": {
			"the exit code is that of the job",
			[]seen{runs, bad},
			exited(3),
			0,
			1,
			Result{Code: 3},
			"x runs\nx failed with exit code 3: no more tries\n",
		},
		"cleaned": {
			"what was seen counts when pods are gone",
			[]seen{runs, {bad.Standing, exited(7), false}},
			nil,
			0,
			1,
			Result{Code: 7},
			"x runs\nx failed with exit code 7: no more tries\n",
		},
		"unknown": {
			"it failed anyway",
			[]seen{bad},
			nil,
			0,
			0,
			Result{Code: 1},
			"x failed with exit code 1: no more tries\n",
		},
		"retried": {
			"a failure that was made good is none",
			[]seen{{runs.Standing, exited(7), false}, good},
			nil,
			0,
			1,
			Result{},
			"x runs\nx succeeded\n",
		},
		"late": {
			"its time is over",
			[]seen{runs, late},
			nil,
			0,
			1,
			Result{Code: 1},
			"x runs\nx was stopped for good (DeactivatedDueToMaximumExecutionTimeExceeded)\n",
		},
		"deleted": {
			"by somebody else",
			[]seen{{Standing: waits.Standing, gone: true}},
			nil,
			0,
			0,
			Result{Code: 1},
			"x was deleted\n",
		},
		"terminal": {
			"a line that changes, cut to the width",
			[]seen{waits, starts, runs, good},
			nil, 20, 1,
			Result{},
			"\r\x1b[Kx waits: 4 GPUs; 2…\r\x1b[Kx starts: 1 of 2 p…\r\x1b[Kx runs\nx succeeded\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var notes bytes.Buffer
			var now seen
			logs := 0
			s := &Session{
				Name: "x", Notes: &notes, Width: tc.width,
				Follow: func(_ context.Context, see func(bool) (bool, error)) error {
					for _, now = range tc.states {
						if done, err := see(now.gone); done || err != nil {
							return err
						}
					}
					return errors.New("it would wait for ever")
				},
				Facts: func() view.Standing { return now.Standing },
				Pods:  func() []corev1.Pod { return now.pods },
				Why:   func(context.Context) string { return "4 GPUs; 2 before it" },
				Again: func(context.Context) []corev1.Pod { return tc.final },
				Logs:  func(context.Context) error { logs++; return nil },
			}
			got, err := s.Run(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", tc.why, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || logs != tc.logs {
				t.Errorf("%s: logs read %d times, want %d (-want +got):\n%s", tc.why, logs, tc.logs, diff)
			}
			if diff := cmp.Diff(tc.notes, notes.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

func TestSessionIsLeft(t *testing.T) {
	tests := map[string]struct {
		why      string
		asks     bool
		answers  []string // "" is none
		signals  int
		want     Result
		canceled bool
		fails    bool
	}{
		"nobody to ask": {"the job goes on", false, nil, 1, Result{Left: true}, false, false},
		"detach":        {"as was answered", true, []string{"d\n"}, 1, Result{Left: true}, false, false},
		"cancel":        {"as was answered", true, []string{"C\n"}, 1, Result{Canceled: true}, true, false},
		"twice": {
			"who does not want to answer goes",
			true,
			[]string{""},
			2,
			Result{Left: true},
			false,
			false,
		},
		"stay": {
			"and change one's mind later",
			true,
			[]string{"\n", "d\n"},
			2,
			Result{Left: true},
			false,
			false,
		},
		"may not": {"why it was not canceled", true, []string{"c\n"}, 1, Result{Code: 1}, true, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			interrupts := make(chan os.Signal)
			canceled, asked := false, 0
			s := &Session{
				Name: "x", Notes: io.Discard, Interrupts: interrupts,
				Follow: func(ctx context.Context, _ func(bool) (bool, error)) error { <-ctx.Done(); return ctx.Err() },
				Cancel: func(context.Context) error {
					canceled = true
					if tc.fails {
						return errors.New("you may not")
					}
					return nil
				},
			}
			if tc.asks {
				s.Ask = func(string) <-chan string {
					answer := make(chan string, 1)
					if text := tc.answers[asked]; text != "" {
						answer <- text
					}
					asked++
					return answer
				}
			}
			go func() {
				for range tc.signals {
					select {
					case interrupts <- os.Interrupt:
					case <-t.Context().Done():
					}
				}
			}()
			got, err := s.Run(t.Context())
			if diff := cmp.Diff(tc.want, got); diff != "" || canceled != tc.canceled || (err != nil) != tc.fails {
				t.Errorf("%s: canceled %v, %v (-want +got):\n%s", tc.why, canceled, err, diff)
			}
		})
	}
}

func TestAfterDone(t *testing.T) {
	for _, tc := range []struct {
		when  jobs.When
		state view.State
		ok    bool
	}{
		{jobs.AfterOK, view.Succeeded, true},
		{jobs.AfterOK, view.Failed, false},
		{jobs.AfterAny, view.Failed, true},
		{jobs.AfterAny, view.Succeeded, true},
		{jobs.AfterFail, view.Failed, true},
		{jobs.AfterFail, view.Succeeded, false},
	} {
		if err := AfterDone(jobs.Dependency{When: tc.when, Job: "x"}, tc.state); (err == nil) != tc.ok {
			t.Errorf("after %s, a job that is %s: %v", tc.when, tc.state, err)
		}
	}
}
