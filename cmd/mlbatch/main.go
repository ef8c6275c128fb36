// Command mlbatch turns Kubernetes into a shared AI batch system, and brings a
// whole cluster along to try it on one machine. See the package of each
// subcommand for what it does; the files here are flags and wiring.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	// exitUnreadable is that of commands for which exitFailure is a result.
	exitUnreadable = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go housekeeping(ctx) // ends with the process
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// commands makes the subcommands of every build. Those that need the embedded
// control plane are in embeddedCommands.
func commands() []func() *cobra.Command {
	return []func() *cobra.Command{
		newWhyCommand,
		newSimulateCommand,
		newReplayCommand,
		newControllerCommand,
		newSchedulerCommand,
		newVersionCommand,
	}
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	var usage usageError
	var unreadable unreadableError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "mlbatch: %v\nRun %q for help.\n", err, cmd.CommandPath()+" --help")
		return exitUsage
	case errors.Is(err, errSilent):
		return exitFailure
	case errors.As(err, &unreadable):
		fmt.Fprintf(stderr, "mlbatch: %v\n", err)
		return exitUnreadable
	default:
		fmt.Fprintf(stderr, "mlbatch: %v\n", err)
		return exitFailure
	}
}

// errSilent fails a command that has already said why.
var errSilent = errors.New("failed")

// usageError is a mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// unreadableError is input that a command cannot make sense of, where failing
// means something else.
type unreadableError struct{ error }

func (e unreadableError) Unwrap() error { return e.error }

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "mlbatch",
		Short: "Queues, quotas and gang scheduling for AI batch jobs on Kubernetes",
		Long: `mlbatch turns Kubernetes into a shared AI batch system: teams with quotas that
they lend to each other, jobs that start all at once or wait and say why, and
recovery from bad nodes. It brings a whole cluster with simulated GPU nodes to
try it on one machine.`,
		Example: `  # a cluster on this machine
  mlbatch up

  # why does a job wait?
  mlbatch why blue/my-job`,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := ""
		if s := cmd.SuggestionsFor(args[0]); len(s) > 0 {
			hint = fmt.Sprintf("; did you mean %q?", s[0])
		}
		return fmt.Errorf("there is no command %q%s", args[0], hint)
	}
	root.SuggestionsMinimumDistance = 2
	for _, newCommand := range slices.Concat(embeddedCommands(), commands()) {
		root.AddCommand(newCommand())
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	markUsageErrors(root)
	return root
}

// markUsageErrors makes wrong arguments exit like wrong flags do.
func markUsageErrors(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		markUsageErrors(c)
	}
}
