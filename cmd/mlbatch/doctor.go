package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/config"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/doctor"
	"github.com/mlbatch/mlbatch/internal/finding"
)

// doctorFlags are those of doctor.
type doctorFlags struct {
	session

	output string
	failOn string
	slack  string
	policy bool
	rules  bool
	// installation leaves out what was set up in it.
	installation bool
}

// newDoctorCommand looks for what is wrong with the set-up of a cluster.
func newDoctorCommand() *cobra.Command {
	var d doctorFlags
	cmd := clusterCommand{
		session: &d.session, check: d.check, offline: func() bool { return d.rules }, do: d.look,
	}.command(&cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with the set-up: queues that cannot admit, what is silently off, conflicts",
		Long: `Look at queues, flavors, namespaces, webhooks, definitions and who else manages them, and say
what does not work (error), what does not do what it seems to (warning) and what is good to know
(note), the worst first, each with what helps. --policy says in a line for each queue what applies:
whom it may evict, how much it borrows and lends.

What you may not read is named, and rules that need it are not asked. "mlbatch check" looks at
quotas and jobs; docs/runbook.md says what to do about events and reasons. Exit code 1 says that
something was found: warnings or errors, unless --fail-on says otherwise.

Nothing is changed. A job is created as a trial ("dry run"), which the API server passes through
all webhooks and does not keep: whether it is held tells whether they answer.`,
		Example: `  # is it set up well?
  mlbatch doctor

  # what applies to each queue?
  mlbatch doctor --policy

  # for a script that minds errors only
  mlbatch doctor --fail-on error -o json

  # what does it look for?
  mlbatch doctor --rules`,
		Args: cobra.NoArgs,
	})
	f := cmd.Flags()
	f.StringVarP(&d.output, "output", "o", "", "json or yaml")
	f.StringVar(&d.failOn, "fail-on", string(finding.Warning),
		"the least `severity` with which to exit with 1: error, warning, note, or none")
	f.StringVar(&d.slack, "slack-queue", "slack-cluster-queue",
		"`ClusterQueue` that belongs to no team and lends what is left")
	f.BoolVar(&d.installation, "installation", false,
		"look at the installation alone: programs, webhooks, definitions, and not queues, flavors and nodes")
	f.BoolVar(&d.policy, "policy", false, "say what applies to each queue as well")
	f.BoolVar(&d.rules, "rules", false, "list what is looked for, and ask nothing")
	return cmd
}

func (d *doctorFlags) check() error {
	if d.failOn != "none" && !slices.Contains(finding.Severities(), finding.Severity(d.failOn)) {
		return fmt.Errorf("--fail-on %s is not known: use error, warning, note or none", d.failOn)
	}
	return knownFormat(d.output, "json", "yaml")
}

func (d *doctorFlags) look(ctx context.Context) error {
	if d.rules {
		return printRows(d.out, "", doctor.RuleColumns(), doctor.Rules(), false)
	}
	wanted, err := config.CRDs()
	if err != nil {
		return err //nolint:wrapcheck // it says which file
	}
	f, err := doctor.Take(
		ctx,
		d.c,
		doctor.Asks{
			Wanted: wanted,
			Slack:  d.slack,
			Now:    time.Now(),
			Controller: func(ctx context.Context, queue string) error {
				_, err := cli.Controller{Config: d.cfg}.Pending(ctx, "", queue)
				return err //nolint:wrapcheck // it says what it asked
			},
			Try: func(ctx context.Context, o client.Object) error {
				return d.c.Create(ctx, o, client.DryRunAll) //nolint:wrapcheck // it is looked at
			},
		},
	)
	if err != nil {
		return err //nolint:wrapcheck // it says what it read
	}
	if f.Blind() {
		return errors.New(
			"you may read neither queues nor nodes: doctor is for administrators; mlbatch why and mlbatch queue -n NAMESPACE tell of your own",
		)
	}
	findings := doctor.Diagnose(f)
	if d.installation {
		findings = slices.DeleteFunc(
			findings,
			func(x finding.Finding) bool { return !doctor.OfInstallation(x.Rule) },
		)
	}
	if err := d.print(f, findings); err != nil {
		return err
	}
	if d.failOn != "none" && finding.Worst(findings, finding.Severity(d.failOn)) {
		return errSilent
	}
	return nil
}

// print prints what was found.
func (d *doctorFlags) print(f *doctor.Facts, findings []finding.Finding) error {
	out := d.out
	if d.output != "" {
		return printObject(out, d.output, struct {
			Findings []finding.Finding `json:"findings"`
			Policies []doctor.Policy   `json:"policies"`
			Unread   []string          `json:"unread,omitempty"`
		}{findings, f.Policies(), f.Unread})
	}
	if len(f.Unread) > 0 {
		fmt.Fprintf(
			d.errs,
			"You may not list %s: what needs them was not looked at.\n",
			strings.Join(f.Unread, ", "),
		)
	}
	for _, x := range doctor.Together(findings) {
		if err := doctor.Print(out, &x, cli.Style{Width: widthOf(out), Kubectl: kubectlHere()}); err != nil {
			return err //nolint:wrapcheck // to the terminal
		}
	}
	sum := doctor.Sum(findings)
	if len(findings) == 0 && len(f.Unread) > 0 {
		sum = "Nothing is wrong with what you may read."
	}
	fmt.Fprintln(out, sum)
	if !d.policy {
		return nil
	}
	fmt.Fprintln(out)
	return printRows(out, "", doctor.PolicyColumns(), f.Policies(), false)
}
