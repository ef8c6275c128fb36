package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli/admin"
)

// queueCommands are the subcommands of queue. A queue that is called like one of them is shown
// by "queue show NAME".
func queueCommands() []*cobra.Command {
	return []*cobra.Command{
		newQueueCreateCommand(),
		newQueueEditCommand(),
		newQueueStopCommand(),
		newQueueResumeCommand(),
		newQueueDeleteCommand(),
	}
}

// newQueue is a queue that is to be made.
type newQueue struct {
	making
	quotaFlags
	policyFlags

	namespace, clusterQueue, cohort string
	selector                        []string
	anyQueue                        bool
	// design and localQueue are what was typed.
	design     admin.NewQueue
	localQueue *kueue.LocalQueue
}

// clusterFlags are those of ClusterQueues.
func (q *newQueue) clusterFlags(cmd *cobra.Command, reclaim, within string) {
	f := cmd.Flags()
	q.quotaFlags.flags(f)
	q.policyFlags.flags(f, reclaim, within)
	f.StringVar(&q.cohort, "cohort", "", "`cohort` that it lends to and borrows from")
	f.StringSliceVar(&q.selector, "namespace-selector", nil,
		"`KEY=VALUE,...` labels of namespaces that may use it (default: all may)")
}

// localFlags are those of LocalQueues.
func (q *newQueue) localFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&q.clusterQueue, "clusterqueue", "c", "", "`ClusterQueue` that the LocalQueue leads to")
	f.BoolVarP(&q.anyQueue, "ignore-unknown-cq", "i", false, "make it although there is no such ClusterQueue")
}

func newQueueCreateCommand() *cobra.Command {
	var q newQueue
	cmd := writeCommand{
		making: &q.making, prints: true,
		check: func() error {
			if (q.namespace == "") != (q.clusterQueue == "") {
				return errors.New("a LocalQueue needs both -n NAMESPACE and --clusterqueue NAME, a ClusterQueue neither")
			}
			if q.namespace == "" {
				return q.checkCluster()
			}
			for _, flag := range []string{"quota", "borrowing-limit", "lending-limit", "flavor", "cohort", "namespace-selector", "queueing-strategy", "reclaim-within-cohort", "within-cluster-queue", "borrow-within-cohort", "weight"} {
				if q.cmd.Flags().Changed(flag) {
					return fmt.Errorf("--%s is of ClusterQueues: a LocalQueue has no quota of its own", flag)
				}
			}
			return q.checkLocal()
		},
		do: func(ctx context.Context) error {
			if q.namespace != "" {
				return q.createLocal(ctx)
			}
			return q.createCluster(ctx)
		},
	}.command(&cobra.Command{
		Use:   "create NAME",
		Short: "Make a ClusterQueue or, with -n NAMESPACE --clusterqueue NAME, a LocalQueue",
		Long: `Make a ClusterQueue: a quota. With -n and --clusterqueue it is a LocalQueue, where jobs of a
namespace wait for that quota. Amounts that name no flavor are of --flavor or, if there is
only one, of that. "team create" makes both, with a namespace and people.`,
		Example: `  # a quota of 8 GPUs, which takes back what it lends
  mlbatch queue create green --quota nvidia.com/gpu=8,cpu=64,memory=512Gi --cohort default-cohort

  # where the jobs of namespace blue wait for it
  mlbatch queue create extra -n blue --clusterqueue green

  # as kueuectl spells it
  mlbatch queue create green --nominal-quota "default-flavor:cpu=10;memory=64Gi" --dry-run=client -o yaml`,
		Args: cobra.ExactArgs(1),
	})
	q.clusterFlags(cmd, "Any", "LowerOrNewerEqualPriority")
	q.localFlags(cmd)
	cmd.Flags().StringVarP(&q.namespace, "namespace", "n", "", "`namespace` of a LocalQueue")
	return cmd
}

// checkCluster finds mistakes in what was typed of a ClusterQueue.
func (q *newQueue) checkCluster() (err error) {
	if err := q.policyFlags.check(); err != nil {
		return err
	}
	q.design = admin.NewQueue{
		Name: q.args[0], Cohort: q.cohort, Strategy: q.strategy,
		Reclaim: q.reclaim, Within: q.within, Borrow: q.borrow,
	}
	if q.design.Namespaces, err = admin.ParseLabels("namespace-selector", q.selector); err != nil {
		return err //nolint:wrapcheck // it names the flag
	}
	if q.design.Weight, err = q.weightOf(); err != nil {
		return err
	}
	q.design.Quotas, err = q.read("")
	return err
}

// createCluster makes a ClusterQueue.
func (q *newQueue) createCluster(ctx context.Context) error {
	h, err := admin.TakeHardware(ctx, q.c)
	if err != nil {
		return err //nolint:wrapcheck // it says what it read
	}
	if q.flavor == "" && len(h.Flavors) == 1 {
		q.flavor = h.Flavors[0].Name
	}
	if q.design.Quotas, err = q.read(""); err != nil {
		return err
	}
	object, err := q.design.Object()
	if err != nil {
		return usageError{err}
	}
	return q.create(ctx, object, h.Hints(object))
}

