package main

import (
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/manager"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// newControllerCommand is the brain of a cluster.
func newControllerCommand() *cobra.Command {
	var opts manager.Options
	var set controllerSettings
	var kubeconfig string
	var flightSize, proxy string
	var verbosity int
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the brain of a cluster: queues, quotas, placement, job kinds, recovery, webhooks",
		Long: `Run the brain of a cluster: it decides which jobs run where, admits and evicts
them, keeps AppWrappers alive and answers the API server's webhook calls.

It keeps nothing on disk that it needs: everything is in the API server, and it
may be killed and restarted at any time. With --flight-recorder-dir it writes down
what it was told and what it decided, for "mlbatch replay".

--config takes Kueue's configuration file (config.kueue.x-k8s.io/v1beta2 or
v1beta1); a flag that is given wins over the file. docs/configuration.md lists
the fields.`,
		Example: `  # in a cluster, with the service account of its pod and certificates of its own
  mlbatch controller

  # against any cluster, from a laptop
  mlbatch controller --kubeconfig ~/.kube/config --bind-address 127.0.0.1 --webhook-cert-dir ./certs

  # beside a training operator and KubeRay, which run what mlbatch admits
  mlbatch controller --kinds pytorchjob=queue,tfjob=queue,rayjob=queue,raycluster=queue

  # check a configuration file and see what it comes to
  mlbatch controller --config kueue.yaml --check-config -o yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			resolved, err := set.resolve(cmd.Flags())
			if err != nil {
				return err
			}
			if set.check {
				return set.print(cmd, resolved)
			}
			setLogger(
				textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(verbosity), textlogger.Output(os.Stderr))),
			)
			for _, n := range resolved.Notices {
				ctrl.Log.WithName("configuration").
					Info("A setting has no effect", "field", n.Path, "line", n.Line, "why", n.Text)
			}
			cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("read kubeconfig %q: %w", kubeconfig, err)
			}
			opts.Config, opts.Kubeconfig = cfg, kubeconfig
			if opts.WebhookClientCA == "" {
				opts.WebhookCallers = webhook.Callers{}
			}
			if opts.FlightLimit, err = sizeOf("flight-recorder-size", flightSize); err != nil {
				return usageError{err}
			}
			if opts.PodProxy, err = proxyOf(proxy); err != nil {
				return usageError{err}
			}
			return manager.Run(cmd.Context(), resolved.Options(opts))
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: the pod's service account)")
	set.addTo(f)
	f.BoolVar(
		&opts.MetricsSecure,
		"metrics-secure",
		true,
		"serve /metrics by HTTPS, with the webhooks' certificate, to those who may get it; false serves everybody who reaches the port, by plain HTTP",
	)
	f.StringVar(
		&opts.WebhookClientCA,
		"webhook-client-ca-file",
		"",
		"`file` with the authority of the certificate that the API server shows to webhooks; who shows none gets no answer (default: everybody does)",
	)
	f.StringSliceVar(
		&opts.WebhookCallers.Names,
		"webhook-client-names",
		[]string{"front-proxy-client"},
		"common `names` of that certificate, with --webhook-client-ca-file",
	)
	f.BoolVar(
		&opts.WebhookCallers.Conversion,
		"webhook-client-converts",
		false,
		"the API server shows its certificate for conversions between versions, too, which needs one that was built for it",
	)
	f.StringVar(
		&opts.Schedulers.Given,
		"scheduler-name",
		jobs.SchedulerName,
		"scheduler given to pods of jobs that name none of --scheduler-names; empty leaves what they name",
	)
	f.StringSliceVar(
		&opts.Schedulers.Ours,
		"scheduler-names",
		jobs.SchedulerNames(),
		"`names` that mlbatch's scheduler answers to, comma-separated, empty if it does not run; pods of queued jobs with another scheduler are held until their job has nodes, and bound to those by required affinity",
	)
	f.StringVar(
		&opts.SlackQueue,
		"slack-queue",
		"slack-cluster-queue",
		"ClusterQueue that lends less while nodes are missing",
	)
	f.DurationVar(
		&opts.DrainFor,
		"drain-for",
		5*time.Second,
		"how long webhooks are still answered after the process was told to end, with --leader-elect: until then nobody may have heard that another one is to be called",
	)
	f.StringVar(&opts.DefaultQueue, "default-queue", "default-queue", "LocalQueue of AppWrappers that name none")
	f.StringVar(
		&opts.FlightDir,
		"flight-recorder-dir",
		"",
		"`directory` to record in what was decided from which input (default: nothing is recorded)",
	)
	f.StringVar(
		&flightSize,
		"flight-recorder-size",
		"256Mi",
		"`size` of all recordings together; the oldest are dropped",
	)
	f.StringVar(
		&proxy,
		"pod-proxy",
		"",
		"`URL` of an HTTP proxy by which pods of jobs are asked how they are, such as heads of Ray (default: they are asked directly)",
	)
	f.IntVarP(&verbosity, "verbosity", "v", 0, "how much to log: 0 to 4")
	return cmd
}

// setLogger makes one logger serve every library.
func setLogger(l logr.Logger) {
	ctrl.SetLogger(l)
	klog.SetLogger(l)
}

// sizeOf reads a number of bytes.
func sizeOf(flag, text string) (int64, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Value() <= 0 {
		return 0, fmt.Errorf("--%s %q: must be a size such as 256Mi", flag, text)
	}
	return q.Value(), nil
}

// proxyOf reads the URL of a proxy; "" is none.
func proxyOf(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no proxy is no error
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("--pod-proxy %q: must be a URL such as http://proxy:3128", text)
	}
	return u, nil
}
