// Package manager assembles the controller process: caches, webhooks, the
// decision loop and the reconcilers, with their health and metrics. It wires
// and decides nothing.
package manager

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/mlbatch/mlbatch/api/autoscaling"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/certs"
	"github.com/mlbatch/mlbatch/internal/kube/composite"
	awcontroller "github.com/mlbatch/mlbatch/internal/kube/controllers/appwrapper"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/basis"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/decision"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/dependency"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/evacuation"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/groups"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/history"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/job"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/nativegroup"
	healthcontroller "github.com/mlbatch/mlbatch/internal/kube/controllers/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/operator"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/podgroup"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/progress"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/provisioning"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/queues"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/rights"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/slack"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/termination"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/uncounted"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/ungating"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/workload"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/crowd"
	"github.com/mlbatch/mlbatch/internal/kube/events"
	"github.com/mlbatch/mlbatch/internal/kube/eviction"
	"github.com/mlbatch/mlbatch/internal/kube/fanout"
	"github.com/mlbatch/mlbatch/internal/kube/foreign"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
	"github.com/mlbatch/mlbatch/internal/kube/metrics"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/kube/trim"
	"github.com/mlbatch/mlbatch/internal/kube/views"
	"github.com/mlbatch/mlbatch/internal/kube/visibility"
	mlwebhook "github.com/mlbatch/mlbatch/internal/kube/webhook"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
	"github.com/mlbatch/mlbatch/internal/record"
)

// Options configure the process. Addresses are host:port; "" and "0" are off.
type Options struct {
	Config *rest.Config
	// QPS and Burst limit the requests to the API server; a QPS of 0 does not,
	// which leaves it to the API server's own priority and fairness.
	QPS   float32
	Burst int

	// WebhookHost and WebhookPort are where the webhooks listen; no host is
	// every address.
	WebhookHost string
	WebhookPort int
	// WebhookCertDir holds tls.crt and tls.key, where Certs is nil.
	WebhookCertDir string
	// Certs are made and renewed by this process; nil leaves that to others. The client,
	// the clock and the targets are set here.
	Certs *certs.Options
	// WebhookClientCA is a PEM file with the authority of the certificates that the
	// API server shows to webhooks, "" asks for none. WebhookCallers are the names
	// that are let in then.
	WebhookClientCA string
	WebhookCallers  mlwebhook.Callers
	// TLS restricts versions, suites and curves of all that is served by HTTPS; nil
	// is Go's choice.
	TLS            *tls.Config
	MetricsAddress string
	// MetricsSecure serves the metrics by HTTPS, with the certificate of the
	// webhooks, to users who, as the API server says, may get /metrics.
	MetricsSecure bool
	HealthAddress string
	// ReadyPath and AlivePath are where probes are answered; "" is readyz and
	// healthz.
	ReadyPath, AlivePath string
	// VisibilityAddress is where the API of pending workloads is served. It has the
	// certificate of the webhooks.
	VisibilityAddress string
	// Replica names the process in answers about views; "" is the name of its host.
	Replica string
	// Kubeconfig is the file that Config is from; "" is the pod's service account.
	Kubeconfig string
	// ProfilesAddress serves Go's profiles.
	ProfilesAddress string
	LeaderElection  LeaderElection
	// Concurrency is how many objects of a kind (Kind.group) are handled at the
	// same time, where it differs from Concurrency().
	Concurrency map[string]int
	// CacheSyncTimeout bounds the start of a reconciler; 0 is two minutes.
	CacheSyncTimeout time.Duration

	// BlockAdmission admits no workload while pods of an admitted workload are not ready
	// (waitForPodsReady.blockAdmission).
	BlockAdmission bool
	// Kinds are the kinds of jobs that there are; nil is kinds.All().
	Kinds jobs.Kinds
	// Frameworks names the kinds of jobs that are queued, see Kind.Framework; nil is
	// all of them.
	Frameworks []string
	// Elsewhere names kinds of these that controllers of others run, once they are admitted.
	Elsewhere []string
	// External are kinds whose objects are queued by controllers of others: what
	// they control waits with them.
	External []schema.GroupVersionKind

	// Namespace is where mlbatch keeps its own objects.
	Namespace string
	// Schedulers say which scheduler the pods of jobs have.
	Schedulers jobs.Schedulers
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
	// FairSharing makes queues of a cohort share by weight what none of them owns;
	// nil is off (fairSharing).
	FairSharing *core.FairSharing
	// AdmissionFairSharing is how past usage counts in queues that go by it.
	AdmissionFairSharing core.AdmissionFairSharing
	// Lifecycle are the settings of what follows a reservation: waitForPodsReady and
	// the retention of objects.
	Lifecycle workloadlifecycle.Config
	// Retries is what is said of the retries of all jobs (recovery.retryPolicy); nil is nothing.
	Retries *core.RetryText
	// NodeHealth says what is made of signs that nodes are bad (nodeHealth).
	NodeHealth NodeHealth
	// Capacity says what nodes there should be, and what becomes of quotas when too many are lost (capacity).
	Capacity Capacity
	// History says which jobs that ended are remembered (history).
	History history.Retention
	// Limits are what users may ask for in their jobs (tenants).
	Limits jobs.Limits
	// Scope says which jobs wait for admission (manageJobsWithoutQueueName,
	// managedJobsNamespaceSelector).
	Scope jobs.Scope
	// FlightDir is a directory for recordings of what the engine was told and
	// decided; "" records nothing. They take FlightLimit bytes at most.
	FlightDir   string
	FlightLimit int64
	// LabelKeysToCopy are the labels of a job that its Workload gets too.
	LabelKeysToCopy []string
	// WritePodGroups writes PodGroups of Kubernetes for gangs, where the API server has them
	// (integrations.writePodGroups).
	WritePodGroups bool
	// Metrics says which series of queues there are, MetricLabels which labels of
	// objects they carry.
	Metrics      metrics.Choice
	MetricLabels []metrics.CustomLabel
	// Gates switch off what jobs could do otherwise.
	Gates Gates
	// PodProxy is the HTTP proxy by which pods of jobs are asked how they are, such as heads of
	// Ray; nil asks them directly.
	PodProxy *url.URL

	// DrainFor is how long a process that is told to end goes on answering webhooks, where
	// others can answer (LeaderElection): those who call it learn from its readiness
	// probe, or from the end of its pod, that they should call others, but not at once.
	DrainFor time.Duration

	// native: the cluster has PodGroups of Kubernetes.
	native bool
	// composites: and CompositePodGroups.
	composites bool
	// keeper keeps the certificates; nil where they are files.
	keeper *certs.Keeper
	// shift is what needs the lead; nil where no others compete for it.
	shift *shift
	// crowd is how many workloads are stopped at this moment.
	crowd *crowd.Crowd
	// early is what runs before the caches are filled.
	early *early
	// health has what is remembered of nodes.
	health cache.Cache
	// never tells the webhooks what could never start. It is filled in before anything runs.
	never *mlwebhook.Never
}

