package simnode

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestHowLongCommandsRun(t *testing.T) {
	never, always := corev1.RestartPolicyNever, corev1.RestartPolicyAlways
	tests := map[string]struct {
		why     string
		words   []string
		restart corev1.RestartPolicy
		want    time.Duration
	}{
		"tutorial": {"the tutorial's jobs", []string{"sh", "-c", "sleep 600"}, never, 600 * time.Second},
		"no options": {
			"what follows is the script",
			[]string{"/bin/bash", "-c", "--", "sleep 7"},
			never,
			7 * time.Second,
		},
		"node of Ray": {
			"it ends when it is told to",
			[]string{"/bin/bash", "-c", "--", "ulimit -n 65536; ray start --head --block --num-cpus=1"},
			never,
			forever,
		},
		"Ray, left": {
			"it goes on in the background, and the rest is run",
			[]string{"sh", "-c", "ray start --head; sleep 3"},
			never,
			3 * time.Second,
		},
		"autoscaler": {
			"beside it",
			[]string{"/bin/bash", "-c", "--", "ray kuberay-autoscaler --cluster-name x"},
			never,
			forever,
		},
		"plain":   {"no shell", []string{"sleep", "30"}, never, 30 * time.Second},
		"path":    {"full path", []string{"/bin/sleep", "30"}, never, 30 * time.Second},
		"minutes": {"units of sleep(1)", []string{"sleep", "2m"}, never, 2 * time.Minute},
		"hours and days": {
			"units of sleep(1)",
			[]string{"sh", "-c", "sleep 1h && sleep 1d"},
			never,
			25 * time.Hour,
		},
		"fraction":      {"GNU sleep takes fractions", []string{"sleep", "0.5"}, never, 500 * time.Millisecond},
		"several words": {"GNU sleep adds its arguments", []string{"sleep", "1m", "30s"}, never, 90 * time.Second},
		"several sleeps": {
			"they run one after the other",
			[]string{"bash", "-c", "echo a; sleep 10; echo b;sleep 5"},
			never,
			15 * time.Second,
		},
		"lines": {
			"scripts have lines",
			[]string{"sh", "-c", "set -e\nsleep 3\nsleep 4\n"},
			never,
			7 * time.Second,
		},
		"zero":     {"ends at once, as it says", []string{"sleep", "0"}, never, 0},
		"infinity": {"GNU sleep knows it", []string{"sleep", "infinity"}, never, forever},
		"endless loop": {
			"a server of sorts",
			[]string{"sh", "-c", "while true; do sleep 1; done"},
			never,
			forever,
		},
		"tail -f": {"the usual way to do nothing", []string{"tail", "-f", "/dev/null"}, never, forever},
		"sshd": {
			"workers serve until they are stopped",
			[]string{"/usr/sbin/sshd", "-De"},
			never,
			forever,
		},
		"sshd behind": {
			"one that goes to the background ends",
			[]string{"/usr/sbin/sshd", "-e"},
			never,
			runByDefault,
		},
		"other loop": {
			"it is not known how often it repeats",
			[]string{"sh", "-c", "until [ -f x ]; do sleep 1; done"},
			never,
			time.Minute,
		},
		"not a sleep": {
			"a word that only contains it",
			[]string{"python", "oversleep.py", "nosleep", "5"},
			never,
			time.Minute,
		},
		"for-word":       {"a flag is not a loop", []string{"train", "--for-steps", "10"}, never, time.Minute},
		"unknown job":    {"something that may end does", []string{"python", "train.py"}, never, time.Minute},
		"on failure":     {"may end as well", nil, corev1.RestartPolicyOnFailure, time.Minute},
		"unknown server": {"something that is always restarted does not end", nil, always, forever},
		"server sleeps":  {"its command knows better", []string{"sleep", "5"}, always, 5 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got, _ := commandActs(tc.words, unknownRun(tc.restart)); got != tc.want {
				t.Errorf("%q runs %v, want %v: %s", tc.words, got, tc.want, tc.why)
			}
		})
	}
}

