package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/agent"
	"github.com/mlbatch/mlbatch/internal/finding"
	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/install/charts"
	"github.com/mlbatch/mlbatch/internal/kube/install/rollout"
	"github.com/mlbatch/mlbatch/internal/kube/settings"
	"github.com/mlbatch/mlbatch/internal/strict"
)

// installManager is who installs, in labels.
const installManager = "mlbatch"

// installFlags are those of all commands about an installation.
type installFlags struct {
	session

	namespace string
	values    string
	image     string
	output    string
	agent     bool
	timeout   time.Duration

	planned *rollout.Installation
}

func (i *installFlags) flags(f *pflag.FlagSet) {
	f.StringVarP(&i.namespace, "namespace", "n", install.DefaultNamespace, "`namespace` that mlbatch runs in")
}

func (i *installFlags) valueFlags(f *pflag.FlagSet) {
	f.StringVarP(&i.values, "values", "f", "",
		"`file` with values, those of the Helm chart; - reads standard input")
	f.StringVar(&i.image, "image", "",
		"`image` of mlbatch (default localhost/mlbatch, of the version of this program: what make images writes)")
	f.BoolVar(&i.agent, "agent", false,
		"install agents that look after the health of nodes, one on each, as the value agent.enabled does")
}

// prepare plans what is to be installed, before a cluster is asked. What is wrong with values is no mistake in the
// command line.
func (i *installFlags) prepare() (err error) {
	if i.planned, err = i.plan(); err != nil {
		return exitError{exitFailure, err}
	}
	return nil
}

// plan is what is to be installed.
func (i *installFlags) plan() (*rollout.Installation, error) {
	p := &rollout.Installation{
		Values: install.DefaultValues(imageTag(version())),
		Release: install.Release{
			Namespace: i.namespace,
			Name:      installManager,
			Manager:   installManager,
			Version:   imageTag(version()),
		},
	}
	file := &install.File{Name: "values", Places: strict.Places{}}
	if i.values != "" {
		var data []byte
		var err error
		if i.values == "-" {
			data, err = io.ReadAll(os.Stdin)
		} else {
			data, err = os.ReadFile(i.values)
		}
		if err != nil {
			return nil, fmt.Errorf("read values: %w", err)
		}
		if file, err = p.Values.ReadValues(i.values, data); err != nil {
			return nil, err
		}
	}
	if i.image != "" {
		if err := p.Values.Image.ParseImage(i.image); err != nil {
			return nil, usageError{err}
		}
	}
	p.Values.Agent.Enabled = p.Values.Agent.Enabled || i.agent
	if err := p.Values.Check(file); err != nil {
		return nil, err
	}
	if _, err := agent.ReadConfig("agent.config", []byte(p.Values.Agent.Config)); err != nil {
		return nil, strict.Failed(file.Name, []strict.Problem{{
			Position: file.Places.Find("agent.config"), Path: "agent.config", Text: "\n" + err.Error(),
		}})
	}
	if err := checkConfig(&p.Values, file, i.namespace); err != nil {
		return nil, err
	}
	var err error
	p.Stages, err = install.Render(p.Values, p.Release)
	return p, err
}

// imageTag is a version as tags and labels may be; "" is one that says nothing.
func imageTag(version string) string {
	if strings.ContainsAny(version, " :") {
		return ""
	}
	return strings.ReplaceAll(version, "+", "-")
}

