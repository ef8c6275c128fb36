package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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

// waitFlags say for which jobs, for what and for how long is waited.
type waitFlags struct {
	jobFlags

	goal    string
	timeout time.Duration
}

// newWaitCommand waits for jobs.
func newWaitCommand() *cobra.Command {
	var w waitFlags
	cmd := clusterCommand{session: &w.session, job: &w.job, check: w.check, do: w.wait}.command(&cobra.Command{
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
		ValidArgsFunction: w.job.completeAll,
	})
	f := cmd.Flags()
	f.StringVar(&w.goal, "for", "", "`goal`: "+withCommas(actions.Goals()))
	f.DurationVar(&w.timeout, "timeout", 0, "how long to wait at most, such as 10m; 0 is without end")
	w.flags(f)
	offers(cmd, "for", actions.Goals())
	return cmd
}

func (w *waitFlags) check() error {
	if !slices.Contains(actions.Goals(), actions.Goal(w.goal)) {
		return fmt.Errorf("--for %q: use one of %s", w.goal, withCommas(actions.Goals()))
	}
	if w.timeout < 0 {
		return fmt.Errorf("--timeout %s: give a time such as 10m", w.timeout)
	}
	return w.jobFlags.check()
}

// wait waits for all jobs at the same time.
func (w *waitFlags) wait(whole context.Context) error {
	ctx, stop := whole, context.CancelFunc(func() {})
	if w.timeout > 0 {
		ctx, stop = context.WithTimeout(ctx, w.timeout)
	}
	defer stop()
	refs, err := w.refs(ctx)
	if err != nil {
		return err
	}
	each, end := context.WithCancel(ctx)
	defer end()
	results, errs := make([]*actions.Result, len(refs)), make([]error, len(refs))
	var lock sync.Mutex // of what is printed
	var waiting sync.WaitGroup
	for i, ref := range refs {
		waiting.Go(func() {
			results[i], errs[i] = await(each, w.c, ref, actions.Goal(w.goal))
			lock.Lock()
			defer lock.Unlock()
			if errs[i] != nil {
				end()
				return
			}
			w.tell(results[i])
		})
	}
	waiting.Wait()
	results = slices.DeleteFunc(results, func(r *actions.Result) bool { return r == nil })
	return cmp.Or(w.list(results), worst(whole, errs))
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
