package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// When a job runs.
const (
	// beside begins at once: its tests need no cluster.
	beside = "beside"
	// cluster waits for one of the places for clusters.
	cluster = "cluster"
	// last begins when all others are through, repeated ones included.
	last = "last"
)

// For a job that runs again: which tests it shall run, as a regular expression, and of which packages.
const (
	againVariable    = "AGAIN"
	packagesVariable = "AGAIN_PACKAGES"
)

// job is a command that prints events of `go test -json`.
type job struct{ when, name, command string }

// again reports whether what fails in the job runs once more: its command can run some of its tests.
func (j job) again() bool { return strings.Contains(j.command, "${"+againVariable) }

// parseJobs reads jobs, one a line: when it runs, its name and the command for bash. Empty lines, and lines
// that begin with #, are none.
func parseJobs(text string) ([]job, error) {
	var jobs []job
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.SplitN(line, " ", 3)
		if len(fields) < 3 || !slices.Contains([]string{beside, cluster, last}, fields[0]) {
			return nil, fmt.Errorf("job %q: want %s, %s or %s, a name and a command", line, beside, cluster, last)
		}
		jobs = append(jobs, job{fields[0], fields[1], fields[2]})
	}
	return jobs, nil
}

// runner runs a job, or some of its tests, and gives its output to read.
type runner interface {
	run(ctx context.Context, j job, only []test, read func(io.Reader) error) (cost, error)
}

// pattern is the regular expression that names tests, and packages are theirs.
func pattern(tests []test) (names, packages string) {
	var tops, of []string
	for _, t := range tests {
		tops, of = append(tops, t.name), append(of, t.pkg)
	}
	slices.Sort(of)
	return "^(" + strings.Join(tops, "|") + ")$", strings.Join(slices.Compact(of), " ")
}

// cost is what a job took.
type cost struct {
	took      time.Duration
	processor time.Duration // of the command and all that it waited for
}

// shell runs jobs by bash.
type shell struct{ clock func() time.Time }

func (s shell) run(ctx context.Context, j job, only []test, read func(io.Reader) error) (cost, error) {
	begin := s.clock()
	cmd := exec.CommandContext( //nolint:gosec // it is what shall be run
		ctx,
		"bash",
		"-euo",
		"pipefail",
		"-c",
		j.command,
	)
	if len(only) > 0 {
		names, packages := pattern(only)
		cmd.Env = append(os.Environ(), againVariable+"="+names, packagesVariable+"="+packages)
	}
	// Who ends this ends all that it began.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		return cost{}, fmt.Errorf("run %s: %w", j.name, err)
	}
	if err := cmd.Start(); err != nil {
		return cost{}, fmt.Errorf("run %s: %w", j.name, err)
	}
	unread := read(out)
	err = cmd.Wait()
	c := cost{s.clock().Sub(begin), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if _, ended := errors.AsType[*exec.ExitError](err); ended && unread == nil {
		// Its tests failed, which they say themselves; or it says why there are none.
		return c, failure{complaints.String()}
	}
	return c, errors.Join(err, unread)
}

// failure is that of a command, with what it said.
type failure struct{ said string }

func (f failure) Error() string { return "it failed:\n" + f.said }

// suite is jobs that run.
type suite struct {
	out    *printer
	runner runner

	mu      sync.Mutex
	reports map[job]*report
	costs   []timed
}

// runAll runs all jobs and returns the sum of their tests.
func (s *suite) runAll(ctx context.Context, jobs []job, clusters int) (counts, error) {
	places := make(chan struct{}, max(1, clusters))
	var running sync.WaitGroup
	for _, j := range jobs {
		if j.when == beside {
			running.Go(func() { s.first(ctx, j) })
		}
	}
	for _, j := range jobs {
		if j.when == cluster {
			places <- struct{}{} // in their order
			running.Go(func() {
				defer func() { <-places }()
				s.first(ctx, j)
			})
		}
	}
	running.Wait()
	for _, j := range jobs {
		if j.again() && j.when != last {
			s.second(ctx, j)
		}
	}
	// A last job judges what all others left: it would find the same again.
	for _, j := range jobs {
		if j.when == last {
			s.first(ctx, j)
		}
	}
	return s.sum(jobs), ctx.Err()
}

// first runs a job.
func (s *suite) first(ctx context.Context, j job) {
	r := newReport(s.out, j.name)
	s.run(ctx, j, r, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports[j] = r
}

// second runs the tests of a job that failed once more, with nothing beside them.
func (s *suite) second(ctx context.Context, j job) {
	r := s.reports[j]
	broken := r.broken()
	if len(broken) == 0 || len(r.bad) > 0 || ctx.Err() != nil {
		return // a crash is none that passes when it is looked at again
	}
	var names []string
	for _, t := range broken {
		names = append(names, t.name)
	}
	s.out.print(fmt.Sprintf("once more (%s): %s\n", j.name, strings.Join(names, ", ")))
	again := newReport(s.out, j.name+", again")
	s.run(ctx, j, again, broken)
	r.again(again)
}

func (s *suite) run(ctx context.Context, j job, r *report, only []test) {
	c, err := s.runner.run(ctx, j, only, r.read)
	said, ended := errors.AsType[failure](err)
	switch {
	case err == nil:
	case r.crashed() || !ended || r.counts().failed == 0:
		r.bad[j.name] = struct{}{}
		s.out.print(fmt.Sprintf("FAIL %s: %v\n", j.name, err))
	default:
		s.out.print(said.said)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.costs = append(
		s.costs,
		timed{fmt.Sprintf("%s, %.0f s of processor time", j.name, c.processor.Seconds()), c.took},
	)
}

// sum prints what took longest and returns the sum of all jobs.
func (s *suite) sum(jobs []job) counts {
	var all counts
	took := newReport(s.out, "")
	for _, j := range jobs {
		r := s.reports[j]
		all = all.plus(r.counts())
		for k, d := range r.took {
			if k.name != "" {
				k.name += " (" + j.name + ")"
			}
			took.took[k] = max(took.took[k], d)
		}
	}
	took.slowest(s.out)
	s.out.print(longest("jobs", s.costs, len(s.costs)))
	return all
}

// durations are lines of seconds and a test with a cluster, in the order of names. Of one that ran
// several times, the longest.
func (s *suite) durations() string {
	took := map[string]time.Duration{}
	for j, r := range s.reports {
		for k, d := range r.took {
			if j.when == cluster && k.name != "" {
				took[k.name] = max(took[k.name], d)
			}
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(took)) {
		fmt.Fprintf(&b, "%.1f %s\n", took[name].Seconds(), name)
	}
	return b.String()
}
