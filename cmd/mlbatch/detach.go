//go:build !noembed

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/mlbatch/mlbatch/internal/local"
)

// The detached process reports lines: a progress line to print, readiness, or
// the error that ended it.
const (
	reportProgress = "progress "
	reportReady    = "ready"
	reportError    = "error "
	// reportDescriptor is the first one after the standard three.
	reportDescriptor = 3
)

// detach starts this program again as a process of its own session, and
// returns once that says that the cluster is ready.
func detach(cmd *cobra.Command, cfg local.Config) error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	defer r.Close()
	child := exec.Command("/proc/self/exe") //nolint:noctx // it is to outlive this process
	child.Args = append([]string{os.Args[0]}, detachedArgs(cmd.Flags(), cfg.DataDir)...)
	child.ExtraFiles = []*os.File{w}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = child.Start()
	w.Close()
	if err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	// Ctrl-C while waiting: take the half-started cluster along.
	undo := context.AfterFunc(cmd.Context(), func() { _ = child.Process.Signal(syscall.SIGTERM) })
	defer undo()

	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "Starting a cluster in %s\n", cfg.DataDir)
	for lines := bufio.NewScanner(r); lines.Scan(); {
		switch line := lines.Text(); {
		case line == reportReady:
			fmt.Fprint(out, nextSteps(cfg))
			fmt.Fprintf(
				out,
				"It runs in the background; stop it with: %s down --data-dir %s\n",
				os.Args[0],
				cfg.DataDir,
			)
			return child.Process.Release()
		case strings.HasPrefix(line, reportProgress):
			fmt.Fprintln(out, strings.TrimPrefix(line, reportProgress))
		case strings.HasPrefix(line, reportError):
			_ = child.Wait() // its error is the reported one
			return errors.New(strings.ReplaceAll(strings.TrimPrefix(line, reportError), "\x00", "\n"))
		}
	}
	return fmt.Errorf(
		"the process in the background ended before it was ready: %w",
		errors.Join(child.Wait(), cmd.Context().Err()),
	)
}

// detachedArgs is the command line of the process in the background: the flags
// that were given, except --detach.
func detachedArgs(f *pflag.FlagSet, dir string) []string {
	args := []string{"up", "--data-dir=" + dir, fmt.Sprintf("--report-fd=%d", reportDescriptor)}
	f.Visit(func(fl *pflag.Flag) {
		if fl.Name != "detach" && fl.Name != "data-dir" {
			args = append(args, "--"+fl.Name+"="+fl.Value.String())
		}
	})
	return args
}

// runDetached is the process in the background.
func runDetached(ctx context.Context, cfg local.Config, fd int) error {
	report := os.NewFile(uintptr(fd), "report")
	if report == nil {
		return fmt.Errorf("--report-fd %d: no such descriptor", fd)
	}
	say := func(s string) { fmt.Fprintln(report, strings.ReplaceAll(s, "\n", "\x00")) }
	unix.CloseOnExec(fd)
	cfg.Progress = func(s local.Milestone) { say(reportProgress + progressLine(s)) }
	c, err := local.Start(ctx, cfg)
	if err != nil {
		say(reportError + err.Error())
		return err
	}
	// From now on what this process has to say, a crash above all, goes to
	// its log.
	if err := redirectOutput(filepath.Join(cfg.DataDir, "logs", "up.log")); err != nil {
		say(reportError + err.Error())
		return errors.Join(err, stop(ctx, c))
	}
	say(reportReady)
	report.Close()
	<-ctx.Done()
	return stop(ctx, c)
}

func redirectOutput(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer f.Close()
	for _, to := range []int{1, 2} {
		if err := unix.Dup3(int(f.Fd()), to, 0); err != nil {
			return fmt.Errorf("write to the log: %w", err)
		}
	}
	return nil
}
