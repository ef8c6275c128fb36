package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// histFlags are those of the list of jobs that ended.
type histFlags struct {
	conn      cli.Connection
	namespace string
	all       bool
	queue     string
	whose     whose
	state     string
	since     string
	by        []string
	limit     int
	output    string
	sortBy    string
	bare      bool
}

// newHistCommand lists jobs that ended.
func newHistCommand() *cobra.Command {
	var h histFlags
	cmd := &cobra.Command{
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("since") && slices.Contains(h.by, cli.ByMonth) {
				h.since = remembered
			}
			return h.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&h.namespace, "namespace", "n", "", "`namespace` of the jobs")
	f.BoolVarP(&h.all, "all-namespaces", "A", false, "jobs of all namespaces")
	f.StringVarP(&h.queue, "queue", "q", "", "jobs of this LocalQueue or ClusterQueue only")
	h.whose.flags(f)
	f.StringVar(&h.state, "state", "", "jobs that ended so only: Succeeded, Failed, Cancelled, several with commas")
	f.StringVar(&h.since, "since", "7d", "what ended in this last `time`, such as 30m, 24h or 7d, or since a day or a moment, such as 2026-01-31; with --by month all that is remembered")
	f.StringSliceVar(&h.by, "by", nil, "sums by month, team, user, queue or namespace, or by several with commas")
	f.IntVar(&h.limit, "limit", 0, "the first `number` of lines only; 0 is all")
	f.StringVarP(&h.output, "output", "o", "", "wide, name, json, yaml or custom-columns=TITLE:.field,...")
	f.StringVar(&h.sortBy, "sort-by", "", "`column` to sort by; -COLUMN turns the order")
	f.BoolVar(&h.bare, "no-headers", false, "without titles and the line below")
	connectionFlags(f, &h.conn)
	return cmd
}

// histStates are how jobs end.
func histStates() []history.JobState {
	return []history.JobState{history.Succeeded, history.Failed, history.Cancelled}
}

func (h *histFlags) check() error {
	if err := checkOutput(h.output, "wide", "name", "json", "yaml"); err != nil {
		return err
	}
	switch {
	case h.all && h.namespace != "":
		return fmt.Errorf("-A and -n %s: give one of them", h.namespace)
	case h.limit < 0:
		return fmt.Errorf("--limit %d: give a number of lines, or 0 for all", h.limit)
	case len(h.by) > 0 && h.output == "name":
		return fmt.Errorf("--by %s and -o name: sums have no names of jobs", strings.Join(h.by, ","))
	}
	for i, by := range h.by {
		switch {
		case !slices.Contains(cli.PastSums(), by):
			return fmt.Errorf("--by %s is not known: use %s", by, words(cli.PastSums()))
		case slices.Contains(h.by[:i], by):
			return fmt.Errorf("--by %s: %s stands there twice", strings.Join(h.by, ","), by)
		}
	}
	for state := range strings.SplitSeq(h.state, ",") {
		if !slices.ContainsFunc(histStates(), func(s history.JobState) bool { return state == "" || strings.EqualFold(state, string(s)) }) {
			return fmt.Errorf("--state %s: jobs do not end so: use %s", state, words(histStates()))
		}
	}
	return h.whose.check()
}

func (h *histFlags) run(ctx context.Context, out, errs io.Writer) error {
	if err := h.check(); err != nil {
		return usageError{err}
	}
	since, err := sinceWhen(h.since, time.Now())
	if err != nil {
		return usageError{err}
	}
	cfg, c, err := connect(&h.conn)
	if err != nil {
		return err
	}
	if err := h.whose.find(ctx, c); err != nil {
		return h.conn.Unreachable(err, cfg.Host)
	}
	if h.namespace == "" && !h.all {
		h.namespace = h.conn.Namespace()
	}
	rows, err := gather.Past(ctx, c, h.namespace, since)
	if err != nil {
		return h.conn.Unreachable(err, cfg.Host)
	}
	rows = slices.DeleteFunc(rows, func(r view.PastJob) bool { return !h.wants(r) })
	if len(rows) == 0 && tabular(h.output) {
		fmt.Fprintf(errs, "No job that you may see ended since %s.\n", since.Format("2006-01-02 15:04"))
		return nil
	}
	return h.print(out, errs, rows)
}

func (h *histFlags) wants(r view.PastJob) bool {
	return (h.queue == "" || r.Queue == h.queue || r.ClusterQueue == h.queue) && h.whose.wants(r.User) &&
		(h.state == "" || slices.ContainsFunc(strings.Split(h.state, ","), func(s string) bool { return strings.EqualFold(s, string(r.State)) }))
}

func (h *histFlags) print(out, errs io.Writer, rows []view.PastJob) error {
	if len(h.by) > 0 {
		sums, columns := cli.SumPast(rows, time.Local, h.by...), cli.PastSumColumns(h.by...)
		left, err := histRows(h, columns, &sums)
		if err != nil {
			return err
		}
		return errors.Join(printRows(out, h.output, columns, sums, h.bare), h.leave(errs, left))
	}
	columns := cli.PastColumns(time.Local, h.namespace == "")
	left, err := histRows(h, columns, &rows)
	if err != nil {
		return err
	}
	if h.output == "name" {
		return printNames(out, rows, func(r view.PastJob) string { return r.Namespace + "/" + r.Name })
	}
	return errors.Join(printRows(out, h.output, columns, rows, h.bare), h.leave(errs, left))
}

// histRows puts lines in their order and keeps the wanted ones; left is how many it leaves out.
func histRows[T any](h *histFlags, columns []cli.Column[T], rows *[]T) (left int, err error) {
	if h.sortBy != "" {
		if err := cli.SortBy(columns, *rows, h.sortBy); err != nil {
			return 0, usageError{err}
		}
	}
	if h.limit > 0 && len(*rows) > h.limit {
		left = len(*rows) - h.limit
		*rows = (*rows)[:h.limit]
	}
	return left, nil
}

// leave says how many lines are left out.
func (h *histFlags) leave(errs io.Writer, left int) error {
	if left == 0 || !tabular(h.output) || h.bare {
		return nil
	}
	_, err := fmt.Fprintf(errs, "%d more, without --limit %d.\n", left, h.limit)
	return err
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
	return time.Time{}, fmt.Errorf("--since %s: give a time such as 30m, 24h or 7d, or a day such as 2026-01-31", text)
}
