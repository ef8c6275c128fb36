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
	// AnnotationFailFirst is how many runs end with that exit code (1, if none is given);
	// later ones end well. Runs are those of the pod's containers and, if the pod says in
	// AnnotationFailures how many failures it follows, those before it.
	AnnotationFailFirst = "mlbatch.dev/fail-first"
	// AnnotationFailAt names runs that end with that exit code, as in 1,3: the first is 1, and
	// they are counted like those of AnnotationFailFirst. Others end well.
	AnnotationFailAt = "mlbatch.dev/fail-at"
	// AnnotationFailures is how many failures of its job a pod follows.
	AnnotationFailures = "mlbatch.dev/failures"
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

// script is what the containers of a pod will do, init containers included.
type script struct {
	acts map[string]act // by container
	stop time.Duration
}

// act is what one container does: how long it runs, in real time, and with which
// code it exits.
type act struct {
	runs time.Duration
	exit int32
	fails
	// waits is why it never starts, nil if it does; broken, if set, why its command cannot be started.
	waits  *corev1.ContainerStateWaiting
	broken string
}

// fails are the runs that fail, where not all do: the first ones and those named, counted from
// 1 with those of earlier pods, which were so many.
type fails struct {
	some          bool
	first, before int64
	at            []int64
}

// code is the exit code of a run of the pod's container, the first of which is 0.
func (a act) code(run int32) int32 {
	if n := a.before + int64(run) + 1; a.some && n > a.first && !slices.Contains(a.at, n) {
		return 0
	}
	return a.exit
}

// read finds out what the pod will do. The error is for the pod's author.
func read(pod *corev1.Pod, scale float64) (script, error) {
	s := script{acts: map[string]act{}, stop: stopByDefault}
	runFor, runs, err := runForOf(pod)
	if err != nil {
		return s, err
	}
	code, exits, err := exitCodeOf(pod)
	if err != nil {
		return s, err
	}
	which, err := failsOf(pod)
	if err != nil {
		return s, err
	}
	if which.some && !exits {
		code, exits = 1, true
	}
	for _, c := range pod.Spec.InitContainers {
		d, e := commandActs(wordsOf(c), 0)
		s.acts[c.Name] = act{runs: scaled(d, scale), exit: e}.of(c)
	}
	for _, c := range pod.Spec.Containers {
		d, e := commandActs(wordsOf(c), unknownRun(pod.Spec.RestartPolicy))
		if runs {
			d = runFor
		}
		if exits {
			e = code
		}
		s.acts[c.Name] = act{runs: scaled(d, scale), exit: e, fails: which}.of(c)
	}
	if v, ok := pod.Annotations[AnnotationStopAfter]; ok {
		if s.stop, err = time.ParseDuration(v); err != nil || s.stop < 0 {
			return s, fmt.Errorf("annotation %s: %q is not a duration such as 5s", AnnotationStopAfter, v)
		}
	}
	return s, nil
}

// spoil has the containers of a pod that have GPUs fail, as on broken ones.
func (s *script) spoil(pod *corev1.Pod) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if _, has := c.Resources.Limits[gpuResource]; !has {
			continue
		}
		if a := s.acts[c.Name]; a.waits == nil && a.broken == "" {
			a.exit, a.fails = 1, fails{}
			s.acts[c.Name] = a
		}
	}
}

// nowhere ends the registries that exist nowhere, and nothing is below the folder nonexistent.
// https://www.rfc-editor.org/rfc/rfc6761#section-6.4
const (
	nowhere     = ".invalid"
	nonexistent = "/nonexistent/"
)

// cannotStart is the exit code of a container whose command the runtime could not start.
const cannotStart = 128

// of is what a container does whose image or command may not be there, where one can tell.
func (a act) of(c corev1.Container) act {
	if registry, _, _ := strings.Cut(c.Image, "/"); strings.HasSuffix(registry, nowhere) {
		a.waits = &corev1.ContainerStateWaiting{
			Reason:  "ImagePullBackOff",
			Message: fmt.Sprintf("Back-off pulling image %q: dial tcp: lookup %s: no such host", c.Image, registry),
		}
	}
	if words := slices.Concat(c.Command, c.Args); len(words) > 0 && strings.HasPrefix(words[0], nonexistent) {
		a.broken = fmt.Sprintf("exec: %q: stat %s: no such file or directory", words[0], words[0])
		a.runs, a.exit, a.fails = 0, cannotStart, fails{}
	}
	return a
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
		return 0, false, fmt.Errorf(
			`annotation %s: %q is not a duration such as 90s or 1h30m, nor "forever"`,
			AnnotationRunFor,
			v,
		)
	}
	return d, true, nil
}

