package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/agent"
	"github.com/mlbatch/mlbatch/internal/agent/reading"
	"github.com/mlbatch/mlbatch/internal/cli"
)

// agentFlags are those of the agent.
type agentFlags struct {
	kubeconfig, config, tokenFile string
	address                       string
	port, healthPort              int
	secure                        bool
	opts                          agent.Options
}

func (a *agentFlags) common(f *pflag.FlagSet) {
	f.StringVar(
		&a.config,
		"config",
		"",
		"`file` with what is checked when, and what is expected of GPUs (docs/agent.md)",
	)
	f.StringVar(
		&a.opts.KernelLog,
		"kernel-log",
		"",
		"`file` that the kernel log is in, or /dev/kmsg: the check xid reads it (default: none, and xid is skipped)",
	)
}

// read is the configuration.
func (a *agentFlags) read() error {
	a.opts.Config = agent.DefaultConfig()
	if a.config == "" {
		return nil
	}
	data, err := os.ReadFile(a.config)
	if err != nil {
		return fmt.Errorf("read --config: %w", err)
	}
	a.opts.Config, err = agent.ReadConfig(a.config, data)
	return err
}

// newAgentCommand makes "mlbatch agent": flags to agent.Options.
func newAgentCommand() *cobra.Command {
	var a agentFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Look after the health of one node: check it now and then, and tell what was found",
		Long: `Runs on each node (a DaemonSet of "mlbatch install --agent") and checks it: its GPUs, by
nvidia-smi, dcgmi and amd-smi where they are on the path, the kernel log, the network to some
other nodes, and volumes. What it finds it writes into the annotation mlbatch.dev/checks of its
Node, by which mlbatch's controller judges the node, and serves as metrics.

It answers by HTTPS what Autopilot answers (/status, /pciebw, /ping and so on), in text that
scripts for Autopilot read and in JSON, to those who may get these paths; who they are it asks the
API server. /healthz and /readyz are plain HTTP on a port of their own.

docs/agent.md says what each check looks at, and how to come from Autopilot.`,
		Example: `  # try it on a node of the cluster on this machine
  mlbatch agent --node node-0 --kubeconfig ~/.local/share/mlbatch/kubeconfig --secure=false

  # where no controller of mlbatch writes Autopilot's label
  mlbatch agent --node node-0 --write-label`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.opts.Node == "" {
				return usagef("--node is missing: say which node this is, as kubectl get nodes lists it")
			}
			if err := a.read(); err != nil {
				return err
			}
			return a.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	a.common(f)
	f.StringVar(
		&a.kubeconfig,
		"kubeconfig",
		"",
		"kubeconfig of the cluster (default: the pod's service account)",
	)
	f.StringVar(&a.opts.Node, "node", os.Getenv("NODE_NAME"), "`name` of the node (default $NODE_NAME)")
	f.StringVar(&a.opts.Namespace, "namespace", "mlbatch-system", "namespace that the agents run in")
	f.StringVar(
		&a.opts.Pod,
		"pod",
		os.Getenv("POD_NAME"),
		"`name` of this pod (default $POD_NAME): the check pvc names its claim after it",
	)
	f.BoolVar(
		&a.opts.WriteLabel,
		"write-label",
		false,
		"write the label autopilot.ibm.com/gpuhealth, for clusters whose controller does not",
	)
	f.BoolVar(
		&a.secure,
		"secure",
		true,
		"answer by HTTPS, those who may; false answers everybody who reaches the port by plain HTTP, and runs nothing heavy",
	)
	f.StringVar(&a.address, "bind-address", "", "address that the ports listen on (default: all)")
	f.IntVar(&a.port, "port", 3333, "port of checks and metrics, the same on all nodes")
	f.IntVar(&a.healthPort, "health-port", 8080, "port of /healthz, /readyz and /readinessprobe (HTTP)")
	f.StringVar(
		&a.tokenFile,
		"peer-token-file",
		"/var/run/secrets/mlbatch/token",
		"`file` with a token for the audience mlbatch-agent, by which agents ask each other",
	)
	cmd.AddCommand(newAgentCheckCommand(), newAgentCopyCommand())
	return cmd
}

// run is the daemon. It keeps little: heaps that grow are given back soon.
func (a *agentFlags) run(ctx context.Context) error {
	const percent, most = 30, 24 << 20
	debug.SetGCPercent(percent)
	debug.SetMemoryLimit(most)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	cfg, err := clientcmd.BuildConfigFromFlags("", a.kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig %q: %w", a.kubeconfig, err)
	}
	cfg.UserAgent = "mlbatch-agent"
	cluster, err := agent.NewAPI(cfg)
	if err != nil {
		return err
	}
	a.opts.Cluster, a.opts.Tools, a.opts.Log = cluster, agent.NewPrograms(), log
	a.opts.Version = version()
	peers := &agent.Sockets{Port: a.port, Secure: a.secure, Cluster: cluster, TokenFile: a.tokenFile}
	a.opts.Network = peers
	main, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(a.address, strconv.Itoa(a.port)))
	if err != nil {
		return fmt.Errorf("--port: %w", err)
	}
	defer main.Close()
	main = agent.Bounded(main)
	if a.secure {
		certificate, err := agent.NewCertificate(a.opts.Node, time.Now())
		if err != nil {
			return err
		}
		a.opts.Certificate = agent.Sum(certificate.Certificate[0])
		main = tls.NewListener(main, &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate},
		})
	}
	alive, err := (&net.ListenConfig{}).Listen(
		ctx,
		"tcp",
		net.JoinHostPort(a.address, strconv.Itoa(a.healthPort)),
	)
	if err != nil {
		return fmt.Errorf("--health-port: %w", err)
	}
	defer alive.Close()
	one := agent.New(a.opts)
	serve := func(l net.Listener, h http.Handler) {
		s := agent.NewHTTPServer(h)
		go func() {
			if err := s.Serve(l); !errors.Is(err, net.ErrClosed) {
				log.Error("A port is not served any more", "address", l.Addr(), "error", err)
			}
		}()
	}
	serve(main, (&agent.Server{Agent: one, Peers: peers, Open: !a.secure}).Handler())
	serve(alive, agent.Alive())
	log.Info("Checks", "node", a.opts.Node, "what", a.opts.Config.String())
	go givingBack(ctx)
	return one.Run(ctx)
}

