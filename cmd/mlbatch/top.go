package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/words"
)

// topThings are what is listed.
func topThings() []string { return []string{"jobs", "users", "queues", "namespaces", "nodes"} }

// topThing is what was asked for.
func topThing(args []string) string { return append(args, "jobs")[0] }

// topFlags say of which jobs a list of who uses GPUs is.
type topFlags struct{ jobs jobFilter }

// newTopCommand lists who uses GPUs.
func newTopCommand() *cobra.Command {
	var t topFlags
	list := &readCommand{
		formats: []string{"json", "yaml"}, columns: true,
		sortBy: byColumn, sorts: titles(cli.UseColumns("", time.Time{})), watch: againAndAgain, bare: withoutTitles,
		flags: t.jobs.flags, check: t.check, read: t.read,
	}
	return list.command(&cobra.Command{
		Use:   "top [jobs|users|queues|namespaces|nodes]",
		Short: "List who uses how many GPUs now, and GPU-hours since the start, the most first",
		Long: `List who uses how many GPUs now, the most first, and how many GPU-hours that came to since
the jobs were admitted last: by job, or summed up by user, ClusterQueue, namespace or node.
A job uses what its quota is, whether its pods run already or not; one that is in no queue,
what its pods on nodes have.

Without -n or -A, the namespace is that of the kubeconfig's context; if it has none, all
namespaces are counted. What you may not see is not. Below the jobs of one namespace stands
what quota it has.`,
		Example: `  # which jobs have the most GPUs?
  mlbatch top

  # who has them, and how many jobs of each wait?
  mlbatch top users -A

  # how full are the nodes, again and again
  mlbatch top nodes -w`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && !slices.Contains(topThings(), args[0]) {
				return fmt.Errorf("top %s: use one of %s", strings.Join(args, " "), strings.Join(topThings(), ", "))
			}
			return nil
		},
		ValidArgs: topThings(),
	})
}

func (t *topFlags) check(q *query) error {
	if err := t.jobs.check(); err != nil {
		return err
	}
	if topThing(q.args) == "nodes" && t.jobs.chosen() {
		return fmt.Errorf("top nodes counts all that is on the nodes: leave out -A, -n, -q, -u and --me")
	}
	return t.jobs.whose.check()
}

func (t *topFlags) read(ctx context.Context, q *query) (found, error) {
	by, now := topThing(q.args), time.Now()
	list := &rows[cli.UseRow]{
		columns: cli.UseColumns(by, now),
		none:    "No job that you may see has or waits for GPUs.",
		strict:  true,
	}
	if by == "nodes" {
		nodes, seen, err := cli.Nodes(ctx, q.c)
		if err != nil {
			return nil, err
		}
		if !seen {
			list.notes = []string{untoldPods}
		}
		list.items = cli.UseOfNodes(nodes, now)
		return list, nil
	}
	if err := t.jobs.find(ctx, q); err != nil {
		return nil, err
	}
	survey, err := cli.Jobs(ctx, q.c, t.jobs.namespace, client.ListOptions{})
	if err != nil {
		return nil, err
	}
	jobs := slices.DeleteFunc(survey.Items, func(j view.Job) bool { return !t.jobs.wants(j) })
	list.items, list.notes = cli.Use(jobs, by, now), unreadKinds(survey, t.jobs.namespace)
	if t.jobs.namespace != "" && q.output == "" && !q.bare {
		list.below = func(w io.Writer) error { t.quota(ctx, w, q.c); return nil }
	}
	return list, nil
}

// quota says what quota the namespace has, to its members as well.
func (t *topFlags) quota(ctx context.Context, out io.Writer, c client.Reader) {
	queues, err := cli.LocalQueues(ctx, c, t.jobs.namespace)
	if err != nil {
		return // it is told besides what was asked for
	}
	for i, line := range cli.QuotaLines(cli.QueueRows(queues, "")) {
		if i == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, words.Harmless(line))
	}
}