// checkConfig reads the controller's configuration as the controller will, and refuses what
// would keep an installation of this kind from working.
func checkConfig(v *install.Values, file *install.File, namespace string) error {
	at := file.Places.Find("controller.config")
	fail := func(text string) error {
		return strict.Failed(file.Name, []strict.Problem{{Position: at, Path: "controller.config", Text: text}})
	}
	read, err := settings.Read("controller.config", []byte(v.Controller.Config))
	if err != nil {
		return fail("\n" + err.Error())
	}
	resolved, err := settings.Resolve(read, settings.Given{Namespace: namespace})
	if err != nil {
		return fail("\n" + err.Error())
	}
	m := resolved.Configuration.InternalCertManagement
	switch {
	case !*m.Enable && !v.CertManager.Enabled:
		return fail(
			"internalCertManagement.enable is false: set certManager.enabled, or leave it out and the controller makes its certificates",
		)
	case *m.Enable && !v.CertManager.Enabled && *m.WebhookSecretName != install.CertSecret:
		return fail(
			"internalCertManagement.webhookSecretName: leave it out: the Secret that is installed is " + install.CertSecret,
		)
	}
	return nil
}

// cluster is where it is installed.
func (i *installFlags) cluster() (*rollout.Cluster, error) {
	d, err := discovery.NewDiscoveryClientForConfig(i.cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", i.cfg.Host, err)
	}
	if _, err := d.ServerVersion(); err != nil {
		return nil, err
	}
	return &rollout.Cluster{
		Client:    i.c,
		Discovery: d,
		Say:       func(format string, args ...any) { fmt.Fprintf(i.errs, format+"\n", args...) },
	}, nil
}

// installCommand installs.
type installCommand struct {
	installFlags

	dryRun string
	wait   bool
	ignore []string
	into   string
}

func newInstallCommand() *cobra.Command {
	var i installCommand
	cmd := clusterCommand{
		session: &i.session, check: i.check,
		offline: func() bool { return i.into != "" || i.dryRun == dryRunClient },
		do:      i.install,
	}.command(&cobra.Command{
		Use:   "install",
		Short: "Install mlbatch into a cluster, or upgrade it there",
		Long: `Install mlbatch into the cluster of a kubeconfig: kinds, roles, policies, two replicas of
controller and scheduler, and webhooks. It looks first at what stands in the way (other
controllers for the same jobs, rights, versions) and says what to do about it; nothing is
changed before that is right. Then it applies everything server-side, waits until all of it
works, and says what does not and why if that takes too long.

It may be repeated: what is as it should be is not touched. Run with the program of a newer
version, it upgrades; "mlbatch upgrade --check" says beforehand what that changes.

The values are those of the Helm chart, which renders the same objects. --write-charts writes it,
and a kustomize base with overlays, into a directory, and asks no cluster.`,
		Example: `  # what would be applied, as manifests
  mlbatch install --dry-run -o yaml --image registry.example.com/mlbatch:v1.2.3

  # install, with the image from a registry of yours
  mlbatch install --image registry.example.com/mlbatch:v1.2.3

  # with an agent on each node
  mlbatch install --agent

  # with values, checked by the API server, and nothing written
  mlbatch install --values values.yaml --dry-run=server

  # for Helm, kustomize, or a repository that a cluster is made from
  mlbatch install --write-charts dist`,
		Args: cobra.NoArgs,
	})
	f := cmd.Flags()
	i.flags(f)
	i.valueFlags(f)
	f.StringVarP(&i.output, "output", "o", "", "yaml or json: print the objects")
	f.StringVar(
		&i.dryRun,
		"dry-run",
		dryRunNone,
		"none, client (print the objects, and ask no cluster) or server (let the API server check, and write nothing)",
	)
	f.Lookup("dry-run").NoOptDefVal = dryRunClient
	f.BoolVar(&i.wait, "wait", true, "wait until it works; false applies and ends")
	f.DurationVar(&i.timeout, "timeout", 5*time.Minute,
		"give up when nothing has moved for that long; while something moves it goes on")
	f.StringSliceVar(&i.ignore, "ignore", nil,
		"`checks` that may fail, by the names that they are reported with")
	f.StringVar(&i.into, "write-charts", "",
		"write the Helm chart and the kustomize base of this version into a `directory`, and install nothing")
	return cmd
}