// Gates are Kueue's feature gates on jobs that are on if nothing else is said.
type Gates struct {
	// WholeJobsOnly ignores the annotation by which a Job can start with fewer
	// pods (PartialAdmission off).
	WholeJobsOnly bool
	// NoReclaimablePods keeps the quota of pods that are done until the job ends
	// (ReclaimablePods off).
	NoReclaimablePods bool
	// NoQueueLabels leaves the names of queues off the pods
	// (AssignQueueLabelsForPods off).
	NoQueueLabels bool
	// NoDefaultPriorityClass gives jobs that name no WorkloadPriorityClass none,
	// even if one is named default (WorkloadPriorityClassDefaulting off).
	NoDefaultPriorityClass bool
}

// selfTimeout bounds the question who the controller is.
const selfTimeout = 30 * time.Second

// LeaderElection lets several processes run with one of them deciding.
type LeaderElection struct {
	Enabled bool
	// Name and Namespace are those of the Lease.
	Name, Namespace string
	// Lease is how long others wait for a silent leader, in whole seconds, Renew for how long
	// one that cannot renew writes, Retry the pause between renewals.
	Lease, Renew, Retry time.Duration
}

// jobsAtOnce is how many jobs of a kind are handled at the same time, if nothing
// else is said.
const jobsAtOnce = 8

// Concurrency returns the kinds (Kind.group) whose reconcilers handle several
// objects at the same time, and how many by default.
func Concurrency(all jobs.Kinds) map[string]int {
	out := map[string]int{
		"AdmissionCheck.kueue.x-k8s.io": 1,
		"ClusterQueue.kueue.x-k8s.io":   4,
		"Cohort.kueue.x-k8s.io":         1,
		podKind:                         jobsAtOnce,
		"LocalQueue.kueue.x-k8s.io":     4,
		"ResourceFlavor.kueue.x-k8s.io": 1,
		"Topology.kueue.x-k8s.io":       1,
		"Workload.kueue.x-k8s.io":       4,
	}
	for i := range all {
		out[all[i].GroupKind().String()] = jobsAtOnce
	}
	return out
}

// podKind is how pods are called there.
const podKind = "Pod"

