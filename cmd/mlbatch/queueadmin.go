package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// newQueueFlags are those of a queue that is to be made.
type newQueueFlags struct {
	making
	quotaFlags
	policyFlags
	namespace, clusterQueue, cohort string
	selector                        []string
	anyQueue                        bool
}

// clusterFlags are those of ClusterQueues.
func (q *newQueueFlags) clusterFlags(cmd *cobra.Command, reclaim, within string) {
	f := cmd.Flags()
	q.quotaFlags.flags(f)
	q.policyFlags.flags(f, reclaim, within)
	f.StringVar(&q.cohort, "cohort", "", "`cohort` that it lends to and borrows from")
	f.StringSliceVar(
		&q.selector,
		"namespace-selector",
		nil,
		"`KEY=VALUE,...` labels of namespaces that may use it (default: all may)",
	)
}

// localFlags are those of LocalQueues.
func (q *newQueueFlags) localFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&q.clusterQueue, "clusterqueue", "c", "", "`ClusterQueue` that the LocalQueue leads to")
	f.BoolVarP(&q.anyQueue, "ignore-unknown-cq", "i", false, "make it although there is no such ClusterQueue")
}

func newQueueCreateCommand() *cobra.Command {
	var q newQueueFlags
	cmd := &cobra.Command{
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
		RunE: func(cmd *cobra.Command, args []string) error {
			if (q.namespace == "") != (q.clusterQueue == "") {
				return usagef("a LocalQueue needs both -n NAMESPACE and --clusterqueue NAME, a ClusterQueue neither")
			}
			if q.namespace != "" {
				for _, flag := range []string{"quota", "borrowing-limit", "lending-limit", "flavor", "cohort", "namespace-selector", "queueing-strategy", "reclaim-within-cohort", "within-cluster-queue", "borrow-within-cohort", "weight"} {
					if cmd.Flags().Changed(flag) {
						return usagef("--%s is of ClusterQueues: a LocalQueue has no quota of its own", flag)
					}
				}
				return q.createLocal(cmd, args[0])
			}
			return q.createCluster(cmd, args[0])
		},
	}
	q.clusterFlags(cmd, "Any", "LowerOrNewerEqualPriority")
	q.localFlags(cmd)
	cmd.Flags().StringVarP(&q.namespace, "namespace", "n", "", "`namespace` of a LocalQueue")
	q.making.flags(cmd.Flags())
	return cmd
}

// createCluster makes a ClusterQueue.
func (q *newQueueFlags) createCluster(cmd *cobra.Command, name string) error {
	if err := q.making.check(); err != nil {
		return err
	}
	if err := q.policyFlags.check(); err != nil {
		return err
	}
	selector, err := admin.ParseLabels("namespace-selector", q.selector)
	if err != nil {
		return usageError{err}
	}
	weight, err := q.weightOf()
	if err != nil {
		return err
	}
	if _, err := q.read(""); err != nil {
		return err
	}
	c, h, err := q.hardware(cmd.Context())
	if err != nil {
		return err
	}
	if q.flavor == "" && len(h.Flavors) == 1 {
		q.flavor = h.Flavors[0].Name
	}
	quotas, err := q.read("")
	if err != nil {
		return err
	}
	object, err := admin.NewQueue{
		Name:       name,
		Quotas:     quotas,
		Cohort:     q.cohort,
		Strategy:   q.strategy,
		Reclaim:    q.reclaim,
		Within:     q.within,
		Borrow:     q.borrow,
		Namespaces: selector,
		Weight:     weight,
	}.Object()
	if err != nil {
		return usageError{err}
	}
	return q.create(cmd, c, object, h.Hints(object))
}

// createLocal makes a LocalQueue.
func (q *newQueueFlags) createLocal(cmd *cobra.Command, name string) error {
	if err := q.making.check(); err != nil {
		return err
	}
	if q.clusterQueue == "" {
		return usagef("say which ClusterQueue it leads to: --clusterqueue NAME")
	}
	object, err := admin.LocalQueue(q.namespace, name, q.clusterQueue)
	if err != nil {
		return usageError{err}
	}
	cfg, c, err := q.connect()
	if err != nil {
		return err
	}
	if !q.anyQueue {
		if _, err := admin.ClusterQueue(cmd.Context(), c, q.clusterQueue); err != nil {
			return q.conn.Unreachable(fmt.Errorf("%w; --ignore-unknown-cq makes it anyway", err), cfg.Host)
		}
	}
	return q.create(cmd, c, object, nil)
}

