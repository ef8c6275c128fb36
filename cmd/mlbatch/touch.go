package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli/actions"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/words"
)

// touchFlags are those of commands that change jobs.
type touchFlags struct {
	job      jobArg
	selector string
	dryRun   string
	output   string
}

func (t *touchFlags) flags(f *pflag.FlagSet) {
	f.StringVarP(
		&t.selector,
		"selector",
		"l",
		"",
		"all jobs of the namespace with these labels, instead of names",
	)
	f.StringVar(
		&t.dryRun,
		"dry-run",
		"",
		"none, client (say what would be done) or server (let the API server check it, too)",
	)
	t.printing(f)
}

func (t *touchFlags) printing(f *pflag.FlagSet) {
	f.StringVarP(&t.output, "output", "o", "", "name, json or yaml instead of sentences")
	t.job.flags(f)
}

// act does something to a job.
type act func(ctx context.Context, a *actions.Actor, t *actions.Target) (*actions.Result, error)

// check finds mistakes in the flags and in the names of jobs.
func (t *touchFlags) check(args []string) error {
	if err := knownFormat(t.output, "name", "json", "yaml"); err != nil {
		return usageError{err}
	}
	if t.dryRun == dryRunNone {
		t.dryRun = string(actions.Real)
	}
	switch actions.DryRun(t.dryRun) {
	case actions.Real, actions.Client, actions.Server:
	default:
		return usageError{fmt.Errorf("--dry-run %s is not known: use none, client or server", t.dryRun)}
	}
	if (len(args) == 0) == (t.selector == "") {
		return usageError{errors.New("name jobs, or choose them by their labels with -l")}
	}
	return nil
}

// refs are the jobs that are meant.
func (t *touchFlags) refs(ctx context.Context, c client.Reader, args []string) ([]view.Ref, error) {
	if t.selector == "" {
		return t.named(args)
	}
	with, err := labels.Parse(t.selector)
	if err != nil {
		return nil, usageError{fmt.Errorf("-l %s: %w", t.selector, err)}
	}
	namespace := t.job.namespace
	if namespace == "" {
		namespace = t.job.conn.Namespace()
	}
	if namespace == "" {
		return nil, usageError{fmt.Errorf("-l %s: say in which namespace: -n NAMESPACE", t.selector)}
	}
	refs, err := actions.Select(ctx, c, namespace, with)
	if err == nil && len(refs) == 0 {
		err = fmt.Errorf("no job in namespace %s that you may see has the labels %s", namespace, t.selector)
	}
	return refs, err
}

// named are the jobs that were named.
func (t *touchFlags) named(args []string) (out []view.Ref, err error) {
	for _, arg := range args {
		ref, err := t.job.ref(arg)
		if err != nil {
			return nil, err
		}
		out = append(out, ref)
	}
	return out, nil
}

// connect checks what was typed before a cluster is asked.
func (t *touchFlags) connect(args []string) (*rest.Config, client.WithWatch, error) {
	if err := t.check(args); err != nil {
		return nil, nil, err
	}
	if t.selector == "" {
		if _, err := t.named(args); err != nil {
			return nil, nil, err
		}
	}
	return connect(&t.job.conn)
}

// tell prints a result as soon as it is there.
func (t *touchFlags) tell(out io.Writer, r *actions.Result) {
	switch t.output {
	case "":
		text := r.Message
		if r.DryRun != actions.Real {
			text += " (dry run: nothing was changed)"
		}
		fmt.Fprintln(out, words.Harmless(text))
	case "name":
		fmt.Fprintf(out, "%s/%s\n", r.Namespace, r.Name)
	}
}

// list prints all results for programs.
func (t *touchFlags) list(out io.Writer, results []*actions.Result) error {
	if t.output != "json" && t.output != "yaml" {
		return nil
	}
	if results == nil {
		results = []*actions.Result{}
	}
	return printObject(out, t.output, struct {
		Items []*actions.Result `json:"items"`
	}{results})
}

// jobAction is a command that does something to jobs, as a value. The runner (command) finds the jobs, does
// it to each, and tells what was done.
type jobAction struct {
	touchFlags
	// last has the last argument say what is to be done, and reads it.
	last func(arg string) error
	// lacks is said where that argument or the jobs are missing.
	lacks string
	// confirm asks before it is done, if it does.
	confirm func(cmd *cobra.Command, jobs []view.Ref) error
	do      act
}

