// Command mlbatch turns Kubernetes into a shared AI batch system, and brings a
// whole cluster along to try it on one machine. See the package of each
// subcommand for what it does; the files here are flags and wiring.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if len(os.Args) < 2 || os.Args[1] != "component" {
		withoutLibraryFlags()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go housekeeping(ctx) // ends with the process
	code := run(ctx, asCalled(os.Args), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// group is commands that are listed together.
type group struct {
	title    string
	commands []func() *cobra.Command
}

// groups are the commands of every build, in the order in which help lists them. Those that
// need the embedded control plane are in embeddedCommands.
func groups() []group {
	return []group{
		{"A cluster on this machine", embeddedCommands()},
		{
			"Look",
			[]func() *cobra.Command{
				newPsCommand,
				newShowCommand,
				newWhyCommand,
				newWhyNotCommand,
				newEtaCommand,
				newQueueCommand,
				newTeamCommand,
				newNodesCommand,
				newTopologyCommand,
				newTopCommand,
				newPageCommand,
				newCapacityCommand,
				newHistCommand,
				newEventsCommand,
			},
		},
		{"Submit", []func() *cobra.Command{
			newRunCommand, newSubmitCommand,
		}},
		{
			"Work with jobs",
			[]func() *cobra.Command{
				newLogsCommand,
				newExecCommand,
				newCpCommand,
				newPortCommand,
				newCancelCommand,
				newHoldCommand,
				newReleaseCommand,
				newRequeueCommand,
				newPrioCommand,
				newScaleCommand,
				newWaitCommand,
			},
		},
		{"Manifests", []func() *cobra.Command{
			newGenerateCommand, newWrapCommand, newConvertCommand, newLintCommand,
		}},
		{
			"Administer",
			[]func() *cobra.Command{
				newInstallCommand,
				newUpgradeCommand,
				newUninstallCommand,
				newFlavorCommand,
				newDrainCommand,
				newUndrainCommand,
				newDoctorCommand,
				newCheckCommand,
				newSimulateCommand,
				newReplayCommand,
				newImportCommand,
			},
		},
		{"By Slurm's names", []func() *cobra.Command{
			newSbatchCommand, newSrunCommand, newSqueueCommand, newScancelCommand, newSinfoCommand, newSacctCommand,
		}},
		{"By kueuectl's names", kueuectlCommands()},
		{
			"Programs",
			[]func() *cobra.Command{
				newControllerCommand,
				newSchedulerCommand,
				newAgentCommand,
				newMcpCommand,
				newVersionCommand,
			},
		},
	}
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRootCommand() //nolint:contextcheck // a completion has the context of its command
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	explainCompletion(root)
	cmd, err := root.ExecuteContextC(ctx)
	return exitOf(cmd, err, stderr)
}

// silenceLibraries has controller-runtime log nothing in commands that people type; after half a minute it would print
// on standard error that nobody said where to log, with a stack. Programs say so themselves, which counts only once.
func silenceLibraries(cmd *cobra.Command) {
	switch cmd.Name() {
	case "controller", "scheduler", "component":
	default:
		ctrl.SetLogger(logr.Discard())
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "mlbatch",
		Short: "Queues, quotas and gang scheduling for AI batch jobs on Kubernetes",
		Long: `mlbatch turns Kubernetes into a shared AI batch system: teams with quotas that
they lend to each other, jobs that start all at once or wait and say why, and
recovery from bad nodes. It brings a whole cluster with simulated GPU nodes to
try it on one machine.

Exit codes, where the help of a command says nothing else:
` + exitTable(),
		Example: `  # a cluster on this machine
  mlbatch up

  # why does a job wait?
  mlbatch why blue/train`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       versions(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		PersistentPreRun: func(cmd *cobra.Command, _ []string) { silenceLibraries(cmd) },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := ""
		if name := meant(cmd, args[0]); name != "" {
			hint = fmt.Sprintf("; did you mean %q?", name)
		}
		return fmt.Errorf("there is no command %q%s", args[0], hint)
	}
	root.SetHelpCommand(newHelpCommand())
	narrowHelp(root)
	for _, g := range groups() {
		if len(g.commands) == 0 {
			continue
		}
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, newCommand := range g.commands {
			cmd := newCommand()
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{flagError(cmd, err)} })
	markUsageErrors(root)
	completes(root)
	return root
}

// newHelpCommand is cobra's help, save that it fails for what there is not.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [command]",
		Short:   "Help about a command",
		Example: "  mlbatch help up",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError{fmt.Errorf("there is no command %q", strings.Join(args, " "))}
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// withoutLibraryFlags takes from the flags of all commands the flags that Kubernetes'
// libraries register for every program: a --version that would be that of Kubernetes,
// and that no command heeds. The components of the embedded cluster get them back.
func withoutLibraryFlags() {
	pflag.CommandLine = pflag.NewFlagSet("mlbatch", pflag.ContinueOnError)
}

// markUsageErrors makes wrong arguments exit like wrong flags do.
func markUsageErrors(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{argumentsError(cmd, args, err)}
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		markUsageErrors(c)
	}
}
