package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/admin"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/words"
)

// newTeamCommand shows a team, or all of them, and makes and changes them.
func newTeamCommand() *cobra.Command {
	cmd := teamCommand(readTeam).command(&cobra.Command{
		Use:     "team [NAME]",
		Aliases: []string{"teams"},
		Short:   "Show a team: its quota, what is used, borrowed and lent, its jobs and people; make, change and remove teams",
		Long: `Show a team: its quota and what of it is used, borrowed from others and lent to them, how
many of its jobs are in which state, and who may submit. Without NAME it is the team of the
kubeconfig's context or, if that has no namespace, all teams in a line each.

A team is a namespace with a LocalQueue for a quota of its own (ClusterQueue), and people who
may submit there. A team that is called like a subcommand is shown by "team show NAME".`,
		Example: `  # all teams
  mlbatch team list

  # one of them
  mlbatch team blue

  # a new one with 8 GPUs
  mlbatch team create green --gpus 8 --users carol,dave`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: first(asking(offeredTeams)),
	})
	show := teamCommand(readTeam).command(&cobra.Command{
		Use:               "show NAME",
		Short:             "Show a team",
		Example:           "  mlbatch team show blue",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: first(asking(offeredTeams)),
	})
	list := teamCommand(listTeams).command(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List all teams",
		Example: "  mlbatch team list",
		Args:    cobra.NoArgs,
	})
	cmd.AddCommand(show, list, newTeamCreateCommand(), newTeamEditCommand(), newTeamDeleteCommand())
	return cmd
}

// teamCommand reads teams, or what else administrators list.
func teamCommand(read func(ctx context.Context, q *query) (found, error)) *readCommand {
	return &readCommand{formats: []string{"wide", "json", "yaml"}, bare: withoutTitles, read: read}
}

func listTeams(ctx context.Context, q *query) (found, error) {
	teams, unread, err := cli.Teams(ctx, q.c)
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("you may not list all teams; mlbatch team NAME shows yours: %w", err)
	}
	if err != nil {
		return nil, err
	}
	list := &rows[view.Team]{
		items: teams, columns: admin.TeamColumns(),
		none: "There are no teams; mlbatch team create NAME --gpus 8 --users alice makes one.",
	}
	if slices.Contains(unread, "RoleBindings") {
		list.notes = []string{"You may not list RoleBindings: who may submit is left out."}
	}
	return list, nil
}

// teamView is a team as programs read it.
type teamView struct {
	view.Team
	// States are numbers of jobs.
	States map[string]int `json:"jobs,omitempty"`
}

// readTeam is the team that was named or that of the kubeconfig's context; all teams if that is none.
func readTeam(ctx context.Context, q *query) (found, error) {
	name := q.conn.Namespace()
	if len(q.args) > 0 {
		name = q.args[0]
	}
	if name == "" {
		return listTeams(ctx, q)
	}
	team, err := cli.Team(ctx, q.c, name)
	if errors.Is(err, gather.ErrNoTeam) && len(q.args) == 0 {
		return listTeams(ctx, q)
	}
	if err != nil {
		return nil, err
	}
	survey, err := cli.Jobs(ctx, q.c, name, client.ListOptions{})
	if err != nil {
		return nil, err
	}
	shown := teamView{team, map[string]int{}}
	for i := range survey.Items {
		shown.States[string(survey.Items[i].State)]++
	}
	return answer{shown, func(w io.Writer) error { return shown.text(w, q) }}, nil
}

// text prints a team for people.
func (v *teamView) text(out io.Writer, q *query) error {
	for _, line := range admin.TeamLines(&v.Team, v.States) {
		fmt.Fprintln(out, words.Harmless(line))
	}
	if len(v.Shares) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	return printRows(out, q.output, admin.ShareColumns(), v.Shares, q.bare)
}

// teamQuotaFlags are those of what a team has.
type teamQuotaFlags struct {
	quotaFlags
	gpus, cpu, memory string
}

func (q *teamQuotaFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&q.gpus, "gpus", "", "`number` of GPUs of its own")
	f.StringVar(&q.cpu, "cpu", "", "cores of its own (default: the nodes' share that belongs to the GPUs)")
	f.StringVar(&q.memory, "memory", "", "memory of its own (default: likewise)")
	q.quotaFlags.flags(f)
}

