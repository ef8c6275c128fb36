package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/admin"
	"github.com/mlbatch/mlbatch/internal/view"
)

// kueuectlCommands are those of Kueue's plugin for kubectl, by its names and with its defaults. What
// it passes on to kubectl, kubectl does.
func kueuectlCommands() []func() *cobra.Command {
	return []func() *cobra.Command{
		newCreateCommand,
		newListCommand,
		newStopCommand,
		newResumeCommand,
		newDeleteCommand,
	}
}

// newVerb is a command of which the kinds of objects are subcommands. Of jobs it is done by
// another one.
func newVerb(use, short, example, ofJobs string, kinds ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:     use,
		Short:   short + ", as kueuectl does",
		Example: example,
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
			return usagef(
				"%s %s is not known: use %s; for jobs it is mlbatch %s",
				use,
				args[0],
				strings.Join(known, ", "),
				ofJobs,
			)
		},
	}
	cmd.AddCommand(kinds...)
	return cmd
}

func newCreateCommand() *cobra.Command {
	return newVerb(
		"create",
		"Make a ClusterQueue, LocalQueue or ResourceFlavor",
		`  mlbatch create clusterqueue green --nominal-quota "default-flavor:cpu=10;memory=64Gi"`,
		"submit",
		newCreateClusterQueueCommand(),
		newCreateLocalQueueCommand(),
		alias(
			newFlavorCreateCommand("resourceflavor NAME"),
			"  mlbatch create resourceflavor spot --node-labels pool=spot",
			"rf",
		),
	)
}

// alias gives a command further names, and an example with the first of its own.
func alias(cmd *cobra.Command, example string, names ...string) *cobra.Command {
	cmd.Example, cmd.Aliases = example, append(cmd.Aliases, names...)
	return cmd
}

func newCreateClusterQueueCommand() *cobra.Command {
	var q newQueue
	cmd := writeCommand{
		making: &q.making, prints: true, check: q.checkCluster, do: q.createCluster,
	}.command(&cobra.Command{
		Use:     "clusterqueue NAME",
		Aliases: []string{"cq"},
		Short:   "Make a ClusterQueue; unlike queue create, it evicts nobody unless told to",
		Example: `  mlbatch create clusterqueue green --cohort default-cohort --reclaim-within-cohort Any --nominal-quota "default-flavor:cpu=10;memory=64Gi"`,
		Args:    cobra.ExactArgs(1),
	})
	q.clusterFlags(cmd, "Never", "Never")
	return cmd
}

func newCreateLocalQueueCommand() *cobra.Command {
	var q newQueue
	cmd := writeCommand{
		making: &q.making, prints: true,
		check: func() error {
			q.namespace = namespaceOr(q.namespace, q.conn)
			return q.checkLocal()
		},
		do: q.createLocal,
	}.command(&cobra.Command{
		Use:     "localqueue NAME",
		Aliases: []string{"lq"},
		Short:   "Make a LocalQueue",
		Example: "  mlbatch create localqueue extra -n blue -c blue-cluster-queue",
		Args:    cobra.ExactArgs(1),
	})
	q.localFlags(cmd)
	namespaceFlag(cmd.Flags(), &q.namespace)
	return cmd
}

// namespaceOr is a namespace as kubectl understands it: the one that was said, that of the context,
// or default.
func namespaceOr(said string, conn *cli.Connection) string {
	locate(conn)
	return cmp.Or(said, conn.Namespace(), "default")
}

func namespaceFlag(f *pflag.FlagSet, to *string) {
	f.StringVarP(to, "namespace", "n", "", "`namespace` (default: that of the kubeconfig's context, or default)")
}

// listFlags say what is listed.
type listFlags struct {
	namespace, localQueue, clusterQueue string
	all                                 bool
	active, statuses                    []string
}

// within adds the flags that say where.
func (l *listFlags) within(cmd *cobra.Command) {
	f := cmd.Flags()
	namespaceFlag(f, &l.namespace)
	f.BoolVarP(&l.all, "all-namespaces", "A", false, "of all namespaces")
	f.StringVarP(&l.clusterQueue, "clusterqueue", "c", "", "only those of a `ClusterQueue`")
}

