package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed tests.txt
var testsFile string

//go:embed equivalent.txt
var equivalentFile string

// outcome is what the tests say of a mutant.
type outcome int

const (
	buildFailed outcome = iota // it does not compile
	killed                     // a test failed, or took far too long
	survived                   // every test passed
)

// lab runs tests over mutants.
type lab struct {
	dir string
	// tests are the arguments of one go test each, in order.
	tests [][]string
	// patience is how long each of them may take with a mutant.
	patience []time.Duration
	known    map[string]bool
}

// slowest is what the tests of a mutant get at least: an idle machine needs far
// less, and most mutants that hang do so for ever.
const slowest = 30 * time.Second

func newLab(ctx context.Context, dir string) (*lab, error) {
	l := &lab{tests: [][]string{{"./" + dir}}, known: map[string]bool{}}
	for _, line := range lines(testsFile) {
		of, args, _ := strings.Cut(line, ": ")
		if of != dir {
			continue
		}
		step := strings.Fields(args)
		if slices.Contains(step, "./"+dir) {
			l.tests = slices.Insert(l.tests, 0, step) // some of its own: the quick ones go first
		} else {
			l.tests = append(l.tests, step)
		}
	}
	for _, line := range lines(equivalentFile) {
		what, _, _ := strings.Cut(line, " | ")
		l.known[what] = true
	}
	var err error
	if l.dir, err = os.MkdirTemp("", "mutate-"); err != nil {
		return nil, err
	}
	for _, args := range l.tests {
		began := time.Now()
		if out, err := l.test(ctx, nil, args); err != nil {
			l.close()
			return nil, fmt.Errorf("the tests fail without any mutant: %w\n%s", err, out)
		}
		l.patience = append(l.patience, max(slowest, 5*time.Since(began)))
	}
	return l, nil
}

func (l *lab) close() { _ = os.RemoveAll(l.dir) }

// lines are the lines that say something.
func lines(text string) (out []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// equivalent reports whether a mutant is listed as one that changes nothing.
func (l *lab) equivalent(m *mutant) bool {
	return l.known[fmt.Sprintf("%s: %s => %s", m.file, m.was(), m.is())]
}

// try runs the tests over a mutant until one notices it.
func (l *lab) try(ctx context.Context, m *mutant) (outcome, error) {
	overlay, err := l.overlay(m)
	if err != nil {
		return buildFailed, err
	}
	for i, args := range l.tests {
		out, err := l.test(ctx, []string{"-overlay", overlay, "-timeout", l.patience[i].String()}, args)
		switch {
		case ctx.Err() != nil:
			return buildFailed, nil //nolint:nilerr // the outcome is not known
		case err != nil && strings.Contains(out, "[build failed]"):
			return buildFailed, nil
		case err != nil:
			return killed, nil //nolint:nilerr // that is what was asked
		}
	}
	return survived, nil
}

// overlay writes a mutant where the go command takes it for the file.
func (l *lab) overlay(m *mutant) (string, error) {
	file, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(l.dir, "mutant.go")
	if err := os.WriteFile(mutated, []byte(m.text()), 0o600); err != nil {
		return "", err
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": {file: mutated}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(l.dir, "overlay.json")
	return path, os.WriteFile(path, b, 0o600)
}

// test runs go test. Random tests take the same path each time, so that a mutant is
// not noticed by luck: nor by an example that the tests of the mutant before it kept.
// The examples are not looked at, so none is made shorter, which can take half a
// minute.
func (l *lab) test(ctx context.Context, flags, args []string) (string, error) {
	all := append(append([]string{"test", "-vet=off", "-count=1", "-failfast"}, flags...), args...)
	cmd := exec.CommandContext(ctx, "go", all...) //nolint:gosec // our own tests
	cmd.Env = append(
		os.Environ(),
		"MLBATCH_SIM_SEED=1",
		"MLBATCH_SIM_WORLDS=100",
		"MLBATCH_SIM_CHECKS=50",
		"CI=",
		"RAPID_SEED=1",
		"RAPID_NOFAILFILE=true",
		"RAPID_SHRINKTIME=0s",
	)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // which it hands on to the tests
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}
