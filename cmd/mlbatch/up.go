//go:build !noembed

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mlbatch/mlbatch/api/config/v1beta2"
	"github.com/mlbatch/mlbatch/examples"
	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/install/monitoring"
	"github.com/mlbatch/mlbatch/internal/kube/settings"
	"github.com/mlbatch/mlbatch/internal/local"
	"github.com/mlbatch/mlbatch/internal/local/controlplane"
	"github.com/mlbatch/mlbatch/internal/local/names"
	"github.com/mlbatch/mlbatch/internal/local/simnode"
)

// stopTimeout is how long a cluster may take to stop before it is killed.
const stopTimeout = 20 * time.Second

// upOptions are the flags of up.
type upOptions struct {
	dir           dataDir
	apiPort       int
	nodes         int
	gpus          int64
	racks, blocks int
	topology      string
	cpus          string
	memory        string
	runtime       string
	timeScale     float64
	configuration string
	stock         bool
	stockSched    bool
	auditLog      string
	gates         string
	apis          string
	detach        bool
	empty         bool
	bare          bool
	monitoring    bool
	// reportFD is how a detached process tells its parent what happens.
	reportFD int
}

func newUpCommand() *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a whole cluster on this machine, with simulated GPU nodes",
		Long: `Start a whole cluster on this machine: a real Kubernetes control plane, mlbatch,
and simulated GPU nodes on which pods run for as long as their commands sleep.
With --runtime containerd the nodes run real containers; only their GPUs, and how many
processors and how much memory they say that they have, are pretended. That needs root, and
Debian's packages containerd, runc, containernetworking-plugins, nftables, iptables and
busybox-static.

Unless --empty is given at the first start, it has the queues and teams of the tutorial.

All state is in the data directory. A cluster that was stopped resumes where it
was, with its jobs, ports and nodes; flags that are given change it.`,
		Example: `  # in the foreground; Ctrl-C stops it
  mlbatch up

  # in the background, 10 nodes, jobs 60 times faster than real time
  mlbatch up --detach --nodes 10 --time-scale 60

  # three nodes that run real containers
  sudo mlbatch up --runtime containerd

  # a cluster without mlbatch, to try mlbatch install, Helm or kustomize in
  sudo mlbatch up --bare --runtime containerd

  # with Prometheus beside it, if that is installed
  mlbatch up --monitoring

  # a second cluster beside the first
  mlbatch up --data-dir /tmp/other --detach`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := o.config(cmd.Flags())
			if err != nil {
				return err
			}
			switch {
			case o.detach:
				return detach(cmd, cfg)
			case o.reportFD != 0:
				return runDetached(cmd.Context(), cfg, o.reportFD)
			default:
				return runForeground(cmd, cfg)
			}
		},
	}
	f := cmd.Flags()
	o.dir.addTo(f)
	f.IntVar(&o.apiPort, "api-port", 0, "`port` of the API server (default: the last one, or any free one)")
	f.IntVar(&o.nodes, "nodes", 3, "number of nodes")
	f.StringVar(
		&o.runtime,
		"runtime",
		"",
		"what runs pods: simulated, or containerd for real containers (default: as at the first start, which is simulated)",
	)
	f.IntVar(&o.racks, "racks", 0, "in how many racks the nodes are, by their label "+simnode.LabelRack)
	f.IntVar(
		&o.blocks,
		"blocks",
		0,
		"in how many blocks the racks are, by the label "+simnode.LabelBlock+" of nodes",
	)
	f.StringVar(
		&o.topology,
		"topology",
		"",
		"`file` with the racks, blocks and other domains of the nodes, and how many nodes each has, in place of --nodes, --racks and --blocks",
	)
	f.Int64Var(&o.gpus, "gpus-per-node", 8, "GPUs of each node")
	f.StringVar(&o.cpus, "cpus-per-node", "224", "CPUs of each node")
	f.StringVar(&o.memory, "memory-per-node", "2000Gi", "memory of each node")
	f.Float64Var(&o.timeScale, "time-scale", 1, "how many times faster than real time simulated pods run")
	f.StringVar(
		&o.configuration,
		"config",
		"",
		"Kueue configuration `file` for the controller (default: the last one; \"\" goes back to none)",
	)
	f.BoolVar(
		&o.stock,
		"stock-api-server",
		false,
		"run the API server as every real cluster does, without what makes writes to Workloads cheaper here",
	)
	f.BoolVar(
		&o.stockSched,
		"stock-scheduler",
		false,
		"run the scheduler of Kubernetes instead of mlbatch's, which is held to the nodes that jobs are given",
	)
	f.StringVar(
		&o.auditLog,
		"audit-log",
		"",
		"append to a `file` who asked the API server for what, people and mlbatch's own processes",
	)
	f.StringVar(
		&o.gates,
		"kube-feature-gates",
		"",
		"feature gates of Kubernetes, `A=true,B=false` (default: the last ones; \"\" goes back to none)",
	)
	f.StringVar(
		&o.apis,
		"kube-runtime-config",
		"",
		"versions of APIs that Kubernetes serves or not, `group/version=true,...` (default: the last ones; \"\" goes back to none)",
	)
	f.BoolVar(
		&o.monitoring,
		"monitoring",
		false,
		"run the prometheus that is installed, which reads the metrics of mlbatch (default: as at the last start)",
	)
	f.BoolVar(&o.detach, "detach", false, "return once the cluster is ready and leave it running")
	f.BoolVar(
		&o.empty,
		"empty",
		false,
		"leave out the tutorial's queues and teams (default: as at the first start)",
	)
	f.BoolVar(
		&o.bare,
		"bare",
		false,
		"leave mlbatch out, too: a cluster with the scheduler of Kubernetes, to install it in; needs --runtime containerd (default: as at the first start)",
	)
	f.IntVar(&o.reportFD, "report-fd", 0, "file descriptor to report to")
	_ = f.MarkHidden("report-fd") // the flag exists
	return cmd
}