// read is what was typed of amounts; those without a resource are of GPUs.
func (q *teamQuotaFlags) read() (admin.Quotas, *resource.Quantity, error) {
	for name, value := range map[string]string{"cpu": q.cpu, "memory": q.memory} {
		if value != "" {
			q.nominal = append(q.nominal, name+"="+value)
		}
	}
	slices.Sort(q.nominal)
	quotas, err := q.quotaFlags.read(admin.GPUs)
	if err != nil || q.gpus == "" {
		return quotas, nil, err
	}
	n, err := resource.ParseQuantity(q.gpus)
	if err != nil || n.Sign() < 0 || n.MilliValue()%1000 != 0 {
		return quotas, nil, usagef("--gpus %s: write a whole number, such as 8", q.gpus)
	}
	return quotas, &n, nil
}

func newTeamCreateCommand() *cobra.Command {
	var m making
	var q teamQuotaFlags
	var users, groups []string
	team := admin.Team{}
	cmd := writeCommand{
		making: &m, prints: true,
		check: func() (err error) {
			team.Name, team.Flavor = m.args[0], q.flavor
			team.Users, team.Groups = commaList(users), commaList(groups)
			team.Quotas, team.GPUs, err = q.read()
			return err
		},
		do: func(ctx context.Context) error { return m.createTeam(ctx, team) },
	}.command(&cobra.Command{
		Use:   "create NAME --gpus N --users USER,...",
		Short: "Make a team: namespace, quota, queue and rights, in one go",
		Long: `Make a team: a ClusterQueue with its quota, a namespace where only queued jobs run, a LocalQueue
called ` + admin.DefaultLocalQueue + `, and the role ` + admin.EditRole + ` for its people; these come last, so that nobody
can submit before all the rest is there. Of cores, memory, pods and other devices it gets the share
of the nodes that belongs to its GPUs, unless they are said.

Again with the same values it changes nothing, and makes what is missing. With others it says
what differs, and changes nothing: "team edit" does. Whoever does it needs the right to bind
` + admin.EditRole + `.`,
		Example: `  # 8 GPUs for two people, shared with the cohort default-cohort
  mlbatch team create green --gpus 8 --users carol,dave

  # the first one in an empty cluster
  mlbatch team create green --gpus 8 --users carol --create-flavor

  # what would be made?
  mlbatch team create green --gpus 8 --users carol --dry-run=client -o yaml

  # it may borrow 8 more, and lends nothing
  mlbatch team create green --gpus 8 --groups vision --borrowing-limit 8 --lending-limit 0`,
		Args: cobra.ExactArgs(1),
	})
	f := cmd.Flags()
	q.flags(cmd)
	f.StringSliceVar(&users, "users", nil, "`names` of users who may submit")
	f.StringSliceVar(&groups, "groups", nil, "`names` of groups whose users may submit")
	f.StringVar(&team.Cohort, "cohort", admin.DefaultCohort, "whom it lends to and borrows from; \"\" is nobody")
	f.BoolVar(&team.CreateFlavor, "create-flavor", false, "make the flavor if it is not there, of all nodes")
	f.BoolVar(&team.Adopt, "adopt", false, "make the namespace a team's if it is there and is none")
	return cmd
}

func (m *making) createTeam(ctx context.Context, team admin.Team) error {
	h, err := admin.TakeHardware(ctx, m.c)
	if err != nil {
		return err //nolint:wrapcheck // it says what it read
	}
	if team, err = team.Settle(h); err != nil {
		return err //nolint:wrapcheck // a sentence for people
	}
	objects, err := team.Design(h)
	if err != nil {
		return err //nolint:wrapcheck // a sentence for people
	}
	steps, err := team.Create(ctx, m.c, h, objects, m.dry())
	if err == nil && m.dryRun == dryRunServer {
		err = admin.Trial(ctx, m.c, steps)
	}
	if err := cmp.Or(err, m.print(steps)); err != nil {
		return err //nolint:wrapcheck // a sentence for people
	}
	if m.output == "" {
		notes(m.errs, team.Notes(h, objects))
	}
	return nil
}

