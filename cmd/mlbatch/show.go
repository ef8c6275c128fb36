package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// newShowCommand shows all there is to know of a job.
func newShowCommand() *cobra.Command {
	var job jobArg
	var output string
	var lines int64
	cmd := &cobra.Command{
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
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains([]string{"", "wide", "json", "yaml"}, output) {
				return usageError{fmt.Errorf("-o %s is not known: use wide, json or yaml", output)}
			}
			if lines < 0 {
				return usageError{fmt.Errorf("--lines %d: give 0 or more", lines)}
			}
			ref, err := job.ref(args[0])
			if err != nil {
				return err
			}
			cfg, c, err := connect(&job.conn)
			if err != nil {
				return err
			}
			pods, err := corev1client.NewForConfig(cfg)
			if err != nil {
				return fmt.Errorf("connect to %s: %w", cfg.Host, err)
			}
			now := time.Now()
			shown, err := why.Show(cmd.Context(), c, cli.PodLogs(pods), ref, lines, now)
			if err != nil {
				return job.conn.Unreachable(err, cfg.Host)
			}
			out := cmd.OutOrStdout()
			if output == "json" || output == "yaml" {
				return printObject(out, output, shown)
			}
			return cli.PrintDetails(out, shown, now, time.Local, cli.Layout{Width: tableWidth(out), Wide: output == "wide", Colours: hasColours(out)})
		},
	}
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", "", "wide, json or yaml")
	f.Int64Var(&lines, "lines", 10, "how many `lines` of the log of the pod that failed first; 0 reads none")
	job.flags(f)
	return cmd
}
