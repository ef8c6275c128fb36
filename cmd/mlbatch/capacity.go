package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/cli"
)

// capacityFlags say which gangs are asked about.
type capacityFlags struct {
	namespace string
	queue     string
	each      []string // as they were typed
	sizes     []int64
	gangs     []string // as they were typed
	pods      []int32
	resource  string
	priority  string
	level     string
	flavors   bool
}

// newCapacityCommand says which gangs would start now.
func newCapacityCommand() *cobra.Command {
	var c capacityFlags
	list := &readCommand{
		formats: []string{"json", "yaml"}, columns: true,
		sortBy: byColumn, sorts: capacityTitles(), bare: withoutTitles,
		flags: c.flags, check: c.check, read: c.read,
	}
	return list.command(&cobra.Command{
		Use:   "capacity",
		Short: "Say which gangs would start now: how many pods of 1, 2, 4, 8 GPUs, and what stands in the way of more",
		Long: `Say, for each queue, how many pods of 1, 2, 4 and 8 GPUs would start together if they were
submitted now, on how many nodes, and what stands in the way of one more: quota, nodes, or
free GPUs that are scattered over too many nodes. The engine that decides is asked about such
jobs, without any being submitted; what waits in the queue before them counts.

Without -n, each ClusterQueue is asked through one of the LocalQueues that lead to it; that
takes the right to list those of all namespaces. With --pods it is said how many gangs of so
many pods would start, with --level each of them in one rack or the like. Pods that ask for CPU
and memory, too, or choose nodes, may find less: mlbatch run --dry-run=plan asks about a job as
it is.

With --flavors it says instead how each flavor stands as a whole: what is planned, there,
healthy, promised, left over and lent. That takes the right to list ResourceFlavors and
ClusterQueues.`,
		Example: `  # which gangs would start in which queue?
  mlbatch capacity

  # in the queues of a namespace
  mlbatch capacity -n blue

  # how many nodes of 8 GPUs could I have?
  mlbatch capacity -n blue --gpus-per-pod 8

  # and in one rack?
  mlbatch capacity -n blue --gpus-per-pod 8 --level rack

  # how many gangs of 2 and of 4 nodes would start, each in one rack?
  mlbatch capacity -n blue --gpus-per-pod 8 --pods 2,4 --level rack

  # how much is planned, healthy, promised and lent of each flavor, and since when is something lost?
  mlbatch capacity --flavors`,
		Args: cobra.NoArgs,
	})
}

func (c *capacityFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&c.namespace, "namespace", "n", "", "`namespace` whose LocalQueues are asked")
	f.StringVarP(&c.queue, "queue", "q", "", "this LocalQueue or ClusterQueue only")
	f.StringSliceVar(
		&c.each,
		"gpus-per-pod",
		[]string{"1", "2", "4", "8"},
		"`GPUs` of each pod, several with commas",
	)
	f.StringSliceVar(
		&c.gangs,
		"pods",
		nil,
		"how many gangs of so many `pods` would start, several with commas (default: the largest gang)",
	)
	f.StringVar(
		&c.level,
		"level",
		"",
		"all pods in one rack, block or other `level` of the topology: a node label, or its last word",
	)
	f.BoolVar(
		&c.flavors,
		"flavors",
		false,
		"how the capacity of each flavor stands, and not which gangs would start",
	)
	f.StringVar(&c.resource, "resource", "", "what GPUs are called (default nvidia.com/gpu)")
	f.StringVar(&c.priority, "priority-class", "", "`PriorityClass` of the pods (default: that of the cluster)")
}

// mostGPUsPerPod is more than any node has.
const mostGPUsPerPod = 1024

func (c *capacityFlags) check(q *query) error {
	if c.flavors {
		return checkFlavors(q)
	}
	c.sizes, c.pods = nil, nil
	for _, pods := range c.gangs {
		n, err := strconv.ParseInt(strings.TrimSpace(pods), 10, 32)
		if err != nil || n < 1 || n > cli.MostPods {
			return fmt.Errorf(
				"--pods %s: %q is no number from 1 to %d: give one or several, such as 2,16",
				strings.Join(c.gangs, ","),
				pods,
				cli.MostPods,
			)
		}
		c.pods = append(c.pods, int32(n))
	}
	for _, each := range c.each {
		n, err := strconv.ParseInt(strings.TrimSpace(each), 10, 64)
		if err != nil || n < 1 || n > mostGPUsPerPod {
			return fmt.Errorf(
				"--gpus-per-pod %s: %q is no number from 1 to %d: give one or several, such as 1,8",
				strings.Join(c.each, ","),
				each,
				mostGPUsPerPod,
			)
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

func (c *capacityFlags) read(ctx context.Context, q *query) (found, error) {
	if c.flavors {
		return readFlavors(ctx, q)
	}
	queues, namespace, err := reachable(
		q.conn,
		c.namespace,
		func(namespace string) ([]cli.CapacityQuestion, error) {
			return cli.CapacityQueues(ctx, q.c, namespace, c.queue)
		},
	)
	if err != nil {
		return nil, err
	}
	level, err := cli.LevelNamed(ctx, q.c, c.level)
	if err != nil {
		return nil, err
	}
	var gangs []cli.CapacityRow
	for _, question := range queues {
		question.Resource, question.PriorityClass, question.Sizes = c.resource, c.priority, c.sizes
		question.Level, question.Pods = level, c.pods
		some, err := cli.Capacity(ctx, cli.Controller{Config: q.cfg}, question)
		if err != nil {
			return nil, fmt.Errorf("queue %s of namespace %s: %w", question.LocalQueue, question.Namespace, err)
		}
		gangs = append(gangs, some...)
	}
	return &rows[cli.CapacityRow]{
		items: gangs, columns: cli.CapacityColumns(namespace != "", len(c.pods) > 0), notes: shortNotes(ctx, q),
		none: "There are no LocalQueues here that you may see: no job could be submitted.",
	}, nil
}