// concurrency is Concurrency with the choices of an installation.
func concurrency(opts Options) map[string]int {
	out := Concurrency(opts.Kinds)
	maps.Copy(out, opts.Concurrency)
	return out
}

// Run works until the context ends.
func Run(ctx context.Context, opts Options) error {
	if opts.Kinds == nil {
		opts.Kinds = kinds.All()
	}
	opts.Kinds = opts.inModes()
	cfg := rest.CopyConfig(opts.Config)
	cfg.QPS, cfg.Burst = opts.QPS, opts.Burst
	if cfg.QPS == 0 {
		cfg.QPS = -1
	}
	keeper, stop, err := keep(ctx, cfg, opts)
	if err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	defer stop()
	opts.keeper, opts.early, opts.never = keeper, &early{}, new(mlwebhook.Never)
	if opts.shift, err = newShift(cfg, opts.LeaderElection); err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	settings, err := managerOptions(opts)
	if err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	version, err := provisioning.Version(cfg)
	if err == nil && version != "" {
		err = autoscaling.AddToScheme(version)(settings.Scheme)
	}
	if err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	if opts.native, err = nativegroup.Served(cfg); err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	if opts.native { // they consist of PodGroups
		if opts.composites, err = composite.Served(cfg); err != nil {
			return fmt.Errorf("start the controller: %w", err)
		}
	}
	mgr, err := ctrl.NewManager(cfg, settings)
	if err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	opts.crowd = crowd.New(clock.RealClock{})
	if err := opts.crowd.Watch(ctx, mgr.GetCache()); err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	if mgr, err = events.Manager(mgr, opts.crowd); err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	if mgr, err = opts.shift.manager(mgr); err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	for name, index := range map[string]client.IndexerFunc{
		admission.PodIndex: admission.IndexPod, podgroup.UnitIndex: podgroup.IndexUnit,
		evacuation.NodeIndex: evacuation.IndexNode, ungating.Index: ungating.IndexWaiting,
		nativegroup.Index: nativegroup.IndexPod, healthcontroller.DeviceIndex: healthcontroller.IndexDevices,
	} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, name, index); err != nil {
			return fmt.Errorf("index pods by %s: %w", name, err)
		}
	}
	if err := mgr.GetFieldIndexer().IndexField(
		ctx, &kueue.Workload{}, healthcontroller.HangIndex, healthcontroller.IndexHangs,
	); err != nil {
		return fmt.Errorf("index workloads by hangs: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(
		ctx,
		&kueue.Workload{},
		admission.JobIndex,
		admission.IndexWorkload,
	); err != nil {
		return fmt.Errorf("index workloads: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(
		ctx,
		&kueue.Workload{},
		history.Index,
		history.IndexWorkload,
	); err != nil {
		return fmt.Errorf("index workloads: %w", err)
	}
	for name, by := range map[string]client.IndexerFunc{dependency.JobIndex: dependency.IndexJob, dependency.AfterIndex: dependency.IndexAfter} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, &kueue.Workload{}, name, by); err != nil {
			return fmt.Errorf("index workloads: %w", err)
		}
	}
	for _, k := range opts.Kinds {
		if err := mgr.GetFieldIndexer().IndexField(ctx, k.New(), job.PrebuiltIndex, job.IndexPrebuilt); err != nil {
			return fmt.Errorf("index jobs of %s: %w", k.Naming.Framework, err)
		}
	}
	if opts.native {
		if err := mgr.GetFieldIndexer().IndexField(
			ctx,
			&schedulingv1beta1.PodGroup{},
			admission.JobIndex,
			admission.IndexWorkload,
		); err != nil {
			return fmt.Errorf("index PodGroups: %w", err)
		}
	}
	if opts.composites {
		for _, o := range []client.Object{&schedulingv1beta1.PodGroup{}, &schedulingv1alpha3.CompositePodGroup{}} {
			if err := mgr.GetFieldIndexer().
				IndexField(ctx, o, composite.ParentIndex, composite.IndexParent); err != nil {
				return fmt.Errorf("index CompositePodGroups: %w", err)
			}
		}
	}
	if err := indexOperated(ctx, mgr, opts.operated()); err != nil {
		return err
	}
	if err := mgr.GetFieldIndexer().IndexField(
		ctx,
		&corev1.Pod{},
		foreign.Index,
		foreign.IndexImages(opts.others()),
	); err != nil {
		return fmt.Errorf("index other controllers: %w", err)
	}
	if opts.health, err = healthMemory(mgr, opts.Namespace); err != nil {
		return err
	}
	counters, err := newMetrics(ctx, mgr, opts)
	if err != nil {
		return fmt.Errorf("set up metrics: %w", err)
	}
	if err := webhooks(ctx, mgr, opts); err != nil {
		return err
	}
	for _, set := range []func(manager.Manager, Options, *metrics.Metrics) error{probes, decisions, jobKinds, nodesAndQueues, nodeHealth, ownRights} {
		if err := set(mgr, opts, counters); err != nil {
			return err
		}
	}
	err = provisioning.SetupWithManager(mgr, provisioning.Options{
		Client:   mgr.GetClient(),
		Clock:    clock.RealClock{},
		Recorder: mgr.GetEventRecorder("mlbatch"),
		Served:   version != "",
	})
	if err != nil {
		return err
	}
	return opts.shift.run(ctx, opts.early.with(mgr.Start), opts.DrainFor)
}