// checkLocal finds mistakes in what was typed of a LocalQueue.
func (q *newQueue) checkLocal() (err error) {
	if q.clusterQueue == "" {
		return errors.New("say which ClusterQueue it leads to: --clusterqueue NAME")
	}
	q.localQueue, err = admin.LocalQueue(q.namespace, q.args[0], q.clusterQueue)
	return err //nolint:wrapcheck // a sentence for people
}

// createLocal makes a LocalQueue.
func (q *newQueue) createLocal(ctx context.Context) error {
	if !q.anyQueue {
		if _, err := admin.ClusterQueue(ctx, q.c, q.clusterQueue); err != nil {
			return fmt.Errorf("%w; --ignore-unknown-cq makes it anyway", err)
		}
	}
	return q.create(ctx, q.localQueue, nil)
}

// queueChange changes a queue.
type queueChange struct {
	making

	namespace string
	drain     bool
	keep      bool
}

// command makes the command; cmd has its names and help. Where asks is set, --yes answers what is asked.
func (q *queueChange) command(
	cmd *cobra.Command,
	asks bool,
	do func(ctx context.Context) error,
) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cobra.ExactArgs(1), first(asking(offeredAnyQueues))
	cmd.Flags().StringVarP(&q.namespace, "namespace", "n", "", "`namespace` of a LocalQueue")
	return writeCommand{making: &q.making, asks: asks, do: do}.command(cmd)
}

func newQueueEditCommand() *cobra.Command {
	var q newQueue
	var edit admin.QueueEdit
	cmd := writeCommand{
		making: &q.making, asks: true,
		check: func() (err error) {
			if err := q.policyFlags.check(); err != nil {
				return err
			}
			edit.Cohort = typed(q.cmd, "cohort", &q.cohort)
			edit.Strategy = typed(q.cmd, "queueing-strategy", &q.strategy)
			edit.Reclaim = typed(q.cmd, "reclaim-within-cohort", &q.reclaim)
			edit.Within = typed(q.cmd, "within-cluster-queue", &q.within)
			edit.Borrow = typed(q.cmd, "borrow-within-cohort", &q.borrow)
			if edit.Weight, err = q.weightOf(); err != nil {
				return err
			}
			if edit.Quotas, err = q.read(""); err == nil && edit.Empty() {
				err = errors.New("say what is to change, such as --quota nvidia.com/gpu=16")
			}
			return err
		},
		do: func(ctx context.Context) error {
			name := q.args[0]
			changed, err := q.editQueue(ctx, name, edit)
			if err == nil && !changed {
				fmt.Fprintf(q.out, "clusterqueue/%s unchanged\n", name)
			}
			return err
		},
	}.command(&cobra.Command{
		Use:   "edit NAME",
		Short: "Change single values of a ClusterQueue, without an editor",
		Long: `Change single values of a ClusterQueue: amounts, limits, cohort, policies. What changes is shown
before and after, and what it means for jobs that run; where it means something you are asked.
A lower quota stops nothing by itself: what is used beyond it is borrowed, and others may take
it back. Values that are not said stay.`,
		Example: `  # more GPUs
  mlbatch queue edit blue-cluster-queue --quota nvidia.com/gpu=16

  # it lends nothing, and may borrow whatever there is
  mlbatch queue edit blue-cluster-queue --lending-limit nvidia.com/gpu=0 --borrowing-limit nvidia.com/gpu=none

  # what would change?
  mlbatch queue edit blue-cluster-queue --cohort "" --dry-run`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: first(asking(offeredAnyQueues)),
	})
	f := cmd.Flags()
	q.quotaFlags.flags(f)
	q.policyFlags.flags(f, "Never", "Never")
	for _, flag := range []string{"queueing-strategy", "reclaim-within-cohort", "within-cluster-queue", "borrow-within-cohort"} {
		f.Lookup(flag).DefValue = "" // it stays as it is
	}
	f.StringVar(&q.cohort, "cohort", "", "`cohort` that it lends to and borrows from; \"\" is none")
	return cmd
}

// editQueue changes a ClusterQueue and reports whether it had to.
func (m *making) editQueue(ctx context.Context, name string, edit admin.QueueEdit) (bool, error) {
	is, err := admin.ClusterQueue(ctx, m.c, name)
	if err != nil {
		return false, err //nolint:wrapcheck // it names the queue
	}
	will, changes, err := edit.Apply(is)
	if err != nil {
		return false, usageError{err}
	}
	if len(changes) == 0 {
		return false, nil
	}
	h, err := admin.TakeHardware(ctx, m.c)
	if err != nil {
		return false, err //nolint:wrapcheck // it says what it read
	}
	m.changed("clusterqueue/"+name, changes)
	hints := admin.Consequences(is, will, h.Queues)
	notes(m.errs, append(slices.Clone(hints), h.Overbooked(*will)...))
	if m.dryRun == dryRunClient {
		return true, nil
	}
	if len(hints) > 0 && !m.dry() {
		if err := m.confirm("Change it?"); err != nil {
			return false, err
		}
	}
	if err := admin.UpdateShown(ctx, m.c, is, will); err != nil {
		return false, fmt.Errorf("clusterqueue/%s: %w", name, err)
	}
	return true, nil
}

