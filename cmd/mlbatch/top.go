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
)

// topFlags are those of the list of who uses GPUs.
type topFlags struct {
	conn      cli.Connection
	namespace string
	all       bool
	queue     string
	whose     whose
	output    string
	sortBy    string
	watch     bool
	bare      bool
}

// topThings are what is listed.
func topThings() []string { return []string{"jobs", "users", "queues", "namespaces", "nodes"} }

// newTopCommand lists who uses GPUs.
func newTopCommand() *cobra.Command {
	var t topFlags
	cmd := &cobra.Command{
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
		RunE: func(cmd *cobra.Command, args []string) error {
			by := append(args, "jobs")[0]
			return t.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), by)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&t.namespace, "namespace", "n", "", "`namespace` of the jobs")
	f.BoolVarP(&t.all, "all-namespaces", "A", false, "jobs of all namespaces")
	f.StringVarP(&t.queue, "queue", "q", "", "jobs of this LocalQueue or ClusterQueue only")
	t.whose.flags(f)
	f.StringVarP(&t.output, "output", "o", "", "json, yaml or custom-columns=TITLE:.field,...")
	f.StringVar(&t.sortBy, "sort-by", "", "`column` to sort by; -COLUMN turns the order")
	f.BoolVarP(&t.watch, "watch", "w", false, "again and again, until interrupted")
	f.BoolVar(&t.bare, "no-headers", false, "without titles")
	connectionFlags(f, &t.conn)
	return cmd
}

func (t *topFlags) check(by string) error {
	if err := checkOutput(t.output, "json", "yaml"); err != nil {
		return err
	}
	switch {
	case t.all && t.namespace != "":
		return fmt.Errorf("-A and -n %s: give one of them", t.namespace)
	case by == "nodes" && (t.all || t.namespace != "" || t.queue != "" || t.whose != whose{}):
		return fmt.Errorf("top nodes counts all that is on the nodes: leave out -A, -n, -q, -u and --me")
	}
	return t.whose.check()
}

func (t *topFlags) run(ctx context.Context, out, errs io.Writer, by string) error {
	if err := t.check(by); err != nil {
		return usageError{err}
	}
	cfg, c, err := connect(&t.conn)
	if err != nil {
		return err
	}
	if err := t.whose.find(ctx, c); err != nil {
		return t.conn.Unreachable(err, cfg.Host)
	}
	if t.namespace == "" && !t.all {
		t.namespace = t.conn.Namespace()
	}
	show := func(w io.Writer) error {
		if err := t.print(ctx, w, errs, c, by); err != nil {
			return err
		}
		if by != "nodes" && t.namespace != "" && t.output == "" && !t.bare {
			t.quota(ctx, w, c)
		}
		return nil
	}
	return t.conn.Unreachable(showOrWatch(ctx, out, t.watch, show), cfg.Host)
}

// print takes the list and prints it.
func (t *topFlags) print(ctx context.Context, out, errs io.Writer, c client.Reader, by string) error {
	now := time.Now()
	rows, unseen, err := t.take(ctx, c, by, now)
	if err != nil {
		return err
	}
	columns := cli.UseColumns(by, now)
	if t.sortBy != "" {
		if err := cli.SortBy(columns, rows, t.sortBy); err != nil {
			return usageError{err}
		}
	}
	if unseen != "" {
		fmt.Fprintln(errs, unseen)
	}
	if len(rows) == 0 && tabular(t.output) {
		fmt.Fprintln(errs, "No job that you may see has or waits for GPUs.")
		return nil
	}
	return printRows(out, t.output, columns, rows, t.bare)
}

// quota says what quota the namespace has, to its members as well.
func (t *topFlags) quota(ctx context.Context, out io.Writer, c client.Reader) {
	queues, err := cli.LocalQueues(ctx, c, t.namespace)
	if err != nil {
		return // it is told besides what was asked for
	}
	for i, line := range cli.QuotaLines(cli.QueueRows(queues, "")) {
		if i == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, cli.Harmless(line))
	}
}

// take counts; unseen says what could not be.
func (t *topFlags) take(ctx context.Context, c client.Reader, by string, now time.Time) (rows []cli.UseRow, unseen string, err error) {
	if by == "nodes" {
		nodes, seen, err := cli.Nodes(ctx, c)
		if err == nil && !seen {
			unseen = "You may not list pods of all namespaces: what is on the nodes is not counted."
		}
		return cli.UseOfNodes(nodes, now), unseen, err
	}
	survey, err := cli.Jobs(ctx, c, t.namespace, client.ListOptions{})
	if err != nil {
		return nil, "", err
	}
	f := psFlags{queue: t.queue, whose: t.whose}
	survey.Items = slices.DeleteFunc(survey.Items, func(r view.Job) bool { return !f.wants(r) })
	return cli.Use(survey.Items, by, now), unreadKinds(survey, t.namespace), nil
}