func managerOptions(opts Options) (ctrl.Options, error) {
	tlsOpts := append(restrictions(opts.TLS), opts.certificate()...)
	if opts.WebhookClientCA != "" {
		ask, err := mlwebhook.ClientCertificates(opts.WebhookClientCA)
		if err != nil {
			return ctrl.Options{}, err
		}
		tlsOpts = append(tlsOpts, ask)
	}
	return ctrl.Options{
		Scheme:                 scheme.For(opts.Kinds),
		NewClient:              opts.shift.client,
		NewCache:               newCache,
		Client:                 client.Options{FieldOwner: mlwebhook.FieldOwner},
		Metrics:                metricsOptions(opts),
		HealthProbeBindAddress: address(opts.HealthAddress),
		ReadinessEndpointName:  path(opts.ReadyPath),
		LivenessEndpointName:   path(opts.AlivePath),
		PprofBindAddress:       address(opts.ProfilesAddress),
		Controller: config.Controller{
			GroupKindConcurrency: concurrency(opts),
			CacheSyncTimeout:     opts.CacheSyncTimeout,
			EnableWarmup:         &opts.LeaderElection.Enabled,
		},
		WebhookServer: mlwebhook.Server(webhook.NewServer(webhook.Options{
			Host: opts.WebhookHost, Port: opts.WebhookPort, CertDir: opts.WebhookCertDir,
			TLSOpts: tlsOpts,
		})),
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         cached(),
		},
	}, nil
}

// newCache makes the cache that all controllers share.
func newCache(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
	if o.DefaultNamespaces != nil || o.DefaultLabelSelector != nil || o.DefaultFieldSelector != nil {
		return nil, errors.New("the cache is of all namespaces: pods and nodes are read without selectors")
	}
	informers, err := trim.Informers(cfg, o.HTTPClient)
	if err != nil {
		return nil, err
	}
	o.NewInformer = informers
	c, err := cache.New(cfg, o)
	if err != nil {
		return nil, err
	}
	return fanout.Cache(c), nil
}

// cached are the kinds of which the cache need not hold all objects, or not all of them.
func cached() map[client.Object]cache.ByObject {
	out := rights.Cached()
	maps.Copy(out, groups.Cached(serving.Grouped()))
	maps.Copy(out, views.Cached())
	maps.Copy(out, trim.Transforms())
	return out
}

// address spells "off" the way controller-runtime does.
func address(a string) string {
	if a == "" {
		return "0"
	}
	return a
}

// path makes a path of the name of a probe; "" stays.
func path(name string) string {
	if name == "" {
		return ""
	}
	return "/" + strings.TrimPrefix(name, "/")
}

func restrictions(t *tls.Config) []func(*tls.Config) {
	if t == nil {
		return nil
	}
	return []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion, c.CipherSuites, c.CurvePreferences = t.MinVersion, t.CipherSuites, t.CurvePreferences
	}}
}

func probes(mgr manager.Manager, opts Options, _ *metrics.Metrics) error {
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
		mgr.AddReadyzCheck("end", opts.shift.ready),
		mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker()),
		mgr.AddReadyzCheck("certificates", func(*http.Request) error {
			if opts.keeper == nil {
				return nil
			}
			return opts.keeper.Ready()
		}),
	)
}

func webhooks(ctx context.Context, mgr manager.Manager, opts Options) error {
	return mlwebhook.Register(ctx, mgr, mlwebhook.Options{
		Schedulers:   opts.Schedulers,
		DefaultQueue: opts.DefaultQueue,
		Scope:        opts.Scope,
		Limits:       opts.Limits,
		Policy:       policy(opts.Limits),
		Kinds:        opts.Kinds,
		Frameworks:   opts.Frameworks,

		NoDefaultPriorityClass: opts.Gates.NoDefaultPriorityClass,
		NoAdmissionGates:       opts.Rules.NoAdmissionGates,
		WritePodGroups:         opts.writesPodGroups(),
		Composites:             opts.composites,

		Callers:    opts.WebhookCallers,
		SlackQueue: opts.SlackQueue,
		Never: func(ctx context.Context, namespace, queue string, sets []kueue.PodSet) string {
			return (*opts.never)(ctx, namespace, queue, sets)
		},
	})
}