// queueChange are the flags of commands that change a queue.
type queueChange struct {
	making
	namespace string
	drain     bool
	keep      bool
}

func (q *queueChange) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&q.namespace, "namespace", "n", "", "`namespace` of a LocalQueue")
	q.dryRunFlag(f)
	connectionFlags(f, &q.conn)
}

// find checks what was typed, and finds the queue.
func (q *queueChange) find(ctx context.Context, name string) (client.Client, *admin.Queue, error) {
	if err := q.check(); err != nil {
		return nil, nil, err
	}
	return reach(ctx, &q.making, func(ctx context.Context, c client.Client) (*admin.Queue, error) {
		return admin.FindQueue(ctx, c, q.namespace, name)
	})
}

func newQueueEditCommand() *cobra.Command {
	var q newQueueFlags
	cmd := &cobra.Command{
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
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := q.policyFlags.check(); err != nil {
				return err
			}
			edit := admin.QueueEdit{
				Cohort:   typed(cmd, "cohort", &q.cohort),
				Strategy: typed(cmd, "queueing-strategy", &q.strategy),
				Reclaim: typed(
					cmd,
					"reclaim-within-cohort",
					&q.reclaim,
				),
				Within: typed(cmd, "within-cluster-queue", &q.within),
				Borrow: typed(cmd, "borrow-within-cohort", &q.borrow),
			}
			var err error
			if edit.Weight, err = q.weightOf(); err != nil {
				return err
			}
			if edit.Quotas, err = q.read(""); err != nil {
				return err
			}
			if edit.Empty() {
				return usagef("say what is to change, such as --quota nvidia.com/gpu=16")
			}
			cfg, c, err := q.connect()
			if err != nil {
				return err
			}
			changed, err := q.editQueue(cmd, c, args[0], edit)
			if err == nil && !changed {
				fmt.Fprintf(cmd.OutOrStdout(), "clusterqueue/%s unchanged\n", args[0])
			}
			return q.conn.Unreachable(err, cfg.Host)
		},
	}
	f := cmd.Flags()
	q.quotaFlags.flags(f)
	q.policyFlags.flags(f, "Never", "Never")
	for _, flag := range []string{"queueing-strategy", "reclaim-within-cohort", "within-cluster-queue", "borrow-within-cohort"} {
		f.Lookup(flag).DefValue = "" // it stays as it is
	}
	f.StringVar(&q.cohort, "cohort", "", "`cohort` that it lends to and borrows from; \"\" is none")
	f.BoolVarP(&q.yes, "yes", "y", false, "do not ask")
	q.dryRunFlag(f)
	connectionFlags(f, &q.conn)
	return cmd
}

// editQueue changes a ClusterQueue and reports whether it had to.
func (m *making) editQueue(
	cmd *cobra.Command,
	c client.Client,
	name string,
	edit admin.QueueEdit,
) (bool, error) {
	ctx := cmd.Context()
	is, err := admin.ClusterQueue(ctx, c, name)
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
	h, err := admin.TakeHardware(ctx, c)
	if err != nil {
		return false, err //nolint:wrapcheck // it says what it read
	}
	printChanges(cmd.OutOrStdout(), "clusterqueue/"+name, changes, m.suffix())
	hints := admin.Consequences(is, will, h.Queues)
	notes(cmd.ErrOrStderr(), append(slices.Clone(hints), h.Overbooked(*will)...))
	if m.dryRun == dryRunClient {
		return true, nil
	}
	if len(hints) > 0 && !m.dry() {
		if err := confirm(cmd, m.yes, "Change it?"); err != nil {
			return false, err
		}
	}
	if err := admin.UpdateShown(ctx, c, is, will); err != nil {
		return false, fmt.Errorf("clusterqueue/%s: %w", name, err)
	}
	return true, nil
}

