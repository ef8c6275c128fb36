package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/cli/migrate"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/finding"
	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/manager"
	"github.com/mlbatch/mlbatch/internal/kube/settings"
	"github.com/mlbatch/mlbatch/internal/words"
)

// newImportCommand takes over clusters that others run.
func newImportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Take over a cluster that Kueue or MLBatch's parts run, with its jobs",
		Long: `Take over a cluster that Kueue, or MLBatch's parts, run: queues, jobs that wait and jobs that run
stay as they are; who decides on them changes. --dry-run says what would be other and who would start
first, and changes nothing.`,
		Example: `  # what would be other, and what would be done?
  mlbatch import kueue --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newImportSystemCommand(migrate.Kueue, "Take over from Kueue", "Kueue"),
		newImportSystemCommand(
			migrate.MLBatch,
			"Take over from MLBatch's parts: Kueue, AppWrapper, training operator, KubeRay, schedulers",
			"these parts, in this order; what jobs that run still need (KubeRay, schedulers) stays for now",
		),
	)
	return cmd
}

// importFlags are those of import.
type importFlags struct {
	session

	system    migrate.System
	output    string
	namespace string
	dry       bool
	rollback  bool
	yes       bool
	force     bool
	timeout   time.Duration
}

func newImportSystemCommand(system migrate.System, short, stops string) *cobra.Command {
	i := importFlags{system: system}
	cmd := clusterCommand{session: &i.session, check: i.check, do: i.run}.command(&cobra.Command{
		Use:   string(system),
		Short: short,
		Long: short + `.

First it is told what would be other, what the running jobs use, whether any would be evicted, and
who would start first. Then it is done step by step:

  record   what will be stopped and removed is written down, in a ConfigMap
  hold     jobs that would start unqueued meanwhile are refused, by a policy of the API server
  rewrite  objects stored in an old version are written in the newest
  stop     ` + stops + `
  unhook   webhooks and APIs that nobody answers any more are removed
  mark     pods that run say which Workload they belong to
  install  here it ends, and you do: mlbatch install. Called again it goes on
  answer   it is waited until mlbatch answers
  restore  what could not be rewritten before is
  open     jobs are let in again

Jobs that run go on. It can be interrupted at any step: called again, it does what is left, and nothing
if all is done. Until mlbatch is installed --rollback brings back what was stopped and removed.