// stabilizationWindow is for how long nothing must change in a tree of queues before what changed there
// evicts anyone: longer than kubectl and the controllers take from one of many objects to the next.
const stabilizationWindow = 500 * time.Millisecond

// decisions adds the decision loop and what shows its numbers.
func decisions(mgr manager.Manager, opts Options, counters *metrics.Metrics) error {
	flight := recorder(mgr.GetLogger(), opts)
	opts.Rules.SlackQueue, opts.Rules.Spares = opts.SlackQueue, opts.Capacity.spares()
	engine := cycle.Options{
		IgnoreUndeclared:     opts.IgnoreUndeclared,
		BlockAdmission:       opts.BlockAdmission,
		FairSharing:          opts.FairSharing,
		AdmissionFairSharing: opts.AdmissionFairSharing,
		StabilizationWindow:  stabilizationWindow,
		SlackQueue:           opts.SlackQueue,
		KeepNodes:            opts.Lifecycle.KeepNodes > 0,
	}
	loop := decision.New(decision.Options{
		Cache:     mgr.GetCache(),
		Health:    opts.health,
		Client:    mgr.GetClient(),
		Clock:     clock.RealClock{},
		Recorder:  mgr.GetEventRecorder("mlbatch"),
		Metrics:   counters,
		Engine:    engine,
		Rules:     opts.Rules,
		Lifecycle: opts.Lifecycle,
		Flight:    flight,
		Live:      mgr.GetAPIReader(),
		Lead:      opts.shift.lead(),
		Crowd:     opts.crowd,
		Pods: func(ctx context.Context, k core.Key) (int, error) {
			pods, err := admission.PodsOf(ctx, mgr.GetClient(), k.Namespace, k.Name)
			return pods.Live, err
		},
		// More than the clients that create many jobs at once: admissions must not
		// queue behind creations.
		Writers: 48,
	})
	answers := decision.Answers{Loop: loop}
	if opts.LeaderElection.Enabled {
		answers.Follower = decision.NewFollower(decision.FollowerOptions{
			Cache: mgr.GetCache(), Health: opts.health, Clock: clock.RealClock{}, Engine: engine, Rules: opts.Rules,
			From: opts.shift.candidate.StandsBy(), Until: loop.Decides(),
		})
		if err := mgr.Add(answers.Follower); err != nil {
			return fmt.Errorf("add the follower: %w", err)
		}
	}
	if serves := opts.VisibilityAddress != "" && opts.VisibilityAddress != "0"; serves {
		answers.Forecasts = decision.NewForecasts(decision.ForecastOptions{
			Look: answers.Ask, Engine: engine, Workloads: mgr.GetClient(), Clock: clock.RealClock{},
		})
		if err := mgr.Add(answers.Forecasts); err != nil {
			return fmt.Errorf("add forecasts: %w", err)
		}
		counters.SetEstimates(answers.Forecasts.Tally)
	}
	*opts.never = visibility.Never(answers, mgr.GetClient(), opts.Rules, clock.RealClock{})
	counters.SetTreeStats(answers.Stats)
	counters.SetWaiting(loop.EachWaiting)
	counters.SetRunning(loop.EachAdmitted)
	if err := mgr.Add(loop); err != nil {
		return fmt.Errorf("add the decision loop: %w", err)
	}
	if opts.VisibilityAddress != "" && opts.VisibilityAddress != "0" {
		server := visibility.New(visibility.Options{
			Address:     opts.VisibilityAddress,
			Certificate: opts.content(),
			TLS:         opts.TLS,
			Kubeconfig:  opts.Kubeconfig,
			Lines:       answers,
			Workloads:   mgr.GetClient(),
			Clock:       clock.RealClock{},
			SlackQueue:  opts.SlackQueue,
			Rules:       opts.Rules,
			Views: views.Options{
				Objects:         mgr.GetClient(),
				Live:            mgr.GetAPIReader(),
				Health:          opts.health,
				HealthNamespace: opts.Namespace,
				Kinds:           opts.Kinds,
				Replica:         cmp.Or(opts.Replica, replica()),
				Clock:           clock.RealClock{},
			},
		})
		if err := mgr.Add(server); err != nil {
			return fmt.Errorf("add the visibility API: %w", err)
		}
		opts.early.add(server.Serve)
	}
	return queues.SetupWithManager(mgr, queues.Options{Numbers: loop, Gauges: counters})
}