// command makes the command; cmd has its names and its help.
func (j *jobAction) command(cmd *cobra.Command) *cobra.Command {
	j.flags(cmd.Flags())
	cmd.ValidArgsFunction = j.job.completeAll
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if j.last != nil {
			if len(args) == 0 || len(args) == 1 && j.selector == "" {
				return usageError{errors.New(j.lacks)}
			}
			end := len(args) - 1
			if err := j.last(args[end]); err != nil {
				return usageError{err}
			}
			args = args[:end]
		}
		return j.each(cmd, args)
	}
	return cmd
}

// each does something to each of the jobs that are meant, and tells whaj. A job to which it
// cannot be done keeps it from none of the others.
func (j *jobAction) each(cmd *cobra.Command, args []string) error {
	cfg, c, err := j.connect(args)
	if err != nil {
		return err
	}
	ctx, out, errs := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	refs, err := j.refs(ctx, c, args)
	if err != nil {
		return j.job.conn.Unreachable(err, cfg.Host)
	}
	if j.confirm != nil {
		if err := j.confirm(cmd, refs); err != nil {
			return err
		}
	}
	actor := &actions.Actor{Client: c, DryRun: actions.DryRun(j.dryRun)}
	reader := actions.Remember(c)
	var results []*actions.Result
	var failures []error
	for _, ref := range refs {
		var result *actions.Result
		target, err := actions.Find(ctx, reader, ref)
		if err == nil {
			result, err = j.do(ctx, actor, target)
		}
		if err != nil {
			if ctx.Err() != nil {
				return exitError{exitInterrupted, err}
			}
			failures = append(failures, j.job.conn.Unreachable(err, cfg.Host))
			if len(refs) > 1 {
				fmt.Fprintf(errs, "mlbatch: %s\n", words.Harmless(err.Error()))
			}
			continue
		}
		results = append(results, result)
		j.tell(out, result)
	}
	if err := j.list(out, results); err != nil {
		return err
	}
	switch {
	case len(failures) == 0:
		return nil
	case len(refs) == 1:
		return failures[0]
	}
	return errSilent
}

