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

// etaFlags say whose starts are foreseen, or what measures how right that was.
type etaFlags struct {
	job         jobArg
	ref         view.Ref // of the job, if there is one
	all         bool
	calibration bool
	trace       string
	sizes       worldfile.Sizes
	every       time.Duration
}

// newEtaCommand says when jobs start.
func newEtaCommand() *cobra.Command {
	var e etaFlags
	list := &readCommand{
		formats: []string{"wide", "json", "yaml"},
		bare:    withoutTitles,
		job:     &e.job,
		flags:   e.flags,
		check:   e.check,
		read:    e.read,
	}
	cmd := list.command(&cobra.Command{
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
	})
	ask := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if e.calibration {
			return e.calibrate(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), valueOf(cmd, "output"), args)
		}
		return ask(cmd, args)
	}
	return cmd
}

func (e *etaFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&e.all, "all-namespaces", "A", false, "jobs of all namespaces")
	f.BoolVar(&e.calibration, "calibration", false, "measure how right estimates are, in a simulation")
	f.StringVar(&e.trace, "trace", "", "with --calibration: a CSV `file` of jobs (see mlbatch simulate)")
	f.IntVar(&e.sizes.Nodes, "nodes", 0,
		"with --trace: how many nodes (default: enough for three fifths to be busy)")
	f.Int64Var(&e.sizes.GPUsPerNode, "gpus-per-node", 8, "with --trace: GPUs of each node")
	f.DurationVar(&e.every, "every", time.Hour, "with --calibration: how much time passes between estimates")
}

func (e *etaFlags) check(q *query) (err error) {
	switch {
	case e.trace != "":
		return errors.New("--trace is for --calibration")
	case e.all && (e.job.namespace != "" || len(q.args) > 0):
		return errors.New("-A lists all namespaces: give no other one and no job")
	}
	e.ref, err = e.job.only(q.args)
	return err
}

func (e *etaFlags) read(ctx context.Context, q *query) (found, error) {
	namespace, workload := e.job.namespace, ""
	if namespace == "" && !e.all {
		namespace = q.conn.Namespace()
	}
	if e.ref.Name != "" {
		p, err := why.FindAny(ctx, q.c, e.ref)
		if err != nil {
			return nil, err
		}
		if p.Workload == nil {
			return nil, fmt.Errorf(
				"%s does not wait for quota: mlbatch why %s/%s says where it is",
				p.Asked,
				e.ref.Namespace,
				e.ref.Name,
			)
		}
		namespace, workload = e.ref.Namespace, p.Workload.Name
	}
	starts, err := cli.TakeStarts(ctx, q.c, cli.Controller{Config: q.cfg}, namespace)
	if err != nil {
		return nil, err
	}
	if workload != "" {
		starts = slices.DeleteFunc(starts, func(r cli.WaitingRow) bool { return r.Workload != workload })
		if len(starts) == 0 {
			return nil, fmt.Errorf(
				"%s does not wait in its queue: mlbatch why %s/%s says where it is",
				e.ref,
				e.ref.Namespace,
				e.ref.Name,
			)
		}
	}
	return &rows[cli.WaitingRow]{
		items:   starts,
		columns: cli.StartColumns(time.Now()),
		none:    "Nothing waits here that you may see.",
	}, nil
}

// calibrate measures how right estimates are.
func (e *etaFlags) calibrate(ctx context.Context, out, errs io.Writer, output string, args []string) error {
	switch {
	case len(args) > 0:
		return usagef("--calibration is about no job")
	case !slices.Contains([]string{"", "json", "yaml"}, output):
		return usagef("-o %s is not known here: use json or yaml", output)
	case e.every < time.Minute:
		return usagef("--every %s: must be a minute at least", e.every)
	case e.sizes.Nodes < 0 || e.sizes.GPUsPerNode < 1:
		return usagef("--nodes and --gpus-per-node must be positive")
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
	if output != "" {
		return printObject(out, output, report)
	}
	return report.Text(out)
}

// What each estimate of a calibration costs at most, as in a controller.
const (
	calibrationFutures = 20
	calibrationDecides = 20_000
)
