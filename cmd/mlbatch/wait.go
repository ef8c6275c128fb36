package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli/actions"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// exitTimeout is that of wait when there is no more time.
const exitTimeout = 3

// newWaitCommand waits for jobs.
func newWaitCommand() *cobra.Command {
	var t touchFlags
	var goal string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait JOB... --for GOAL",
		Short: "Wait until jobs are admitted, run, have succeeded, ended or are deleted",
		Long: `Wait until all of the jobs have reached a goal:

  admitted   it has quota and nodes
  running    all its pods run
  succeeded  it has ended well
  ended      it has ended, well or not
  deleted    there is no such job (any more)

A job that has succeeded was admitted and has run. Exit code: 0 when all jobs have reached
the goal; 1 when one of them will not, such as one that failed; 2 for a mistake in the
command line; 3 when --timeout is over. The others are not waited for when one will not.`,
		Example: `  # go on when it has ended well
  mlbatch wait blue/train --for succeeded && ./evaluate.sh

  # for ten minutes at most
  mlbatch wait blue/train --for running --timeout 10m`,
		ValidArgsFunction: t.job.completeAll,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(actions.Goals(), actions.Goal(goal)) {
				return usageError{fmt.Errorf("--for %q: use one of %s", goal, withCommas(actions.Goals()))}
			}
			if timeout < 0 {
				return usageError{fmt.Errorf("--timeout %s: give a time such as 10m", timeout)}
			}
			return t.wait(cmd, args, actions.Goal(goal), timeout)
		},
	}
	f := cmd.Flags()
	f.StringVar(&goal, "for", "", "`goal`: "+withCommas(actions.Goals()))
	f.DurationVar(&timeout, "timeout", 0, "how long to wait at most, such as 10m; 0 is without end")
	f.StringVarP(
		&t.selector,
		"selector",
		"l",
		"",
		"all jobs of the namespace with these labels, instead of names",
	)
	t.printing(f)
	_ = cmd.RegisterFlagCompletionFunc(
		"for",
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return strings.Split(withCommas(actions.Goals()), ", "), cobra.ShellCompDirectiveNoFileComp
		},
	)
	return cmd
}

// wait waits for all jobs at the same time.
func (t *touchFlags) wait(cmd *cobra.Command, args []string, goal actions.Goal, timeout time.Duration) error {
	cfg, c, err := t.connect(args)
	if err != nil {
		return err
	}
	ctx, stop := cmd.Context(), context.CancelFunc(func() {})
	if timeout > 0 {
		ctx, stop = context.WithTimeout(ctx, timeout)
	}
	defer stop()
	refs, err := t.refs(ctx, c, args)
	if err != nil {
		return t.job.conn.Unreachable(err, cfg.Host)
	}
	each, end := context.WithCancel(ctx)
	defer end()
	results, errs := make([]*actions.Result, len(refs)), make([]error, len(refs))
	var lock sync.Mutex // of what is printed
	var waiting sync.WaitGroup
	for i, ref := range refs {
		waiting.Go(func() {
			results[i], errs[i] = await(each, c, ref, goal)
			lock.Lock()
			defer lock.Unlock()
			if errs[i] != nil {
				end()
				return
			}
			t.tell(cmd.OutOrStdout(), results[i])
		})
	}
	waiting.Wait()
	results = slices.DeleteFunc(results, func(r *actions.Result) bool { return r == nil })
	if err := t.list(cmd.OutOrStdout(), results); err != nil {
		return err
	}
	return t.job.conn.Unreachable(worst(cmd.Context(), errs), cfg.Host)
}

// worst is the error to tell of several: that of a job that will not reach its goal, or else that
// there was no more time, with its exit code.
func worst(ctx context.Context, errs []error) error {
	var late error
	for _, err := range errs {
		switch {
		case err == nil, errors.Is(err, context.Canceled):
		case errors.Is(err, context.DeadlineExceeded):
			late = cmp.Or(late, err)
		default:
			return err
		}
	}
	if ctx.Err() != nil {
		return exitError{code: exitInterrupted}
	}
	if late != nil {
		return exitError{exitTimeout, late}
	}
	return nil
}

// await waits for one job. One that does not exist is deleted.
func await(
	ctx context.Context,
	c client.WithWatch,
	ref view.Ref,
	goal actions.Goal,
) (*actions.Result, error) {
	target, err := actions.Find(ctx, c, ref)
	var missing *why.MissingError
	switch {
	case errors.As(err, &missing) && goal == actions.UntilDeleted:
		return &actions.Result{
			Kind:      ref.Kind,
			Namespace: ref.Namespace,
			Name:      ref.Name,
			Action:    string(goal),
			Message:   fmt.Sprintf("There is no %s.", ref),
		}, nil
	case err != nil:
		return nil, err
	}
	return actions.Await(ctx, c, target, goal)
}
