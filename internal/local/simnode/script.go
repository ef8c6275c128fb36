package simnode

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Annotations on pods.
const (
	// AnnotationRunFor says how long the pod's containers run (a Go duration,
	// divided by the time scale, or "forever"), whatever their commands say.
	AnnotationRunFor = "mlbatch.dev/run-for"
	// AnnotationExitCode is the exit code of the pod's containers.
	AnnotationExitCode = "mlbatch.dev/exit-code"
	// AnnotationStopAfter says how long the pod's containers go on when they
	// are asked to stop (a Go duration of real time).
	AnnotationStopAfter = "mlbatch.dev/stop-after"
)

const (
	// forever is the length of a run without end.
	forever = time.Duration(math.MaxInt64)
	// runByDefault is how long something runs of which nothing is known.
	runByDefault = time.Minute
	// stopByDefault is how long something needs to stop of which nothing is
	// known: what a process does that handles the signal.
	stopByDefault = 200 * time.Millisecond
)

// script is what the containers of a pod will do.
type script struct {
	// runs is how long each container runs, in real time, by name.
	runs     map[string]time.Duration
	exitCode int32
	stop     time.Duration
}

// read finds out what the pod will do. The error is for the pod's author.
func read(pod *corev1.Pod, scale float64) (script, error) {
	s := script{runs: map[string]time.Duration{}, stop: stopByDefault}
	runFor, given, err := runForOf(pod)
	if err != nil {
		return s, err
	}
	for _, c := range pod.Spec.Containers {
		d := runFor
		if !given {
			d = commandRuns(slices.Concat(c.Command, c.Args), pod.Spec.RestartPolicy)
		}
		s.runs[c.Name] = scaled(d, scale)
	}
	if v, ok := pod.Annotations[AnnotationExitCode]; ok {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil || n < 0 || n > 255 {
			return s, fmt.Errorf("annotation %s: %q is not an exit code between 0 and 255", AnnotationExitCode, v)
		}
		s.exitCode = int32(n)
	}
	if v, ok := pod.Annotations[AnnotationStopAfter]; ok {
		if s.stop, err = time.ParseDuration(v); err != nil || s.stop < 0 {
			return s, fmt.Errorf("annotation %s: %q is not a duration such as 5s", AnnotationStopAfter, v)
		}
	}
	return s, nil
}

func runForOf(pod *corev1.Pod) (d time.Duration, given bool, err error) {
	v, ok := pod.Annotations[AnnotationRunFor]
	if !ok {
		return 0, false, nil
	}
	if v == "forever" {
		return forever, true, nil
	}
	d, err = time.ParseDuration(v)
	if err != nil || d < 0 {
		return 0, false, fmt.Errorf(`annotation %s: %q is not a duration such as 90s or 1h30m, nor "forever"`, AnnotationRunFor, v)
	}
	return d, true, nil
}

func scaled(d time.Duration, scale float64) time.Duration {
	if d == forever {
		return forever
	}
	return time.Duration(float64(d) / scale)
}

// commandRuns is how long a command line runs, as far as one can tell from
// reading it.
func commandRuns(words []string, restart corev1.RestartPolicy) time.Duration {
	if d, ok := sleeps(strings.Join(words, " ")); ok {
		return d
	}
	if restart == corev1.RestartPolicyAlways || restart == "" {
		return forever
	}
	return runByDefault
}

// sleeps adds up the sleeps in a command line. It gives no answer when there
// are none, or when a loop repeats them who knows how often.
func sleeps(text string) (time.Duration, bool) {
	sleep := regexp.MustCompile(`(?:^|[\s;&|({/])sleep((?:\s+(?:[0-9]*\.?[0-9]+[smhd]?|inf|infinity)\b)+)`)
	endless := regexp.MustCompile(`\bwhile\s+(?:true|:|\[\s+1\s+\])|\bsleep\s+inf(?:inity)?\b|\btail\s+-[fF]\b`)
	loop := regexp.MustCompile(`(?:^|[\s;&|({])(?:while|until|for)\s`)
	if endless.MatchString(text) {
		return forever, true
	}
	if loop.MatchString(text) {
		return 0, false
	}
	found := sleep.FindAllStringSubmatch(text, -1)
	var total time.Duration
	for _, m := range found {
		for word := range strings.FieldsSeq(m[1]) {
			total += sleepArgument(word)
		}
	}
	return total, len(found) > 0
}

// sleepArgument reads one argument of sleep, such as 600, 1.5 or 10m.
func sleepArgument(word string) time.Duration {
	unit := time.Second
	switch word[len(word)-1] {
	case 'm':
		unit = time.Minute
	case 'h':
		unit = time.Hour
	case 'd':
		unit = 24 * time.Hour
	}
	n, err := strconv.ParseFloat(strings.TrimRight(word, "smhd"), 64)
	if err != nil || n > float64(forever/unit) {
		return forever
	}
	return time.Duration(n * float64(unit))
}
