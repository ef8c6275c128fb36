package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/actions"
	"github.com/mlbatch/mlbatch/internal/cli/slurm"
	"github.com/mlbatch/mlbatch/internal/cli/submit"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/words"
)

// slurmCommands are the names by which the program can be called, too.
func slurmCommands() []string {
	return []string{"sbatch", "srun", "squeue", "scancel", "sinfo", "sacct"}
}

// asCalled are the arguments of the program, with the command in front whose name it is called by.
func asCalled(args []string) []string {
	if name := filepath.Base(args[0]); slices.Contains(slurmCommands(), name) {
		return append([]string{name}, args[1:]...)
	}
	return args[1:]
}

// jobList is what squeue, scancel and sacct read.
type jobList struct {
	namespace string
	// accounts are namespaces, too, in the place of that one.
	accounts []string
	filter   slurm.Filter
	states   string
	// me wants the asker's own jobs.
	me bool
	// starts has waiting jobs say when they are expected to start.
	starts bool
	// past has the jobs that ended, and were deleted perhaps, as the history has them.
	past bool
}

// slurmNamespace is the flag of a namespace. Slurm's commands have another use for -n.
func slurmNamespace(f *pflag.FlagSet, to *string) {
	f.StringVar(to, "namespace", "",
		"`namespace` of the jobs (default: that of the kubeconfig's context, or all)")
}

// flags adds those that the commands about jobs have in common.
func (l *jobList) flags(f *pflag.FlagSet) {
	f.StringSliceVarP(&l.accounts, "account", "A", nil, "jobs of these namespaces")
	f.BoolVar(&l.me, "me", false, "your own jobs only")
	slurmNamespace(f, &l.namespace)
}