// TestExitCodesAreRead: what a command says of its end is believed, where it is
// plain to see.
func TestExitCodesAreRead(t *testing.T) {
	sh := func(text string) []string { return []string{"/bin/sh", "-c", text} }
	tests := map[string]struct {
		why   string
		words []string
		want  act
	}{
		"at once": {"nothing else is done", sh("exit 3"), act{runs: 0, exit: 3}},
		"remarks": {"they are no commands", sh("#!/bin/sh\n# x\nexit 3\n"), act{runs: 0, exit: 3}},
		"after sleep": {
			"the usual way to fail in a test",
			sh("sleep 5; exit 1"),
			act{runs: 5 * time.Second, exit: 1},
		},
		"and": {"sleep goes well", sh("sleep 5 && exit 2"), act{runs: 5 * time.Second, exit: 2}},
		"lines": {
			"scripts have lines",
			sh("set -e\nsleep 3\nexit 7\n"),
			act{runs: 3 * time.Second, exit: 7},
		},
		"what follows": {
			"is not run",
			sh("sleep 3; exit 0; sleep 60; exit 1"),
			act{runs: 3 * time.Second, exit: 0},
		},
		"plain": {"the code of what ran before", sh("sleep 3; exit"), act{runs: 3 * time.Second, exit: 0}},
		"flags": {
			"of the shell",
			[]string{"bash", "-ec", "sleep 2; exit 4"},
			act{runs: 2 * time.Second, exit: 4},
		},
		"subshell": {"written with brackets", sh("(sleep 2; exit 4)"), act{runs: 2 * time.Second, exit: 4}},
		"or": {
			"what is before it goes well",
			sh("sleep 2 || exit 1"),
			act{runs: 2 * time.Second, exit: 0},
		},
		"branch": {
			"it is not known which is taken",
			sh("if [ -f x ]; then exit 1; fi; sleep 9"),
			act{runs: 9 * time.Second, exit: 0},
		},
		"branch, end": {
			"but this one is",
			sh("if [ -f x ]; then sleep 1; fi; exit 6"),
			act{runs: time.Second, exit: 6},
		},
		"false":       {"a program that fails", []string{"false"}, act{runs: 0, exit: 1}},
		"false, last": {"likewise", sh("sleep 1; false"), act{runs: time.Second, exit: 1}},
		"unknown": {
			"a program of that name",
			[]string{"python", "exit", "3"},
			act{runs: time.Minute, exit: 0},
		},
		"work": {
			"runs for a while, then fails",
			sh("python train.py; exit 9"),
			act{runs: time.Minute, exit: 9},
		},
		"large": {"no exit code", sh("sleep 1; exit 999"), act{runs: time.Second, exit: 0}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			runs, code := commandActs(tc.words, time.Minute)
			if got := (act{runs: runs, exit: code}); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("%q does %+v, want %+v: %s", tc.words, got, tc.want, tc.why)
			}
		})
	}
}

// TestCommandsInVariablesAreRead: a container does what the variables in its command tell. The authors
// of heads of Ray that start the autoscaler themselves name it so; taken for something that ends, it
// would leave its head unready for ever.
func TestCommandsInVariablesAreRead(t *testing.T) {
	start := []corev1.EnvVar{
		{Name: "START", Value: "ray kuberay-autoscaler --cluster-name x"},
		{Name: "T", Value: "7"},
	}
	elsewhere := []corev1.EnvVar{{Name: "T", ValueFrom: &corev1.EnvVarSource{}}}
	tests := map[string]struct {
		why     string
		command []string
		env     []corev1.EnvVar
		want    time.Duration
	}{
		"of the shell": {
			"the shell runs what it tells",
			[]string{"/bin/bash", "-lc", "--", "echo now; $START"},
			start,
			forever,
		},
		"in braces": {"likewise", []string{"sh", "-c", "sleep ${T}"}, start, 7 * time.Second},
		"of Kubernetes": {
			"it is filled in before anything runs",
			[]string{"sleep", "$(T)"},
			start,
			7 * time.Second,
		},
		"without a shell":   {"nobody fills it in", []string{"sleep", "$T"}, start, time.Minute},
		"not there":         {"it is as it is written", []string{"sh", "-c", "sleep $N"}, start, time.Minute},
		"of something else": {"its value is not known", []string{"sh", "-c", "sleep $T"}, elsewhere, time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPod()
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.Containers[0].Command, p.Spec.Containers[0].Args, p.Spec.Containers[0].Env = tc.command, nil, tc.env
			s, err := read(p, 1)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.acts["main"].runs; got != tc.want {
				t.Errorf("%q runs %v, want %v: %s", tc.command, got, tc.want, tc.why)
			}
		})
	}
}

