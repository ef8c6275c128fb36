// Package manager assembles the controller process: caches, webhooks, the
// decision loop and the reconcilers, with their health and metrics. It wires
// and decides nothing.
package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/admission"
	awcontroller "github.com/mlbatch/mlbatch/internal/kube/controllers/appwrapper"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/job"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/queues"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/slack"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/workload"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	batchjob "github.com/mlbatch/mlbatch/internal/kube/jobs/job"
	"github.com/mlbatch/mlbatch/internal/kube/metrics"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	mlwebhook "github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// Options configure the process. Ports of 0 are off.
type Options struct {
	Config      *rest.Config
	WebhookPort int
	// WebhookCertDir holds tls.crt and tls.key.
	WebhookCertDir string
	MetricsPort    int
	HealthPort     int
	// BindAddress is where all ports listen, e.g. 127.0.0.1; "" is everywhere.
	BindAddress string
	// LeaderElection lets several processes run with one of them deciding.
	LeaderElection bool
	// Namespace is where mlbatch keeps its own objects.
	Namespace string
	// SchedulerName is given to pods whose job names none; "" leaves them.
	SchedulerName string
	// SlackQueue is the ClusterQueue that lends less while nodes are missing.
	SlackQueue string
	// DefaultQueue is the queue of AppWrappers that name none.
	DefaultQueue string
	// Rules are how Workloads are read: what counts against quota, and which
	// priority.
	Rules convert.Rules
	// IgnoreUndeclared admits workloads that ask for resources which their
	// ClusterQueue does not cover (resources.quotaCheckStrategy IgnoreUndeclared);
	// otherwise they wait as Misconfigured.
	IgnoreUndeclared bool
}

// Run works until the context ends.
func Run(ctx context.Context, opts Options) error {
	cfg := rest.CopyConfig(opts.Config)
	cfg.QPS = -1 // the API server's priority and fairness is the limit
	mgr, err := ctrl.NewManager(cfg, managerOptions(opts))
	if err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, job.PodIndex, job.IndexPod); err != nil {
		return fmt.Errorf("index pods: %w", err)
	}
	role := metrics.RoleStandalone
	if opts.LeaderElection {
		role = metrics.RoleLeader
	}
	counters, err := metrics.New(crmetrics.Registry, role)
	if err != nil {
		return fmt.Errorf("set up metrics: %w", err)
	}
	for _, set := range []func(manager.Manager, Options, *metrics.Metrics) error{probes, webhooks, decisions, jobKinds, nodesAndQueues} {
		if err := set(mgr, opts, counters); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}

func managerOptions(opts Options) ctrl.Options {
	address := func(port int) string {
		if port == 0 {
			return "0"
		}
		return fmt.Sprintf("%s:%d", opts.BindAddress, port)
	}
	return ctrl.Options{
		Scheme:                        scheme.New(),
		Metrics:                       metricsserver.Options{BindAddress: address(opts.MetricsPort)},
		HealthProbeBindAddress:        address(opts.HealthPort),
		LeaderElection:                opts.LeaderElection,
		LeaderElectionID:              "mlbatch-controller",
		LeaderElectionNamespace:       opts.Namespace,
		LeaderElectionReleaseOnCancel: true,
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: opts.BindAddress, Port: opts.WebhookPort, CertDir: opts.WebhookCertDir,
		}),
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
		},
	}
}

func probes(mgr manager.Manager, _ Options, _ *metrics.Metrics) error {
	synced := func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("caches are not filled yet")
		}
		return nil
	}
	return errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("caches", synced),
		mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker()),
	)
}

func webhooks(mgr manager.Manager, opts Options, _ *metrics.Metrics) error {
	return mlwebhook.Register(mgr, mlwebhook.Options{
		SchedulerName: opts.SchedulerName,
		DefaultQueue:  opts.DefaultQueue,
	})
}

// decisions adds the decision loop and what shows its numbers.
func decisions(mgr manager.Manager, opts Options, counters *metrics.Metrics) error {
	loop := admission.New(admission.Options{
		Cache:    mgr.GetCache(),
		Client:   mgr.GetClient(),
		Clock:    clock.RealClock{},
		Recorder: mgr.GetEventRecorder("mlbatch"),
		Metrics:  counters,
		Engine:   cycle.Options{IgnoreUndeclared: opts.IgnoreUndeclared},
		Rules:    opts.Rules,
		Writers:  16,
	})
	if err := mgr.Add(loop); err != nil {
		return fmt.Errorf("add the decision loop: %w", err)
	}
	return queues.SetupWithManager(mgr, queues.Options{Numbers: loop, Gauges: counters})
}

// jobKinds adds a reconciler for every kind of job, and the AppWrapper's own.
func jobKinds(mgr manager.Manager, opts Options, counters *metrics.Metrics) error {
	adapters := []jobs.Adapter{batchjob.Adapter{}, appwrapper.Adapter{}}
	managed := map[schema.GroupVersionKind]bool{}
	for _, a := range adapters {
		managed[a.Kind()] = true
	}
	shared := job.Options{
		Client:   mgr.GetClient(),
		Clock:    clock.RealClock{},
		Recorder: mgr.GetEventRecorder("mlbatch"),
		Managed: func(apiVersion, kind string) bool {
			return managed[schema.FromAPIVersionAndKind(apiVersion, kind)]
		},
		Ended:       counters.Ended,
		Concurrency: 8,
	}
	for _, a := range adapters {
		if err := job.SetupWithManager(mgr, a, shared); err != nil {
			return fmt.Errorf("add %s jobs: %w", a.Kind().Kind, err)
		}
	}
	err := workload.SetupWithManager(mgr, workload.Options{Client: shared.Client, Clock: shared.Clock, Recorder: shared.Recorder})
	if err != nil {
		return fmt.Errorf("add workloads: %w", err)
	}
	if err := awcontroller.SetupWithManager(mgr, awcontroller.Options{SchedulerName: opts.SchedulerName}); err != nil {
		return fmt.Errorf("add AppWrappers: %w", err)
	}
	return nil
}

func nodesAndQueues(mgr manager.Manager, opts Options, _ *metrics.Metrics) error {
	return slack.SetupWithManager(mgr, slack.Options{Queue: opts.SlackQueue, Namespace: opts.Namespace})
}