func newQueueStopCommand() *cobra.Command {
	var q queueChange
	cmd := &cobra.Command{
		Use:   "stop NAME",
		Short: "Admit nothing more in a queue; with --drain stop what runs as well",
		Long: `Admit nothing more in a ClusterQueue or, with -n, in a LocalQueue. What runs goes on and what
waits keeps its place. With --drain jobs that run are stopped and queued again; you are asked.`,
		Example: `  # nothing new starts
  mlbatch queue stop blue-cluster-queue

  # and what runs is stopped
  mlbatch queue stop blue-cluster-queue --drain --yes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: first(asking(offeredAnyQueues)),
		RunE: func(cmd *cobra.Command, args []string) error {
			policy := kueue.StopPolicyHold
			if q.drain {
				policy = kueue.StopPolicyHoldAndDrain
			}
			return q.set(cmd, args[0], policy)
		},
	}
	q.flags(cmd)
	f := cmd.Flags()
	f.BoolVar(&q.drain, "drain", false, "stop what runs, too")
	f.BoolVarP(&q.yes, "yes", "y", false, "do not ask")
	return cmd
}

func newQueueResumeCommand() *cobra.Command {
	var q queueChange
	cmd := &cobra.Command{
		Use:   "resume NAME",
		Short: "Let a queue that was stopped admit again",
		Example: `  mlbatch queue resume blue-cluster-queue

  # a LocalQueue
  mlbatch queue resume default-queue -n blue`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: first(asking(offeredAnyQueues)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return q.set(cmd, args[0], kueue.StopPolicyNone)
		},
	}
	q.flags(cmd)
	return cmd
}

// set changes the stop policy of a queue. Who drains one is asked, if jobs run.
func (q *queueChange) set(cmd *cobra.Command, name string, policy kueue.StopPolicy) error {
	c, found, err := q.find(cmd.Context(), name)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if found.Policy() == policy {
		fmt.Fprintf(out, "%s unchanged: its stop policy is %s\n", found.Name(), policy)
		return nil
	}
	if policy == kueue.StopPolicyHoldAndDrain && found.Reserving > 0 && !q.dry() && !q.keep {
		question := fmt.Sprintf("%d jobs run or start in %s and are stopped. Go on?", found.Reserving, found.Name())
		if err := confirm(cmd, q.yes, question); err != nil {
			return err
		}
	}
	if q.dryRun != dryRunClient {
		if err := found.Set(cmd.Context(), c, policy); err != nil {
			return err //nolint:wrapcheck // it names the queue
		}
	}
	fmt.Fprintf(out, "%s stop policy: %s -> %s%s\n", found.Name(), found.Policy(), policy, q.suffix())
	switch {
	case policy == kueue.StopPolicyHold && found.Running > 0:
		fmt.Fprintf(out, "%d jobs run on; --drain stops them.\n", found.Running)
	case policy == kueue.StopPolicyNone && found.Waiting > 0:
		fmt.Fprintf(out, "%d jobs wait in it.\n", found.Waiting)
	}
	return nil
}

func newQueueDeleteCommand() *cobra.Command {
	var q queueChange
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Remove a ClusterQueue or, with -n, a LocalQueue",
		Long: `Remove a ClusterQueue or, with -n, a LocalQueue. Jobs that run keep it until they have ended;
those that wait go on waiting, for a queue of that name.`,
		Example:           "  mlbatch queue delete extra -n blue --yes",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: first(asking(offeredAnyQueues)),
		RunE:              func(cmd *cobra.Command, args []string) error { return q.remove(cmd, args[0]) },
	}
	q.flags(cmd)
	cmd.Flags().BoolVarP(&q.yes, "yes", "y", false, "do not ask")
	return cmd
}

func (q *queueChange) remove(cmd *cobra.Command, name string) error {
	c, found, err := q.find(cmd.Context(), name)
	if err != nil {
		return err
	}
	var with []string
	if q.namespace == "" {
		leading, err := admin.Leading(cmd.Context(), c, name)
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
	notes(cmd.ErrOrStderr(), with)
	if !q.dry() {
		if err := confirm(cmd, q.yes, "Delete "+found.Name()+"?"); err != nil {
			return err
		}
	}
	if q.dryRun != dryRunClient {
		if err := found.Delete(cmd.Context(), c); err != nil {
			return err //nolint:wrapcheck // it names the queue
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s deleted%s\n", found.Name(), q.suffix())
	return nil
}