// where is the namespace that is listed, "" for all.
func (l *listFlags) where(conn *cli.Connection) string {
	if l.all {
		return ""
	}
	return namespaceOr(l.namespace, conn)
}

func newListCommand() *cobra.Command {
	flavors := teamCommand(listFlavors).command(&cobra.Command{
		Use:     "resourceflavor",
		Aliases: []string{"rf"},
		Short:   "List ResourceFlavors",
		Example: "  mlbatch list resourceflavor",
		Args:    cobra.NoArgs,
	})
	return newVerb(
		"list",
		"List ClusterQueues, LocalQueues, ResourceFlavors or Workloads",
		"  mlbatch list workload -A --status pending",
		"ps",
		newListClusterQueueCommand(),
		newListLocalQueueCommand(),
		flavors,
		newListWorkloadCommand(),
	)
}

func newListClusterQueueCommand() *cobra.Command {
	var l listFlags
	list := teamCommand(func(ctx context.Context, q *query) (found, error) {
		queues, err := cli.Queues(ctx, q.c, "")
		if err != nil {
			return nil, err
		}
		return queueRows(cli.Flat(cli.QueueRows(queues, "")), func(r cli.QueueRow) bool {
			is := strconv.FormatBool(r.State == string(view.QueueActive))
			return len(l.active) == 0 || slices.Contains(l.active, "*") || slices.Contains(l.active, is)
		}), nil
	})
	list.flags = func(cmd *cobra.Command) {
		cmd.Flags().StringSliceVar(&l.active, "active", nil,
			"only those that can admit (`true`), or cannot (false)")
	}
	list.check = func(*query) error {
		for _, a := range l.active {
			if a != "true" && a != "false" && a != "*" {
				return fmt.Errorf("--active %s is not known: use true, false or *", a)
			}
		}
		return nil
	}
	return list.command(&cobra.Command{
		Use:     "clusterqueue",
		Aliases: []string{"cq"},
		Short:   "List ClusterQueues; mlbatch queue shows the tree of their cohorts",
		Example: "  mlbatch list clusterqueue --active=false",
		Args:    cobra.NoArgs,
	})
}

// queueRows are the queues that are wanted.
func queueRows(queues []cli.QueueRow, wanted func(cli.QueueRow) bool) found {
	queues = slices.DeleteFunc(queues, func(r cli.QueueRow) bool { return !wanted(r) })
	return &rows[cli.QueueRow]{items: queues, columns: cli.QueueColumns(queues)}
}

func newListLocalQueueCommand() *cobra.Command {
	var l listFlags
	list := teamCommand(func(ctx context.Context, q *query) (found, error) {
		queues, err := cli.LocalQueues(ctx, q.c, l.where(q.conn))
		if err != nil {
			return nil, err
		}
		return queueRows(
			cli.QueueRows(queues, ""),
			func(r cli.QueueRow) bool { return l.clusterQueue == "" || r.Parent == l.clusterQueue },
		), nil
	})
	list.flags = l.within
	return list.command(&cobra.Command{
		Use: "localqueue", Aliases: []string{"lq"}, Short: "List LocalQueues",
		Example: "  mlbatch list localqueue -A",
		Args:    cobra.NoArgs,
	})
}

