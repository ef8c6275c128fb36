package e2e_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// script writes a script for alice.
func script(t *testing.T, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "job.sh")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A script of Slurm's runs as an array, and two nodes of torchrun to the end, with alice's
// own rights and nothing but the commands; how a run fails, the command says by its exit code.
func TestScriptsRunAsTheyDoInSlurm(t *testing.T) {
	awaitEmpty(t, "blue")
	say := func(args ...string) (string, error) {
		return cluster.Run(
			t.Context(),
			append(args[:1:1], append([]string{"--as", "alice", "--namespace", "blue"}, args[1:]...)...)...)
	}
	array, err := say(
		"sbatch",
		"--image",
		"busybox",
		"--parsable",
		script(t, "#SBATCH --array=1-5:2%2 --job-name=sweep", "sleep 1"),
	)
	array = strings.TrimSpace(array)
	if err != nil || !strings.HasPrefix(array, "sweep-") {
		t.Fatalf("sbatch says %q: %v", array, err)
	}
	if out, err := say(
		"run",
		"--image",
		"busybox",
		"-N",
		"2",
		"-g",
		"1",
		"--",
		"torchrun",
		"sleep",
		"1",
	); err != nil ||
		!strings.Contains(out, "ended with exit code 0") {
		t.Fatalf("two nodes of torchrun: %v\n%s", err, out)
	}
	eventually(t, "the array runs to the end", func() string {
		out, err := say("sacct", "-n", "-P", "-o", "JobID,JobName,State,ExitCode", "-j", array)
		if err != nil {
			return err.Error()
		}
		if want := array + "|sweep|COMPLETED|0:0\n"; out != want {
			return "sacct says " + out
		}
		return ""
	})
	_, err = say("run", "--image", "busybox", "--", "sh", "-c", "exit 3")
	var failed *exec.ExitError
	if !errors.As(err, &failed) || failed.ExitCode() != 3 {
		t.Errorf("a command that exits with 3: %v", err)
	}
}

// TestAPlanIsKept: what would become of a job is what becomes of it, and asking changes nothing.
func TestAPlanIsKept(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	say := func(user, namespace string, args ...string) string {
		t.Helper()
		out, err := cluster.Run(
			t.Context(),
			append(args[:1:1], append([]string{"--as", user, "-n", namespace}, args[1:]...)...)...)
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return out
	}
	filler := strings.TrimSpace(
		say("alice", "blue", "run", "-d", "--image", "x", "-N", "3", "-g", "8", "--", "sleep", "600"),
	)
	eventually(t, "alice has it all", func() string {
		if w := workloadOf(t, "blue", filler); w == nil || w.Status.Admission == nil {
			return "it has no quota"
		}
		return ""
	})
	waits := strings.Join(
		strings.Fields(
			say(
				"alice",
				"blue",
				"run",
				"--image",
				"x",
				"-N",
				"3",
				"-g",
				"8",
				"--dry-run",
				"plan",
				"--",
				"sleep",
				"600",
			),
		),
		" ",
	)
	if !strings.Contains(waits, "would wait in ClusterQueue blue-cluster-queue") ||
		!regexp.MustCompile(
			`to start within .* \(|guess when it starts: in |does not start within`,
		).MatchString(
			waits,
		) {
		t.Fatalf("alice is not told when a second one would start: %s", waits)
	}
	plan := []string{
		"run",
		"--image",
		"x",
		"-g",
		"8",
		"--name",
		"planned",
		"--dry-run",
		"plan",
		"--",
		"sleep",
		"600",
	}
	out := strings.Join(strings.Fields(say("bob", "red", plan...)), " ")
	if !strings.Contains(out, "would start in ClusterQueue red-cluster-queue") ||
		!strings.Contains(out, "1 job would be stopped") ||
		strings.Contains(out, filler) {
		t.Fatalf("bob is told: %s", out)
	}
	if w := workloadOf(t, "blue", filler); w == nil || w.Status.Admission == nil {
		t.Fatal("asking took alice's quota")
	}
	say("bob", "red", "run", "-d", "--image", "x", "-g", "8", "--name", "planned", "--", "sleep", "600")
	eventually(t, "bob's job starts, as was said", func() string {
		if w := workloadOf(t, "red", "planned"); w == nil || w.Status.Admission == nil {
			return "it has no quota"
		}
		return ""
	})
	awaitEmpty(t, "blue", "red")
}
