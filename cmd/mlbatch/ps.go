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

// psFlags say which jobs are listed.
type psFlags struct {
	jobs     jobFilter
	selector string
	labels   labels.Selector
	watch    bool
}

// newPsCommand lists jobs.
func newPsCommand() *cobra.Command {
	var p psFlags
	list := &readCommand{
		formats: []string{"wide", "name", "json", "yaml"}, columns: true,
		sortBy: byColumn, sorts: titles(cli.RowColumns(time.Time{}, true)), bare: withoutTitles,
		flags: p.flags, check: p.check, read: p.read,
	}
	return list.command(&cobra.Command{
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
	})
}

func (p *psFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	p.jobs.flags(cmd)
	f.StringVarP(&p.selector, "selector", "l", "", "jobs with these labels only")
	f.StringVar(&p.jobs.states, "state", "", "jobs in these states only, such as Waiting,Held")
	f.BoolVarP(&p.watch, "watch", "w", false,
		"go on: all jobs again and again on a terminal, elsewhere those that change")
	offers(cmd, "state", view.States())
}

func (p *psFlags) check(*query) error {
	if err := p.jobs.check(); err != nil {
		return err
	}
	if err := p.jobs.whose.check(); err != nil {
		return err
	}
	var err error
	if p.labels, err = labels.Parse(p.selector); err != nil {
		return fmt.Errorf("-l %s: %w", p.selector, err)
	}
	if state := unknownState(p.jobs.states, view.States()); state != "" {
		return fmt.Errorf("--state %s: there is no such state: use %s", state, withCommas(view.States()))
	}
	return nil
}

func (p *psFlags) read(ctx context.Context, q *query) (found, error) {
	if err := p.jobs.find(ctx, q); err != nil {
		return nil, err
	}
	jobs, err := p.take(ctx, q)
	if err != nil {
		return nil, err
	}
	list := &rows[view.Job]{
		items:   jobs.Items,
		columns: p.columns(),
		object:  jobs,
		notes:   append(unreadKinds(jobs, p.jobs.namespace), unansweredList(jobs)...),
		none:    "There are no jobs here that you may see.",
		strict:  true,
		name:    func(j view.Job) string { return j.Namespace + "/" + j.Name },
	}
	if p.watch {
		list.follow = func(w io.Writer, show inGoes[view.Job]) error { return p.goOn(ctx, w, q, show) }
	}
	return list, nil
}

func (p *psFlags) columns() []cli.Column[view.Job] {
	return cli.RowColumns(time.Now(), p.jobs.namespace == "")
}

// take lists the jobs that are wanted.
func (p *psFlags) take(ctx context.Context, q *query) (*view.JobList, error) {
	jobs, err := cli.Jobs(ctx, q.c, p.jobs.namespace, client.ListOptions{LabelSelector: p.labels})
	if err != nil {
		return nil, err
	}
	jobs.Items = slices.DeleteFunc(jobs.Items, func(j view.Job) bool { return !p.jobs.wants(j) })
	if q.output != "" && q.output != "name" && !jobs.Served {
		gather.Place(ctx, jobs, gather.MostLines, cli.Controller{Config: q.cfg}.Pending)
	}
	return jobs, nil
}

// goOn prints the list until ctx ends.
func (p *psFlags) goOn(ctx context.Context, out io.Writer, q *query, show inGoes[view.Job]) error {
	again := func() ([]view.Job, error) {
		jobs, err := p.take(ctx, q)
		if err != nil {
			return nil, err
		}
		return jobs.Items, sortRows(p.columns(), jobs.Items, q.sortBy)
	}
	key := func(j view.Job) string { return string(j.Kind) + " " + j.Namespace + "/" + j.Name }
	return watchRows(ctx, out, again, key, func(w io.Writer, jobs []view.Job, first bool) error {
		return show(w, p.columns(), jobs, first)
	})
}

// unreadKinds says what the user may not list, if there is something.
func unreadKinds(s *view.JobList, namespace string) []string {
	hint := ""
	if namespace == "" {
		hint = "; -n NAMESPACE lists one namespace"
	}
	if len(s.Unread) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("You may not list %s%s.", strings.Join(s.Unread, ", "), hint)}
}

// unansweredList says that no controller told of the jobs, if none did.
func unansweredList(s *view.JobList) []string {
	if s.Served {
		return nil
	}
	return []string{"No controller answers: this is what the objects say that you may read."}
}

// withCommas are the words of a list, with commas.
func withCommas[S ~string](all []S) string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = string(all[i])
	}
	return strings.Join(out, ", ")
}