func newListWorkloadCommand() *cobra.Command {
	var l listFlags
	list := teamCommand(func(ctx context.Context, q *query) (found, error) {
		workloads, err := admin.TakeWorkloads(ctx, q.c, admin.WorkloadFilter{
			Namespace: l.where(q.conn), LocalQueue: l.localQueue, ClusterQueue: l.clusterQueue, Statuses: l.statuses,
		})
		if err != nil {
			return nil, err
		}
		return &rows[admin.WorkloadRow]{items: workloads, columns: admin.WorkloadColumns(time.Now())}, nil
	})
	list.flags = func(cmd *cobra.Command) {
		l.within(cmd)
		cmd.Flags().StringSliceVar(&l.statuses, "status", nil,
			"only those that are `pending`, quotareserved, admitted or finished (default: all)")
		cmd.Flags().StringVarP(&l.localQueue, "localqueue", "q", "", "only those of a `LocalQueue`")
	}
	list.check = func(*query) error {
		for _, s := range l.statuses {
			if s != "all" && !slices.Contains(admin.WorkloadStatuses(), s) {
				return fmt.Errorf(
					"--status %s is not known: use all, %s",
					s,
					strings.Join(admin.WorkloadStatuses(), ", "),
				)
			}
		}
		return nil
	}
	return list.command(&cobra.Command{
		Use: "workload", Aliases: []string{"wl", "kwl"}, Short: "List Workloads; mlbatch ps lists jobs",
		Example: "  mlbatch list workload -n blue --status pending,admitted",
		Args:    cobra.NoArgs,
	})
}

// queueKind is a kind of queue as kueuectl's commands call it, with the arguments of one in their
// examples and what shells are offered.
type queueKind struct {
	name, short string
	namespaced  bool
	there, made string
	offers      offer
}

func queueKinds() []queueKind {
	return []queueKind{
		{"clusterqueue", "cq", false, "blue-cluster-queue", "green", kueueNames("ClusterQueue")},
		{"localqueue", "lq", true, "default-queue -n blue", "extra -n blue", kueueNames("LocalQueue")},
	}
}

// change makes a command that changes a queue of the kind, as a value; example is the queue in its example.
func (k queueKind) change(
	q *queueChange,
	verb, short, example string,
	asks bool,
	do func(context.Context) error,
) *cobra.Command {
	cmd := &cobra.Command{
		Use: k.name + " NAME", Aliases: []string{k.short}, Short: short,
		Example: "  mlbatch " + verb + " " + k.name + " " + example,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: asking(k.offers),
	}
	change := writeCommand{making: &q.making, asks: asks, do: do}
	if k.namespaced {
		namespaceFlag(cmd.Flags(), &q.namespace)
		change.check = func() error {
			q.namespace = namespaceOr(q.namespace, q.conn)
			return nil
		}
	}
	return change.command(cmd)
}

// stop stops a queue as kueuectl does, with what runs unless told otherwise. It does not ask.
func (k queueKind) stop() *cobra.Command {
	q := &queueChange{keep: true}
	var running bool
	cmd := k.change(
		q,
		"stop",
		"Admit nothing more, and stop what runs",
		k.there,
		false,
		func(ctx context.Context) error {
			if running {
				return q.set(ctx, kueue.StopPolicyHold)
			}
			return q.set(ctx, kueue.StopPolicyHoldAndDrain)
		},
	)
	cmd.Flags().BoolVar(&running, "keep-already-running", false, "let what runs go on")
	return cmd
}

func (k queueKind) resume() *cobra.Command {
	q := &queueChange{}
	return k.change(q, "resume", "Let it admit again", k.there, false, func(ctx context.Context) error {
		return q.set(ctx, kueue.StopPolicyNone)
	})
}

func (k queueKind) remove() *cobra.Command {
	q := &queueChange{}
	return k.change(q, "delete", "Delete it, after asking", k.made+" --yes", true, q.remove)
}

// ofQueues makes a command for each kind of queue.
func ofQueues(of func(queueKind) *cobra.Command) (out []*cobra.Command) {
	for _, k := range queueKinds() {
		out = append(out, of(k))
	}
	return out
}

func newStopCommand() *cobra.Command {
	return newVerb(
		"stop",
		"Stop a ClusterQueue, LocalQueue or Workload",
		"  mlbatch stop clusterqueue blue-cluster-queue --keep-already-running",
		"hold",
		append(ofQueues(queueKind.stop), activeCommand(false))...)
}

func newResumeCommand() *cobra.Command {
	return newVerb(
		"resume",
		"Resume a ClusterQueue, LocalQueue or Workload",
		"  mlbatch resume clusterqueue blue-cluster-queue",
		"release",
		append(ofQueues(queueKind.resume), activeCommand(true))...)
}

