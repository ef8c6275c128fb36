package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/calibration"
	"github.com/mlbatch/mlbatch/internal/sim/worldfile"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// etaFlags are those of when jobs start.
type etaFlags struct {
	job         jobArg
	all         bool
	output      string
	bare        bool
	calibration bool
	trace       string
	sizes       worldfile.Sizes
	every       time.Duration
}

// newEtaCommand says when jobs start.
func newEtaCommand() *cobra.Command {
	var e etaFlags
	cmd := &cobra.Command{
		Use:   "eta [JOB]",
		Short: "Say when waiting jobs will start, and how right such estimates were",
		Long: `Say when jobs that wait will start: two times, the one as likely too early as too late,
and the one by which 9 in 10 such jobs have started. The controller plays the future again
and again: jobs that run end after as long as jobs like them ran, or at their limits, and
the decisions are made as they will be made. What estimates got wrong corrects the next
ones. A question mark is a guess: no job like it has ended yet.

With --calibration: how right they are, on a recorded history (or the built-in world of
"mlbatch simulate"), beside what time limits alone would have said. It asks no cluster.`,
		Example: `  # when do my jobs start?
  mlbatch eta -n blue

  # one job
  mlbatch eta blue/train

  # how right is it, on a recorded history?
  mlbatch eta --calibration --trace philly.csv --nodes 80`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: e.job.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			if e.calibration {
				return e.calibrate(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args)
			}
			return e.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args)
		},
	}
	f := cmd.Flags()
	e.job.flags(f)
	f.BoolVarP(&e.all, "all-namespaces", "A", false, "jobs of all namespaces")
	f.StringVarP(&e.output, "output", "o", "", "wide, json or yaml")
	f.BoolVar(&e.bare, "no-headers", false, "without titles")
	f.BoolVar(&e.calibration, "calibration", false, "measure how right estimates are, in a simulation")
	f.StringVar(&e.trace, "trace", "", "with --calibration: a CSV `file` of jobs (see mlbatch simulate)")
	f.IntVar(&e.sizes.Nodes, "nodes", 0, "with --trace: how many nodes (default: enough for three fifths to be busy)")
	f.Int64Var(&e.sizes.GPUsPerNode, "gpus-per-node", 8, "with --trace: GPUs of each node")
	f.DurationVar(&e.every, "every", time.Hour, "with --calibration: how much time passes between estimates")
	return cmd
}

func (e *etaFlags) run(ctx context.Context, out, errs io.Writer, args []string) error {
	switch {
	case !slices.Contains([]string{"", "wide", "json", "yaml"}, e.output):
		return usageError{fmt.Errorf("-o %s is not known: use wide, json or yaml", e.output)}
	case e.trace != "":
		return usageError{errors.New("--trace is for --calibration")}
	case e.all && (e.job.namespace != "" || len(args) > 0):
		return usageError{errors.New("-A lists all namespaces: give no other one and no job")}
	}
	var ref view.Ref
	if len(args) > 0 {
		var err error
		if ref, err = e.job.ref(args[0]); err != nil {
			return err
		}
	}
	cfg, c, err := connect(&e.job.conn)
	if err != nil {
		return err
	}
	namespace := e.job.namespace
	if namespace == "" && !e.all {
		namespace = e.job.conn.Namespace()
	}
	workload := ""
	if len(args) > 0 {
		p, err := why.FindAny(ctx, c, ref)
		if err != nil {
			return e.job.conn.Unreachable(err, cfg.Host)
		}
		if p.Workload == nil {
			return fmt.Errorf("%s does not wait for quota: mlbatch why %s/%s says where it is", p.Asked, ref.Namespace, ref.Name)
		}
		namespace, workload = ref.Namespace, p.Workload.Name
	}
	rows, err := cli.TakeStarts(ctx, c, cli.Controller{Config: cfg}, namespace)
	if err != nil {
		return e.job.conn.Unreachable(err, cfg.Host)
	}
	if workload != "" {
		rows = slices.DeleteFunc(rows, func(r cli.WaitingRow) bool { return r.Workload != workload })
		if len(rows) == 0 {
			return fmt.Errorf("%s does not wait in its queue: mlbatch why %s/%s says where it is", ref, ref.Namespace, ref.Name)
		}
	}
	if len(rows) == 0 && (e.output == "" || e.output == "wide") {
		fmt.Fprintln(errs, "Nothing waits here that you may see.")
		return nil
	}
	return printRows(out, e.output, cli.StartColumns(time.Now()), rows, e.bare)
}

// calibrate measures how right estimates are.
func (e *etaFlags) calibrate(ctx context.Context, out, errs io.Writer, args []string) error {
	switch {
	case len(args) > 0:
		return usageError{errors.New("--calibration is about no job")}
	case !slices.Contains([]string{"", "json", "yaml"}, e.output):
		return usageError{fmt.Errorf("-o %s is not known here: use json or yaml", e.output)}
	case e.every < time.Minute:
		return usageError{fmt.Errorf("--every %s: must be a minute at least", e.every)}
	case e.sizes.Nodes < 0 || e.sizes.GPUsPerNode < 1:
		return usageError{errors.New("--nodes and --gpus-per-node must be positive")}
	}
	s := simulation{trace: e.trace, sizes: e.sizes}
	world, err := s.world("", errs)
	if err != nil {
		return err
	}
	trial := calibration.New(calibration.Options{
		Every: e.every, Engine: world.Engine, Futures: calibrationFutures, Decides: calibrationDecides,
		Limit: calibration.AskedLimits(world.Jobs),
	})
	if _, err := s.simulate(ctx, world, sim.Watch{Log: trial, Look: trial.Look}, errs); err != nil {
		return err
	}
	report, err := trial.Report()
	if err != nil {
		return err
	}
	if e.output != "" {
		return printObject(out, e.output, report)
	}
	return report.Text(out)
}

// What each estimate of a calibration costs at most, as in a controller.
const (
	calibrationFutures = 20
	calibrationDecides = 20_000
)
