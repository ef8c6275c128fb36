package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/sim"
	simreport "github.com/mlbatch/mlbatch/internal/sim/report"
	"github.com/mlbatch/mlbatch/internal/sim/worldfile"
)

// simulation is what the command line asks for.
type simulation struct {
	trace   string
	sizes   worldfile.Sizes
	compare []string
	seed    uint64
	output  string
	csv     string
	check   bool
	quiet   bool
	example bool
}

// newSimulateCommand runs the engine in virtual time.
func newSimulateCommand() *cobra.Command {
	var s simulation
	cmd := &cobra.Command{
		Use:   "simulate [WORLD.yaml]",
		Short: "Run the scheduler over a recorded or made-up history in virtual time",
		Long: `Run the production engine in virtual time over a world from a file: teams with
quotas, nodes, jobs from distributions or from a trace, failures, and changes of
quota. It prints how long jobs waited, how well nodes were used, who borrowed from
whom, and what preemption cost. The same world and seed print the same bytes.

Without a file it runs a small world of three teams; with --trace alone it makes a
world that fits the trace. It exits with 1 if the world cannot be read, or if
--check finds that the engine broke one of its promises.`,
		Example: `  # three teams, two days, in a second
  mlbatch simulate

  # that world as a file, to change and run again
  mlbatch simulate --example > world.yaml
  mlbatch simulate world.yaml

  # what would more nodes do for this trace?
  mlbatch simulate --trace philly.csv --nodes 80

  # two policies side by side
  mlbatch simulate --compare fifo.yaml preempting.yaml

  # for a notebook
  mlbatch simulate world.yaml -o json --csv out/`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.complete(args, cmd.Flags().Changed("compare")); err != nil {
				return usageError{err}
			}
			return s.run(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.trace, "trace", "", "CSV `file` with one job a line (columns timestamp, duration, num_gpus, cluster)")
	f.IntVar(&s.sizes.Nodes, "nodes", 0, "nodes of the world made for --trace (default: so many that its load keeps 3/5 of them busy)")
	f.Int64Var(&s.sizes.GPUsPerNode, "gpus-per-node", 8, "GPUs of each node of the world made for --trace")
	f.StringSliceVar(&s.compare, "compare", nil, "run two `worlds` and print how they differ: --compare A.yaml B.yaml")
	f.Uint64Var(&s.seed, "seed", 0, "seed instead of the world's own")
	f.StringVarP(&s.output, "output", "o", "", "json instead of tables")
	f.StringVar(&s.csv, "csv", "", "`directory` to write teams.csv, timeline.csv and jobs.csv to")
	f.BoolVar(&s.check, "check", false, "check the engine's promises after every decision (many times slower)")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "no progress on standard error")
	f.BoolVar(&s.example, "example", false, "print the built-in world as a file, and run nothing")
	return cmd
}

// complete checks that the flags suit each other.
func (s *simulation) complete(args []string, comparing bool) error { //nolint:revive // whether a flag was given
	if comparing {
		s.compare = append(s.compare, args...)
	}
	switch {
	case s.output != "" && s.output != "json":
		return fmt.Errorf("-o %s is not known: use json", s.output)
	case comparing && len(s.compare) != 2:
		return fmt.Errorf("--compare needs two world files: --compare A.yaml B.yaml")
	case comparing && (s.trace != "" || s.csv != ""):
		return errors.New("--compare cannot be combined with --trace or --csv: name the trace in the world files")
	case !comparing && len(args) > 1:
		return errors.New("more than one world: use --compare to run two")
	case len(args) == 1 && s.trace != "":
		return errors.New("both a world and --trace are given: name the trace in the world file (trace: {file: ...})")
	case s.sizes.Nodes < 0 || s.sizes.GPUsPerNode < 1:
		return errors.New("--nodes and --gpus-per-node must be positive")
	}
	return nil
}

