package scheduler

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"github.com/mlbatch/mlbatch/internal/kube/leaderelection"
	"github.com/mlbatch/mlbatch/internal/kube/trim"
)

// Options say how the scheduler runs.
type Options struct {
	// Client is how the API server is reached. Its rate limits are taken as
	// they are.
	Client *rest.Config
	// SchedulerNames are the names in pods' spec.schedulerName that are answered.
	SchedulerNames []string
	// BindAddress is where HealthPort listens; loopback if empty.
	BindAddress string
	// HealthPort is the port of /healthz, /readyz and /metrics.
	HealthPort int
	// Election lets several schedulers run with one of them binding.
	Election Election
}

// Validate says what is wrong with the options.
func (o Options) Validate() error {
	switch {
	case len(o.SchedulerNames) == 0:
		return errors.New("no scheduler names: name at least one, as in --scheduler-names=mlbatch-scheduler")
	case slices.Contains(o.SchedulerNames, ""):
		return errors.New("an empty scheduler name: remove the stray comma from --scheduler-names")
	case o.HealthPort < 1 || o.HealthPort > 65535:
		return fmt.Errorf("health port %d: choose one between 1 and 65535", o.HealthPort)
	}
	return nil
}

// backoff bounds how long a pod that failed for reasons of its own stays out of
// the queue while other pods are tried. Pods of gangs are woken by what they
// wait for and do not depend on it.
const (
	initialBackoffSeconds = 1
	maxBackoffSeconds     = 5
)

// process is a scheduler with all that it watches.
type process struct {
	opts         Options
	client       kubernetes.Interface
	reservations *Reservations
	waker        *waker
	pods         *podIndex
	noter        *noter
	groups       *groupStatus
	crds         []watched
	sched        *kubescheduler.Scheduler
	inform       func(context.Context)
	// candidate is nil if there is no election.
	candidate *leaderelection.Candidate
	events    events.EventBroadcaster
	// synced is closed when all that there is was read.
	synced chan struct{}
}

// watched is a source with its client and informer.
type watched struct {
	source   source
	client   rest.Interface
	informer cache.SharedIndexInformer
}

// Run schedules pods until the context ends or the health port fails. It waits
// for what is not there yet: the API server, and the kinds it is to serve.
func Run(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	// 1. Wire, without a word to the API server.
	p, err := wire(ctx, o)
	if err != nil {
		return fmt.Errorf("start scheduler: %w", err)
	}
	waitHealth, err := serve(ctx, o, p.ready)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	var healthErr error
	wg.Go(func() { healthErr = waitHealth(); cancel() })

	// 2. Watch, the lead of another process as well. Pods that name a kind that is not served wait; others do not.
	campaign := p.compete(ctx)
	for _, w := range p.crds {
		wg.Go(func() {
			if w.source.awaitServed(ctx, w.client) == nil {
				w.informer.RunWithContext(ctx)
			}
		})
	}
	wg.Go(func() { p.pods.finished.RunWithContext(ctx) })
	p.inform(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), p.pods.finished.HasSynced) {
		cancel()
		wg.Wait()
		return healthErr
	}
	if err := p.sched.WaitForHandlersSync(ctx); err != nil {
		cancel()
		wg.Wait()
		return healthErr
	}
	close(p.synced)

	// 3. Schedule, once no other process does.
	elected, giveBack := campaign.elect(ctx)
	p.resume(elected)
	wg.Go(func() { p.noter.run(elected) })
	wg.Go(func() { p.groups.run(elected) })
	if err := p.events.StartRecordingToSinkWithContext(elected); err != nil {
		return errors.Join(fmt.Errorf("start sending events: %w", err), giveBack())
	}
	defer p.events.Shutdown()
	p.sched.Run(elected)
	lost := giveBack()
	cancel()
	wg.Wait()
	return errors.Join(healthErr, lost)
}

func (p *process) ready() error {
	select {
	case <-p.synced:
		return nil
	default:
		return errors.New("still reading nodes and pods")
	}
}

