package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/mlbatch/mlbatch/internal/sim"
)

// Table is a CSV file of a result.
type Table struct {
	// Name of the file.
	Name  string
	write func(*csv.Writer, *sim.Result)
}

// Tables are the CSV files: one row per team, per interval and team, and per job.
func Tables() []Table {
	return []Table{
		{"teams.csv", teams},
		{"timeline.csv", overTime},
		{"jobs.csv", jobs},
	}
}

// Write writes the table of a result.
func (t Table) Write(out io.Writer, r *sim.Result) error {
	w := csv.NewWriter(out)
	t.write(w, r)
	w.Flush()
	if err := w.Error(); err != nil {
		return fmt.Errorf("write %s: %w", t.Name, err)
	}
	return nil
}

// put writes a row; the writer remembers its first error.
func put(w *csv.Writer, values ...any) {
	row := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case float64:
			row[i] = strconv.FormatFloat(v, 'f', -1, 64)
		default:
			row[i] = fmt.Sprint(v)
		}
	}
	_ = w.Write(row)
}

func teams(w *csv.Writer, r *sim.Result) {
	put(w, "team", "jobs", "finished", "deleted", "unfinished", "never_started",
		"wait_mean_s", "wait_p50_s", "wait_p90_s", "wait_p99_s", "wait_max_s",
		"slowdown_mean", "slowdown_p50", "slowdown_p90", "slowdown_p99", "slowdown_max",
		"used_hours", "worked_hours", "lost_hours", "offered_hours", "utilisation", "borrowed_hours", "lent_hours",
		"preemptions", "evictions", "most_evictions", "restarts", "mean_waiting", "share", "entitled")
	for _, a := range append(slices.Clip(r.Teams), r.Total) {
		put(w, a.Team, a.Jobs, a.Finished, a.Deleted, a.Unfinished, a.NeverStarted,
			a.Wait.Mean, a.Wait.P50, a.Wait.P90, a.Wait.P99, a.Wait.Max,
			a.Slowdown.Mean, a.Slowdown.P50, a.Slowdown.P90, a.Slowdown.P99, a.Slowdown.Max,
			a.Used, a.Worked, a.Lost, a.Offered, a.Utilisation, a.Borrowed, a.Lent,
			a.Preempted, a.Evicted, a.MostEvicted, a.Restarts, a.MeanWaiting, a.Share, a.Entitled)
	}
}

func overTime(w *csv.Writer, r *sim.Result) {
	put(w, "from_s", "team", "offered", "used", "worked", "waiting", "borrowed", "lent")
	tl := &r.Timeline
	for i := range tl.Used {
		from := float64(i) * tl.StepSeconds
		put(w, from, "all", tl.Offered[i], tl.Used[i], tl.Worked[i], "", "", "")
		for _, t := range tl.Teams {
			put(w, from, t.Team, "", t.Used[i], "", t.Waiting[i], t.Borrowed[i], t.Lent[i])
		}
	}
}

func jobs(w *csv.Writer, r *sim.Result) {
	put(
		w,
		"job",
		"team",
		"units",
		"priority",
		"state",
		"submitted_s",
		"started_s",
		"ended_s",
		"work_s",
		"wait_s",
		"lost_s",
		"preemptions",
		"evictions",
		"restarts",
		"reason",
	)
	for _, j := range r.Jobs() {
		put(w, j.Key, j.Team, j.Units, j.Priority, j.State, j.Submitted, j.Started, j.Ended, j.Work, j.Wait,
			j.Lost, j.Preempted, j.Evicted, j.Restarts, j.Reason)
	}
}