func newQueueStopCommand() *cobra.Command {
	var q queueChange
	cmd := q.command(&cobra.Command{
		Use:   "stop NAME",
		Short: "Admit nothing more in a queue; with --drain stop what runs as well",
		Long: `Admit nothing more in a ClusterQueue or, with -n, in a LocalQueue. What runs goes on and what
waits keeps its place. With --drain jobs that run are stopped and queued again; you are asked.`,
		Example: `  # nothing new starts
  mlbatch queue stop blue-cluster-queue

  # and what runs is stopped
  mlbatch queue stop blue-cluster-queue --drain --yes`,
	}, true, func(ctx context.Context) error {
		if q.drain {
			return q.set(ctx, kueue.StopPolicyHoldAndDrain)
		}
		return q.set(ctx, kueue.StopPolicyHold)
	})
	cmd.Flags().BoolVar(&q.drain, "drain", false, "stop what runs, too")
	return cmd
}

func newQueueResumeCommand() *cobra.Command {
	var q queueChange
	return q.command(&cobra.Command{
		Use:   "resume NAME",
		Short: "Let a queue that was stopped admit again",
		Example: `  mlbatch queue resume blue-cluster-queue

  # a LocalQueue
  mlbatch queue resume default-queue -n blue`,
	}, false, func(ctx context.Context) error { return q.set(ctx, kueue.StopPolicyNone) })
}

// set changes the stop policy of a queue. Who drains one is asked, if jobs run.
func (q *queueChange) set(ctx context.Context, policy kueue.StopPolicy) error {
	found, err := admin.FindQueue(ctx, q.c, q.namespace, q.args[0])
	if err != nil {
		return err //nolint:wrapcheck // it names the queue
	}
	if found.Policy() == policy {
		fmt.Fprintf(q.out, "%s unchanged: its stop policy is %s\n", found.Name(), policy)
		return nil
	}
	if policy == kueue.StopPolicyHoldAndDrain && found.Reserving > 0 && !q.dry() && !q.keep {
		question := fmt.Sprintf("%d jobs run or start in %s and are stopped. Go on?", found.Reserving, found.Name())
		if err := q.confirm(question); err != nil {
			return err
		}
	}
	if q.dryRun != dryRunClient {
		if err := found.Set(ctx, q.c, policy); err != nil {
			return err //nolint:wrapcheck // it names the queue
		}
	}
	fmt.Fprintf(q.out, "%s stop policy: %s -> %s%s\n", found.Name(), found.Policy(), policy, q.suffix())
	switch {
	case policy == kueue.StopPolicyHold && found.Running > 0:
		fmt.Fprintf(q.out, "%d jobs run on; --drain stops them.\n", found.Running)
	case policy == kueue.StopPolicyNone && found.Waiting > 0:
		fmt.Fprintf(q.out, "%d jobs wait in it.\n", found.Waiting)
	}
	return nil
}

func newQueueDeleteCommand() *cobra.Command {
	var q queueChange
	return q.command(&cobra.Command{
		Use:   "delete NAME",
		Short: "Remove a ClusterQueue or, with -n, a LocalQueue",
		Long: `Remove a ClusterQueue or, with -n, a LocalQueue. Jobs that run keep it until they have ended;
those that wait go on waiting, for a queue of that name.`,
		Example: "  mlbatch queue delete extra -n blue --yes",
	}, true, q.remove)
}

func (q *queueChange) remove(ctx context.Context) error {
	found, err := admin.FindQueue(ctx, q.c, q.namespace, q.args[0])
	if err != nil {
		return err //nolint:wrapcheck // it names the queue
	}
	var with []string
	if q.namespace == "" {
		leading, err := admin.Leading(ctx, q.c, q.args[0])
		if err != nil {
			return err //nolint:wrapcheck // it says what it read
		}
		if len(leading) > 0 {
			with = append(with, "LocalQueues lead to it: "+strings.Join(leading, ", "))
		}
	}
	if found.Reserving > 0 {
		with = append(
			with,
			fmt.Sprintf("%d jobs have quota of it, and keep it until they have ended", found.Reserving),
		)
	}
	if found.Waiting > 0 {
		with = append(with, fmt.Sprintf("%d jobs wait in it", found.Waiting))
	}
	notes(q.errs, with)
	if !q.dry() {
		if err := q.confirm("Delete " + found.Name() + "?"); err != nil {
			return err
		}
	}
	if q.dryRun != dryRunClient {
		if err := found.Delete(ctx, q.c); err != nil {
			return err //nolint:wrapcheck // it names the queue
		}
	}
	fmt.Fprintf(q.out, "%s deleted%s\n", found.Name(), q.suffix())
	return nil
}
