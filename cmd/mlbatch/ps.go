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
	"github.com/mlbatch/mlbatch/internal/facts"
)

// psFlags are those of the list of jobs.
type psFlags struct {
	conn      cli.Connection
	namespace string
	all       bool
	queue     string
	user      string
	selector  string
	state     string
	output    string
	sortBy    string
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

  # for a script
  mlbatch ps -n blue -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&p.namespace, "namespace", "n", "", "`namespace` of the jobs")
	f.BoolVarP(&p.all, "all-namespaces", "A", false, "jobs of all namespaces")
	f.StringVarP(&p.queue, "queue", "q", "", "jobs of this LocalQueue or ClusterQueue only")
	f.StringVarP(&p.user, "user", "u", "", "jobs of this user only, of kinds that say who made them (AppWrappers)")
	f.StringVarP(&p.selector, "selector", "l", "", "jobs with these labels only")
	f.StringVar(&p.state, "state", "", "jobs in these states only, such as Waiting,Held")
	f.StringVarP(&p.output, "output", "o", "", "wide, name, json or yaml")
	f.StringVar(&p.sortBy, "sort-by", "", "`column` to sort by; -COLUMN turns the order")
	f.BoolVar(&p.bare, "no-headers", false, "without titles")
	connectionFlags(f, &p.conn)
	return cmd
}

// run prints the list.
func (p *psFlags) run(ctx context.Context, out, errs io.Writer) error {
	if !slices.Contains([]string{"", "wide", "name", "json", "yaml"}, p.output) {
		return usageError{fmt.Errorf("-o %s is not known: use wide, name, json or yaml", p.output)}
	}
	if p.all && p.namespace != "" {
		return usageError{fmt.Errorf("-A and -n %s: give one of them", p.namespace)}
	}
	selector, err := labels.Parse(p.selector)
	if err != nil {
		return usageError{fmt.Errorf("-l %s: %w", p.selector, err)}
	}
	for state := range strings.SplitSeq(p.state, ",") {
		if !slices.ContainsFunc(facts.States(), func(s facts.State) bool { return state == "" || strings.EqualFold(state, string(s)) }) {
			return usageError{fmt.Errorf("--state %s: there is no such state: use %s", state, words(facts.States()))}
		}
	}
	cfg, c, err := connect(&p.conn)
	if err != nil {
		return err
	}
	if p.namespace == "" && !p.all {
		p.namespace = p.conn.Namespace()
	}
	survey, err := cli.TakeSurvey(ctx, c, p.namespace, client.ListOptions{LabelSelector: selector})
	if err != nil {
		return p.conn.Unreachable(err, cfg.Host)
	}
	survey.Rows = slices.DeleteFunc(survey.Rows, func(r cli.Row) bool { return !p.wants(r) })
	columns := cli.RowColumns(time.Now(), p.namespace == "")
	if p.sortBy != "" {
		if err := cli.SortBy(columns, survey.Rows, p.sortBy); err != nil {
			return usageError{err}
		}
	}
	if unread := unreadKinds(survey, p.namespace); unread != "" {
		fmt.Fprintln(errs, unread)
	}
	return p.print(out, errs, columns, survey)
}

// unreadKinds says what the user may not list, "" if there is nothing.
func unreadKinds(s *cli.Survey, namespace string) string {
	hint := ""
	if namespace == "" {
		hint = "; -n NAMESPACE lists one namespace"
	}
	if len(s.Unread) == 0 {
		return ""
	}
	return fmt.Sprintf("You may not list %s%s.", strings.Join(s.Unread, ", "), hint)
}

func (p *psFlags) wants(r cli.Row) bool {
	return (p.queue == "" || r.Queue == p.queue || r.ClusterQueue == p.queue || r.ClusterQueue == "" && r.Target == p.queue) && (p.user == "" || r.User == p.user) &&
		(p.state == "" || slices.ContainsFunc(strings.Split(p.state, ","), func(s string) bool { return strings.EqualFold(s, string(r.State)) }))
}

func (p *psFlags) print(out, errs io.Writer, columns []cli.Column[cli.Row], s *cli.Survey) error {
	switch p.output {
	case "json", "yaml":
		return printObject(out, p.output, s)
	case "name":
		for _, r := range s.Rows {
			fmt.Fprintf(out, "%s/%s\n", r.Namespace, r.Name)
		}
		return nil
	}
	if len(s.Rows) == 0 {
		fmt.Fprintln(errs, "There are no jobs here that you may see.")
		return nil
	}
	return cli.PrintTable(out, columns, s.Rows, cli.Layout{Width: tableWidth(out), Wide: p.output == "wide", Bare: p.bare})
}

// words are the words of a list, with commas.
func words[S ~string](all []S) string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = string(all[i])
	}
	return strings.Join(out, ", ")
}