// config is what the flags ask for: what the last run on the data directory
// had, changed by the flags that were given.
func (o *upOptions) config(f *pflag.FlagSet) (local.Config, error) {
	dir, err := o.dir.path()
	if err != nil {
		return local.Config{}, err
	}
	mlbatch := &installer{}
	cfg := local.Config{
		DataDir:        dir,
		APIPort:        o.apiPort,
		Initial:        mlbatch.initial,
		Install:        mlbatch.install,
		Answered:       mlbatch.answered,
		Samples:        examples.AllRuntimes(),
		Images:         realImages(),
		Tutorial:       !o.empty && (f.Changed("empty") || !local.LeftEmpty(dir)),
		Fleet:          simnode.DefaultFleet(),
		TimeScale:      1,
		StockAPIServer: o.stock,
		StockScheduler: o.stockSched,
	}
	if o.bare || !f.Changed("bare") && local.IsBare(dir) {
		cfg.Parts, cfg.Tutorial, cfg.Initial, cfg.Install, cfg.Answered = local.Bare, false, nil, nil, nil
		for _, needless := range []string{"config", "empty", "monitoring", "stock-scheduler"} {
			if f.Changed(needless) {
				return cfg, usageError{
					fmt.Errorf("--%s: is about mlbatch, which this cluster is without (--bare): leave it out", needless),
				}
			}
		}
	}
	last, err := local.ReadState(dir)
	if err != nil && !errors.Is(err, local.ErrNoCluster) {
		return cfg, err
	}
	switch {
	case err != nil:
	case last.Fleet.CPU.IsZero(): // it is not known any more
		if !f.Changed("nodes") && !f.Changed("gpus-per-node") && !f.Changed("cpus-per-node") &&
			!f.Changed("memory-per-node") && !f.Changed("racks") && !f.Changed("blocks") &&
			!f.Changed("topology") {
			cfg.Fleet = simnode.Fleet{} // the nodes that there are
		}
	default:
		cfg.Fleet, cfg.TimeScale = last.Fleet, last.TimeScale
	}
	if err := o.kubernetes(f, last, &cfg); err != nil {
		return cfg, err
	}
	if o.monitoring || !f.Changed("monitoring") && last.Monitoring {
		cfg.Prometheus, err = prometheus()
		if err != nil && o.monitoring { // what is no longer installed is left out
			return cfg, err
		}
	}
	if f.Changed("runtime") {
		if cfg.Runtime, err = runtimeNamed(o.runtime); err != nil {
			return cfg, err
		}
	}
	if f.Changed("nodes") {
		if o.nodes < 1 {
			return cfg, usageError{fmt.Errorf("--nodes %d: must be between 1 and %d", o.nodes, simnode.MostNodes)}
		}
		cfg.Fleet.Count = o.nodes
	}
	if err := o.domains(f, &cfg.Fleet); err != nil {
		return cfg, err
	}
	if f.Changed("gpus-per-node") {
		cfg.Fleet.GPUs = o.gpus
	}
	if f.Changed("cpus-per-node") {
		if cfg.Fleet.CPU, err = quantity("cpus-per-node", o.cpus, "224"); err != nil {
			return cfg, err
		}
	}
	if f.Changed("memory-per-node") {
		if cfg.Fleet.Memory, err = quantity("memory-per-node", o.memory, "2000Gi"); err != nil {
			return cfg, err
		}
	}
	if f.Changed("config") {
		if cfg.Configuration, err = upConfiguration(o.configuration); err != nil {
			return cfg, err
		}
	}
	if o.auditLog != "" {
		if cfg.AuditLog, err = auditLog(o.auditLog); err != nil {
			return cfg, err
		}
	}
	if f.Changed("time-scale") {
		cfg.TimeScale = o.timeScale
		if o.timeScale <= 0 {
			return cfg, usageError{fmt.Errorf("--time-scale %g: must be greater than 0", o.timeScale)}
		}
	}
	if o.apiPort < 0 || o.apiPort > 65535 {
		return cfg, usageError{fmt.Errorf("--api-port %d: must be between 1 and 65535", o.apiPort)}
	}
	if err := cfg.Fleet.Validate(); err != nil {
		return cfg, usageError{err}
	}
	return cfg, nil
}

