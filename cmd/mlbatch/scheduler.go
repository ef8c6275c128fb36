package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2/textlogger"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/scheduler"
)

// newSchedulerCommand makes "mlbatch scheduler": flags to scheduler.Options.
func newSchedulerCommand() *cobra.Command {
	var (
		opts       scheduler.Options
		kubeconfig string
		qps        float32
		verbosity  int
		elect      scheduler.Election
	)
	cmd := &cobra.Command{
		Use:   "scheduler",
		Short: "Bind pods where they were planned, whole gangs at once",
		Long: `Runs a kube-scheduler that binds the pods of admitted Workloads to their planned
nodes, starts gangs (Workloads and PodGroups) together or not at all, packs GPUs
and keeps GPU pods off nodes with bad GPUs.

Several may run; one of them, which holds the Lease mlbatch-scheduler, binds, and the
others are ready to.

It serves /healthz, /readyz and /metrics over plain HTTP, on loopback unless
--bind-address says otherwise.`,
		Example: `  # Against the cluster of a kubeconfig file
  mlbatch scheduler --kubeconfig ~/.kube/config

  # As the only scheduler of a cluster
  mlbatch scheduler --scheduler-names mlbatch-scheduler,default-scheduler`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			setLogger(
				textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(verbosity), textlogger.Output(os.Stderr))),
			)
			if err := opts.Validate(); err != nil {
				return err
			}
			cfg, err := schedulerClient(kubeconfig, qps)
			if err != nil {
				return err
			}
			opts.Client, opts.Election = cfg, elect
			return scheduler.Run(cmd.Context(), opts)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: the pod's service account)")
	f.StringSliceVar(
		&opts.SchedulerNames,
		"scheduler-names",
		jobs.SchedulerNames(),
		"`names` in spec.schedulerName that are answered, comma-separated",
	)
	f.StringVar(&opts.BindAddress, "bind-address", "127.0.0.1", "address that the health port listens on")
	f.IntVar(&opts.HealthPort, "health-port", 10251, "port of /healthz, /readyz and /metrics (HTTP)")
	f.BoolVar(&elect.Enabled, "leader-elect", true, "let several schedulers run, one of them binding")
	f.StringVar(&elect.Namespace, "namespace", "mlbatch-system", "namespace of the Lease, with --leader-elect")
	f.Float32Var(
		&qps,
		"kube-api-qps",
		0,
		"requests per second to the API server at most; 0 leaves that to the API server",
	)
	f.IntVarP(&verbosity, "verbosity", "v", 0, "how much to log: 0 to 4")
	return cmd
}

// schedulerClient reads the client configuration. Without a limit of our own
// the API server's priority and fairness decides.
func schedulerClient(kubeconfig string, qps float32) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", kubeconfig, err)
	}
	cfg.UserAgent = "mlbatch-scheduler"
	cfg.QPS = -1
	if qps > 0 {
		cfg.QPS, cfg.Burst = qps, int(2*qps)
	}
	return cfg, nil
}