// parseStates reads the states that were typed with a flag.
func (l *jobList) parseStates(flag string) error {
	if l.states == "" {
		return nil
	}
	var err error
	if l.filter.States, err = slurm.ParseStates(l.states); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// check refuses what contradicts itself.
func (l *jobList) check() error {
	switch users := l.filter.Users; {
	case l.me && len(users) > 0:
		return errors.New("--me and -u " + strings.Join(users, ",") + ": give one of them")
	case len(l.accounts) > 0 && l.namespace != "":
		return fmt.Errorf("-A %s and --namespace %s: give one of them", strings.Join(l.accounts, ","), l.namespace)
	}
	return nil
}

// namespaces are those whose jobs are read; "" is all.
func (l *jobList) namespaces(conn *cli.Connection) []string {
	switch {
	case len(l.accounts) > 0:
		return slices.Compact(slices.Sorted(slices.Values(l.accounts)))
	case l.namespace != "":
		return []string{l.namespace}
	}
	return []string{conn.Namespace()}
}

// several reports whether jobs of more than one namespace are read.
func (l *jobList) several(conn *cli.Connection) bool {
	in := l.namespaces(conn)
	return len(in) > 1 || in[0] == ""
}

// read reads the jobs that the user may see.
func (l *jobList) read(ctx context.Context, q *query) ([]view.Job, error) {
	var out []view.Job
	for _, namespace := range l.namespaces(q.conn) {
		survey, err := cli.Jobs(ctx, q.c, namespace, client.ListOptions{})
		if err != nil {
			return nil, err
		}
		if len(survey.Unread) > 0 {
			where := "; --namespace NAMESPACE lists one namespace"
			if namespace != "" {
				where = " in " + namespace
			}
			fmt.Fprintf(q.errs, "You may not list %s%s.\n", strings.Join(survey.Unread, ", "), words.Harmless(where))
		}
		if l.starts && !survey.Served {
			gather.Place(ctx, survey, gather.MostLines, cli.Controller{Config: q.cfg}.Pending)
		}
		out = append(out, survey.Items...)
		if !l.past {
			continue
		}
		past, err := gather.Past(ctx, q.c, namespace, time.Time{})
		if err != nil {
			fmt.Fprintf(q.errs, "Jobs that were deleted are left out: %s\n", words.Harmless(err.Error()))
		}
		out = slurm.WithPast(out, past)
	}
	slices.SortStableFunc(out, func(a, b view.Job) int { return b.Created.Compare(a.Created) })
	return out, nil
}

// choose reads the jobs and selects the wanted ones. It says why there are none of a
// user.
func (l *jobList) choose(ctx context.Context, q *query) ([]view.Job, error) {
	f, asked := l.filter, l.filter.Users
	if l.me {
		me, err := cli.WhoAmI(ctx, q.c)
		if err != nil {
			return nil, err
		}
		f.Users = []string{me}
	}
	rows, err := l.read(ctx, q)
	if err != nil {
		return nil, err
	}
	chosen := f.Select(rows)
	if hint := strangers(asked, rows); len(chosen) == 0 && hint != "" {
		fmt.Fprintln(q.errs, words.Harmless(hint))
	}
	return chosen, nil
}

// ofFlag says of what keeps a list from being printed which flag it is a mistake of.
func ofFlag(err error) error {
	switch {
	case errors.As(err, new(slurm.SortError)):
		return usagef("-S: %w", err)
	case err != nil:
		return usagef("-o: %w", err)
	}
	return nil
}

// newSqueueCommand is squeue.
func newSqueueCommand() *cobra.Command {
	var l jobList
	var how slurm.Queue
	var every int
	list := &readCommand{
		flags: func(cmd *cobra.Command) {
			f := cmd.Flags()
			f.StringSliceVarP(&l.filter.Users, "user", "u", nil, "jobs of these users only")
			f.StringSliceVarP(&l.filter.Partitions, "partition", "p", nil, "jobs of these queues only")
			f.StringSliceVarP(&l.filter.QOS, "qos", "q", nil, "jobs of these WorkloadPriorityClasses only")
			f.StringSliceVarP(&l.filter.Names, "name", "n", nil, "jobs with these names (NAME) only")
			f.StringSliceVarP(&l.filter.Jobs, "jobs", "j", nil, "these jobs (JOBID) only")
			f.StringVarP(&l.states, "states", "t", "", "jobs in these states only, such as PD,R; or all")
			f.StringVarP(&how.Format, "format", "o", "", "format, such as \"%.18i %.9P %R\"")
			f.BoolVarP(&how.Bare, "noheader", "h", false, "without titles")
			f.StringSliceVarP(&l.filter.Nodes, "nodelist", "w", nil, "jobs with pods on these nodes only")
			f.BoolVarP(&how.Long, "long", "l", false, "with the states in words and TIME_LIMIT")
			f.IntVarP(&every, "iterate", "i", 0, "again and again, every so many `seconds`")
			f.StringVarP(&how.Sort, "sort", "S", "",
				"sort by these `letters` of formats, such as P,-p; - turns one round")
			f.BoolVar(&how.Starts, "start", false, "with START_TIME, of jobs that wait when they are expected to")
			f.BoolP("all", "a", false, "all partitions, as always")
			f.Bool("help", false, "help for squeue") // -h is --noheader
			_ = f.MarkHidden("all")
			l.flags(f)
		},
		check: func(q *query) error {
			if err := l.parseStates("-t"); err != nil {
				return err
			}
			l.starts = how.Starts || strings.Contains(how.Format, "S")
			l.filter.Ended = len(l.filter.Jobs) > 0
			if q.every = time.Duration(every) * time.Second; every < 0 {
				return fmt.Errorf("-i %d: must be seconds, 1 or more", every)
			}
			return l.check()
		},
		read: func(ctx context.Context, q *query) (found, error) {
			chosen, err := l.choose(ctx, q)
			if err != nil {
				return nil, err
			}
			if jobs := l.filter.Jobs; len(jobs) > 0 && len(chosen) == 0 {
				return nil, fmt.Errorf("there is no job %s here that you may see", strings.Join(jobs, ", "))
			}
			slices.Reverse(chosen) // the oldest first
			how.Now, how.All = time.Now(), l.several(q.conn)
			return answer{text: func(out io.Writer) error {
				how.Width, how.Colours = tableWidth(out), hasColours(out)
				if every > 0 {
					fmt.Fprintln(out, how.Now.Format(time.ANSIC))
				}
				return ofFlag(how.Print(out, chosen))
			}}, nil
		},
	}
	return list.command(&cobra.Command{
		Use:   "squeue",
		Short: "List jobs that wait or run, as Slurm's squeue does",
		Long: `List jobs that wait or run, as Slurm's squeue does, with its columns. A partition is a
LocalQueue, JOBID the name of the job, NODES the number of its pods, and the reason is the
one of "mlbatch why". USER is who submitted the job ("mlbatch ps" says how it is known). With
--start, START_TIME of a job that waits is when it starts as likely as not ("mlbatch eta"
says more), N/A where that is not known.

Formats (-o) have the letters A D L M N P Q R S T V Y a b e i j l p q r t u.`,
		Example: `  # all jobs of a namespace that wait or run
  mlbatch squeue --namespace blue

  # your own, with time limits
  mlbatch squeue --me -l

  # what waits, for a script
  mlbatch squeue --namespace blue -h -t PD -o "%i %R"`,
		Args: cobra.NoArgs,
	})
}

// newScancelCommand is scancel.
func newScancelCommand() *cobra.Command {
	var l jobList
	var quiet bool
	var q query
	cmd := clusterCommand{
		session: &q.session,
		check: func() error {
			l.filter.Jobs = q.args
			if err := l.parseStates("-t"); err != nil {
				return err
			}
			if f := &l.filter; !l.me && len(q.args)+len(f.Users)+len(f.Partitions)+len(f.Names)+len(f.States) == 0 {
				return errors.New("name jobs, or say which with --me, -u, -p, -n or -t")
			}
			return l.check()
		},
		do: func(ctx context.Context) error {
			chosen, err := l.choose(ctx, &q)
			if err != nil {
				return err
			}
			if quiet {
				q.args = nil
			}
			return cancelJobs(ctx, &q.session, chosen)
		},
	}.command(&cobra.Command{
		Use:   "scancel [JOB...]",
		Short: "End jobs and delete them, as Slurm's scancel does",
		Long: `End jobs that wait or run, as Slurm's scancel does, by name or by what they have in
common. Other than in Slurm they are deleted, with their pods and logs. Nothing is asked.`,
		Example: `  # one job
  mlbatch scancel --namespace blue train-12345

  # all of your own
  mlbatch scancel --me

  # all jobs that wait in a queue
  mlbatch scancel --namespace blue -p default-queue -t PD`,
	})
	f := cmd.Flags()
	f.StringSliceVarP(&l.filter.Users, "user", "u", nil, "jobs of these users")
	f.StringSliceVarP(&l.filter.Partitions, "partition", "p", nil, "jobs of these queues")
	f.StringSliceVarP(&l.filter.Names, "name", "n", nil, "jobs with these names (NAME)")
	f.StringVarP(&l.states, "state", "t", "", "jobs in these states, such as PD")
	f.BoolVarP(&quiet, "quiet", "Q", false, "say nothing of jobs that have ended or are not there")
	l.flags(f)
	return cmd
}

// cancelJobs deletes jobs. Those that were named and are not among them have ended, or are not there.
func cancelJobs(ctx context.Context, s *session, rows []view.Job) error {
	actor, failed := &actions.Actor{Client: s.c}, false
	fail := func(format string, args ...any) {
		failed = true
		fmt.Fprintln(s.errs, words.Harmless("mlbatch: "+fmt.Sprintf(format, args...)))
	}
	for _, r := range rows {
		target, err := actions.Find(ctx, s.c, view.Ref{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name})
		if err == nil {
			_, err = actor.Cancel(ctx, target, false)
		}
		if err != nil {
			fail("%v", s.unreachable(err))
		}
	}
	for _, name := range s.args {
		if !slices.ContainsFunc(
			rows,
			func(r view.Job) bool { return r.Name == name || r.Namespace+"/"+r.Name == name },
		) {
			fail("%s: no job of this name waits or runs here that you may see", name)
		}
	}
	if failed {
		return errSilent
	}
	return nil
}

// newSrunCommand is srun.
func newSrunCommand() *cobra.Command {
	var s submission
	var pty bool
	cmd := s.command(&cobra.Command{
		Use:   "srun [flags] COMMAND [ARG...]",
		Short: "Run a command as a job and stay with it, as Slurm's srun does",
		Long: `Run a command as a job and stay with it until it ends, as Slurm's srun does where there is
no job yet: "mlbatch run" with sbatch's options. With several nodes the command runs once
on each of them. A shell in a job that runs is "mlbatch exec". It exits as the container
does that failed first, with 0 if none did.`,
		Example: `  # on two nodes
  mlbatch srun --namespace blue --image python:3.12 -N 2 hostname`,
		Args: cobra.MinimumNArgs(1),
	}, func(ctx context.Context) error {
		if pty {
			return usagef(
				"--pty: what is typed does not reach the job; start one that goes on, such as sleep infinity, and use mlbatch exec",
			)
		}
		s.attached = true
		return s.run(ctx)
	})
	s.slurmFlags(cmd.Flags())
	cmd.Flags().BoolVar(&pty, "pty", false, "is refused")
	_ = cmd.Flags().MarkHidden("pty")
	return cmd
}

// newSacctCommand is sacct.
func newSacctCommand() *cobra.Command {
	l := jobList{past: true, filter: slurm.Filter{Ended: true}}
	var how slurm.Accounts
	var p1, p2, long, brief bool
	var since, until string
	var after, before time.Time
	list := &readCommand{
		flags: func(cmd *cobra.Command) {
			f := cmd.Flags()
			f.StringSliceVarP(&l.filter.Users, "user", "u", nil, "jobs of these users only")
			f.StringSliceVarP(&l.filter.Partitions, "partition", "r", nil, "jobs of these queues only")
			f.StringSliceVar(&l.filter.Names, "name", nil, "jobs with these names (JobName) only")
			f.StringSliceVarP(&l.filter.Jobs, "jobs", "j", nil, "these jobs (JobID) only")
			f.StringVarP(&l.states, "state", "s", "", "jobs in these states only, such as F,CD")
			f.StringVarP(&since, "starttime", "S", "", "jobs submitted since, such as 2026-01-31 or now-2days")
			f.StringVarP(&until, "endtime", "E", "", "jobs submitted until then, such as 2026-01-31 or now-2days")
			f.StringSliceVarP(&l.filter.Nodes, "nodelist", "N", nil, "jobs with pods on these nodes only")
			f.BoolVarP(&long, "long", "l", false, "all fields")
			f.BoolVarP(&brief, "brief", "b", false, "JobID, State and ExitCode only")
			f.StringVarP(&how.Fields, "format", "o", "", "fields, such as JobID,State,ExitCode; or all")
			f.BoolVarP(&how.Bare, "noheader", "n", false, "without titles")
			f.BoolVarP(&p1, "parsable", "p", false, "| behind each field")
			f.BoolVarP(&p2, "parsable2", "P", false, "| between fields")
			for _, o := range []struct{ name, letter string }{{"allocations", "X"}, {"allusers", "a"}} {
				f.BoolP(o.name, o.letter, false, "as always")
				_ = f.MarkHidden(o.name)
			}
			l.flags(f)
		},
		check: func(*query) (err error) {
			if err := l.parseStates("-s"); err != nil {
				return err
			}
			switch {
			case long && brief || (long || brief) && how.Fields != "":
				return errors.New("-l, -b and -o: give one of them")
			case long:
				how.Fields = "all"
			case brief:
				how.Fields = slurm.Brief
			}
			if after, err = slurmMoment(since); err != nil {
				return fmt.Errorf("-S: %w", err)
			}
			if before, err = slurmMoment(until); err != nil {
				return fmt.Errorf("-E: %w", err)
			}
			return l.check()
		},
		read: func(ctx context.Context, q *query) (found, error) {
			chosen, err := l.choose(ctx, q)
			if err != nil {
				return nil, err
			}
			chosen = slices.DeleteFunc(chosen, func(r view.Job) bool {
				return r.Created.Before(after) || !before.IsZero() && r.Created.After(before)
			})
			slices.Reverse(chosen)
			how.Now, how.Parsable, how.Ends = time.Now(), p1 || p2, p1 && !p2
			return answer{text: func(out io.Writer) error { return ofFlag(how.Print(out, chosen)) }}, nil
		},
	}
	return list.command(&cobra.Command{
		Use:   "sacct",
		Short: "List jobs and how they ended, as Slurm's sacct does",
		Long: `List jobs and how they ended, as Slurm's sacct does: those that are still there, in
whatever state, and those that were deleted, for as long as the cluster remembers them
("mlbatch hist" says more). Account is the namespace, Partition the LocalQueue. Amounts
are GPUs (AllocTRES).`,
		Example: `  # the jobs of a namespace
  mlbatch sacct --namespace blue

  # your own of the last two days
  mlbatch sacct --me -S now-2days

  # for a script
  mlbatch sacct --namespace blue -n -P -o JobID,State,ExitCode`,
		Args: cobra.NoArgs,
	})
}

// slurmMoment reads a moment: a day, a day with a time of day, or now-COUNTUNITS.
func slurmMoment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	var n int
	var unit string
	if k, _ := fmt.Sscanf(text, "now-%d%s", &n, &unit); k == 2 && n >= 0 {
		for name, d := range map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour} {
			if strings.TrimSuffix(unit, "s") == name {
				return time.Now().Add(-time.Duration(n) * d), nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("%q is no moment: use 2026-01-31, 2026-01-31T12:00 or now-2days", text)
}

// newSinfoCommand is sinfo.
func newSinfoCommand() *cobra.Command {
	var how slurm.Nodes
	var namespace string
	var partitions []string
	list := &readCommand{
		flags: func(cmd *cobra.Command) {
			f := cmd.Flags()
			f.StringSliceVarP(&partitions, "partition", "p", nil, "these queues only")
			f.StringSliceVarP(&how.States, "states", "t", nil, "nodes in these states only, such as idle,mix")
			f.StringVarP(&how.Format, "format", "o", "", "format, such as \"%P %D %t %N\"")
			f.BoolVarP(&how.Each, "Node", "N", false, "a line for each node")
			f.BoolVarP(&how.Bare, "noheader", "h", false, "without titles")
			f.Bool("help", false, "help for sinfo")
			slurmNamespace(f, &namespace)
		},
		read: func(ctx context.Context, q *query) (found, error) {
			all, _, err := reachable(q.conn, namespace, func(namespace string) ([]slurm.Partition, error) {
				return slurmPartitions(ctx, q.c, namespace, partitions)
			})
			if err != nil {
				return nil, err
			}
			switch {
			case slices.ContainsFunc(all, func(p slurm.Partition) bool { return len(p.Nominal) > 0 }):
				fmt.Fprintln(
					q.errs,
					"You may not list nodes: GRES is the quota of the queue. What of it is unused says mlbatch queue.",
				)
			case slices.ContainsFunc(all, func(p slurm.Partition) bool { return p.Nodes == nil }):
				fmt.Fprintln(
					q.errs,
					"You may not list nodes. What quota your queues have, and what of it is unused, says mlbatch queue.",
				)
			}
			return answer{text: func(out io.Writer) error {
				how.Width, how.Colours = tableWidth(out), hasColours(out)
				return ofFlag(how.Print(out, all))
			}}, nil
		},
	}
	return list.command(&cobra.Command{
		Use:   "sinfo",
		Short: "List queues and the nodes that their jobs may be on, as Slurm's sinfo does",
		Long: `List queues and the states of the nodes that their jobs may be on, as Slurm's sinfo does.
Partitions are ClusterQueues or, with --namespace, the LocalQueues of a namespace. Their
nodes are those with the labels of the queue's flavors. Whoever may not read nodes is
told n/a, and as GRES the quota of GPUs; whoever may not read flavors sees all nodes.

Formats (-o) have the letters D G N P R T a l t.`,
		Example: `  # queues and nodes
  mlbatch sinfo

  # a line for each node
  mlbatch sinfo -N`,
		Args: cobra.NoArgs,
	})
}

// slurmPartitions are queues with their nodes or, for those who may not read these, with the quota
// of their queue.
func slurmPartitions(
	ctx context.Context,
	c client.Reader,
	namespace string,
	names []string,
) ([]slurm.Partition, error) {
	queues, err := cli.Queues(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	nodes, of := queueNodes(ctx, c)
	var out []slurm.Partition
	for _, q := range queues {
		cluster := q.Name
		switch q.Kind {
		case view.KindCohort:
			continue
		case view.KindLocalQueue:
			cluster = q.Parent
		}
		if len(names) > 0 && !slices.Contains(names, q.Name) {
			continue
		}
		p := slurm.Partition{Name: q.Name, Up: q.State == string(view.QueueActive)}
		if nodes != nil {
			p.Nodes = slices.DeleteFunc(slices.Clone(nodes), func(n view.Node) bool { return !of(cluster, n.Name) })
		} else if q.Kind == view.KindLocalQueue {
			p.Nominal = nominalGPUs(&q)
		}
		out = append(out, p)
	}
	if len(names) > 0 && len(out) == 0 {
		return nil, fmt.Errorf("there is no queue %s here that you may see", strings.Join(names, ", "))
	}
	return out, nil
}

// nominalGPUs is the quota of GPUs, and of parts of them, that the queue behind a LocalQueue has, by
// resource; nil if the user may not know.
func nominalGPUs(q *view.Queue) map[string]int64 {
	var out map[string]int64
	for _, s := range q.Shares {
		if n, err := resource.ParseQuantity(s.Nominal); err == nil && view.IsGPU(s.Resource) {
			if out == nil {
				out = map[string]int64{}
			}
			out[s.Resource] += n.Value()
		}
	}
	return out
}

// queueNodes are all nodes, and which of them a ClusterQueue has; nil if they may not be read.
func queueNodes(ctx context.Context, c client.Reader) ([]view.Node, func(queue, node string) bool) {
	rows, _, err := cli.Nodes(ctx, c)
	var nodes corev1.NodeList
	if err != nil || c.List(ctx, &nodes) != nil {
		return nil, nil
	}
	if rows == nil {
		rows = []view.Node{}
	}
	var queues kueue.ClusterQueueList
	var flavors kueue.ResourceFlavorList
	if errors.Join(c.List(ctx, &queues), c.List(ctx, &flavors)) != nil {
		return rows, func(string, string) bool { return true }
	}
	labels, wants, has := map[string]map[string]string{}, map[string]map[string]string{}, map[string]map[string]bool{}
	for i := range nodes.Items {
		labels[nodes.Items[i].Name] = nodes.Items[i].Labels
	}
	for i := range flavors.Items {
		wants[flavors.Items[i].Name] = flavors.Items[i].Spec.NodeLabels
	}
	for i := range queues.Items {
		q := &queues.Items[i]
		has[q.Name] = map[string]bool{}
		for _, g := range q.Spec.ResourceGroups {
			for _, f := range g.Flavors {
				for name, l := range labels { // sets: order does not matter
					want, known := wants[string(f.Name)]
					fits := known
					for k, v := range want {
						fits = fits && l[k] == v
					}
					has[q.Name][name] = has[q.Name][name] || fits
				}
			}
		}
	}
	return rows, func(queue, node string) bool { return has[queue][node] }
}

// sbatch is sbatch, as it is typed.
type sbatch struct {
	submission

	wrap                        string
	parsable, quiet, test, wait bool
}

// newSbatchCommand is sbatch.
func newSbatchCommand() *cobra.Command {
	var s sbatch
	cmd := s.command(&cobra.Command{
		Use:   "sbatch [flags] [SCRIPT [ARG...]]",
		Short: "Submit a script, as Slurm's sbatch does",
		Long: `Submit a script with #SBATCH lines, as Slurm's sbatch does; without SCRIPT it is read from
standard input. A partition is a LocalQueue, a node a pod, and the job's number is its
name. With several nodes the script runs on each of them. What Slurm does not know, such as
--image, can be given here, in #MLBATCH lines, or in a profile.`,
		Example: `  # a script
  mlbatch sbatch --namespace blue --image python:3.12 train.sh

  # when would it start?
  mlbatch sbatch --namespace blue --image python:3.12 --test-only train.sh

  # a command, of which a script wants the name only
  mlbatch sbatch --namespace blue --image python:3.12 --parsable --wrap "sleep 60"`,
	}, s.submit)
	f := cmd.Flags()
	s.slurmFlags(f)
	f.StringVar(&s.wrap, "wrap", "", "a `command` instead of a script")
	f.BoolVar(&s.parsable, "parsable", false, "print the name of the job only")
	f.BoolVarP(&s.quiet, "quiet", "Q", false, "print nothing")
	f.BoolVarP(&s.wait, "wait", "W", false, "wait until the job has ended, and exit as it does")
	f.BoolVar(&s.test, "test-only", false, "have it checked, say when it would start, and create nothing")
	return cmd
}

func (s *sbatch) submit(ctx context.Context) error {
	s.attached = s.wait
	if s.test {
		s.dryRun, s.whenOnly = "server", true
	}
	name, args, data := "wrap", s.args, []byte("#!/bin/sh\n"+s.wrap+"\n")
	switch {
	case s.wrap != "" && len(args) > 0:
		return usagef("--wrap and a script: give one of them")
	case s.wrap == "":
		name = "-"
		if len(args) > 0 {
			name, args = args[0], args[1:]
		}
		var err error
		if data, err = readInput(s.cmd.InOrStdin(), name); err != nil {
			return err
		}
	}
	r := submit.New()
	settings, err := s.read(r, name, data, args)
	if err != nil {
		return err
	}
	made, err := s.job(ctx, r, settings)
	switch {
	case err != nil || made == nil:
		return err
	case s.parsable:
		fmt.Fprintln(s.out, made.job.GetName())
	case !s.quiet:
		fmt.Fprintf(s.out, "Submitted batch job %s\n", made.job.GetName())
	}
	if !s.wait {
		return nil
	}
	silent := s.stays()
	silent.out = io.Discard
	return silent.stay(ctx, made.job, made.kind)
}

// slurmFlags adds the options of sbatch, and those of jobs that it does not have.
func (s *submission) slurmFlags(f *pflag.FlagSet) {
	f.SetInterspersed(false)
	for _, o := range submit.SlurmOptions() {
		s.slurmFlag(f, o, o.Letter)
	}
	for _, o := range submit.Options() {
		if f.Lookup(o.Name) == nil &&
			!slices.Contains([]string{"name", "queue", "priority", "cpus", "after"}, o.Name) {
			f.VarP(&setting{option: o.Name, kind: o.Value, to: &s.settings}, o.Name, "", o.Usage)
		}
	}
	f.StringVar(&s.namespace, "namespace", "",
		"`namespace` of the job (default: that of the kubeconfig's context)")
	f.BoolVar(&s.strict, "strict", false, "refuse scripts with lines that are not heeded")
}