// replica names this process among those that answer: a pod has its name as that of its host.
func replica() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// recorder opens the flight recorder, if there is to be one. Decisions do not
// depend on being recorded, so that a directory that cannot be written stops
// no process.
func recorder(log logr.Logger, opts Options) *record.Ring {
	if opts.FlightDir == "" {
		return nil
	}
	flight, err := record.OpenRing(opts.FlightDir, opts.FlightLimit)
	if err != nil {
		log.Error(
			err,
			"Nothing is recorded for replay: make the directory writable and start the controller again",
			"directory",
			opts.FlightDir,
		)
		return nil
	}
	return flight
}

// queues reports whether jobs of a kind are queued.
func (o Options) queues(framework string) bool {
	return o.Frameworks == nil || slices.Contains(o.Frameworks, framework)
}

// inModes are the kinds with what is done with their jobs.
func (o Options) inModes() jobs.Kinds {
	out := slices.Clone(o.Kinds)
	for i := range out {
		switch name := out[i].Naming.Framework; {
		case !o.queues(name):
			out[i].Queueing.Mode = jobs.Ignore
		case slices.Contains(o.Elsewhere, name):
			out[i].Queueing.Mode = jobs.Queue
		}
	}
	return out
}

// writesPodGroups reports whether PodGroups of Kubernetes are written for gangs.
func (o Options) writesPodGroups() bool { return o.WritePodGroups && o.native }

// operated are the kinds of jobs whose pods are made here.
func (o Options) operated() jobs.Kinds {
	return o.Kinds.Where(func(k *jobs.Kind) bool { return k.Running.Operated != nil && k.RunHere() })
}

// others are the images of controllers of others for the kinds that are run here.
func (o Options) others() []string {
	out := o.operated().Others()
	for _, k := range serving.Grouped() {
		out = append(out, k.Running.Others...)
	}
	return out
}

// indexOperated finds members and services by the job that they were made for.
func indexOperated(ctx context.Context, mgr manager.Manager, kinds jobs.Kinds) error {
	if len(kinds) == 0 {
		return nil
	}
	service := &metav1.PartialObjectMetadata{}
	service.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	owned := []client.Object{&corev1.Pod{}, service}
	for _, k := range kinds.Children() {
		owned = append(owned, k.New())
	}
	for _, o := range owned {
		if err := mgr.GetFieldIndexer().IndexField(ctx, o, operator.Index, operator.IndexOwned); err != nil {
			return fmt.Errorf("index what jobs are made of: %w", err)
		}
	}
	return nil
}

