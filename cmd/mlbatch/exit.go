package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/kube/leaderelection"
	"github.com/mlbatch/mlbatch/internal/words"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	// exitUnreadable is that of commands for which exitFailure is a result.
	exitUnreadable = 2
	// exitUntested is of a deep test that neither failed nor passed.
	exitUntested = 3
	// exitInterrupted is what shells know of programs that Ctrl-C ended.
	exitInterrupted = 130
)

// exit is a code that the program exits with.
type exit struct {
	code  int
	means string
}

// exits are those of every command. One for which a code means something else says so in its help.
func exits() []exit {
	return []exit{
		{exitOK, "it is done"},
		{exitFailure, "it failed, and said why; or, of commands that judge, there is something to tell"},
		{exitUsage, "the command line is wrong: nothing was asked or changed"},
		{exitTimeout, "wait: there was no more time"},
		{exitInterrupted, "it was interrupted, by Ctrl-C for example"},
	}
}

// exitTable is the codes, a line for each.
func exitTable() string {
	var b strings.Builder
	for _, e := range exits() {
		fmt.Fprintf(&b, "  %3d  %s\n", e.code, e.means)
	}
	return b.String()
}

// usageError is a mistake in the command line.
type usageError struct{ error }

// errSilent fails a command that has already said why.
var errSilent = errors.New("failed")

// exitError ends the program with a code of its own. Its error, if any, is told.
type exitError struct {
	code int
	error
}

// unreadableError is input that a command cannot make sense of, where failing
// means something else.
type unreadableError struct{ error }

// exitOf tells what ended a command, and returns its exit code.
func exitOf(cmd *cobra.Command, err error, stderr io.Writer) int {
	var usage usageError
	var unreadable unreadableError
	var code exitError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, leaderelection.ErrLost):
		// As it is meant to be, and no failure: it is started anew, and follows.
		fmt.Fprintf(stderr, "mlbatch: %s; this one ends, to follow it when it is started again\n", harmless(err))
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "mlbatch: %s\nRun %q for help.\n", harmless(err), cmd.CommandPath()+" --help")
		return exitUsage
	case errors.Is(err, errSilent):
		return exitFailure
	case errors.As(err, &code):
		if code.error != nil {
			fmt.Fprintf(stderr, "mlbatch: %s\n", harmless(code.error))
		}
		return code.code
	case errors.As(err, &unreadable):
		fmt.Fprintf(stderr, "mlbatch: %s\n", harmless(err))
		return exitUnreadable
	default:
		fmt.Fprintf(stderr, "mlbatch: %s\n", harmless(err))
		return exitFailure
	}
}

// harmless is what an error says, line by line, without what a terminal would obey: names in files and
// messages of others are in it.
func harmless(err error) string {
	lines := strings.Split(cli.NotInstalled(err).Error(), "\n")
	for i, line := range lines {
		lines[i] = words.Harmless(line)
	}
	return strings.Join(lines, "\n")
}

func (e exitError) Unwrap() error { return e.error }

// Error is that of the error, or the code.
func (e exitError) Error() string {
	if e.error == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.error.Error()
}

func (e usageError) Unwrap() error { return e.error }

func (e unreadableError) Unwrap() error { return e.error }
