package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mlbatch/mlbatch/internal/cli/actions"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/words"
)

// jobFlags are those of commands that do something to jobs.
type jobFlags struct {
	session

	job      jobArg
	selector string
	dryRun   string
	output   string
}

func (t *jobFlags) flags(f *pflag.FlagSet) {
	f.StringVarP(&t.selector, "selector", "l", "",
		"all jobs of the namespace with these labels, instead of names")
	f.StringVarP(&t.output, "output", "o", "", "name, json or yaml instead of sentences")
}

// check finds mistakes in the flags and in the names of jobs.
func (t *jobFlags) check() error {
	if err := knownFormat(t.output, "name", "json", "yaml"); err != nil {
		return err
	}
	if t.dryRun == dryRunNone {
		t.dryRun = string(actions.Real)
	}
	switch actions.DryRun(t.dryRun) {
	case actions.Real, actions.Client, actions.Server:
	default:
		return fmt.Errorf("--dry-run %s is not known: use none, client or server", t.dryRun)
	}
	if (len(t.args) == 0) == (t.selector == "") {
		return errors.New("name jobs, or choose them by their labels with -l")
	}
	_, err := t.named()
	return err
}

// named are the jobs that were named.
func (t *jobFlags) named() (out []view.Ref, err error) {
	for _, arg := range t.args {
		ref, err := t.job.ref(arg)
		if err != nil {
			return nil, err
		}
		out = append(out, ref)
	}
	return out, nil
}

// refs are the jobs that are meant.
func (t *jobFlags) refs(ctx context.Context) ([]view.Ref, error) {
	if t.selector == "" {
		return t.named()
	}
	with, err := labels.Parse(t.selector)
	if err != nil {
		return nil, usagef("-l %s: %w", t.selector, err)
	}
	namespace := cmp.Or(t.job.namespace, t.conn.Namespace())
	if namespace == "" {
		return nil, usagef("-l %s: say in which namespace: -n NAMESPACE", t.selector)
	}
	refs, err := actions.Select(ctx, t.c, namespace, with)
	if err == nil && len(refs) == 0 {
		err = fmt.Errorf("no job in namespace %s that you may see has the labels %s", namespace, t.selector)
	}
	return refs, err
}

// tell prints a result as soon as it is there.
func (t *jobFlags) tell(r *actions.Result) {
	switch t.output {
	case "":
		text := r.Message
		if r.DryRun != actions.Real {
			text += " (dry run: nothing was changed)"
		}
		fmt.Fprintln(t.out, words.Harmless(text))
	case "name":
		fmt.Fprintf(t.out, "%s/%s\n", r.Namespace, r.Name)
	}
}

// list prints all results for programs.
func (t *jobFlags) list(results []*actions.Result) error {
	if t.output != "json" && t.output != "yaml" {
		return nil
	}
	if results == nil {
		results = []*actions.Result{}
	}
	return printObject(t.out, t.output, struct {
		Items []*actions.Result `json:"items"`
	}{results})
}

// jobAction is a command that does something to jobs, as a value. The runner (command) finds the jobs, does
// it to each, and tells what was done.
type jobAction struct {
	jobFlags
	// last has the last argument say what is to be done, and reads it.
	last func(arg string) error
	// lacks is said where that argument or the jobs are missing.
	lacks string
	// confirm asks before it is done, if it does.
	confirm func(jobs []view.Ref) error
	do      func(ctx context.Context, a *actions.Actor, t *actions.Target) (*actions.Result, error)
}

// command makes the command; cmd has its names and its help.
func (j *jobAction) command(cmd *cobra.Command) *cobra.Command {
	f := cmd.Flags()
	j.flags(f)
	f.StringVar(&j.dryRun, "dry-run", "",
		"none, client (say what would be done) or server (let the API server check it, too)")
	cmd.ValidArgsFunction = j.job.completeAll
	return clusterCommand{session: &j.session, job: &j.job, check: j.check, do: j.each}.command(cmd)
}

func (j *jobAction) check() error {
	if j.last != nil {
		end := len(j.args) - 1
		if end < 0 || end == 0 && j.selector == "" {
			return errors.New(j.lacks)
		}
		if err := j.last(j.args[end]); err != nil {
			return err
		}
		j.args = j.args[:end]
	}
	return j.jobFlags.check()
}

// each does something to each of the jobs that are meant, and tells what. A job to which it
// cannot be done keeps it from none of the others.
func (j *jobAction) each(ctx context.Context) error {
	refs, err := j.refs(ctx)
	if err != nil {
		return err
	}
	if j.confirm != nil {
		if err := j.confirm(refs); err != nil {
			return err
		}
	}
	actor := &actions.Actor{Client: j.c, DryRun: actions.DryRun(j.dryRun)}
	reader := actions.Remember(j.c)
	var results []*actions.Result
	var failed error
	for _, ref := range refs {
		var result *actions.Result
		target, err := actions.Find(ctx, reader, ref)
		if err == nil {
			result, err = j.do(ctx, actor, target)
		}
		switch {
		case err == nil:
			results = append(results, result)
			j.tell(result)
		case ctx.Err() != nil:
			return exitError{exitInterrupted, err}
		case len(refs) > 1:
			fmt.Fprintf(j.errs, "mlbatch: %s\n", words.Harmless(err.Error()))
			failed = errSilent
		default:
			failed = err
		}
	}
	return cmp.Or(j.list(results), failed)
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
	cancel.confirm = func(jobs []view.Ref) error {
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
	cmd.Flags().StringVar(&role, "role", "",
		"the `role` whose size is meant (default: the only one, or that of workers)")
	cmd.Flags().BoolVar(&stop, "stop", false, "stop jobs that have to begin anew with another size")
	return cmd
}