func newDeleteCommand() *cobra.Command {
	flavor := alias(newFlavorDeleteCommand("resourceflavor NAME"), "  mlbatch delete resourceflavor spot", "rf")
	return newVerb(
		"delete",
		"Delete a ClusterQueue, LocalQueue, ResourceFlavor or Workload",
		"  mlbatch delete workload pytorchjob-train-02fcb -n blue --yes",
		"cancel",
		append(ofQueues(queueKind.remove), flavor, deleteWorkloadCommand())...)
}

// activeCommand stops a Workload, or lets it be queued again.
func activeCommand(active bool) *cobra.Command { //nolint:revive // a fact
	var q queueChange
	verb, done, short := "stop", "stopped", "Stop a Workload, and do not queue it again"
	if active {
		verb, done, short = "resume", "resumed", "Queue a Workload again that was stopped"
	}
	cmd := writeCommand{making: &q.making, do: func(ctx context.Context) error {
		namespace, name := namespaceOr(q.namespace, q.conn), q.args[0]
		if q.dryRun != dryRunClient {
			if err := admin.SetActive(ctx, q.c, namespace, name, active); err != nil {
				return err //nolint:wrapcheck // it names the object
			}
		}
		fmt.Fprintf(q.out, "workload/%s in %s %s%s\n", name, namespace, done, q.suffix())
		return nil
	}}.command(&cobra.Command{
		Use: "workload NAME", Aliases: []string{"wl"}, Short: short,
		Example: fmt.Sprintf("  mlbatch %s workload pytorchjob-train-02fcb -n blue", verb),
		Args:    cobra.ExactArgs(1), ValidArgsFunction: asking(kueueNames("Workload")),
	})
	cmd.Flags().StringVarP(&q.namespace, "namespace", "n", "", "`namespace` of a LocalQueue")
	return cmd
}

func deleteWorkloadCommand() *cobra.Command {
	var q queueChange
	var all bool
	cmd := writeCommand{
		making: &q.making, asks: true,
		check: func() error {
			if all == (len(q.args) > 0) {
				return errors.New("name Workloads, or say --all")
			}
			return nil
		},
		do: q.workloads,
	}.command(&cobra.Command{
		Use: "workload NAME...", Aliases: []string{"wl"}, Short: "Delete Workloads with their jobs, after asking",
		Example:           "  mlbatch delete workload pytorchjob-train-02fcb -n blue --yes",
		ValidArgsFunction: asking(kueueNames("Workload")),
	})
	namespaceFlag(cmd.Flags(), &q.namespace)
	cmd.Flags().BoolVar(&all, "all", false, "all of the namespace")
	return cmd
}

// workloads deletes Workloads with their jobs, all of the namespace if none is named.
func (q *queueChange) workloads(ctx context.Context) error {
	namespace, names := namespaceOr(q.namespace, q.conn), q.args
	if len(names) == 0 {
		rows, err := admin.TakeWorkloads(ctx, q.c, admin.WorkloadFilter{Namespace: namespace})
		if err != nil {
			return err //nolint:wrapcheck // it says what it read
		}
		for i := range rows {
			names = append(names, rows[i].Name)
		}
	}
	var what []string
	for _, name := range names {
		one, err := admin.DeleteWorkload(ctx, q.c, namespace, name, true)
		if err != nil {
			return err //nolint:wrapcheck // it names the object
		}
		what = append(what, one)
	}
	if !q.dry() && len(what) > 0 {
		if err := q.confirm("Delete " + strings.Join(what, ", ") + "?"); err != nil {
			return err
		}
	}
	for _, name := range names {
		one, err := admin.DeleteWorkload(ctx, q.c, namespace, name, q.dryRun == dryRunClient)
		if err != nil {
			return err //nolint:wrapcheck // it names the object
		}
		fmt.Fprintf(q.out, "%s deleted%s\n", one, q.suffix())
	}
	return nil
}