func TestAnnotations(t *testing.T) {
	tests := map[string]struct {
		why         string
		annotations map[string]string
		want        time.Duration
		exit        int32
		wrong       string
	}{
		"run-for": {
			"overrides the command, and is scaled like it",
			map[string]string{AnnotationRunFor: "2h"},
			2 * time.Hour / 10,
			0,
			"",
		},
		"run-for ever": {
			"a word for what no duration says",
			map[string]string{AnnotationRunFor: "forever"},
			forever,
			0,
			"",
		},
		"exit code": {"jobs can fail", map[string]string{AnnotationExitCode: "3"}, time.Minute / 10, 3, ""},
		"bad run-for": {
			"the author must see it",
			map[string]string{AnnotationRunFor: "soon"},
			0,
			0,
			AnnotationRunFor,
		},
		"fails first": {
			"the code that programs fail with if nothing is said",
			map[string]string{AnnotationFailFirst: "1"},
			time.Minute / 10,
			1,
			"",
		},
		"failed before": {
			"it follows as many failures as there were to be",
			map[string]string{AnnotationFailFirst: "2", AnnotationExitCode: "7", AnnotationFailures: "2"},
			time.Minute / 10,
			0,
			"",
		},
		"fails again": {
			"one is yet to come",
			map[string]string{AnnotationFailFirst: "2", AnnotationExitCode: "7", AnnotationFailures: "1"},
			time.Minute / 10,
			7,
			"",
		},
		"fails at 1": {"the first run", map[string]string{AnnotationFailAt: "1"}, time.Minute / 10, 1, ""},
		"fails later": {
			"the first run goes well",
			map[string]string{AnnotationFailAt: "2, 3", AnnotationExitCode: "7"},
			time.Minute / 10,
			0,
			"",
		},
		"fails now": {
			"it follows one failure, and is the second run",
			map[string]string{AnnotationFailAt: "2, 3", AnnotationExitCode: "7", AnnotationFailures: "1"},
			time.Minute / 10,
			7,
			"",
		},
		"fails no more": {
			"it is the fourth",
			map[string]string{AnnotationFailAt: "2,3", AnnotationFailures: "3"},
			time.Minute / 10,
			0,
			"",
		},
		"first or named": {
			"either says so",
			map[string]string{AnnotationFailAt: "3", AnnotationFailFirst: "1", AnnotationFailures: "2"},
			time.Minute / 10,
			1,
			"",
		},
		"no run": {
			"runs are counted from 1",
			map[string]string{AnnotationFailAt: "0"},
			0,
			0,
			AnnotationFailAt,
		},
		"no numbers": {
			"the author must see it",
			map[string]string{AnnotationFailAt: "1,x"},
			0,
			0,
			AnnotationFailAt,
		},
		"bad fail-first": {
			"the author must see it",
			map[string]string{AnnotationFailFirst: "-1"},
			0,
			0,
			AnnotationFailFirst,
		},
		"bad exit code": {
			"the author must see it",
			map[string]string{AnnotationExitCode: "256"},
			0,
			0,
			AnnotationExitCode,
		},
		"bad stop-after": {
			"the author must see it",
			map[string]string{AnnotationStopAfter: "-1s"},
			0,
			0,
			AnnotationStopAfter,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPod()
			p.Annotations = tc.annotations
			s, err := read(p, 10)
			if tc.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wrong) {
					t.Errorf("error = %v, want one that names %s: %s", err, tc.wrong, tc.why)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if a := s.acts["main"]; a.runs != tc.want || a.code(0) != tc.exit {
				t.Errorf("does %+v, want %v with exit code %d: %s", s.acts["main"], tc.want, tc.exit, tc.why)
			}
		})
	}
}
