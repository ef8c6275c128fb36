package main

import (
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mlbatch/mlbatch/internal/kube/manager"
)

// newControllerCommand is the brain of a cluster.
func newControllerCommand() *cobra.Command {
	var opts manager.Options
	var kubeconfig string
	var verbosity int
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the brain of a cluster: queues, quotas, placement, job kinds, recovery, webhooks",
		Long: `Run the brain of a cluster: it decides which jobs run where, admits and evicts
them, keeps AppWrappers alive and answers the API server's webhook calls.

It keeps nothing on disk: everything is in the API server, and it may be killed
and restarted at any time.`,
		Example: `  # in a cluster, with the service account of its pod
  mlbatch controller --webhook-cert-dir /certs

  # against any cluster, from a laptop
  mlbatch controller --kubeconfig ~/.kube/config --bind-address 127.0.0.1 --webhook-cert-dir ./certs`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			setLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(verbosity), textlogger.Output(os.Stderr))))
			cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("read kubeconfig %q: %w", kubeconfig, err)
			}
			opts.Config = cfg
			return manager.Run(cmd.Context(), opts)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: the pod's service account)")
	f.StringVar(&opts.BindAddress, "bind-address", "", "address that all ports listen on (default: all)")
	f.IntVar(&opts.WebhookPort, "webhook-port", 9443, "port of the webhooks (HTTPS)")
	f.StringVar(&opts.WebhookCertDir, "webhook-cert-dir", "", "directory with tls.crt and tls.key of the webhooks")
	f.IntVar(&opts.MetricsPort, "metrics-port", 8080, "port of /metrics (HTTP); 0 turns it off")
	f.IntVar(&opts.HealthPort, "health-port", 8081, "port of /healthz and /readyz (HTTP); 0 turns it off")
	f.BoolVar(&opts.LeaderElection, "leader-elect", false, "let several controllers run, one of them deciding")
	f.StringVar(&opts.Namespace, "namespace", "mlbatch-system", "namespace of mlbatch's own objects")
	f.StringVar(&opts.SchedulerName, "scheduler-name", "mlbatch-scheduler", "scheduler given to pods whose job names none; empty leaves them")
	f.StringVar(&opts.SlackQueue, "slack-queue", "slack-cluster-queue", "ClusterQueue that lends less while nodes are missing")
	f.StringVar(&opts.DefaultQueue, "default-queue", "default-queue", "LocalQueue of AppWrappers that name none")
	f.IntVarP(&verbosity, "verbosity", "v", 0, "how much to log: 0 to 4")
	return cmd
}

// setLogger makes one logger serve every library.
func setLogger(l logr.Logger) {
	ctrl.SetLogger(l)
	klog.SetLogger(l)
}