func newTeamEditCommand() *cobra.Command {
	var m making
	var q teamQuotaFlags
	var users, groups []string
	var gpus *resource.Quantity
	var people admin.PeopleEdit
	var edit admin.QueueEdit
	var cohort string
	cmd := writeCommand{
		making: &m, asks: true,
		check: func() (err error) {
			if edit.Quotas, gpus, err = q.read(); err != nil {
				return err
			}
			people.Set = m.cmd.Flags().Changed("users") || m.cmd.Flags().Changed("groups")
			people.Users, people.Groups = commaList(users), commaList(groups)
			edit.Cohort = typed(m.cmd, "cohort", &cohort)
			if edit.Quotas.Empty() && gpus == nil && edit.Cohort == nil && people.Empty() {
				return errors.New("say what is to change, such as --gpus 16 or --add USER")
			}
			return nil
		},
		do: func(ctx context.Context) error { return m.editTeam(ctx, m.args[0], edit, gpus, people) },
	}.command(&cobra.Command{
		Use:   "edit NAME",
		Short: "Change the quota of a team, or its people",
		Long: `Change single values of a team: its GPUs and other amounts, limits, cohort, people. What
changes is shown before and after, and what it means for jobs that run; where it means something
you are asked. A lower quota stops nothing by itself: what is used beyond it is borrowed, and
others may take it back.`,
		Example: `  # more GPUs
  mlbatch team edit blue --gpus 16

  # one more person, one less
  mlbatch team edit blue --add erin --remove alice

  # what would change?
  mlbatch team edit blue --gpus 4 --dry-run`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: first(asking(offeredTeams)),
	})
	f := cmd.Flags()
	q.flags(cmd)
	f.StringSliceVar(&users, "users", nil, "`names` of all its users")
	f.StringSliceVar(&groups, "groups", nil, "`names` of all its groups")
	f.StringSliceVar(&people.Add, "add", nil, "`names` of users who join it")
	f.StringSliceVar(&people.Remove, "remove", nil, "`names` of users and groups who leave it")
	f.StringVar(&cohort, "cohort", "", "whom it lends to and borrows from; \"\" is nobody")
	return cmd
}

func (m *making) editTeam(
	ctx context.Context,
	name string,
	edit admin.QueueEdit,
	gpus *resource.Quantity,
	people admin.PeopleEdit,
) error {
	row, err := gather.Team(ctx, m.c, name, gather.Get(m.c))
	if err != nil {
		return err //nolint:wrapcheck // it names the team
	}
	changed := false
	if !edit.Quotas.Empty() || gpus != nil || edit.Cohort != nil {
		if row.ClusterQueue == "" {
			return fmt.Errorf("team %s has no queue: mlbatch team create %s makes what is missing", name, name)
		}
		edit.Quotas = admin.OfGPUs(&row, edit.Quotas, gpus)
		if changed, err = m.editQueue(ctx, row.ClusterQueue, edit); err != nil {
			return err
		}
	}
	if !people.Empty() {
		done, err := admin.EditPeople(ctx, m.c, name, people, m.dry())
		if err != nil {
			return err //nolint:wrapcheck // a sentence for people
		}
		m.changed("team/"+name, done)
		changed = changed || len(done) > 0
	}
	if !changed {
		fmt.Fprintf(m.out, "team/%s unchanged\n", name)
	}
	return nil
}