// check finds mistakes in what was typed.
func (i *installCommand) check() error {
	if i.into != "" {
		return nil
	}
	if err := cmp.Or((&making{output: i.output, dryRun: i.dryRun}).check(), knownChecks(i.ignore)); err != nil {
		return err
	}
	return i.prepare()
}

func (i *installCommand) install(ctx context.Context) error {
	if i.into != "" {
		return writeCharts(i.cmd, i.into)
	}
	p := i.planned
	if i.dryRun == dryRunClient {
		return printStages(i.out, i.output, p)
	}
	x, err := i.cluster()
	if err != nil {
		return err
	}
	x.Patience = i.timeout
	if err := preflight(ctx, i.cmd, x, p, i.ignore); err != nil {
		return err
	}
	if i.dryRun == dryRunServer {
		compared, err := x.Compare(ctx, p)
		switch {
		case err != nil:
			return err
		case i.output != "":
			return printObject(i.out, i.output, compared)
		}
		return printComparison(i.out, compared)
	}
	if err := x.Apply(ctx, p, i.wait); err != nil {
		return err
	}
	if i.output != "" {
		return printStages(i.out, i.output, p)
	}
	printNext(i.out, p, i.wait)
	return nil
}

// writeCharts writes the chart and the kustomizations of this program, and says how they are used.
func writeCharts(cmd *cobra.Command, dir string) error {
	for _, other := range []string{"values", "image", "agent", "dry-run", "output"} {
		if cmd.Flags().Changed(other) {
			return usagef("--write-charts goes without --%s: the chart takes values when it is installed", other)
		}
	}
	if err := charts.Write(dir, cmp.Or(imageTag(version()), "dev")); err != nil {
		return fmt.Errorf("--write-charts: %w", err)
	}
	chart, bases := filepath.Join(dir, charts.Chart), filepath.Join(dir, charts.Kustomize)
	_, err := fmt.Fprintf(cmd.OutOrStdout(), `Written. With Helm:
  helm install mlbatch %s --namespace mlbatch-system --create-namespace --set image.registry=registry.example.com
With kustomize:
  kubectl apply --server-side --force-conflicts -k %s
  kubectl apply --server-side --force-conflicts -k %s
`, chart, filepath.Join(bases, "definitions"), filepath.Join(bases, "base"))
	return err
}

// knownChecks refuses names that no check has.
func knownChecks(names []string) error {
	var known []string
	for _, c := range rollout.Checks() {
		known = append(known, c.Name)
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return usagef("--ignore %s: there is no such check: use one of %s", n, strings.Join(known, ", "))
		}
	}
	return nil
}