// wire builds the process.
func wire(ctx context.Context, o Options) (*process, error) {
	// A pod that waits for its gang would otherwise have its node written to its
	// status first: a write for each pod that is not read here.
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		string(features.NominatedNodeNameForExpectation): false,
	}); err != nil {
		return nil, fmt.Errorf("set feature gates: %w", err)
	}
	synced := make(chan struct{})
	competes, guarded, err := candidate(o, synced)
	if err != nil {
		return nil, err
	}
	o.Client = guarded
	cfg := rest.CopyConfig(o.Client)
	cfg.ContentType = apiruntime.ContentTypeProtobuf
	cfg.AcceptContentTypes = apiruntime.ContentTypeProtobuf + "," + apiruntime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	reads, err := trim.ForScheduler(cfg)
	if err != nil {
		return nil, err
	}
	factory := kubescheduler.NewInformerFactory(reads, 0, nil)
	pods, err := newPodIndex(ctx, reads, factory.Core().V1().Pods().Informer())
	if err != nil {
		return nil, err
	}
	p := &process{
		opts: o, client: client, pods: pods, candidate: competes, synced: synced,
		events: events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()}),
		inform: func(ctx context.Context) {
			factory.StartWithContext(ctx)
			factory.WaitForCacheSyncWithContext(ctx)
		},
	}
	known := newRegistry()
	p.reservations = NewReservations(pods, known, o.SchedulerNames, clock.RealClock{}.Now)
	p.waker = &waker{reservations: p.reservations, registry: known, pods: pods, later: pods.after}
	p.noter = newNoter(p.reservations, client, factory.Core().V1().Pods().Lister(), func(name string) bool {
		return slices.Contains(o.SchedulerNames, name)
	})
	if err := p.wireSources(); err != nil {
		return nil, err
	}
	if _, err := pods.current.AddEventHandler(p.waker.podHandler()); err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	if _, err := pods.finished.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    p.touchFinished,
		UpdateFunc: func(_, obj any) { p.touchFinished(obj) },
	}); err != nil {
		return nil, fmt.Errorf("watch finished pods: %w", err)
	}
	return p, p.wireScheduler(ctx, factory)
}

// wireSources sets up the watches of Workloads and PodGroups.
func (p *process) wireSources() error {
	scheme, err := crdScheme()
	if err != nil {
		return err
	}
	for _, s := range []source{workloadSource(), podGroupSource()} {
		client, err := s.client(p.opts.Client, scheme)
		if err != nil {
			return err
		}
		inf, err := s.informer(client, scheme)
		if err != nil {
			return err
		}
		if _, err := inf.AddEventHandler(p.waker.gangHandler(s)); err != nil {
			return fmt.Errorf("watch %s: %w", s.resource, err)
		}
		p.crds = append(p.crds, watched{s, client, inf})
		if s.resource == podGroupResource {
			p.groups = newGroupStatus(p.pods, inf, client)
			if _, err := inf.AddEventHandler(p.groups.handler()); err != nil {
				return fmt.Errorf("watch %s: %w", s.resource, err)
			}
		}
	}
	p.waker.touched = func(pod *corev1.Pod) {
		p.noter.touched(pod)
		p.groups.touched(pod)
	}
	p.waker.refused = p.noter.refused
	return nil
}

func (p *process) touchFinished(obj any) {
	if pod, ok := obj.(*corev1.Pod); ok {
		p.groups.touched(pod)
		if p.pods.arrived(pod) {
			p.waker.went(pod) // its place was not offered before
		}
	}
}

// wireScheduler builds the upstream scheduler around our plugins.
func (p *process) wireScheduler(ctx context.Context, factory informers.SharedInformerFactory) error {
	profs, err := profiles(p.opts.SchedulerNames)
	if err != nil {
		return err
	}
	registry := frameworkruntime.Registry{
		GangName:   gangFactory(p.reservations, p.waker),
		HealthName: newHealthPlugin,
	}
	p.sched, err = kubescheduler.New(ctx, p.client, factory, nil,
		func(name string) events.EventRecorderLogger {
			return recorder{p.events.NewRecorder(clientgoscheme.Scheme, name), p.reservations}
		},
		kubescheduler.WithComponentConfigVersion("kubescheduler.config.k8s.io/v1"),
		kubescheduler.WithKubeConfig(p.opts.Client),
		kubescheduler.WithProfiles(profs...),
		kubescheduler.WithFrameworkOutOfTreeRegistry(registry),
		kubescheduler.WithPodInitialBackoffSeconds(initialBackoffSeconds),
		kubescheduler.WithPodMaxBackoffSeconds(maxBackoffSeconds),
		// A planned pod looks at one node, so more threads only get in each
		// other's way; pods without a plan gain from all cores.
		kubescheduler.WithParallelism(int32(min(16, runtime.GOMAXPROCS(0)))), //nolint:gosec // at most 16
	)
	if err != nil {
		return fmt.Errorf("build scheduler: %w", err)
	}
	klog.FromContext(ctx).Info("Starting scheduler", "schedulerNames", p.opts.SchedulerNames)
	return nil
}