// jobKinds adds a reconciler for every kind of job, and the AppWrapper's own.
func jobKinds(mgr manager.Manager, opts Options, counters *metrics.Metrics) error {
	queued := opts.Kinds.Where(func(k *jobs.Kind) bool { return opts.queues(k.Naming.Framework) })
	if opts.Gates.WholeJobsOnly {
		queued = queued.WholeOnly()
	}
	managed := map[schema.GroupVersionKind]bool{}
	for _, gvk := range opts.External {
		managed[gvk] = true
	}
	var adapters []jobs.Adapter
	for _, k := range queued {
		adapters = append(adapters, k.Adapter)
		managed[k.GVK()] = true
	}
	shared := job.Options{
		Client:   mgr.GetClient(),
		Clock:    clock.RealClock{},
		Recorder: mgr.GetEventRecorder("mlbatch"),
		Managed: func(apiVersion, kind string) bool {
			return managed[schema.FromAPIVersionAndKind(apiVersion, kind)]
		},
		Wholes:    opts.Kinds.Wholes(),
		Ended:     counters.Ended,
		Lifecycle: opts.Lifecycle,
		Told:      told(counters),
		Scope:     opts.Scope,
		Live:      mgr.GetAPIReader(),
		Crowd:     opts.crowd,

		SakkaraMaps:       &admission.SakkaraMaps{Clock: clock.RealClock{}},
		LabelKeysToCopy:   opts.LabelKeysToCopy,
		Labels:            admission.Labels{NoQueues: opts.Gates.NoQueueLabels, PodGroups: opts.writesPodGroups()},
		NoReclaimablePods: opts.Gates.NoReclaimablePods,
		Kinds:             opts.Kinds,
	}
	for i := range queued {
		if err := job.SetupWithManager(mgr, &queued[i], shared); err != nil {
			return fmt.Errorf("add %s jobs: %w", queued[i].GVK().Kind, err)
		}
	}
	for _, k := range opts.operated() {
		err := operator.SetupWithManager(mgr, k, operator.Options{
			Client: shared.Client, Live: shared.Live, Clock: shared.Clock, Recorder: shared.Recorder,
			Scope: opts.Scope, Managed: shared.Managed, Labels: shared.Labels, CallProxy: opts.PodProxy,
			Retries: opts.Retries,
		})
		if err != nil {
			return fmt.Errorf("add the operator of %s: %w", k.Naming.Framework, err)
		}
	}
	for _, k := range queued.Where(func(k *jobs.Kind) bool { return k.Queueing.Basis != nil }) {
		err := basis.SetupWithManager(mgr, k, basis.Options{
			Client:     shared.Client,
			Live:       shared.Live,
			Recorder:   shared.Recorder,
			Scope:      opts.Scope,
			Schedulers: opts.Schedulers,
		})
		if err != nil {
			return fmt.Errorf("add what %s are based on: %w", k.Naming.Framework, err)
		}
	}
	pods := podgroup.Options{
		Client:            shared.Client,
		Clock:             shared.Clock,
		Recorder:          shared.Recorder,
		Live:              shared.Live,
		SakkaraMaps:       shared.SakkaraMaps,
		Scope:             opts.Scope,
		Lifecycle:         opts.Lifecycle,
		Ended:             shared.Ended,
		Told:              shared.Told,
		LabelKeysToCopy:   opts.LabelKeysToCopy,
		Labels:            shared.Labels,
		NoReclaimablePods: opts.Gates.NoReclaimablePods,
		Native:            opts.native,
		Composites:        opts.composites,
		Concurrency:       concurrency(opts)[podKind],
	}
	err := podgroup.SetupWithManager(mgr, pods)
	if err != nil {
		return fmt.Errorf("add pods: %w", err)
	}
	if opts.native {
		err := nativegroup.SetupWithManager(
			mgr,
			nativegroup.Options{
				Client:     shared.Client,
				Clock:      shared.Clock,
				Recorder:   shared.Recorder,
				Unqueued:   pods.Unqueued,
				Composites: opts.composites,
				Labels:     shared.Labels,
				Schedulers: opts.Schedulers,
			},
		)
		if err != nil {
			return fmt.Errorf("add PodGroups of Kubernetes: %w", err)
		}
	}
	for _, k := range serving.Grouped() {
		if !opts.queues(k.Framework) || slices.Contains(opts.Elsewhere, k.Framework) {
			continue
		}
		if err := groups.SetupWithManager(
			mgr,
			k,
			groups.Options{Client: shared.Client, Clock: shared.Clock, Recorder: shared.Recorder},
		); err != nil {
			return fmt.Errorf("add %ss: %w", k.GVK.Kind, err)
		}
	}
	err = workload.SetupWithManager(mgr, workload.Options{
		Client:   shared.Client,
		Clock:    shared.Clock,
		Recorder: shared.Recorder,
		Config:   opts.Lifecycle,
		Told:     shared.Told,
		Adapters: adapters,
	})
	if err != nil {
		return fmt.Errorf("add workloads: %w", err)
	}
	err = history.SetupWithManager(mgr, history.Options{
		Client: shared.Client, Live: shared.Live, Clock: shared.Clock, Kinds: opts.Kinds, Retention: opts.History,
		Recorded: counters.JobEnded,
	})
	if err != nil {
		return fmt.Errorf("add the history of jobs: %w", err)
	}
	if err := steps(mgr, queued, counters); err != nil {
		return err
	}
	if err := dependency.SetupWithManager(
		mgr,
		dependency.Options{Client: shared.Client, Live: shared.Live, Recorder: shared.Recorder, Kinds: opts.Kinds},
	); err != nil {
		return fmt.Errorf("add what jobs come after: %w", err)
	}
	evictor := eviction.Evictor{
		Client:   shared.Client,
		Live:     shared.Live,
		Recorder: shared.Recorder,
		Kinds:    queued,
	}
	if err := places(mgr, evictor, opts.Schedulers); err != nil {
		return err
	}
	if err := ends(mgr, evictor, opts.Limits.Termination, opts.NodeHealth.tests()); err != nil {
		return err
	}
	if err := awcontroller.SetupWithManager(
		mgr,
		awcontroller.Options{Schedulers: opts.Schedulers, Policy: policy(opts.Limits), Retries: opts.Retries},
	); err != nil {
		return fmt.Errorf("add AppWrappers: %w", err)
	}
	return nil
}