func (s *simulation) run(cmd *cobra.Command, args []string) error {
	out := cmd.OutOrStdout()
	switch {
	case s.example:
		_, err := out.Write(worldfile.Builtin())
		return err
	case len(s.compare) == 2:
		return s.runTwo(cmd)
	}
	world, err := s.world(append(args, "")[0])
	if err != nil {
		return err
	}
	result, err := s.simulate(cmd.Context(), world, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if s.csv != "" {
		if err := writeTables(s.csv, result); err != nil {
			return err
		}
	}
	if s.output == "json" {
		return printJSON(out, result)
	}
	return simreport.Text(out, result)
}

func (s *simulation) runTwo(cmd *cobra.Command) error {
	var results [2]*sim.Result
	for i, name := range s.compare {
		world, err := s.world(name)
		if err != nil {
			return err
		}
		if results[i], err = s.simulate(cmd.Context(), world, cmd.ErrOrStderr()); err != nil {
			return err
		}
	}
	c := simreport.Compare(results[0], results[1])
	if s.output == "json" {
		return printJSON(cmd.OutOrStdout(), c)
	}
	return c.Text(cmd.OutOrStdout())
}

func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// world reads the world of a file, of the trace, or the built-in one.
func (s *simulation) world(name string) (*sim.World, error) {
	var file *worldfile.File
	var err error
	dir := "."
	switch {
	case s.trace != "":
		text, err := os.ReadFile(s.trace)
		if err != nil {
			return nil, fmt.Errorf("read the trace: %w", err)
		}
		if file, err = worldfile.ForTrace(worldfile.Trace{File: s.trace}, text, s.sizes); err != nil {
			return nil, err
		}
	case name == "":
		if file, err = worldfile.Parse(worldfile.Builtin()); err != nil {
			return nil, err
		}
	default:
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the world: %w", err)
		}
		if file, err = worldfile.Parse(text); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		dir = filepath.Dir(name)
		if file.Name == "" {
			file.Name = filepath.Base(name)
		}
	}
	if s.seed != 0 {
		file.Seed = &s.seed
	}
	world, err := buildWorld(file, dir)
	if err != nil && name != "" {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return world, err
}

// buildWorld makes the world of a file whose trace is named relative to dir.
func buildWorld(file *worldfile.File, dir string) (*sim.World, error) {
	if file.Trace == nil {
		return worldfile.Build(file, nil)
	}
	path := file.Trace.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	text, err := os.ReadFile(path) //nolint:gosec // the user named it
	if err != nil {
		return nil, fmt.Errorf("read trace.file: %w", err)
	}
	return worldfile.Build(file, bytes.NewReader(text))
}

// progressEvery is how often progress is printed, and momentsPerLook how many
// moments pass between looks at the clock.
const (
	progressEvery  = time.Second
	momentsPerLook = 500
)

// simulate runs a world, says on standard error how far it is, and stops when it
// is told to.
func (s *simulation) simulate(ctx context.Context, world *sim.World, errOut io.Writer) (*sim.Result, error) {
	began := time.Now()
	printed := began
	run := sim.New(*world, sim.Watch{Check: s.check})
	for run.Advance(momentsPerLook) {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("stopped: %w", err)
		}
		if now := time.Now(); !s.quiet && now.Sub(printed) >= progressEvery {
			printed = now
			p := run.Progress()
			fmt.Fprintf(errOut, "%s: %s, %d of %d jobs done, %d active, %d waiting\n",
				world.Name, p.Now.UTC().Format("2006-01-02 15:04"), p.Done, p.Jobs, p.Active, p.Waiting)
		}
	}
	if err := run.Err(); err != nil {
		return nil, fmt.Errorf("the engine broke a promise (world %s, seed %d): %w", world.Name, world.Seed, err)
	}
	result := run.Result()
	if !s.quiet {
		fmt.Fprintf(errOut, "%s: %d jobs simulated in %s\n", world.Name, result.Total.Jobs, time.Since(began).Round(time.Millisecond))
	}
	return result, nil
}

func writeTables(dir string, r *sim.Result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // results are for sharing
		return fmt.Errorf("write CSV files: %w", err)
	}
	for _, t := range simreport.Tables() {
		f, err := os.Create(filepath.Join(dir, t.Name))
		if err != nil {
			return fmt.Errorf("write CSV files: %w", err)
		}
		if err := errors.Join(t.Write(f, r), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
