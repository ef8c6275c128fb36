package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/admin"
	"github.com/mlbatch/mlbatch/internal/view"
)

// kueuectlCommands are those of Kueue's plugin for kubectl, by its names and with its defaults. What
// it passes on to kubectl, kubectl does.
func kueuectlCommands() []func() *cobra.Command {
	return []func() *cobra.Command{newCreateCommand, newListCommand, newStopCommand, newResumeCommand, newDeleteCommand}
}

// newVerb is a command of which the kinds of objects are subcommands. Of jobs it is done by
// another one.
func newVerb(use, short, example, ofJobs string, kinds ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short + ", as kueuectl does", Example: example,
		Long: short + `, by the names and with the defaults of kueuectl, Kueue's plugin for kubectl. What that passes
on to kubectl (get, describe, edit, patch, delete of other kinds) kubectl does.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var known []string
			for _, k := range kinds {
				known = append(known, k.Name())
			}
			if len(args) == 0 {
				return usagef("say of which kind: %s; for jobs it is mlbatch %s", strings.Join(known, ", "), ofJobs)
			}
			return usagef("%s %s is not known: use %s; for jobs it is mlbatch %s", use, args[0], strings.Join(known, ", "), ofJobs)
		},
	}
	cmd.AddCommand(kinds...)
	return cmd
}

func newCreateCommand() *cobra.Command {
	return newVerb("create", "Make a ClusterQueue, LocalQueue or ResourceFlavor",
		`  mlbatch create clusterqueue green --nominal-quota "default-flavor:cpu=10;memory=64Gi"`, "submit",
		newCreateClusterQueueCommand(), newCreateLocalQueueCommand(), alias(newFlavorCreateCommand("resourceflavor NAME"), "  mlbatch create resourceflavor spot --node-labels pool=spot", "rf"))
}

// alias gives a command further names, and an example with the first of its own.
func alias(cmd *cobra.Command, example string, names ...string) *cobra.Command {
	cmd.Example, cmd.Aliases = example, append(cmd.Aliases, names...)
	return cmd
}

func newCreateClusterQueueCommand() *cobra.Command {
	var q newQueueFlags
	cmd := &cobra.Command{
		Use:     "clusterqueue NAME",
		Aliases: []string{"cq"},
		Short:   "Make a ClusterQueue; unlike queue create, it evicts nobody unless told to",
		Example: `  mlbatch create clusterqueue green --cohort default-cohort --reclaim-within-cohort Any --nominal-quota "default-flavor:cpu=10;memory=64Gi"`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return q.createCluster(cmd, args[0]) },
	}
	q.clusterFlags(cmd, "Never", "Never")
	q.making.flags(cmd.Flags())
	return cmd
}

func newCreateLocalQueueCommand() *cobra.Command {
	var q newQueueFlags
	cmd := &cobra.Command{
		Use:     "localqueue NAME",
		Aliases: []string{"lq"},
		Short:   "Make a LocalQueue",
		Example: "  mlbatch create localqueue extra -n blue -c blue-cluster-queue",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.namespace = namespaceOr(q.namespace, &q.conn)
			return q.createLocal(cmd, args[0])
		},
	}
	q.localFlags(cmd)
	cmd.Flags().StringVarP(&q.namespace, "namespace", "n", "", "`namespace` (default: that of the kubeconfig's context, or default)")
	q.making.flags(cmd.Flags())
	return cmd
}

// namespaceOr is a namespace as kubectl understands it: the one that was said, that of the context,
// or default.
func namespaceOr(said string, conn *cli.Connection) string {
	locate(conn)
	return cmp.Or(said, conn.Namespace(), "default")
}

// listFlags are those of lists.
type listFlags struct {
	teamFlags
	namespace, localQueue, clusterQueue string
	all                                 bool
	active, statuses                    []string
}

// within adds the flags that say where.
func (l *listFlags) within(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&l.namespace, "namespace", "n", "", "`namespace` (default: that of the kubeconfig's context, or default)")
	f.BoolVarP(&l.all, "all-namespaces", "A", false, "of all namespaces")
	f.StringVarP(&l.clusterQueue, "clusterqueue", "c", "", "only those of a `ClusterQueue`")
}

// where is the namespace that is listed, "" for all.
func (l *listFlags) where() string {
	if l.all {
		return ""
	}
	return namespaceOr(l.namespace, &l.conn)
}

func newListCommand() *cobra.Command {
	return newVerb("list", "List ClusterQueues, LocalQueues, ResourceFlavors or Workloads", "  mlbatch list workload -A --status pending", "ps",
		newListClusterQueueCommand(), newListLocalQueueCommand(), newListFlavorCommand(), newListWorkloadCommand())
}

func newListClusterQueueCommand() *cobra.Command {
	var l listFlags
	cmd := &cobra.Command{
		Use: "clusterqueue", Aliases: []string{"cq"}, Short: "List ClusterQueues; mlbatch queue shows the tree of their cohorts",
		Example: "  mlbatch list clusterqueue --active=false",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, a := range l.active {
				if a != "true" && a != "false" && a != "*" {
					return usagef("--active %s is not known: use true, false or *", a)
				}
			}
			return l.queues(cmd, func(r cli.QueueRow) bool {
				is := strconv.FormatBool(r.State == string(view.QueueActive))
				return len(l.active) == 0 || slices.Contains(l.active, "*") || slices.Contains(l.active, is)
			})
		},
	}
	cmd.Flags().StringSliceVar(&l.active, "active", nil, "only those that can admit (`true`), or cannot (false)")
	l.flags(cmd)
	return cmd
}

// queues lists the queues that are wanted.
func (l *listFlags) queues(cmd *cobra.Command, wanted func(cli.QueueRow) bool) error {
	if err := l.check(); err != nil {
		return err
	}
	cfg, c, err := connect(&l.conn)
	if err != nil {
		return err
	}
	queues, err := cli.Queues(cmd.Context(), c, "")
	if err != nil {
		return l.conn.Unreachable(err, cfg.Host)
	}
	rows := slices.DeleteFunc(cli.Flat(cli.QueueRows(queues, "")), func(r cli.QueueRow) bool { return !wanted(r) })
	return printRows(cmd.OutOrStdout(), l.output, cli.QueueColumns(rows), rows, l.bare)
}

func newListLocalQueueCommand() *cobra.Command {
	var l listFlags
	cmd := &cobra.Command{
		Use: "localqueue", Aliases: []string{"lq"}, Short: "List LocalQueues",
		Example: "  mlbatch list localqueue -A",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := l.check(); err != nil {
				return err
			}
			namespace := l.where()
			cfg, c, err := connect(&l.conn)
			if err != nil {
				return err
			}
			queues, err := cli.LocalQueues(cmd.Context(), c, namespace)
			if err != nil {
				return l.conn.Unreachable(err, cfg.Host)
			}
			rows := slices.DeleteFunc(cli.QueueRows(queues, ""), func(r cli.QueueRow) bool { return l.clusterQueue != "" && r.Parent != l.clusterQueue })
			return printRows(cmd.OutOrStdout(), l.output, cli.QueueColumns(rows), rows, l.bare)
		},
	}
	l.within(cmd)
	l.flags(cmd)
	return cmd
}

func newListFlavorCommand() *cobra.Command {
	cmd := newFlavorListCommand()
	cmd.Use, cmd.Aliases, cmd.Short, cmd.Example = "resourceflavor", []string{"rf"}, "List ResourceFlavors", "  mlbatch list resourceflavor"
	return cmd
}

func newListWorkloadCommand() *cobra.Command {
	var l listFlags
	cmd := &cobra.Command{
		Use: "workload", Aliases: []string{"wl", "kwl"}, Short: "List Workloads; mlbatch ps lists jobs",
		Example: "  mlbatch list workload -n blue --status pending,admitted",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := l.check(); err != nil {
				return err
			}
			for _, s := range l.statuses {
				if s != "all" && !slices.Contains(admin.WorkloadStatuses(), s) {
					return usagef("--status %s is not known: use all, %s", s, strings.Join(admin.WorkloadStatuses(), ", "))
				}
			}
			filter := admin.WorkloadFilter{Namespace: l.where(), LocalQueue: l.localQueue, ClusterQueue: l.clusterQueue, Statuses: l.statuses}
			cfg, c, err := connect(&l.conn)
			if err != nil {
				return err
			}
			rows, err := admin.TakeWorkloads(cmd.Context(), c, filter)
			if err != nil {
				return l.conn.Unreachable(err, cfg.Host)
			}
			return printRows(cmd.OutOrStdout(), l.output, admin.WorkloadColumns(time.Now()), rows, l.bare)
		},
	}
	cmd.Flags().StringSliceVar(&l.statuses, "status", nil, "only those that are `pending`, quotareserved, admitted or finished (default: all)")
	cmd.Flags().StringVarP(&l.localQueue, "localqueue", "q", "", "only those of a `LocalQueue`")
	l.within(cmd)
	l.flags(cmd)
	return cmd
}

func newStopCommand() *cobra.Command {
	return newVerb("stop", "Stop a ClusterQueue, LocalQueue or Workload", "  mlbatch stop clusterqueue blue-cluster-queue --keep-already-running", "hold",
		stopQueueCommand("clusterqueue", "cq", true), stopQueueCommand("localqueue", "lq", true), activeCommand(false))
}

func newResumeCommand() *cobra.Command {
	return newVerb("resume", "Resume a ClusterQueue, LocalQueue or Workload", "  mlbatch resume clusterqueue blue-cluster-queue", "release",
		stopQueueCommand("clusterqueue", "cq", false), stopQueueCommand("localqueue", "lq", false), activeCommand(true))
}

// stopQueueCommand stops a queue as kueuectl does, with what runs unless told otherwise, or
// resumes it.
func stopQueueCommand(kind, short string, stop bool) *cobra.Command { //nolint:revive // a fact
	q := queueChange{keep: true} // it does not ask
	var running bool
	policy, verb := kueue.StopPolicyNone, "Let it admit again"
	if stop {
		policy, verb = kueue.StopPolicyHoldAndDrain, "Admit nothing more, and stop what runs"
	}
	cmd := &cobra.Command{
		Use: kind + " NAME", Aliases: []string{short}, Short: verb,
		Example: fmt.Sprintf("  mlbatch %s %s %s", map[bool]string{true: "stop", false: "resume"}[stop], kind, exampleQueue(kind)),
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if kind == "localqueue" {
				q.namespace = namespaceOr(q.namespace, &q.conn)
			}
			wanted := policy
			if running {
				wanted = kueue.StopPolicyHold
			}
			return q.set(cmd, args[0], wanted)
		},
	}
	f := cmd.Flags()
	if kind == "localqueue" {
		f.StringVarP(&q.namespace, "namespace", "n", "", "`namespace` (default: that of the kubeconfig's context, or default)")
	}
	if stop {
		f.BoolVar(&running, "keep-already-running", false, "let what runs go on")
	}
	q.dryRunFlag(f)
	connectionFlags(f, &q.conn)
	return cmd
}

// exampleQueue is a queue of the tutorial, as the arguments of a command on a kind of queue.
func exampleQueue(kind string) string {
	if kind == "localqueue" {
		return "default-queue -n blue"
	}
	return "blue-cluster-queue"
}

// activeCommand stops a Workload, or lets it be queued again.
func activeCommand(active bool) *cobra.Command { //nolint:revive // a fact
	var q queueChange
	verb, done, short := "stop", "stopped", "Stop a Workload, and do not queue it again"
	if active {
		verb, done, short = "resume", "resumed", "Queue a Workload again that was stopped"
	}
	cmd := &cobra.Command{
		Use: "workload NAME", Aliases: []string{"wl"}, Short: short,
		Example: fmt.Sprintf("  mlbatch %s workload pytorchjob-train-02fcb -n blue", verb),
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := q.check(); err != nil {
				return err
			}
			namespace := namespaceOr(q.namespace, &q.conn)
			cfg, c, err := q.connect()
			if err != nil {
				return err
			}
			if q.dryRun != dryRunClient {
				if err := admin.SetActive(cmd.Context(), c, namespace, args[0], active); err != nil {
					return q.conn.Unreachable(err, cfg.Host)
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "workload/%s in %s %s%s\n", args[0], namespace, done, q.suffix())
			return nil
		},
	}
	q.flags(cmd)
	return cmd
}

func newDeleteCommand() *cobra.Command {
	return newVerb("delete", "Delete a ClusterQueue, LocalQueue, ResourceFlavor or Workload", "  mlbatch delete workload pytorchjob-train-02fcb -n blue --yes", "cancel",
		deleteQueueCommand("clusterqueue", "cq"), deleteQueueCommand("localqueue", "lq"), alias(newFlavorDeleteCommand("resourceflavor NAME"), "  mlbatch delete resourceflavor spot", "rf"), deleteWorkloadCommand())
}

func deleteQueueCommand(kind, short string) *cobra.Command {
	var q queueChange
	cmd := &cobra.Command{
		Use: kind + " NAME", Aliases: []string{short}, Short: "Delete it, after asking",
		Example: fmt.Sprintf("  mlbatch delete %s %s --yes", kind, map[string]string{"clusterqueue": "green", "localqueue": "extra -n blue"}[kind]),
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if kind == "localqueue" {
				q.namespace = namespaceOr(q.namespace, &q.conn)
			}
			return q.remove(cmd, args[0])
		},
	}
	f := cmd.Flags()
	if kind == "localqueue" {
		f.StringVarP(&q.namespace, "namespace", "n", "", "`namespace` (default: that of the kubeconfig's context, or default)")
	}
	f.BoolVarP(&q.yes, "yes", "y", false, "do not ask")
	q.dryRunFlag(f)
	connectionFlags(f, &q.conn)
	return cmd
}

func deleteWorkloadCommand() *cobra.Command {
	var q queueChange
	var all bool
	cmd := &cobra.Command{
		Use: "workload NAME...", Aliases: []string{"wl"}, Short: "Delete Workloads with their jobs, after asking",
		Example: "  mlbatch delete workload pytorchjob-train-02fcb -n blue --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := q.check(); err != nil {
				return err
			}
			if all == (len(args) > 0) {
				return usagef("name Workloads, or say --all")
			}
			return q.workloads(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&q.namespace, "namespace", "n", "", "`namespace` (default: that of the kubeconfig's context, or default)")
	f.BoolVar(&all, "all", false, "all of the namespace")
	f.BoolVarP(&q.yes, "yes", "y", false, "do not ask")
	q.dryRunFlag(f)
	connectionFlags(f, &q.conn)
	return cmd
}

// workloads deletes Workloads with their jobs, all of the namespace if none is named.
func (q *queueChange) workloads(cmd *cobra.Command, names []string) error {
	ctx := cmd.Context()
	namespace := namespaceOr(q.namespace, &q.conn)
	cfg, c, err := q.connect()
	if err != nil {
		return err
	}
	if len(names) == 0 {
		rows, err := admin.TakeWorkloads(ctx, c, admin.WorkloadFilter{Namespace: namespace})
		if err != nil {
			return q.conn.Unreachable(err, cfg.Host)
		}
		for i := range rows {
			names = append(names, rows[i].Name)
		}
	}
	var what []string
	for _, name := range names {
		one, err := admin.DeleteWorkload(ctx, c, namespace, name, true)
		if err != nil {
			return q.conn.Unreachable(err, cfg.Host)
		}
		what = append(what, one)
	}
	if !q.dry() && len(what) > 0 {
		if err := confirm(cmd, q.yes, "Delete "+strings.Join(what, ", ")+"?"); err != nil {
			return err
		}
	}
	for _, name := range names {
		one, err := admin.DeleteWorkload(ctx, c, namespace, name, q.dryRun == dryRunClient)
		if err != nil {
			return err //nolint:wrapcheck // it names the object
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s deleted%s\n", one, q.suffix())
	}
	return nil
}
