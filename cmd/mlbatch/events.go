package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// eventsFlags say which events are listed.
type eventsFlags struct {
	job    jobArg
	ref    view.Ref // of the job, if there is one
	all    bool
	follow bool
	since  time.Duration
}

// newEventsCommand lists what happened.
func newEventsCommand() *cobra.Command {
	var e eventsFlags
	list := &readCommand{
		formats: []string{"wide", "json", "yaml"},
		bare:    withoutTitles,
		job:     &e.job,
		flags:   e.flags,
		check:   e.check,
		read:    e.read,
	}
	return list.command(&cobra.Command{
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
	})
}

func (e *eventsFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&e.all, "all-namespaces", "A", false, "events of all namespaces")
	f.BoolVarP(&e.follow, "follow", "f", false, "go on with what happens, until interrupted")
	f.DurationVar(&e.since, "since", 0, "only what happened in this last `time`, such as 10m")
}

func (e *eventsFlags) check(q *query) (err error) {
	switch {
	case e.since < 0:
		return fmt.Errorf("--since %s: give a time that is not negative, such as 10m", e.since)
	case e.all && e.job.namespace != "":
		return fmt.Errorf("-A and -n %s: give one of them", e.job.namespace)
	case e.all && len(q.args) > 0:
		return fmt.Errorf("-A and %s: give one of them", q.args[0])
	case e.job.kind != "" && len(q.args) == 0:
		return fmt.Errorf("--kind %s: say which job it is the kind of", e.job.kind)
	}
	e.ref, err = e.job.only(q.args)
	return err
}

// read lists the events so far, and later ones if they are asked for.
func (e *eventsFlags) read(ctx context.Context, q *query) (found, error) {
	var job *why.JobObjects
	namespace := e.job.namespace
	if e.ref.Name != "" {
		objects, err := why.FindAny(ctx, q.c, e.ref)
		if err != nil {
			return nil, err
		}
		job = &objects
	} else if namespace == "" && !e.all {
		namespace = q.conn.Namespace()
	}
	events, err := why.ReadEvents(ctx, q.c, namespace, job)
	if err != nil {
		return nil, err
	}
	since := time.Time{}
	if e.since > 0 {
		since = time.Now().Add(-e.since)
	}
	past, version, err := events.List(ctx, since)
	if err != nil {
		return nil, err
	}
	list := &rows[why.Event]{
		items: past, columns: cli.EventColumns(time.Local, events.Namespace() == ""),
		none: "There are no events here that you may see; Kubernetes keeps them for an hour.",
	}
	if !e.follow {
		return list, nil
	}
	list.follow = func(w io.Writer, show inGoes[why.Event]) error {
		titles := true
		say := func(some ...why.Event) error {
			if len(some) == 0 {
				return nil
			}
			err := show(w, list.columns, some, titles)
			titles = false
			return err
		}
		if err := say(past...); err != nil {
			return err
		}
		return goOn(ctx, q.c, events, version, say)
	}
	return list, nil
}

// goOn prints events as they happen, until the context ends.
func goOn(
	ctx context.Context,
	c client.WithWatch,
	events *why.Events,
	version string,
	say func(...why.Event) error,
) error {
	for ctx.Err() == nil {
		w, err := c.Watch(
			ctx,
			&corev1.EventList{},
			client.InNamespace(events.Namespace()),
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}},
		)
		if err != nil {
			return fmt.Errorf("watch events: %w", err)
		}
		version, err = follows(ctx, w, events, version, say)
		w.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// follows prints what one watch brings until it ends, which the API server lets it do from time
// to time, and returns where the next one goes on.
func follows(
	ctx context.Context,
	w watch.Interface,
	events *why.Events,
	version string,
	say func(...why.Event) error,
) (string, error) {
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
				if err := say(row); err != nil {
					return version, err
				}
			}
		}
	}
}