Exit code 1 of a dry run says that something was found that stops an import.`,
		Example: fmt.Sprintf(`  # what would be other, and what would be done?
  mlbatch import %[1]s --dry-run

  # do it
  mlbatch import %[1]s --yes

  # take it back
  mlbatch import %[1]s --rollback --yes`, system),
		Args: cobra.NoArgs,
	})
	f := cmd.Flags()
	f.StringVarP(&i.output, "output", "o", "", "json or yaml")
	f.StringVar(&i.namespace, "namespace", install.DefaultNamespace,
		"`namespace` of mlbatch, where is written down what there was")
	f.BoolVar(&i.dry, "dry-run", false, "say what would be done, and change nothing")
	f.BoolVar(&i.rollback, "rollback", false, "bring back what was stopped and removed")
	f.BoolVar(&i.force, "force", false, "go on although something was found that stops it")
	f.DurationVar(&i.timeout, "timeout", 5*time.Minute, "how long to wait for each program to stop or start")
	f.BoolVarP(&i.yes, "yes", "y", false, "do not ask")
	return cmd
}

func (i *importFlags) check() error {
	switch {
	case i.timeout <= 0:
		return fmt.Errorf("--timeout %s: must be more than nothing", i.timeout)
	case i.namespace == "":
		return fmt.Errorf("--namespace is empty: name that of mlbatch, such as %s", install.DefaultNamespace)
	}
	return knownFormat(i.output, "json", "yaml")
}

// imported is what programs read.
type imported struct {
	*migrate.Report      `json:",inline"`
	migrate.ImportResult `json:",inline"`
	DryRun               bool `json:"dryRun"`
}

func (i *importFlags) run(ctx context.Context) error {
	out := i.out
	m := &migrate.Import{
		Client:    i.c,
		System:    i.system,
		Namespace: i.namespace,
		Now:       time.Now,
		Timeout:   i.timeout,
		Tell: func(s migrate.StepState) {
			if i.output == "" {
				fmt.Fprintf(out, "%-8s %s\n", s.Name, words.Harmless(s.Says))
			}
		},
	}
	if i.rollback {
		return i.back(ctx, m)
	}
	report, err := i.survey(ctx, m)
	if err != nil {
		return err
	}
	stopping := len(report.Stopping()) > 0
	if i.dry {
		if err := i.print(out, &imported{Report: report, DryRun: true}); err != nil {
			return err
		}
		if stopping {
			return errSilent
		}
		return nil
	}
	if i.output == "" {
		reportText(out, report)
	}
	if len(report.Steps) > 0 && stopping && !i.force {
		return errors.New("something stops it, see above; nothing was done. --force goes on nevertheless")
	}
	if len(report.Steps) > 0 {
		if err := confirm(i.cmd, i.yes, "Do it?"); err != nil {
			return err
		}
	}
	outcome, err := m.Run(ctx)
	if err != nil {
		return err //nolint:wrapcheck // it names the step
	}
	if i.output != "" {
		return printObject(out, i.output, &imported{Report: report, ImportResult: outcome})
	}
	switch {
	case outcome.Next != "":
		fmt.Fprintf(
			out,
			"\nJobs that run go on. Next: %s\nTo take it back instead: mlbatch import %s --rollback\n",
			outcome.Next,
			i.system,
		)
	case len(outcome.Did) == 0:
		fmt.Fprintln(out, "Nothing is left to do.")
	default:
		fmt.Fprintln(out, "\nDone: mlbatch decides. mlbatch doctor says whether all is well.")
	}
	return nil
}

// survey looks at the cluster and tells.
func (i *importFlags) survey(ctx context.Context, m *migrate.Import) (*migrate.Report, error) {
	p, err := migrate.Take(ctx, i.c, m.System, m.Now())
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it read
	}
	report := p.Survey(policyOf)
	report.Steps, err = m.Left(ctx, p)
	return report, err //nolint:wrapcheck // it says what it read
}

// policyOf is what a Configuration says of decisions.
func policyOf(name, text string) (migrate.Policy, []string, error) {
	read, err := settings.Read(name, []byte(text))
	if err != nil {
		return migrate.Policy{}, nil, err
	}
	resolved, err := settings.Resolve(read, settings.Given{})
	if err != nil {
		return migrate.Policy{}, nil, err
	}
	var notices []string
	for _, n := range resolved.Notices {
		notices = append(notices, n.String())
	}
	o := resolved.Options(manager.Options{})
	return migrate.Policy{Rules: o.Rules, Engine: cycle.Options{
		IgnoreUndeclared:     o.IgnoreUndeclared,
		BlockAdmission:       o.BlockAdmission,
		FairSharing:          o.FairSharing,
		AdmissionFairSharing: o.AdmissionFairSharing,
	}}, notices, nil
}

func (i *importFlags) print(out io.Writer, v *imported) error {
	if i.output != "" {
		return printObject(out, i.output, v)
	}
	reportText(out, v.Report)
	if len(v.Steps) == 0 {
		fmt.Fprintln(out, "Nothing is left to do.")
		return nil
	}
	fmt.Fprintln(out, "Nothing was changed (dry run).")
	return nil
}

// back takes an import back.
func (i *importFlags) back(ctx context.Context, m *migrate.Import) error {
	out := i.out
	plan, err := m.Rollback(ctx, true)
	if err != nil {
		return err //nolint:wrapcheck // it says why
	}
	if i.dry {
		if i.output != "" {
			return printObject(out, i.output, plan)
		}
		for _, s := range plan.Did {
			fmt.Fprintf(out, "%-8s %s\n", s.Name, words.Harmless(s.Says))
		}
		fmt.Fprintln(out, "Nothing was changed (dry run).")
		return nil
	}
	if err := confirm(
		i.cmd,
		i.yes,
		fmt.Sprintf("Take the import back, in %d steps?", len(plan.Did)),
	); err != nil {
		return err
	}
	done, err := m.Rollback(ctx, false)
	if err != nil {
		return err //nolint:wrapcheck // it names the step
	}
	if i.output != "" {
		return printObject(out, i.output, done)
	}
	fmt.Fprintln(out, "\nDone: all is as before.")
	return nil
}

// weights are the words for how much a finding matters to an import: whether it stops it, or something would
// be other than it is.
func weights() map[finding.Severity]string {
	return map[finding.Severity]string{finding.Error: "stops", finding.Warning: "differs", finding.Note: "note"}
}

// reportText prints a report for people.
func reportText(out io.Writer, r *migrate.Report) {
	line := func(format string, args ...any) { fmt.Fprintln(out, words.Harmless(fmt.Sprintf(format, args...))) }
	for _, p := range r.Programs {
		line("Found   %s", p)
	}
	c := r.Counts
	line(
		"Jobs    %d run with %d pods, %d are being evicted, %d wait, %d are held, %d have ended",
		c.Running,
		c.Pods,
		c.Evicting,
		c.Waiting,
		c.Held,
		c.Finished,
	)
	same := 0
	for _, u := range r.Quota {
		if u.Before == u.After {
			same++
		}
	}
	line("Quota   %d of %d amounts that queues have given are counted the same", same, len(r.Quota))
	starts := "nobody"
	if len(r.Starts) > 0 {
		starts = ""
		for n, s := range r.Starts {
			if n == 10 {
				starts += fmt.Sprintf(" and %d more", len(r.Starts)-n)
				break
			}
			if n > 0 {
				starts += ", "
			}
			namespace, _, _ := strings.Cut(s.Workload, "/")
			starts += namespace + "/" + s.Job[strings.Index(s.Job, "/")+1:]
		}
	}
	line("Starts  first: %s", starts)
	line("Evicts  %d jobs", len(r.Evicts))
	if len(r.Findings) > 0 {
		fmt.Fprintln(out)
	}
	for _, f := range r.Findings {
		line("%-8s%s: %s", weights()[f.Severity], f.Object, f.Message)
		if f.Cure != "" {
			line("        -> %s", f.Cure)
		}
	}
	if len(r.Steps) > 0 {
		fmt.Fprintln(out)
	}
	for n, s := range r.Steps {
		line("%d. %-8s %s", n+1, s.Name, s.Says)
	}
	fmt.Fprintln(out)
}
