package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// psFlags are those of the list of jobs.
type psFlags struct {
	conn      cli.Connection
	namespace string
	all       bool
	queue     string
	whose     whose
	selector  string
	state     string
	output    string
	sortBy    string
	watch     bool
	bare      bool
}

// newPsCommand lists jobs.
func newPsCommand() *cobra.Command {
	var p psFlags
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List jobs of all kinds: what runs, on which nodes, what waits and for what",
		Long: `List jobs of all kinds, a line for each, the newest first: what runs, on which nodes,
and what waits, for what. A job that is part of another one is not listed, nor are the
pods of jobs; pods that are queued by themselves are.

Without -n or -A, the namespace is that of the kubeconfig's context; if it has none,
all namespaces are listed. In a terminal that is narrow, columns are left out.`,
		Example: `  # all jobs that you may see
  mlbatch ps -A

  # what waits in a namespace, the largest first
  mlbatch ps -n blue --state Waiting --sort-by -gpus

  # go on with what changes
  mlbatch ps -n blue -w

  # for a script
  mlbatch ps -n blue -o custom-columns=NAME:.name,GPUS:.gpus,WHY:.message`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&p.namespace, "namespace", "n", "", "`namespace` of the jobs")
	f.BoolVarP(&p.all, "all-namespaces", "A", false, "jobs of all namespaces")
	f.StringVarP(&p.queue, "queue", "q", "", "jobs of this LocalQueue or ClusterQueue only")
	p.whose.flags(f)
	f.StringVarP(&p.selector, "selector", "l", "", "jobs with these labels only")
	f.StringVar(&p.state, "state", "", "jobs in these states only, such as Waiting,Held")
	f.StringVarP(&p.output, "output", "o", "", "wide, name, json, yaml or custom-columns=TITLE:.field,...")
	f.StringVar(&p.sortBy, "sort-by", "", "`column` to sort by; -COLUMN turns the order")
	f.BoolVarP(&p.watch, "watch", "w", false, "go on: all jobs again and again on a terminal, elsewhere those that change")
	f.BoolVar(&p.bare, "no-headers", false, "without titles")
	connectionFlags(f, &p.conn)
	return cmd
}

// run prints the list.
func (p *psFlags) run(ctx context.Context, out, errs io.Writer) error {
	if err := checkOutput(p.output, "wide", "name", "json", "yaml"); err != nil {
		return usageError{err}
	}
	if p.all && p.namespace != "" {
		return usageError{fmt.Errorf("-A and -n %s: give one of them", p.namespace)}
	}
	if err := p.whose.check(); err != nil {
		return usageError{err}
	}
	selector, err := labels.Parse(p.selector)
	if err != nil {
		return usageError{fmt.Errorf("-l %s: %w", p.selector, err)}
	}
	for state := range strings.SplitSeq(p.state, ",") {
		if !slices.ContainsFunc(view.States(), func(s view.State) bool { return state == "" || strings.EqualFold(state, string(s)) }) {
			return usageError{fmt.Errorf("--state %s: there is no such state: use %s", state, words(view.States()))}
		}
	}
	cfg, c, err := connect(&p.conn)
	if err != nil {
		return err
	}
	if err := p.whose.find(ctx, c); err != nil {
		return p.conn.Unreachable(err, cfg.Host)
	}
	if p.namespace == "" && !p.all {
		p.namespace = p.conn.Namespace()
	}
	take := func() (*view.JobList, error) {
		survey, err := cli.Jobs(ctx, c, p.namespace, client.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, err
		}
		survey.Items = slices.DeleteFunc(survey.Items, func(r view.Job) bool { return !p.wants(r) })
		if p.output != "" && p.output != "name" && !survey.Served {
			gather.Place(ctx, survey, gather.MostLines, cli.Controller{Config: cfg}.Pending)
		}
		if p.sortBy != "" {
			if err := cli.SortBy(cli.RowColumns(time.Now(), p.namespace == ""), survey.Items, p.sortBy); err != nil {
				return nil, usageError{err}
			}
		}
		return survey, nil
	}
	survey, err := take()
	if err != nil {
		return p.conn.Unreachable(err, cfg.Host)
	}
	for _, note := range []string{unreadKinds(survey, p.namespace), unansweredList(survey)} {
		if note != "" {
			fmt.Fprintln(errs, note)
		}
	}
	if p.watch {
		return p.goOn(ctx, out, take)
	}
	return p.print(out, errs, survey)
}

// goOn prints the list until ctx ends.
func (p *psFlags) goOn(ctx context.Context, out io.Writer, take func() (*view.JobList, error)) error {
	widths := map[string]int{}
	rows := func() ([]view.Job, error) {
		survey, err := take()
		if err != nil {
			return nil, err
		}
		return survey.Items, nil
	}
	key := func(r view.Job) string { return string(r.Kind) + " " + r.Namespace + "/" + r.Name }
	return watchRows(ctx, out, rows, key, func(w io.Writer, rows []view.Job, first bool) error {
		if p.output == "json" || p.output == "yaml" {
			for i := range rows {
				if p.output == "yaml" {
					fmt.Fprintln(w, "---")
				}
				if err := printObject(w, p.output, rows[i]); err != nil {
					return err
				}
			}
			return nil
		}
		return p.table(w, rows, cli.Layout{Bare: p.bare || !first, Widths: widths})
	})
}

// unreadKinds says what the user may not list, "" if there is nothing.
func unreadKinds(s *view.JobList, namespace string) string {
	hint := ""
	if namespace == "" {
		hint = "; -n NAMESPACE lists one namespace"
	}
	if len(s.Unread) == 0 {
		return ""
	}
	return fmt.Sprintf("You may not list %s%s.", strings.Join(s.Unread, ", "), hint)
}

// unansweredList says that no controller told of the jobs, "" if one did.
func unansweredList(s *view.JobList) string {
	if s.Served {
		return ""
	}
	return "No controller answers: this is what the objects say that you may read."
}

func (p *psFlags) wants(r view.Job) bool {
	return (p.queue == "" || r.Queue == p.queue || r.ClusterQueue == p.queue || r.ClusterQueue == "" && r.Target == p.queue) && p.whose.wants(r.User) &&
		(p.state == "" || slices.ContainsFunc(strings.Split(p.state, ","), func(s string) bool { return strings.EqualFold(s, string(r.State)) }))
}

func (p *psFlags) print(out, errs io.Writer, s *view.JobList) error {
	if p.output == "json" || p.output == "yaml" {
		return printObject(out, p.output, s)
	}
	if len(s.Items) == 0 && tabular(p.output) {
		fmt.Fprintln(errs, "There are no jobs here that you may see.")
		return nil
	}
	return p.table(out, s.Items, cli.Layout{Bare: p.bare})
}

// table prints jobs in lines.
func (p *psFlags) table(out io.Writer, rows []view.Job, l cli.Layout) error {
	columns := cli.RowColumns(time.Now(), p.namespace == "")
	spec, custom := strings.CutPrefix(p.output, cli.CustomColumnsFormat)
	switch {
	case custom:
		own, err := cli.CustomColumns[view.Job](spec)
		if err != nil {
			return usageError{err}
		}
		return cli.PrintTable(out, own, rows, l)
	case p.output == "name":
		return printNames(out, rows, func(r view.Job) string { return r.Namespace + "/" + r.Name })
	}
	l.Width, l.Wide, l.Colours = tableWidth(out), p.output == "wide", hasColours(out)
	return cli.PrintTable(out, columns, rows, l)
}

// words are the words of a list, with commas.
func words[S ~string](all []S) string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = string(all[i])
	}
	return strings.Join(out, ", ")
}