func newTeamDeleteCommand() *cobra.Command {
	var m making
	var o admin.DeleteOptions
	var patience time.Duration
	cmd := writeCommand{
		making: &m, asks: true,
		check: func() error {
			if o.Namespace && o.Keep {
				return errors.New("--delete-namespace and --keep-namespace: give one of them")
			}
			return nil
		},
		do: func(ctx context.Context) error { return m.deleteTeam(ctx, m.args[0], o, patience) },
	}.command(&cobra.Command{
		Use:   "delete NAME",
		Short: "Remove a team: the rights of its people, its queue, its namespace",
		Long: `Remove a team. What goes is said first, and you are asked. The rights of its people go first, its
namespace last: cut off in between, doing it again finishes it.

Nothing is done as long as jobs have not ended, unless --drain says to stop them; nor if its
namespace has other things than jobs, unless --delete-namespace says to delete them as well,
or --keep-namespace to leave them. A ClusterQueue that other teams use stays.`,
		Example: `  # what would go?
  mlbatch team delete green --dry-run

  # stop its jobs and remove it
  mlbatch team delete green --drain --yes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: first(asking(offeredTeams)),
	})
	f := cmd.Flags()
	f.BoolVar(&o.Drain, "drain", false, "stop jobs that have not ended")
	f.BoolVar(&o.Namespace, "delete-namespace", false, "delete the namespace with all that is in it")
	f.BoolVar(&o.Keep, "keep-namespace", false,
		"leave the namespace and what is in it, without queue and people")
	f.DurationVar(&patience, "timeout", 5*time.Minute,
		"how long to wait until its jobs have stopped, and until it is gone")
	return cmd
}

func (m *making) deleteTeam(
	ctx context.Context,
	name string,
	o admin.DeleteOptions,
	patience time.Duration,
) error {
	kinds, err := namespacedKinds(m.cfg)
	if err != nil {
		return err
	}
	r, err := admin.TakeRemoval(ctx, m.c, name, kinds)
	if err != nil {
		return err //nolint:wrapcheck // it says what it read
	}
	if r.Team.Deleting {
		fmt.Fprintf(m.out, "Team %s is being deleted already.\n", name)
		return awaitGone(ctx, m.c, name, patience)
	}
	fmt.Fprintf(m.out, "Of team %s goes:\n", name)
	for _, line := range r.Plan(o) {
		fmt.Fprintln(m.out, "  "+words.Harmless(line))
	}
	if err := r.Refusal(o); err != nil {
		return err //nolint:wrapcheck // a sentence for people
	}
	if m.dry() {
		fmt.Fprintln(m.out, "Nothing was done (dry run).")
		return nil
	}
	if err := m.confirm("Remove it?"); err != nil {
		return err
	}
	if err := r.Stop(ctx, m.c, o); err != nil {
		return err //nolint:wrapcheck // it names the object
	}
	if len(r.Live) > 0 {
		if err := awaitIdle(ctx, m.c, name, patience); err != nil {
			return err
		}
	}
	steps, err := r.Delete(ctx, m.c, o)
	for _, s := range steps {
		fmt.Fprintln(m.out, s)
	}
	if err != nil || o.Keep {
		return err //nolint:wrapcheck // it names the object
	}
	return awaitGone(ctx, m.c, name, patience)
}

// awaitGone waits until a team is gone with all that was in its namespace.
func awaitGone(ctx context.Context, c client.Client, team string, patience time.Duration) error {
	err := wait.PollUntilContextTimeout(
		ctx,
		200*time.Millisecond,
		patience,
		true,
		func(ctx context.Context) (bool, error) {
			_, err := gather.Team(ctx, c, team, gather.Get(c))
			return errors.Is(err, gather.ErrNoTeam), nil
		},
	)
	if err != nil {
		return fmt.Errorf(
			"namespace %s is not gone within %s: kubectl describe namespace %s says what keeps it",
			team,
			patience,
			team,
		)
	}
	return nil
}

// awaitIdle waits until no job of a team has quota any more.
func awaitIdle(ctx context.Context, c client.Client, team string, patience time.Duration) error {
	busy := 0
	err := wait.PollUntilContextTimeout(
		ctx,
		500*time.Millisecond,
		patience,
		true,
		func(ctx context.Context) (bool, error) {
			n, err := admin.Busy(ctx, c, team)
			busy = n
			return n == 0, err //nolint:wrapcheck // it says what it read
		},
	)
	if wait.Interrupted(err) {
		return fmt.Errorf(
			"%d jobs of team %s have not stopped within %s: nothing was deleted but the rights of its people; again with --drain goes on, --timeout waits longer",
			busy,
			team,
			patience,
		)
	}
	return err //nolint:wrapcheck // it says what it read
}

// namespacedKinds are all kinds of objects that namespaces have.
func namespacedKinds(cfg *rest.Config) ([]admin.ListedKind, error) {
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	lists, err := d.ServerPreferredNamespacedResources()
	if err != nil {
		return nil, fmt.Errorf("ask which kinds of objects there are: %w", err)
	}
	var out []admin.ListedKind
	for _, l := range lists {
		for _, r := range l.APIResources {
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") {
				out = append(out, admin.KindOf(l.GroupVersion, r.Kind, r.Name))
			}
		}
	}
	return out, nil
}
