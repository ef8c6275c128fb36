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
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/sim"
	simreport "github.com/mlbatch/mlbatch/internal/sim/report"
	"github.com/mlbatch/mlbatch/internal/sim/worldfile"
)

// simulation is what the command line asks for.
type simulation struct {
	trace   string
	flights string
	sizes   worldfile.Sizes
	compare []string
	seed    uint64
	output  string
	csv     string
	svg     string
	html    string
	check   bool
	quiet   bool
	example bool
	goodput bool
	// failures is a file for goodput.
	failures string
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
--check finds that the engine broke one of its promises.

With --from-flights the jobs, nodes and queues are those that a flight recorder wrote,
and each file of --compare is a policy that they are decided again under: ClusterQueues,
Cohorts, LocalQueues and ResourceFlavors that take the place of the recorded ones of their
names, and at most one Configuration. Differences are told for each team, against the
recorded policy, which is simulated as well and compared with what really happened.

Ctrl-C ends the run early: what
there is so far is printed, and the exit code is 1.`,
		Example: `  # three teams, two days, in a second
  mlbatch simulate

  # that world as a file, to change and run again
  mlbatch simulate --example > world.yaml
  mlbatch simulate world.yaml

  # what would more nodes do for this trace?
  mlbatch simulate --trace philly.csv --nodes 80

  # policies side by side
  mlbatch simulate --compare fifo.yaml preempting.yaml fair.yaml

  # what would have happened here under other quotas?
  mlbatch simulate --from-flights ~/.local/share/mlbatch/flights --compare fair.yaml,more.yaml --html past.html

  # a page with charts of use and waits
  mlbatch simulate world.yaml --html report.html

  # what part of its time a job of 2,048 GPUs makes use of while nodes fail
  mlbatch simulate --goodput

  # for a notebook
  mlbatch simulate world.yaml -o json --csv out/`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("seed") && s.seed == 0 {
				return usageError{errors.New("--seed 0: must be at least 1; leave it out for the world's own")}
			}
			if err := s.completeGoodput(cmd, args); err != nil {
				return usageError{err}
			}
			if s.goodput {
				return s.runGoodput(cmd)
			}
			if err := s.complete(args, cmd.Flags().Changed("compare")); err != nil {
				return usageError{err}
			}
			return s.run(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(
		&s.trace,
		"trace",
		"",
		"CSV `file` with one job a line (columns timestamp, duration, num_gpus, cluster)",
	)
	f.StringVar(
		&s.flights,
		"from-flights",
		"",
		"decide again what a flight recorder wrote: `FILE or DIR` of recordings; --compare then names files of policies",
	)
	f.IntVar(
		&s.sizes.Nodes,
		"nodes",
		0,
		"nodes of the world made for --trace (default: so many that its load keeps 3/5 of them busy)",
	)
	f.Int64Var(&s.sizes.GPUsPerNode, "gpus-per-node", 8, "GPUs of each node of the world made for --trace")
	f.StringSliceVar(
		&s.compare,
		"compare",
		nil,
		"run several `worlds` and print how they differ from the first: --compare A.yaml B.yaml ...; with --from-flights files of policies",
	)
	f.Uint64Var(&s.seed, "seed", 0, "seed instead of the world's own")
	f.StringVarP(&s.output, "output", "o", "", "json instead of tables; with --from-flights yaml, too")
	f.StringVar(&s.csv, "csv", "", "`directory` to write teams.csv, timeline.csv and jobs.csv to")
	f.StringVar(&s.svg, "svg", "", "`file` to draw charts of use and waits into")
	f.StringVar(&s.html, "html", "", "`file` to write a page with the tables and charts to")
	f.BoolVar(&s.check, "check", false, "check the engine's promises after every decision (many times slower)")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "no progress on standard error")
	f.BoolVar(&s.goodput, "goodput", false, "play ways to recover from failures, and run no other world")
	f.StringVar(&s.failures, "failures", "", "CSV `file` of failures for --goodput instead of the stated ones")
	f.BoolVar(&s.example, "example", false, "print the built-in world as a file, and run nothing")
	return cmd
}

// complete checks that the flags suit each other.
func (s *simulation) complete( //nolint:revive // whether a flag was given
	args []string,
	comparing bool,
) error {
	if comparing || s.flights != "" {
		s.compare = append(s.compare, args...)
	}
	if s.flights != "" {
		return s.completeFlights()
	}
	switch {
	case s.output != "" && s.output != "json":
		return fmt.Errorf("-o %s is not known: use json", s.output)
	case comparing && len(s.compare) < 2:
		return fmt.Errorf("--compare needs two world files or more: --compare A.yaml B.yaml")
	case comparing && s.trace != "":
		return errors.New("--compare cannot be combined with --trace: name the trace in the world files")
	case comparing && (s.csv != "" || s.svg != "" || s.html != ""):
		return errors.New(
			"--compare cannot be combined with --csv, --svg and --html: run each world alone for those",
		)
	case !comparing && len(args) > 1:
		return errors.New("more than one world: use --compare to run two")
	case len(args) == 1 && s.trace != "":
		return errors.New(
			"both a world and --trace are given: name the trace in the world file (trace: {file: ...})",
		)
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
	case s.flights != "":
		return s.runFlights(cmd)
	case len(s.compare) > 0:
		return s.runMany(cmd)
	}
	world, err := s.world(append(args, "")[0], cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	result, err := s.simulate(cmd.Context(), world, sim.Watch{Check: s.check}, cmd.ErrOrStderr())
	if result == nil {
		return err
	}
	return errors.Join(s.write(out, result), err)
}

// write puts a result wherever it is wanted.
func (s *simulation) write(out io.Writer, result *sim.Result) error {
	if s.csv != "" {
		if err := writeTables(s.csv, result); err != nil {
			return err
		}
	}
	if s.svg != "" {
		if err := writeFile(s.svg, result, simreport.SVG); err != nil {
			return err
		}
	}
	if s.html != "" {
		if err := writeFile(s.html, result, simreport.HTML); err != nil {
			return err
		}
	}
	if s.output == "json" {
		return printJSON(out, result)
	}
	return simreport.Text(out, result)
}

func writeFile(file string, result *sim.Result, write func(io.Writer, *sim.Result) error) error {
	return writeTo(file, func(out io.Writer) error { return write(out, result) })
}

// writeTo makes a file of what is written.
func writeTo(file string, write func(io.Writer) error) error {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write charts: %w", err)
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

// runMany compares worlds. Stopped early, it prints what there is, and says so.
func (s *simulation) runMany(cmd *cobra.Command) error {
	var results []*sim.Result
	var stopped error
	for _, name := range s.compare {
		world, err := s.world(name, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		result, err := s.simulate(cmd.Context(), world, sim.Watch{Check: s.check}, cmd.ErrOrStderr())
		if result != nil {
			results = append(results, result)
		}
		if err != nil {
			stopped = err
			break
		}
	}
	if len(results) == 1 {
		return errors.Join(s.write(cmd.OutOrStdout(), results[0]), stopped)
	}
	c := simreport.Compare(results...)
	if s.output == "json" {
		return errors.Join(printJSON(cmd.OutOrStdout(), c), stopped)
	}
	return errors.Join(c.Text(cmd.OutOrStdout()), stopped)
}

func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// world reads the world of a file, of the trace, or the built-in one. What is odd about
// it and no error goes to errOut.
func (s *simulation) world(name string, errOut io.Writer) (*sim.World, error) {
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
			return nil, inFile(name, err)
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
		return nil, inFile(name, err)
	}
	for _, p := range file.Unmatched() {
		fmt.Fprintln(errOut, "warning:", inFile(name, p))
	}
	return world, err
}

// inFile puts a file's name before each of the problems with it.
func inFile(name string, err error) error {
	if name == "" {
		return err
	}
	lines := strings.Split(err.Error(), "\n")
	for i, l := range lines {
		if rest, ok := strings.CutPrefix(l, "line "); ok {
			n, text, _ := strings.Cut(rest, ": ")
			lines[i] = name + ":" + n + ": " + text
			continue
		}
		lines[i] = name + ": " + l
	}
	return errors.New(strings.Join(lines, "\n"))
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
	text, err := os.ReadFile(path) //nolint:gosec // the user's file names it
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

// simulate runs a world and says on standard error how far it is. When it is told to
// stop it returns what there is so far, and an error.
func (s *simulation) simulate(
	ctx context.Context,
	world *sim.World,
	watch sim.Watch,
	errOut io.Writer,
) (*sim.Result, error) {
	began := time.Now()
	printed := began
	run := sim.New(*world, watch)
	for run.Advance(momentsPerLook) {
		if ctx.Err() != nil {
			p := run.Progress()
			return run.Result(), fmt.Errorf(
				"stopped early, at %s with %d of %d jobs done: these are the results so far",
				p.Now.UTC().Format("2006-01-02 15:04"),
				p.Done,
				p.Jobs,
			)
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
		fmt.Fprintf(
			errOut,
			"%s: %d jobs simulated in %s\n",
			world.Name,
			result.Total.Jobs,
			time.Since(began).Round(time.Millisecond),
		)
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
