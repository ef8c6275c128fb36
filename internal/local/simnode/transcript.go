package simnode

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// logLine is one line of a container's log.
type logLine struct {
	at   time.Time
	text string
}

// transcript is what there is to tell of a container: nothing was really run, so it
// tells what would have been, when it began and how it ended.
type transcript struct {
	lines []logLine
	ended bool
}

// transcribe tells of a container as it is now, or of its run before. The error says
// why there is nothing to tell, as a kubelet says it.
func transcribe(pod *corev1.Pod, container string, scale float64, previous bool) (transcript, error) {
	i := slices.IndexFunc(
		slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers),
		func(c corev1.Container) bool { return c.Name == container },
	)
	if i < 0 {
		return transcript{}, fmt.Errorf("container %q in pod %q is not known", container, pod.Name)
	}
	c := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)[i]
	var cs corev1.ContainerStatus
	for _, x := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if x.Name == container {
			cs = x
		}
	}
	state, run := cs.State, cs.RestartCount
	switch {
	case previous && cs.LastTerminationState.Terminated == nil:
		return transcript{}, fmt.Errorf("previous terminated container %q in pod %q not found", container, pod.Name)
	case previous:
		if state.Waiting == nil { // while it waits, it counts as the run that is over
			run--
		}
		state = cs.LastTerminationState
	case state.Waiting != nil && cs.LastTerminationState.Terminated != nil:
		state = cs.LastTerminationState // it waits to be restarted
	}
	var t transcript
	switch {
	case state.Running != nil:
		t.began(pod, c, run, state.Running.StartedAt.Time, scale)
	case state.Terminated != nil:
		end := state.Terminated
		t.ended = true
		if end.StartedAt.IsZero() {
			t.add(end.FinishedAt.Time, "never started: the pod was stopped before")
			break
		}
		t.began(pod, c, run, end.StartedAt.Time, scale)
		t.add(
			end.FinishedAt.Time,
			fmt.Sprintf("ended with exit code %d after %s", end.ExitCode, end.FinishedAt.Sub(end.StartedAt.Time)),
		)
	default:
		why := "ContainerCreating"
		if state.Waiting != nil {
			why = state.Waiting.Reason
		}
		return t, fmt.Errorf("container %q in pod %q is waiting to start: %s", container, pod.Name, why)
	}
	t.order(run)
	return t, nil
}

// order makes the times of lines grow, over the runs of a container too: its status tells the
// second alone, and a reader tells by times what is new to him.
func (t *transcript) order(run int32) {
	for i := range t.lines {
		t.lines[i].at = t.lines[i].at.Add(time.Duration(run)*time.Microsecond + time.Duration(i)*time.Nanosecond)
	}
}

// runOf is how often a container was started again.
func runOf(pod *corev1.Pod, container string) int32 {
	for _, cs := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if cs.Name == container {
			return cs.RestartCount
		}
	}
	return 0
}

func (t *transcript) add(at time.Time, text string) { t.lines = append(t.lines, logLine{at, text}) }

func (t *transcript) began(pod *corev1.Pod, c corev1.Container, run int32, at time.Time, scale float64) {
	t.add(at, "started on "+pod.Spec.NodeName+", a simulated node: nothing is really run")
	if words := slices.Concat(c.Command, c.Args); len(words) > 0 {
		t.add(at, "$ "+commandLine(words))
	} else {
		t.add(at, "$ (what the image "+c.Image+" runs)")
	}
	s, err := read(pod, scale)
	if err != nil {
		t.add(at, err.Error())
		return
	}
	if a := s.acts[c.Name]; a.runs == forever || sidecar(c) {
		t.add(at, "goes on until it is stopped")
	} else {
		text := "takes " + a.runs.Round(time.Millisecond).String()
		if scale != 1 {
			text += fmt.Sprintf(
				" (%s of the pod's time, which runs %g times as fast)",
				time.Duration(float64(a.runs)*scale).Round(time.Millisecond),
				scale,
			)
		}
		t.add(at, fmt.Sprintf("%s, then ends with exit code %d", text, a.code(run)))
	}
}

var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// commandLine quotes words as a shell would need them.
func commandLine(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if !plainWord.MatchString(w) {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
