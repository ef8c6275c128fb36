package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// histFlags say which jobs that ended are listed, and how.
type histFlags struct {
	jobs  jobFilter
	since string
	from  time.Time
	by    []string
	limit int
}

// newHistCommand lists jobs that ended.
func newHistCommand() *cobra.Command {
	var h histFlags
	list := &readCommand{
		formats: []string{"wide", "name", "json", "yaml"},
		columns: true,
		sortBy:  byColumn,
		sorts:   titles(cli.PastColumns(time.Local, true)),
		bare:    "without titles and the line below",
		flags:   h.flags,
		check:   h.check,
		read:    h.read,
	}
	return list.command(&cobra.Command{
		Use:     "hist",
		Aliases: []string{"history"},
		Short:   "List jobs that ended, also those that are deleted: how, why, how long, how many GPU-hours",
		Long: `List jobs that ended, those that ended last first: how and why, with which exit code, how
long they waited and ran, how many GPU-hours they had. They are remembered after they are
deleted, for as long as the cluster's configuration says (history, 30 days if nothing is said).

Without -n or -A, the namespace is that of the kubeconfig's context; if it has none, all
namespaces are listed.`,
		Example: `  # what ended in the last week
  mlbatch hist -n blue

  # what failed today, and with which exit code
  mlbatch hist -n blue --since 24h --state Failed

  # who used how many GPU-hours in a month
  mlbatch hist -A --since 30d --by user

  # what each team used, month by month, of all that is remembered
  mlbatch hist -A --by month,team`,
		Args: cobra.NoArgs,
		PreRun: func(cmd *cobra.Command, _ []string) {
			if !cmd.Flags().Changed("since") && slices.Contains(h.by, cli.ByMonth) {
				h.since = remembered
			}
		},
	})
}

func (h *histFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	h.jobs.flags(cmd)
	f.StringVar(&h.jobs.states, "state", "",
		"jobs that ended so only: Succeeded, Failed, Cancelled, several with commas")
	f.StringVar(
		&h.since,
		"since",
		"7d",
		"what ended in this last `time`, such as 30m, 24h or 7d, or since a day or a moment, such as 2026-01-31; with --by month all that is remembered",
	)
	f.StringSliceVar(&h.by, "by", nil,
		"sums by month, team, user, queue or namespace, or by several with commas")
	f.IntVar(&h.limit, "limit", 0, "the first `number` of lines only; 0 is all")
	offers(cmd, "state", histStates())
}

// histStates are how jobs end.
func histStates() []history.JobState {
	return []history.JobState{history.Succeeded, history.Failed, history.Cancelled}
}

func (h *histFlags) check(q *query) error {
	if err := h.jobs.check(); err != nil {
		return err
	}
	switch {
	case h.limit < 0:
		return fmt.Errorf("--limit %d: give a number of lines, or 0 for all", h.limit)
	case len(h.by) > 0 && q.output == "name":
		return fmt.Errorf("--by %s and -o name: sums have no names of jobs", strings.Join(h.by, ","))
	}
	for i, by := range h.by {
		switch {
		case !slices.Contains(cli.PastSums(), by):
			return fmt.Errorf("--by %s is not known: use %s", by, withCommas(cli.PastSums()))
		case slices.Contains(h.by[:i], by):
			return fmt.Errorf("--by %s: %s stands there twice", strings.Join(h.by, ","), by)
		}
	}
	if state := unknownState(h.jobs.states, histStates()); state != "" {
		return fmt.Errorf("--state %s: jobs do not end so: use %s", state, withCommas(histStates()))
	}
	if err := h.jobs.whose.check(); err != nil {
		return err
	}
	var err error
	h.from, err = sinceWhen(h.since, time.Now())
	return err
}

func (h *histFlags) read(ctx context.Context, q *query) (found, error) {
	if err := h.jobs.find(ctx, q); err != nil {
		return nil, err
	}
	jobs, err := gather.Past(ctx, q.c, h.jobs.namespace, h.from)
	if err != nil {
		return nil, err
	}
	return h.list(slices.DeleteFunc(jobs, func(j view.PastJob) bool { return !h.jobs.wantsPast(j) })), nil
}

// list is the jobs, or their sums.
func (h *histFlags) list(jobs []view.PastJob) found {
	none := fmt.Sprintf("No job that you may see ended since %s.", h.from.Format("2006-01-02 15:04"))
	if len(h.by) > 0 {
		return &rows[cli.PastSum]{
			items:   cli.SumPast(jobs, time.Local, h.by...),
			columns: cli.PastSumColumns(h.by...),
			none:    none,
			most:    h.limit,
		}
	}
	return &rows[view.PastJob]{
		items: jobs, columns: cli.PastColumns(time.Local, h.jobs.namespace == ""), none: none, most: h.limit,
		name: func(j view.PastJob) string { return j.Namespace + "/" + j.Name },
	}
}

// remembered is longer than anything is remembered.
const remembered = "36500d"

// sinceWhen reads how far back to look: a time that is over, also in days, or a moment.
func sinceWhen(text string, now time.Time) (time.Time, error) {
	if days, is := strings.CutSuffix(text, "d"); is {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 && n < 1e5 {
			return now.Add(-time.Duration(n * 24 * float64(time.Hour))), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf(
		"--since %s: give a time such as 30m, 24h or 7d, or a day such as 2026-01-31",
		text,
	)
}
