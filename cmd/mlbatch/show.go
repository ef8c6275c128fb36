package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// newShowCommand shows all there is to know of a job.
func newShowCommand() *cobra.Command {
	var job jobArg
	var ref view.Ref
	var lines int64
	show := &readCommand{
		formats: []string{"wide", "json", "yaml"}, job: &job,
		flags: func(cmd *cobra.Command) {
			cmd.Flags().Int64Var(
				&lines,
				"lines",
				10,
				"how many `lines` of the log of the pod that failed first; 0 reads none",
			)
		},
		check: func(q *query) (err error) {
			if lines < 0 {
				return fmt.Errorf("--lines %d: give 0 or more", lines)
			}
			ref, err = job.ref(q.args[0])
			return err
		},
		read: func(ctx context.Context, q *query) (found, error) { return showJob(ctx, q, ref, lines) },
	}
	return show.command(&cobra.Command{
		Use:   "show JOB",
		Short: "Show a job: what it is, its pods, what happened to it, and which rank failed first",
		Long: `Show all there is to know of a job: what it is, how it stands and why, its roles and
pods, and what happened to it so far, with how long each part took. Of a job whose pods
failed, the one that failed first comes first, with its exit code and the end of its log.
The job is NAME or NAMESPACE/NAME, of its ` + cli.KindList() + `.

Kubernetes keeps events for an hour: what happened earlier is told as far as the job's own
objects still say it. Of many pods those are listed that failed or wait, and some others;
-o wide lists all.`,
		Example: `  # what is with this job?
  mlbatch show blue/train

  # more of the log of the pod that failed first
  mlbatch show blue/train --lines 100

  # for a script
  mlbatch show blue/train -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: job.complete,
	})
}

func showJob(ctx context.Context, q *query, ref view.Ref, lines int64) (found, error) {
	pods, err := corev1client.NewForConfig(q.cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", q.cfg.Host, err)
	}
	now := time.Now()
	shown, err := why.Show(ctx, q.c, cli.PodLogs(pods), ref, lines, now)
	if err != nil {
		return nil, err
	}
	return answer{shown, func(w io.Writer) error {
		return cli.PrintDetails(
			w,
			shown,
			now,
			time.Local,
			cli.Layout{Width: tableWidth(w), Wide: q.output == "wide", Colours: hasColours(w)},
		)
	}}, nil
}