// preflight looks at what stands in the way, tells it, and fails if something does.
func preflight(
	ctx context.Context,
	cmd *cobra.Command,
	x *rollout.Cluster,
	p *rollout.Installation,
	ignore []string,
) error {
	facts, err := rollout.Look(ctx, x.Client, x.Discovery, p)
	if err != nil {
		return err
	}
	failed := 0
	for _, f := range rollout.Preflight(p, facts) {
		severity := string(f.Severity)
		if f.Severity == finding.Error {
			if slices.Contains(ignore, f.Rule) {
				severity = "ignored"
			} else {
				failed++
			}
		}
		about := f.Message
		if f.Object != "" {
			about = f.Object + ": " + about
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%-14s %s: %s\n%-14s %s\n", severity, f.Rule, about, "", "cure: "+f.Cure)
	}
	if failed > 0 {
		return fmt.Errorf(
			"nothing was changed: %d of what was found stands in the way (--ignore CHECK,... goes on all the same)",
			failed,
		)
	}
	return nil
}

// printStages prints all objects, in the order in which they are applied.
func printStages(out io.Writer, format string, p *rollout.Installation) error {
	var items []any
	for _, s := range p.Stages {
		for _, o := range s.Objects {
			items = append(items, o.Object)
		}
	}
	switch format {
	case "":
		for _, s := range p.Stages {
			for _, o := range s.Objects {
				name := strings.ToLower(o.GetKind()) + "/" + o.GetName()
				if o.GetNamespace() != "" {
					name += " in " + o.GetNamespace()
				}
				fmt.Fprintf(out, "%-14s %s\n", s.Name, name)
			}
		}
		return nil
	case "json":
		return printObject(out, format, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	}
	for _, o := range items {
		data, err := yaml.Marshal(o)
		if err != nil {
			return fmt.Errorf("print as YAML: %w", err)
		}
		if _, err := fmt.Fprintf(out, "---\n%s", data); err != nil {
			return err
		}
	}
	return nil
}

// printNext says what to type next.
func printNext(out io.Writer, p *rollout.Installation, waited bool) { //nolint:revive // a fact
	is := "is installed"
	if !waited {
		is = "was applied; its programs may not run yet"
	}
	fmt.Fprintf(out, `
mlbatch %s in namespace %s. Next:

  mlbatch doctor                                   # does everything work?
  mlbatch team create blue --create-flavor --gpus 8 --users alice
  mlbatch run -n blue --gpus 1 --image IMAGE -- COMMAND
`, is, p.Release.Namespace)
}

// printComparison says what would change.
func printComparison(out io.Writer, c *rollout.Comparison) error {
	for _, change := range c.Changes {
		fmt.Fprintf(out, "%-10s %s\n", change.Action, change.Object)
		for _, f := range change.Fields {
			fmt.Fprintf(out, "%-10s   %s\n", "", f)
		}
	}
	fmt.Fprintf(out, "%d objects would change, %d are as they should be.\n", len(c.Changes), c.Unchanged)
	if len(c.Final) > 0 {
		fmt.Fprintln(out, "\nThis cannot be taken back by installing the version before:")
		for _, f := range c.Final {
			fmt.Fprintln(out, "  "+f)
		}
		return nil
	}
	if c.From != "" && len(c.Changes) > 0 {
		fmt.Fprintf(
			out,
			"All of it can be taken back: mlbatch install --ignore mlbatch-version with the program of version %s.\n",
			c.From,
		)
	}
	return nil
}

func newUpgradeCommand() *cobra.Command {
	var i installFlags
	var check bool
	cmd := clusterCommand{
		session: &i.session,
		check: func() error {
			if !check {
				return errors.New("say --check to see what changes; mlbatch install makes the changes")
			}
			if err := knownFormat(i.output, "yaml", "json"); err != nil {
				return err
			}
			return i.prepare()
		},
		do: i.compare,
	}.command(&cobra.Command{
		Use:   "upgrade --check",
		Short: "Say what installing this version would change in a cluster, and whether it can be taken back",
		Long: `Compare what is installed with what "mlbatch install" of this program would apply, and write
nothing: which objects change and where, which go, and what installing the version before would
not take back (versions that objects are stored in, fields that are dropped). To upgrade, run
"mlbatch install" with the same values.

Exit code: 0 if nothing would change, 1 if something would, or if it cannot be told.`,
		Example: `  mlbatch upgrade --check --values values.yaml`,
		Args:    cobra.NoArgs,
	})
	f := cmd.Flags()
	i.flags(f)
	i.valueFlags(f)
	f.StringVarP(&i.output, "output", "o", "", "yaml or json: print the comparison")
	f.BoolVar(&check, "check", false, "compare, and change nothing")
	f.DurationVar(&i.timeout, "timeout", 5*time.Minute, "how long to wait at most")
	return cmd
}

// compare says what installing would change.
func (i *installFlags) compare(ctx context.Context) error {
	p := i.planned
	ctx, cancel := context.WithTimeout(ctx, i.timeout)
	defer cancel()
	x, err := i.cluster()
	if err != nil {
		return err
	}
	compared, err := x.Compare(ctx, p)
	if err != nil {
		return err
	}
	switch {
	case i.output != "":
		err = printObject(i.out, i.output, compared)
	case compared.From != "":
		fmt.Fprintf(i.out, "mlbatch %s is installed, this program is %s.\n", compared.From, compared.To)
		err = printComparison(i.out, compared)
	default:
		fmt.Fprintf(i.out, "No mlbatch is installed in namespace %s.\n", i.namespace)
		err = printComparison(i.out, compared)
	}
	if err == nil && len(compared.Changes) > 0 {
		return errSilent
	}
	return err
}

func newUninstallCommand() *cobra.Command {
	var i installFlags
	var keep, yes bool
	cmd := clusterCommand{
		session: &i.session, do: func(ctx context.Context) error { return i.uninstall(ctx, keep, yes) },
	}.command(&cobra.Command{
		Use:   "uninstall",
		Short: "Take mlbatch out of a cluster; pods that run go on",
		Long: `Take mlbatch out of a cluster. The webhooks go first, so that nothing is refused meanwhile;
then programs, roles and the rest. Pods that run go on, and what is left is said.

With --keep-crds the kinds stay with all their objects: queues, quotas, jobs. Installing again
goes on from there. Without it all objects of these kinds are deleted, and with jobs of these
kinds (AppWrappers, PyTorchJobs, RayClusters and so on) their pods; Jobs of Kubernetes stay.`,
		Example: `  # for a while: jobs and queues stay
  mlbatch uninstall --keep-crds

  # for good
  mlbatch uninstall --yes`,
		Args: cobra.NoArgs,
	})
	f := cmd.Flags()
	i.flags(f)
	f.BoolVar(&keep, "keep-crds", false, "keep the kinds, and all objects of them")
	f.BoolVar(&yes, "yes", false, "do not ask")
	f.DurationVar(&i.timeout, "timeout", 5*time.Minute, "how long to wait at most")
	return cmd
}

func (i *installFlags) uninstall(ctx context.Context, keep, yes bool) error { //nolint:revive // facts
	x, err := i.cluster()
	if err != nil {
		return err
	}
	p := &rollout.Installation{Release: install.Release{Namespace: i.namespace, Manager: installManager}}
	holds, err := x.Hold(ctx, p)
	if err != nil {
		return err
	}
	switch {
	case holds.Beside != "" && holds.Namespace == "":
		return fmt.Errorf(
			"nothing is installed in this cluster: its mlbatch runs beside it, at %s; that of mlbatch up goes with mlbatch down --delete",
			holds.Beside,
		)
	case holds.Namespace == "" && (keep || len(holds.Definitions) == 0):
		return errors.New(
			"there is no mlbatch that `mlbatch install` installed: one of Helm is removed by helm uninstall",
		)
	case holds.Namespace != "" && holds.Namespace != i.namespace:
		return fmt.Errorf("mlbatch is in namespace %s: say --namespace %s", holds.Namespace, holds.Namespace)
	}
	if !keep {
		if err := confirm(i.cmd, yes, toBeLost(holds)+" Go on?"); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, i.timeout)
	defer cancel()
	if err := x.Uninstall(ctx, p, keep); err != nil {
		return err
	}
	left, err := x.Left(ctx, p, holds, keep)
	if err != nil {
		return err
	}
	fmt.Fprintln(i.out, "\nmlbatch is uninstalled. What is left:")
	for _, l := range left {
		fmt.Fprintln(i.out, "  "+l)
	}
	return nil
}

// toBeLost says what goes with the definitions.
func toBeLost(h *rollout.Holdings) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(h.Objects)) {
		parts = append(parts, fmt.Sprintf("%d %s", h.Objects[kind], kind))
	}
	if len(parts) == 0 {
		return fmt.Sprintf("%d kinds are deleted; there are no objects of them.", len(h.Definitions))
	}
	return fmt.Sprintf(
		"%d kinds are deleted with all objects of them (%s), and with jobs of these kinds the pods that run; --keep-crds keeps them.",
		len(h.Definitions),
		strings.Join(parts, ", "),
	)
}