// kubernetes fills in what Kubernetes is told to serve and do.
func (o *upOptions) kubernetes(f *pflag.FlagSet, last local.ClusterFile, cfg *local.Config) error {
	cfg.FeatureGates, cfg.RuntimeConfig = last.FeatureGates, last.RuntimeConfig
	if f.Changed("kube-feature-gates") {
		if err := controlplane.CheckFeatureGates(o.gates); err != nil {
			return usageError{fmt.Errorf("--kube-feature-gates %s: %w", o.gates, err)}
		}
		cfg.FeatureGates = o.gates
	}
	if f.Changed("kube-runtime-config") {
		if err := controlplane.CheckRuntimeConfig(o.apis); err != nil {
			return usageError{fmt.Errorf("--kube-runtime-config %s: %w", o.apis, err)}
		}
		cfg.RuntimeConfig = o.apis
	}
	return nil
}

// prometheus is the one that is installed, and what it is to know of mlbatch.
func prometheus() (*local.Prometheus, error) {
	path, err := exec.LookPath(names.Prometheus)
	if err != nil {
		return nil, fmt.Errorf(
			"--monitoring: there is no program prometheus in PATH: install it (Debian: apt-get install prometheus), or leave Prometheus out by --monitoring=false",
		)
	}
	return &local.Prometheus{Path: path, Rules: monitoring.Rules(), Reader: install.MetricsReaderRole}, nil
}

// runtimeNamed is what --runtime says.
func runtimeNamed(name string) (local.Runtime, error) {
	var all []string
	for _, r := range local.Runtimes() {
		if string(r) == name {
			return r, nil
		}
		all = append(all, string(r))
	}
	return "", usageError{fmt.Errorf("--runtime %q: must be %s", name, strings.Join(all, " or "))}
}

// realImages are the names under which nodes with real pods have an image of busybox:
// those of the tutorial and the first steps.
func realImages() []string {
	return []string{
		"busybox:latest", "busybox:1.36", "busybox:1.37", "quay.io/project-codeflare/busybox:1.36",
		"curlimages/curl:8.11.1",
	}
}

// upConfiguration reads a configuration file for the controller and checks it,
// so that a mistake shows here and not in the controller's log.
func upConfiguration(file string) ([]byte, error) {
	if file == "" {
		return []byte{}, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	parsed, err := settings.Read(file, data)
	if err != nil {
		return nil, err
	}
	resolved, err := settings.Resolve(parsed, settings.Given{})
	if err != nil {
		return nil, err
	}
	if name := resolved.Configuration.Health.ReadinessEndpointName; name != v1beta2.DefaultReadinessEndpoint {
		return nil, fmt.Errorf(
			"%s: health.readinessEndpointName: is %q: mlbatch up asks for /%s, take it out",
			file,
			name,
			v1beta2.DefaultReadinessEndpoint,
		)
	}
	return data, nil
}

// auditLog is the absolute path of a file that can be appended to.
func auditLog(file string) (string, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return "", fmt.Errorf("--audit-log %s: %w", file, err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", usageError{
			fmt.Errorf("--audit-log: %w: name a file in a directory that is there and that you may write to", err),
		}
	}
	return path, f.Close()
}

func quantity(flag, value, example string) (resource.Quantity, error) {
	q, err := resource.ParseQuantity(value)
	if err != nil {
		return q, usageError{fmt.Errorf("--%s %q: is not a quantity such as %s", flag, value, example)}
	}
	return q, nil
}

