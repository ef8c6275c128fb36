package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/check"
)

// checkFlags are those of check.
type checkFlags struct {
	session

	resource string
	slack    string
	output   string
	metrics  bool
	watch    bool
	interval time.Duration
	patience time.Duration
}

// newCheckCommand compares quotas with nodes and jobs with both.
func newCheckCommand() *cobra.Command {
	var k checkFlags
	cmd := clusterCommand{session: &k.session, check: k.check, do: k.look}.command(&cobra.Command{
		Use:   "check [NAMESPACE]",
		Short: "Check a cluster: quotas against what nodes offer, and what jobs ask for",
		Long: `Compare what queues promise with what nodes in service offer, and look for jobs that can
never run, do not get ready, or waste what is beside their GPUs. It prints what each
flavor has, what each queue uses, and what was found.

With a NAMESPACE only its jobs are looked at. What you may not read is named, and the
rules that need it find nothing. Exit code 1 says that there are warnings.`,
		Example: `  # is everything as it should be?
  mlbatch check

  # jobs of one team, for a script
  mlbatch check blue -o json

  # for Prometheus' textfile collector, every minute
  mlbatch check --metrics > mlbatch.prom

  # look again every ten seconds
  mlbatch check --watch --interval 10s`,
		Args: cobra.MaximumNArgs(1),
	})
	f := cmd.Flags()
	f.StringVar(&k.resource, "resource", "",
		"`resource` to show in the tables (default GPUs); findings are about all")
	f.StringVar(&k.slack, "slack-queue", "slack-cluster-queue",
		"`ClusterQueue` that belongs to no team and lends what is left")
	f.StringVarP(&k.output, "output", "o", "", "wide, json or yaml")
	f.BoolVar(&k.metrics, "metrics", false, "print metrics in Prometheus' text format instead")
	f.BoolVarP(&k.watch, "watch", "w", false, "look again and again")
	f.DurationVar(&k.interval, "interval", 30*time.Second, "how often to look with --watch")
	f.DurationVar(&k.patience, "patience", 5*time.Minute, "how long an admitted job may take to run")
	return cmd
}

// check finds mistakes in what was typed.
func (k *checkFlags) check() error {
	switch {
	case k.metrics && k.output != "":
		return fmt.Errorf("--metrics and -o %s: give one of them", k.output)
	case k.interval < time.Second:
		return fmt.Errorf("--interval %s: must be 1s or more", k.interval)
	case k.patience < 0:
		return fmt.Errorf("--patience %s: must not be negative", k.patience)
	}
	return knownFormat(k.output, "wide", "json", "yaml")
}

// look looks once, or again and again.
func (k *checkFlags) look(ctx context.Context) error {
	namespace, told := "", ""
	if len(k.args) > 0 {
		namespace = k.args[0]
	}
	for {
		cluster, err := check.Take(ctx, k.c, namespace, k.slack)
		if err != nil {
			return err //nolint:wrapcheck // it says what it read
		}
		report := cluster.Judge(time.Now(), k.patience)
		if unread := strings.Join(report.Unread, ", "); unread != told && unread != "" {
			fmt.Fprintf(k.errs, "You may not list %s: what needs them is not checked.\n", unread)
			told = unread
		}
		if len(report.Unread) == 6 { //nolint:mnd // all that is read
			return fmt.Errorf("there is nothing that you may read: check NAMESPACE checks a namespace of yours")
		}
		if err := k.print(k.out, report); err != nil {
			return err
		}
		if !k.watch {
			if report.Warnings() > 0 {
				return errSilent
			}
			return nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) && report.Warnings() > 0 {
				return errSilent
			}
			return nil
		case <-time.After(k.interval):
		}
	}
}

// print prints a report; in a row of them each says when it was.
func (k *checkFlags) print(out io.Writer, r *check.Report) error {
	switch {
	case k.metrics:
		return r.Metrics(out) //nolint:wrapcheck // the writer's own
	case k.output == "json" && k.watch: // a line each
		return json.NewEncoder(out).Encode(r) //nolint:wrapcheck // the writer's own
	case k.output == "json" || k.output == "yaml":
		if k.watch {
			fmt.Fprintln(out, "---")
		}
		return printObject(out, k.output, r)
	}
	if k.watch {
		fmt.Fprintf(out, "%s\n\n", r.Time.Format(time.RFC3339))
	}
	err := r.Text(out, k.resource, cli.Layout{Width: tableWidth(out), Wide: k.output == "wide"})
	if k.watch {
		fmt.Fprintln(out)
	}
	return err //nolint:wrapcheck // the writer's own
}