func exitCodeOf(pod *corev1.Pod) (code int32, given bool, err error) {
	v, ok := pod.Annotations[AnnotationExitCode]
	if !ok {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(v, 10, 8)
	if err != nil {
		return 0, false, fmt.Errorf(
			"annotation %s: %q is not an exit code between 0 and 255",
			AnnotationExitCode,
			v,
		)
	}
	return int32(n), true, nil
}

// failsOf are the runs that fail.
func failsOf(pod *corev1.Pod) (f fails, err error) {
	if v, ok := pod.Annotations[AnnotationFailFirst]; ok {
		f.some = true
		if f.first, err = strconv.ParseInt(v, 10, 32); err != nil || f.first < 0 {
			return f, fmt.Errorf("annotation %s: %q is not a number of runs", AnnotationFailFirst, v)
		}
	}
	if v, ok := pod.Annotations[AnnotationFailAt]; ok {
		f.some = true
		for word := range strings.SplitSeq(v, ",") {
			n, err := strconv.ParseInt(strings.TrimSpace(word), 10, 32)
			if err != nil || n < 1 {
				return f, fmt.Errorf("annotation %s: %q are not numbers of runs from 1, such as 1,3", AnnotationFailAt, v)
			}
			f.at = append(f.at, n)
		}
	}
	f.before, _ = strconv.ParseInt(pod.Annotations[AnnotationFailures], 10, 32)
	return f, nil
}

func scaled(d time.Duration, scale float64) time.Duration {
	if d == forever {
		return forever
	}
	return time.Duration(float64(d) / scale)
}

// unknownRun is how long a container runs of whose command one can tell nothing.
func unknownRun(restart corev1.RestartPolicy) time.Duration {
	if restart == corev1.RestartPolicyAlways || restart == "" {
		return forever
	}
	return runByDefault
}

// wordsOf is a container's command line with its variables as far as their values are written
// there: variables that Kubernetes fills in, and variables of shells, for an author may have a shell run a
// command that only a variable tells.
func wordsOf(c corev1.Container) []string {
	words, values := slices.Concat(c.Command, c.Args), map[string]string{}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			values[e.Name] = e.Value
		}
	}
	references := []*regexp.Regexp{filledIn}
	if len(words) > 0 && shell.MatchString(words[0]) {
		references = append(references, ofShell)
	}
	for i := range words {
		for _, reference := range references {
			words[i] = reference.ReplaceAllStringFunc(words[i], func(as string) string {
				if value, is := values[strings.Trim(as, "$(){}")]; is {
					return value
				}
				return as
			})
		}
	}
	return words
}

// commandActs is what a command line does, as far as one can tell from reading it.
// What ends at once because it says "exit" does so.
func commandActs(words []string, unknown time.Duration) (time.Duration, int32) {
	text, code, exits := untilExit(shellText(words))
	if serves.MatchString(text) {
		return forever, 0
	}
	if d, ok := sleeps(text); ok {
		return d, code
	}
	if exits && idle(text) {
		return 0, code
	}
	return unknown, code
}

// idle reports whether a script has no command.
func idle(text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}

var (
	shell = regexp.MustCompile(`(?:^|/)(?:ba|da|a|z|k)?sh$`)
	// filledIn are references to variables that Kubernetes fills in, ofShell those of shells.
	filledIn = regexp.MustCompile(`\$\([A-Za-z_][A-Za-z0-9_]*\)`)
	ofShell  = regexp.MustCompile(`\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})`)
	// branches are words after which one cannot tell from reading what is run.
	branches = regexp.MustCompile(`(?:^|[\s;&|({])(?:if|case|for|while|until|trap|function)\s`)
	// serves is what a node of Ray is started with, or the autoscaler beside it: until it is told
	// to stop.
	serves    = regexp.MustCompile(`\bray start\b.*\s--block\b|\bray kuberay-autoscaler\b`)
	statement = regexp.MustCompile(`;|\n|&&`)
	exit      = regexp.MustCompile(`^[({\s]*exit(?:\s+([0-9]{1,3}))?[)}\s]*$`)
)

// shellText is the script that a command line gives a shell, or the line itself.
func shellText(words []string) string {
	if len(words) > 2 && shell.MatchString(words[0]) {
		if i := slices.IndexFunc(
			words,
			func(w string) bool { return strings.HasPrefix(w, "-") && strings.HasSuffix(w, "c") },
		); i > 0 &&
			i+1 < len(words) {
			if words[i+1] == "--" && i+2 < len(words) {
				i++
			}
			return words[i+1]
		}
	}
	return strings.Join(words, " ")
}

// untilExit returns the part of a script that runs, and the code it exits with:
// that of its first exit, where nothing branches before, or of its last statement.
func untilExit(text string) (runs string, code int32, exits bool) {
	ends := statement.FindAllStringIndex(text, -1)
	ends = append(ends, []int{len(text), len(text)})
	branching, from := branches.MatchString(text), 0
	for _, e := range ends {
		part := text[from:e[0]]
		last := strings.Trim(text[e[1]:], "; \n\t") == ""
		m := exit.FindStringSubmatch(part)
		switch {
		case m != nil && (last || !branching):
			n, err := strconv.ParseUint(m[1], 10, 8)
			if err != nil {
				n = 0 // plain exit: what ran before it went well, as everything here
			}
			return text[:from], int32(n), true
		case last && strings.TrimSpace(part) == "false":
			return text[:from], 1, true
		}
		from = e[1]
	}
	return text, 0, false
}

// sleeps adds up the sleeps in a command line. It gives no answer when there
// are none, or when a loop repeats them.
func sleeps(text string) (time.Duration, bool) {
	sleep := regexp.MustCompile(`(?:^|[\s;&|({/])sleep((?:\s+(?:[0-9]*\.?[0-9]+[smhd]?|inf|infinity)\b)+)`)
	endless := regexp.MustCompile(
		`\bwhile\s+(?:true|:|\[\s+1\s+\])|\bsleep\s+inf(?:inity)?\b|\bsshd\s+-[A-Za-z]*D|\btail\s+-[fF]\b`,
	)
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
