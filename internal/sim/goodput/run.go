package goodput

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mlbatch/mlbatch/internal/sim"
)

// Row is what came of one way to recover.
type Row struct {
	Policy            string  `json:"policy"`
	CheckpointSeconds float64 `json:"checkpointSeconds"`
	// ETTR is the part of the job's time in which it did work that counts.
	ETTR float64 `json:"ettr"`
	// The hours of the job that were not productive: until a failure was noticed, work lost since the last
	// checkpoint, pauses for checkpoints, and all else, which is stopping, waiting and starting.
	Unseen  float64 `json:"unseenHours"`
	Lost    float64 `json:"lostHours"`
	Saving  float64 `json:"savingHours"`
	Restart float64 `json:"restartHours"`
	// Stops are evictions of the whole job, Resets other interruptions, of which in Replaced pods got other nodes.
	Stops    int `json:"stops"`
	Resets   int `json:"resets"`
	Replaced int `json:"replaced"`
}

// momentsPerLook is how many moments pass between looks at whether the run is still wanted.
const momentsPerLook = 500

// Play runs a way to recover under a trace. The error is the first promise that was broken, or that of the context.
func Play(
	ctx context.Context,
	p Policy,
	failures []Failure,
	checkpoint time.Duration,
	watch sim.Watch,
) (Row, error) {
	run := sim.New(World(&p, failures, checkpoint), watch)
	for run.Advance(momentsPerLook) {
		if err := ctx.Err(); err != nil {
			return Row{}, fmt.Errorf("stopped early: %w", err)
		}
	}
	if err := run.Err(); err != nil {
		return Row{}, fmt.Errorf("%s: %w", p.Name, err)
	}
	g := run.Goodput(trained())
	saving := time.Duration(float64(g.Kept) * float64(pause) / float64(checkpoint))
	return Row{
		Policy: p.Name, CheckpointSeconds: checkpoint.Seconds(),
		ETTR:   float64(g.Kept-saving) / float64(g.Wall),
		Unseen: g.Unseen.Hours(), Lost: g.Lost.Hours(), Saving: saving.Hours(),
		Restart: (g.Wall - g.Kept - g.Lost - g.Unseen).Hours(),
		Stops:   g.Evictions, Resets: g.Resets, Replaced: g.Replaced,
	}, nil
}

// Checkpoints are how often the job saves its work, in the table.
func Checkpoints() []time.Duration {
	return []time.Duration{2 * time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute}
}

// Table plays all ways to recover. With an error come the rows that there are so far.
func Table(ctx context.Context, failures []Failure) ([]Row, error) {
	var rows []Row
	for _, each := range Checkpoints() {
		for _, p := range Policies() {
			row, err := Play(ctx, p, failures, each, sim.Watch{})
			if err != nil {
				return rows, err
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// Print prints what a trace consists of, and the table.
func Print(out io.Writer, failures []Failure, rows []Row) error {
	count := map[sim.FaultKind]int{}
	for _, f := range failures {
		count[f.Kind]++
	}
	var mix []string
	for _, k := range kinds() {
		mix = append(mix, fmt.Sprintf("%s %d", k.kind, count[k.kind]))
	}
	fmt.Fprintf(
		out, "A job of %d GPUs on %d nodes of %d, %d days, %d failures (%s):\n\n",
		8*jobNodes, jobNodes, nodeCount, int(horizon.Hours()/24), len(failures), strings.Join(mix, ", "),
	)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CHECKPOINT\tRECOVERY\tETTR\tUNSEEN\tLOST\tSAVING\tRESTARTING\tSTOPS\tRESETS\tREPLACED")
	for _, r := range rows {
		fmt.Fprintf(
			t, "%gm\t%s\t%.2f%%\t%.1fh\t%.1fh\t%.1fh\t%.1fh\t%d\t%d\t%d\n",
			r.CheckpointSeconds/60, r.Policy, 100*r.ETTR, r.Unseen, r.Lost, r.Saving, r.Restart,
			r.Stops, r.Resets, r.Replaced,
		)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}
