package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/cli"
)

// capacityFlags are those of the list of gangs that would start.
type capacityFlags struct {
	conn      cli.Connection
	namespace string
	queue     string
	each      []string // as they were typed
	sizes     []int64
	resource  string
	priority  string
	output    string
	sortBy    string
	bare      bool
}

// newCapacityCommand says which gangs would start now.
func newCapacityCommand() *cobra.Command {
	var c capacityFlags
	cmd := &cobra.Command{
		Use:   "capacity",
		Short: "Say which gangs would start now: how many pods of 1, 2, 4, 8 GPUs, and what stands in the way of more",
		Long: `Say, for each queue, how many pods of 1, 2, 4 and 8 GPUs would start together if they were
submitted now, on how many nodes, and what stands in the way of one more: quota, nodes, or
free GPUs that are scattered over too many nodes. The engine that decides is asked about such
jobs, without any being submitted; what waits in the queue before them counts.

Without -n, each ClusterQueue is asked through one of the LocalQueues that lead to it; that
takes the right to list those of all namespaces. Pods that ask for CPU and memory, too, or
choose nodes, may find less: mlbatch run --dry-run=plan asks about a job as it is.`,
		Example: `  # which gangs would start in which queue?
  mlbatch capacity

  # in the queues of a namespace
  mlbatch capacity -n blue

  # how many nodes of 8 GPUs could I have?
  mlbatch capacity -n blue --gpus-per-pod 8`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&c.namespace, "namespace", "n", "", "`namespace` whose LocalQueues are asked")
	f.StringVarP(&c.queue, "queue", "q", "", "this LocalQueue or ClusterQueue only")
	f.StringSliceVar(&c.each, "gpus-per-pod", []string{"1", "2", "4", "8"}, "`GPUs` of each pod, several with commas")
	f.StringVar(&c.resource, "resource", "", "what GPUs are called (default nvidia.com/gpu)")
	f.StringVar(&c.priority, "priority-class", "", "`PriorityClass` of the pods (default: that of the cluster)")
	f.StringVarP(&c.output, "output", "o", "", "json, yaml or custom-columns=TITLE:.field,...")
	f.StringVar(&c.sortBy, "sort-by", "", "`column` to sort by; -COLUMN turns the order")
	f.BoolVar(&c.bare, "no-headers", false, "without titles")
	connectionFlags(f, &c.conn)
	return cmd
}

// mostGPUsPerPod is more than any node has.
const mostGPUsPerPod = 1024

func (c *capacityFlags) check() error {
	if err := checkOutput(c.output, "json", "yaml"); err != nil {
		return err
	}
	c.sizes = nil
	for _, each := range c.each {
		n, err := strconv.ParseInt(strings.TrimSpace(each), 10, 64)
		if err != nil || n < 1 || n > mostGPUsPerPod {
			return fmt.Errorf("--gpus-per-pod %s: %q is no number from 1 to %d: give one or several, such as 1,8", strings.Join(c.each, ","), each, mostGPUsPerPod)
		}
		c.sizes = append(c.sizes, n)
	}
	if len(c.sizes) == 0 {
		return fmt.Errorf("--gpus-per-pod: give one number or several, such as 1,8")
	}
	if c.resource != "" && !strings.Contains(c.resource, "/") {
		return fmt.Errorf("--resource %s: give the name of an extended resource, such as amd.com/gpu", c.resource)
	}
	return nil
}

func (c *capacityFlags) run(ctx context.Context, out, errs io.Writer) error {
	if err := c.check(); err != nil {
		return usageError{err}
	}
	cfg, reader, err := connect(&c.conn)
	if err != nil {
		return err
	}
	queues, namespace, err := reachable(&c.conn, c.namespace, func(namespace string) ([]cli.CapacityQuestion, error) {
		return cli.CapacityQueues(ctx, reader, namespace, c.queue)
	})
	if err != nil {
		return c.conn.Unreachable(err, cfg.Host)
	}
	var rows []cli.CapacityRow
	for _, q := range queues {
		q.Resource, q.PriorityClass, q.Sizes = c.resource, c.priority, c.sizes
		some, err := cli.Capacity(ctx, cli.Controller{Config: cfg}, q)
		if err != nil {
			return c.conn.Unreachable(fmt.Errorf("queue %s of namespace %s: %w", q.LocalQueue, q.Namespace, err), cfg.Host)
		}
		rows = append(rows, some...)
	}
	if len(rows) == 0 && tabular(c.output) {
		fmt.Fprintln(errs, "There are no LocalQueues here that you may see: no job could be submitted.")
		return nil
	}
	columns := cli.CapacityColumns(namespace != "")
	if c.sortBy != "" {
		if err := cli.SortBy(columns, rows, c.sortBy); err != nil {
			return usageError{err}
		}
	}
	return printRows(out, c.output, columns, rows, c.bare)
}