// newCancelCommand deletes jobs.
func newCancelCommand() *cobra.Command {
	var wait, yes bool
	cancel := &jobAction{
		do: func(ctx context.Context, a *actions.Actor, t *actions.Target) (*actions.Result, error) {
			return a.Cancel(ctx, t, wait)
		},
	}
	cmd := cancel.command(&cobra.Command{
		Use:   "cancel JOB...",
		Short: "End jobs and delete them",
		Long: `End jobs and delete them, with their pods and all else that belongs to them. Jobs that
have ended are deleted, too. mlbatch hold stops a job and keeps it.

On a terminal it asks before it cancels more than one job.`,
		Example: `  # end a job
  mlbatch cancel blue/train

  # end all jobs of a sweep, and wait until their pods are gone
  mlbatch cancel -n blue -l sweep=lr --yes --wait`,
	})
	cancel.confirm = func(cmd *cobra.Command, jobs []view.Ref) error {
		if yes || cancel.dryRun != "" || len(jobs) < 2 {
			return nil
		}
		return sure(cmd, jobs)
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the pods are gone")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// sure asks, on a terminal, whether all of these jobs are meant.
func sure(cmd *cobra.Command, refs []view.Ref) error {
	if f, is := cmd.InOrStdin().(*os.File); !is || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	const shown = 10
	for i, ref := range refs {
		if i == shown {
			fmt.Fprintf(cmd.ErrOrStderr(), "  and %d more\n", len(refs)-shown)
			break
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "  %s\n", ref)
	}
	return confirm(cmd, false, fmt.Sprintf("Cancel these %d jobs?", len(refs)))
}

// newHoldCommand holds jobs back.
func newHoldCommand() *cobra.Command {
	var stop bool
	hold := &jobAction{
		do: func(ctx context.Context, a *actions.Actor, t *actions.Target) (*actions.Result, error) {
			return a.Hold(ctx, t, stop)
		},
	}
	cmd := hold.command(&cobra.Command{
		Use:   "hold JOB...",
		Short: "Keep jobs from starting until they are released",
		Long: `Keep jobs from starting until they are released. A held job keeps its age, by which it has
its place when it queues again. One that runs is stopped only with --stop: it gives back
what it has, and begins anew when it is released.

What an administrator holds, only administrators release.`,
		Example: `  # let others go first
  mlbatch hold blue/train

  # stop it, and keep it for later
  mlbatch hold blue/train --stop`,
	})
	cmd.Flags().BoolVar(&stop, "stop", false, "stop jobs that run")
	return cmd
}

// newReleaseCommand lets held jobs queue again.
func newReleaseCommand() *cobra.Command {
	release := &jobAction{
		do: func(ctx context.Context, a *actions.Actor, t *actions.Target) (*actions.Result, error) {
			return a.Release(ctx, t)
		},
	}
	return release.command(&cobra.Command{
		Use:   "release JOB...",
		Short: "Let held jobs queue again",
		Long: `Let jobs queue again that were held, or that a rule took out of their queue: a time limit
that was over, too many attempts to start.`,
		Example: `  # let it queue again
  mlbatch release blue/train

  # all of a sweep
  mlbatch release -n blue -l sweep=lr`,
	})
}

// newRequeueCommand makes jobs give up what they have and queue again.
func newRequeueCommand() *cobra.Command {
	requeue := &jobAction{
		do: func(ctx context.Context, a *actions.Actor, t *actions.Target) (*actions.Result, error) {
			return a.Requeue(ctx, t)
		},
	}
	return requeue.command(&cobra.Command{
		Use:   "requeue JOB...",
		Short: "Stop jobs that run and let them queue again",
		Long: `Stop jobs that run and let them queue again, where their age places them: they give back
quota and nodes when their pods have ended, and begin anew when it is their turn. What they
did since they last saved their state is lost.`,
		Example: `  # give the nodes to others and run again later
  mlbatch requeue blue/train`,
	})
}

// newPrioCommand gives jobs another priority.
func newPrioCommand() *cobra.Command {
	var class string
	prio := &jobAction{
		lacks: "say which jobs, and their class: JOB... CLASS",
		last: func(arg string) error {
			if class = arg; strings.Contains(class, "/") {
				return fmt.Errorf("%s is no name of a class, which comes last: JOB... CLASS", class)
			}
			return nil
		},
		do: func(ctx context.Context, a *actions.Actor, t *actions.Target) (*actions.Result, error) {
			return a.Prioritize(ctx, t, class)
		},
	}
	return prio.command(&cobra.Command{
		Use:   "prio JOB... CLASS",
		Short: "Give jobs another priority class, waiting or running",
		Long: `Give jobs another WorkloadPriorityClass, by their label kueue.x-k8s.io/priority-class. It
counts at once: for the place of a job that waits, and for whether one that runs may be
preempted.`,
		Example: `  # let it go before what else waits
  mlbatch prio blue/train high-priority

  # all of a sweep
  mlbatch prio -n blue -l sweep=lr low-priority`,
	})
}

// newScaleCommand gives jobs another size.
func newScaleCommand() *cobra.Command {
	var role string
	var stop bool
	var n int64
	scale := &jobAction{
		lacks: "say which jobs, and how many pods: JOB... N",
		last: func(arg string) (err error) {
			if n, err = strconv.ParseInt(arg, 10, 32); err != nil || n < 0 {
				return fmt.Errorf("%s is no number of pods, which comes last: JOB... N", arg)
			}
			return nil
		},
		do: func(ctx context.Context, a *actions.Actor, t *actions.Target) (*actions.Result, error) {
			return a.Scale(ctx, t, role, n, stop)
		},
	}
	cmd := scale.command(&cobra.Command{
		Use:   "scale JOB... N",
		Short: "Give jobs another number of pods",
		Long: `Give jobs another number of pods: Deployments, StatefulSets, ReplicaSets and
LeaderWorkerSets (groups) their replicas, Jobs their parallelism (and as many completions
if they had as many), roles of JobSets, of training jobs and groups of Ray clusters theirs.

A training job that has quota, or a Job, JobSet or Ray cluster that has and grows, is
stopped for that and queued anew, which --stop has to allow.`,
		Example: `  # two servers more
  mlbatch scale blue/chat 4

  # the workers of a Ray cluster
  mlbatch scale blue/ray-cluster --role gpus 1`,
	})
	cmd.Flags().StringVar(
		&role,
		"role",
		"",
		"the `role` whose size is meant (default: the only one, or that of workers)",
	)
	cmd.Flags().BoolVar(&stop, "stop", false, "stop jobs that have to begin anew with another size")
	return cmd
}
