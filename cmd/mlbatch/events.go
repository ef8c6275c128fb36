package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// eventsFlags are those of the list of events.
type eventsFlags struct {
	job    jobArg
	all    bool
	follow bool
	since  time.Duration
	output string
	bare   bool
}

// newEventsCommand lists what happened.
func newEventsCommand() *cobra.Command {
	var e eventsFlags
	cmd := &cobra.Command{
		Use:   "events [JOB]",
		Short: "List what happened to a job and all that it consists of, the oldest first; or in a namespace",
		Long: `List the events of a job and of all that it consists of: its Workload, the objects that
it made, its pods, also those that are gone; the oldest first. With -f, it goes on.
Without a JOB, those of a namespace: of -n, or of the kubeconfig's context; or, with -A or if
the context has none, of all. Kubernetes keeps events for an hour.`,
		Example: `  # what happened to this job?
  mlbatch events blue/train

  # what happens in a namespace, from now on
  mlbatch events -n blue --since 1s -f`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: e.job.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&e.all, "all-namespaces", "A", false, "events of all namespaces")
	f.BoolVarP(&e.follow, "follow", "f", false, "go on with what happens, until interrupted")
	f.DurationVar(&e.since, "since", 0, "only what happened in this last `time`, such as 10m")
	f.StringVarP(&e.output, "output", "o", "", "wide, json or yaml")
	f.BoolVar(&e.bare, "no-headers", false, "without titles")
	e.job.flags(f)
	return cmd
}

func (e *eventsFlags) check(args []string) error {
	switch {
	case !slices.Contains([]string{"", "wide", "json", "yaml"}, e.output):
		return fmt.Errorf("-o %s is not known: use wide, json or yaml", e.output)
	case e.since < 0:
		return fmt.Errorf("--since %s: give a time that is not negative, such as 10m", e.since)
	case e.all && e.job.namespace != "":
		return fmt.Errorf("-A and -n %s: give one of them", e.job.namespace)
	case e.all && len(args) > 0:
		return fmt.Errorf("-A and %s: give one of them", args[0])
	case e.job.kind != "" && len(args) == 0:
		return fmt.Errorf("--kind %s: say which job it is the kind of", e.job.kind)
	}
	return nil
}

func (e *eventsFlags) run(ctx context.Context, out, errs io.Writer, args []string) error {
	if err := e.check(args); err != nil {
		return usageError{err}
	}
	var ref view.Ref
	if len(args) > 0 {
		var err error
		if ref, err = e.job.ref(args[0]); err != nil {
			return err
		}
	}
	cfg, c, err := connect(&e.job.conn)
	if err != nil {
		return err
	}
	if err := e.list(ctx, out, errs, cfg, c, ref); err != nil {
		return e.job.conn.Unreachable(err, cfg.Host)
	}
	return nil
}

// list prints the events so far, and later ones if they are asked for.
func (e *eventsFlags) list(ctx context.Context, out, errs io.Writer, cfg *rest.Config, c client.Client, ref view.Ref) error {
	var job *why.JobObjects
	namespace := e.job.namespace
	if ref.Name != "" {
		found, err := why.FindAny(ctx, c, ref)
		if err != nil {
			return err
		}
		job = &found
	} else if namespace == "" && !e.all {
		namespace = e.job.conn.Namespace()
	}
	events, err := why.ReadEvents(ctx, c, namespace, job)
	if err != nil {
		return err
	}
	since := time.Time{}
	if e.since > 0 {
		since = time.Now().Add(-e.since)
	}
	rows, version, err := events.List(ctx, since)
	if err != nil {
		return err
	}
	if len(rows) == 0 && e.tabular() && !e.follow {
		fmt.Fprintln(errs, "There are no events here that you may see; Kubernetes keeps them for an hour.")
		return nil
	}
	columns := cli.EventColumns(time.Local, events.Namespace() == "")
	if !e.follow {
		return printRows(out, e.output, columns, rows, e.bare)
	}
	p := &eventPrinter{flags: e, out: out, columns: columns, widths: map[string]int{}}
	if err := p.print(rows); err != nil {
		return err
	}
	return e.goOn(ctx, cfg, events, version, p)
}

// tabular reports whether people read what is printed.
func (e *eventsFlags) tabular() bool { return e.output == "" || e.output == "wide" }

// goOn prints events as they happen, until the context ends.
func (e *eventsFlags) goOn(ctx context.Context, cfg *rest.Config, events *why.Events, version string, p *eventPrinter) error {
	c, err := newClient(cfg)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		w, err := c.Watch(ctx, &corev1.EventList{}, client.InNamespace(events.Namespace()), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
		if err != nil {
			return fmt.Errorf("watch events: %w", err)
		}
		version, err = e.follows(ctx, w, events, version, p)
		w.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// follows prints what one watch brings until it ends, which the API server lets it do from time
// to time, and returns where the next one goes on.
func (e *eventsFlags) follows(ctx context.Context, w watch.Interface, events *why.Events, version string, p *eventPrinter) (string, error) {
	for {
		select {
		case <-ctx.Done():
			return version, nil
		case got, open := <-w.ResultChan():
			if !open {
				return version, nil
			}
			event, is := got.Object.(*corev1.Event)
			if !is {
				return version, fmt.Errorf("the watch of events ended: %v", got.Object)
			}
			version = event.ResourceVersion
			if got.Type != watch.Added && got.Type != watch.Modified {
				continue
			}
			row, ours, err := events.Next(ctx, event, time.Now())
			if err != nil {
				return version, err
			}
			if ours {
				if err := p.print([]why.Event{row}); err != nil {
					return version, err
				}
			}
		}
	}
}

// eventPrinter prints events in several goes.
type eventPrinter struct {
	flags   *eventsFlags
	out     io.Writer
	columns []cli.Column[why.Event]
	widths  map[string]int
	titled  bool
}

// print prints further events: as lines below the titles, or as objects one after the other.
func (p *eventPrinter) print(rows []why.Event) error {
	if len(rows) == 0 {
		return nil
	}
	if !p.flags.tabular() {
		for i := range rows {
			if p.flags.output == "yaml" {
				fmt.Fprintln(p.out, "---")
			}
			if err := printObject(p.out, p.flags.output, rows[i]); err != nil {
				return err
			}
		}
		return nil
	}
	bare := p.flags.bare || p.titled
	p.titled = true
	return cli.PrintTable(p.out, p.columns, rows, cli.Layout{Width: tableWidth(p.out), Wide: p.flags.output == "wide", Bare: bare, Widths: p.widths})
}
