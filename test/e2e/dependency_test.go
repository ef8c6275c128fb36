package e2e_test

import (
	"strings"
	"testing"
)

// TestJobsComeAfterOthers: jobs that nobody stays with start when those have ended that they come
// after, also when those were deleted meanwhile and the controller was killed; one whose turn never
// comes says so and starts when it is let go, and what cannot be meant is refused.
func TestJobsComeAfterOthers(t *testing.T) {
	awaitEmpty(t, "blue")
	say := func(args ...string) (string, error) {
		return cluster.Run(
			t.Context(),
			append(args[:1:1], append([]string{"--as", "alice", "--namespace", "blue"}, args[1:]...)...)...)
	}
	submit := func(name, command string, more ...string) {
		t.Helper()
		args := append([]string{"run", "--detach", "--name", name, "--image", "busybox"}, more...)
		if out, err := say(append(args, "--", "sleep", command)...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	submit("first", "6000")
	submit("next", "1", "--after", "fail:first")
	submit("never", "1", "--after", "ok:first")
	if out, err := say(
		"sbatch",
		"--image",
		"busybox",
		"--job-name",
		"last",
		"--dependency",
		"afterany:next",
		script(t, "sleep 1"),
	); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "it says for whom it waits", waitsFor(say, "next", "(fail:first)"))

	killController(t)
	if out, err := say("cancel", "first"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"next", "last"} {
		eventually(t, name+" runs to the end", func() string {
			out, err := say("ps", "-o", "custom-columns=NAME:.name,STATE:.state", "--state", "Succeeded")
			if err != nil || !strings.Contains(out, name) {
				return out
			}
			return ""
		})
	}
	eventually(
		t,
		"it says that its turn never comes",
		waitsFor(say, "never", "was deleted before it ended, so this job never starts"),
	)
	if out, err := cluster.Run(
		t.Context(),
		"kubectl",
		"--data-dir",
		cluster.Dir,
		"--as",
		"alice",
		"-n",
		"blue",
		"annotate",
		"job",
		"never",
		"mlbatch.dev/after-",
	); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "it starts when it is let go", func() string {
		out, err := say("why", "never")
		if err != nil || strings.Contains(out, "waited") {
			return out
		}
		return ""
	})

	for list, cure := range map[string]string{"often:a": "use ok:JOB", "ok:me": "a job cannot wait for itself", strings.Repeat("ok:a,", 64) + "ok:a": "name at most 64"} {
		manifest := "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: me\n  labels: {kueue.x-k8s.io/queue-name: default-queue}\n  annotations: {mlbatch.dev/after: '" + list +
			"'}\nspec: {template: {spec: " + strings.Replace(
			podSpec,
			"%s",
			"Never",
			1,
		) + "}}\n"
		if out, err := kubectl(
			t,
			"alice",
			manifest,
			"apply",
			"-n",
			"blue",
		); err == nil || !strings.Contains(out, cure) ||
			!strings.Contains(out, "mlbatch.dev/after") {
			t.Errorf("%.20s: %v, want %q\n%s", list, err, cure, out)
		}
	}
	if _, err := say(
		"run",
		"--detach",
		"--image",
		"busybox",
		"--after",
		"ok:nobody",
		"--",
		"true",
	); err == nil ||
		!strings.Contains(err.Error(), "there is no job blue/nobody") {
		t.Errorf("after a job that is not there: %v", err)
	}
}

// waitsFor waits until what mlbatch why says of a job has a text.
func waitsFor(say func(...string) (string, error), job, text string) func() string {
	return func() string {
		out, err := say("why", job)
		if err != nil || !strings.Contains(strings.Join(strings.Fields(out), " "), text) {
			return out
		}
		return ""
	}
}