// runForeground runs a cluster until it is interrupted.
func runForeground(cmd *cobra.Command, cfg local.Config) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	fmt.Fprintf(out, "Starting a cluster in %s\n", cfg.DataDir)
	cfg.Progress = func(s local.Milestone) { fmt.Fprintln(out, progressLine(s)) }
	c, err := local.Start(ctx, cfg)
	if err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted; nothing is left running")
		}
		return err
	}
	percent, _ := local.ComponentPercent()
	go local.GiveBackMemory(ctx, percent) // what the start needed, this process never needs again
	fmt.Fprint(out, nextSteps(cfg))
	fmt.Fprintln(out, "Ctrl-C stops the cluster; \"mlbatch up\" resumes it.")
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		showLive(ctx, f, c)
	}
	<-ctx.Done()
	fmt.Fprintln(out, "\nStopping")
	if err := stop(ctx, c); err != nil {
		return err
	}
	fmt.Fprintln(out, "Stopped; \"mlbatch up\" resumes.")
	return nil
}

func stop(ctx context.Context, c *local.Cluster) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return c.Stop(ctx)
}

func progressLine(s local.Milestone) string {
	return fmt.Sprintf("%6.1fs  %s ready", s.Took.Seconds(), s.Name)
}

// nextSteps tells how to use a cluster, in commands that can be typed as they
// stand.
func nextSteps(cfg local.Config) string {
	at := ""
	if def, err := local.DefaultDataDir(); err != nil || def != cfg.DataDir {
		at = " --data-dir " + cfg.DataDir
	}
	next := []string{
		"team list" + at,
		"run" + at + " -n blue --as alice --image busybox --gpus 8 -- sleep 20",
		"ps" + at + " -A",
		"page" + at,
	}
	switch {
	case cfg.Parts == local.Bare:
		next = []string{"install --dry-run=server" + at, "install" + at, "doctor" + at}
	case !cfg.Tutorial:
		next = []string{
			"nodes" + at,
			"team create my-team" + at + " --gpus 8 --create-flavor",
			"run" + at + " -n my-team --image busybox --gpus 1 -- sleep 20",
		}
	}
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"\nThe cluster is ready. With any kubectl, or with mlbatch kubectl:\n\n  export KUBECONFIG=%s\n\nNext, try:\n\n",
		local.Kubeconfig(cfg.DataDir),
	)
	for _, args := range next {
		fmt.Fprintf(&b, "  %s %s\n", os.Args[0], args)
	}
	b.WriteString("\n")
	if state, err := local.ReadState(cfg.DataDir); err == nil && cfg.Prometheus != nil {
		fmt.Fprintf(
			&b,
			"Prometheus is at https://127.0.0.1:%d: log in as %s, with the password in %s\n\n",
			state.Ports.Prometheus, names.PrometheusLogin, filepath.Join(cfg.DataDir, names.PrometheusPassword),
		)
	}
	return b.String()
}

// domains says in how many racks and blocks the nodes are.
func (o *upOptions) domains(f *pflag.FlagSet, fleet *simnode.Fleet) error {
	if f.Changed("topology") {
		for _, other := range []string{"nodes", "racks", "blocks"} {
			if f.Changed(other) {
				return usageError{
					fmt.Errorf("--%s: --topology says how many nodes there are and where: leave one out", other),
				}
			}
		}
		return o.nested(fleet)
	}
	if f.Changed("racks") {
		fleet.Racks, fleet.Domains = o.racks, nil
	}
	if f.Changed("blocks") {
		fleet.Blocks, fleet.Domains = o.blocks, nil
	}
	if fleet.Racks < 0 || fleet.Racks > fleet.Count {
		return usageError{
			fmt.Errorf("--racks %d: must be between 0 and the number of nodes, %d", fleet.Racks, fleet.Count),
		}
	}
	if most := max(fleet.Racks, 0); fleet.Blocks < 0 || fleet.Blocks > most {
		return usageError{
			fmt.Errorf("--blocks %d: must be between 0 and the number of racks, %d", fleet.Blocks, most),
		}
	}
	return nil
}

// nested reads from a file in which domains the nodes are.
func (o *upOptions) nested(fleet *simnode.Fleet) error {
	text, err := os.ReadFile(o.topology)
	if err != nil {
		return usageError{fmt.Errorf("--topology: %w", err)}
	}
	domains, err := simnode.ReadDomains(text)
	if err != nil {
		return usageError{fmt.Errorf("--topology %s: %w", o.topology, err)}
	}
	fleet.Count, fleet.Racks, fleet.Blocks, fleet.Domains = 0, 0, 0, domains
	for _, d := range domains {
		fleet.Count += d.Nodes
	}
	return nil
}