// steps adds what finds jobs that hang.
func steps(mgr manager.Manager, queued jobs.Kinds, counters *metrics.Metrics) error {
	pods, err := kubernetes.NewForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("add what reads logs: %w", err)
	}
	err = progress.SetupWithManager(mgr, progress.Options{
		Client:   mgr.GetClient(),
		Clock:    clock.RealClock{},
		Recorder: mgr.GetEventRecorder("mlbatch"),
		Kinds:    queued,
		Hung:     counters.Hung,
		Log: func(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
			return pods.CoreV1().Pods(namespace).GetLogs(pod, o).Stream(ctx)
		},
	})
	if err != nil {
		return fmt.Errorf("add what finds jobs that hang: %w", err)
	}
	return nil
}

// places adds what has pods go to the nodes of their jobs, and leave bad ones.
func places(mgr manager.Manager, evictor eviction.Evictor, schedulers jobs.Schedulers) error {
	err := evacuation.SetupWithManager(
		mgr,
		evacuation.Options{Evictor: evictor, Avoid: jobs.AvoidBadGPUs(), PodIndex: admission.PodIndex},
	)
	if err != nil {
		return fmt.Errorf("add evacuation: %w", err)
	}
	err = ungating.SetupWithManager(mgr, ungating.Options{
		Client:     evictor.Client,
		Clock:      clock.RealClock{},
		Schedulers: schedulers,
		Evictor:    evictor,
		PodIndex:   admission.PodIndex,
	})
	if err != nil {
		return fmt.Errorf("add ungating: %w", err)
	}
	return nil
}

// ends adds what has pods go that run without quota, and has all go in time, if there is a longest one. Those of deep
// tests are in a namespace of theirs.
func ends(mgr manager.Manager, evictor eviction.Evictor, longest time.Duration, tests string) error {
	err := uncounted.SetupWithManager(mgr, uncounted.Options{
		Client:   evictor.Client,
		Live:     evictor.Live,
		Clock:    clock.RealClock{},
		Recorder: evictor.Recorder,
		PodIndex: admission.PodIndex,
	})
	if err != nil {
		return fmt.Errorf("add what stops pods without quota: %w", err)
	}
	err = termination.SetupWithManager(
		mgr,
		termination.Options{
			Client:   evictor.Client,
			Clock:    clock.RealClock{},
			Recorder: evictor.Recorder,
			Longest:  longest,
			Tests:    tests,
		},
	)
	if err != nil {
		return fmt.Errorf("add the longest time that pods take to end: %w", err)
	}
	return nil
}

// policy is that of AppWrappers without annotations.
func policy(limits jobs.Limits) *lifecycle.Policy {
	p := lifecycle.Defaults()
	if limits.Termination > 0 {
		p.DeletionMaximum = limits.Termination
		p.DeletionGrace = min(p.DeletionGrace, limits.Termination)
	}
	return &p
}

// told counts the changes of state that no decision of the engine is.
func told(counters *metrics.Metrics) func(*kueue.Workload, workloadlifecycle.Event) {
	return func(w *kueue.Workload, e workloadlifecycle.Event) {
		queue := ""
		if w.Status.Admission != nil {
			queue = string(w.Status.Admission.ClusterQueue)
		}
		if e.Reason == kueue.ReasonAdmitted {
			counters.Admitted(metrics.Of(w, queue), clock.RealClock{}.Since(metrics.QueuedSince(w)))
		}
	}
}

// ownRights keeps the controller's own rights where jobs run.
func ownRights(mgr manager.Manager, opts Options, _ *metrics.Metrics) error {
	self := &authenticationv1.SelfSubjectReview{}
	ctx, cancel := context.WithTimeout(
		context.Background(), //nolint:forbidigo // bounds one question while nothing runs yet
		selfTimeout,
	)
	defer cancel()
	if err := mgr.GetClient().Create(ctx, self); err != nil {
		return fmt.Errorf("ask the API server who this is: %w", err)
	}
	return rights.SetupWithManager(
		mgr,
		rights.Options{Client: mgr.GetClient(), Kinds: opts.Kinds, Self: self.Status.UserInfo.Username},
	)
}

func nodesAndQueues(mgr manager.Manager, opts Options, counters *metrics.Metrics) error {
	return slack.SetupWithManager(
		mgr,
		slack.Options{
			Queue:     opts.SlackQueue,
			Namespace: opts.Namespace,
			Health:    opts.health,
			Pools:     opts.Capacity.Pools,
			Cut:       opts.Capacity.Cut,
			Show:      counters.Capacity,
		},
	)
}