// givingBack keeps the program small: after its start, and now and then, since requests read parts of it again.
func givingBack(ctx context.Context) {
	for wait := 10 * time.Second; ; wait = time.Minute {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		debug.FreeOSMemory()
		_ = agent.LetGo() // it runs as well without
	}
}

func newAgentCheckCommand() *cobra.Command {
	var a agentFlags
	var output string
	var deep bool
	cmd := &cobra.Command{
		Use:   "check [NAME...]",
		Short: "Run checks on this machine once, and print what they find",
		Long: `Runs checks on this machine and prints what they find. Without names it runs all that an agent
runs periodically. It asks no cluster: what would need one is skipped, and whether pods hold GPUs is
told by the processes on them alone, so do not run "invasive" beside jobs that have yet to start.

Exit code 1 if anything is Failed or Fatal. With --deep, what the agent runs periodically on GPUs is run and
"invasive" after it, as mlbatch's deep tests do; the exit code is then 3 if "invasive" neither failed nor passed in whole.

Checks:
` + checkList(),
		Example: `  mlbatch agent check
  mlbatch agent check remapped xid --kernel-log /dev/kmsg -o json`,
		ValidArgs: agent.CheckNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := knownFormat(output, "json", "yaml"); err != nil {
				return usageError{err}
			}
			for _, name := range args {
				if agent.CheckOf(name) == nil {
					return usagef("there is no check %q: there are %s", name, strings.Join(agent.CheckNames(), ", "))
				}
			}
			if err := a.read(); err != nil {
				return err
			}
			if deep && len(args) > 0 {
				return usagef("--deep says which checks run: leave out %s", strings.Join(args, ", "))
			}
			switch {
			case deep:
				args = agent.DeepNames(&a.opts.Config)
			case len(args) == 0:
				args = a.opts.Config.Checks
			}
			a.opts.Tools, a.opts.Log = agent.NewPrograms(), slog.New(slog.DiscardHandler)
			outcomes := agent.New(a.opts).Check(cmd.Context(), args, agent.Request{})
			if err := printOutcomes(cmd, output, outcomes); err != nil {
				return err
			}
			if slices.ContainsFunc(outcomes, func(o reading.Outcome) bool {
				return o.Result == health.Failed || o.Result == health.Fatal
			}) {
				return errSilent
			}
			if deep && !agent.Tested(outcomes) {
				return exitError{code: exitUntested}
			}
			return nil
		},
	}
	a.common(cmd.Flags())
	cmd.Flags().BoolVar(&deep, "deep", false, "test the GPUs, which nobody may use meanwhile")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml")
	return cmd
}

// checkList is all checks, a line for each.
func checkList() string {
	var b strings.Builder
	for _, c := range agent.Checks() {
		fmt.Fprintf(&b, "  %-9s %s\n", c.Name, c.About)
	}
	return b.String()
}

func printOutcomes(cmd *cobra.Command, output string, outcomes []reading.Outcome) error {
	if output != "" {
		return printObject(cmd.OutOrStdout(), output, outcomes)
	}
	if len(outcomes) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "There is nothing to check: this machine has no GPUs.")
		return err
	}
	columns := []cli.Column[reading.Outcome]{
		{Title: "CHECK", Text: func(o reading.Outcome) string { return o.Check }},
		{Title: "RESULT", Text: func(o reading.Outcome) string { return string(o.Result) }},
		{Title: "DEVICES", Text: func(o reading.Outcome) string { return strings.Join(o.Concerned(), ",") }},
		{Title: "MESSAGE", Text: func(o reading.Outcome) string { return o.Message }},
	}
	return cli.PrintTable(cmd.OutOrStdout(), columns, outcomes, cli.Layout{})
}

// newAgentCopyCommand puts this program beside tools that another image has.
func newAgentCopyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "copy FILE",
		Short: "Copy this program into a file, for containers of another image",
		Long: `Copies this program into a file. The DaemonSet has it done where agent.toolsImage names an image
with nvidia-smi's libraries or dcgmi: that image then runs the copy.`,
		Example: `  mlbatch agent copy /program/mlbatch`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return copyProgram(args[0])
		},
	}
}

func copyProgram(to string) error {
	const executable = 0o755
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("read this program: %w", err)
	}
	defer from.Close()
	part := to + "." + strconv.Itoa(rand.IntN(1<<30)) //nolint:gosec // no secret
	into, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, executable)
	if err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	_, err = into.ReadFrom(from)
	if err = errors.Join(err, into.Close()); err == nil {
		err = os.Rename(part, to)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("copy this program: %w", err), os.Remove(part))
	}
	return nil
}
