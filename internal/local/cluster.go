package local

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/mlbatch/mlbatch/internal/local/kubeversion"
	"github.com/mlbatch/mlbatch/internal/local/realnode"
	"github.com/mlbatch/mlbatch/internal/local/supervise"
)

// Cluster is a running cluster.
type Cluster struct {
	cfg    Config
	clock  clock.PassiveClock
	files  layout
	lock   *os.File // held until Stop
	marker marker
	ports  Ports
	claims *claims // on the ports, held until Stop
	begun  time.Time

	id       *identities
	real     *hardware
	adminTLS *tls.Config
	etcdTLS  *tls.Config
	admin    *rest.Config

	sup      *supervise.Supervisor
	patience *patience
	// dirty has room for one note that the state file is out of date; closing
	// it ends the writer, which closes written.
	dirty   chan struct{}
	written chan struct{}

	mu    sync.Mutex // guards phase, and cfg.Fleet until nodes are registered
	phase Phase

	saving   sync.Mutex // one writer of the state file at a time
	progress sync.Mutex // one call of cfg.Progress at a time
	stopOnce sync.Once
}

// Start runs a cluster and returns when it is ready. When it fails, nothing is
// left running. ctx bounds the start only: the cluster runs until Stop, or
// until this process ends.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	c, err := prepare(ctx, cfg)
	if err != nil {
		return nil, err
	}
	c.sup = supervise.New(c.note)
	ctx, cancel := c.patience.bound(ctx, c.cfg.StartTimeout, c.starting)
	defer cancel()
	if err := c.start(ctx); err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return nil, errors.Join(err, c.Stop(stop))
	}
	c.setPhase(Running)
	// Others may look as soon as we return.
	_ = c.save() // as in writeStates
	return c, nil
}

// stopTimeout is how long a failed start may take to clean up politely.
const stopTimeout = 10 * time.Second

// dyingTimeout is how long the components of a killed run may take to vanish.
const dyingTimeout = 5 * time.Second

// prepare does what needs no process: directory, lock, ports, certificates.
func prepare(ctx context.Context, cfg Config) (*Cluster, error) {
	dir, err := filepath.Abs(cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("find the data directory: %w", err)
	}
	c := &Cluster{
		clock: clock.RealClock{}, files: layout{dir: dir}, phase: Starting, claims: &claims{},
		dirty: make(chan struct{}, 1), written: make(chan struct{}),
	}
	c.begun = c.clock.Now()
	c.patience = &patience{clock: clock.RealClock{}, last: c.begun}
	last, err := c.files.readState()
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errDamaged) {
		return nil, err
	}
	if err := cfg.complete(last); err != nil {
		return nil, err
	}
	c.cfg = cfg
	if c.lock, c.marker, err = c.files.open(c.begun); err != nil {
		return nil, err
	}
	if err := c.settle(); err != nil {
		if !c.marker.Complete {
			// Nothing is lost, and the next start need not stumble over it.
			err = errors.Join(err, os.Remove(c.files.marker()))
		}
		c.lock.Close()
		return nil, err
	}
	if err := c.initialise(ctx, last); err != nil {
		c.claims.release()
		c.lock.Close()
		return nil, err
	}
	return c, nil
}

// initialise makes the files of the data directory. Only when all are there is
// it marked complete.
func (c *Cluster) initialise(ctx context.Context, last ClusterFile) error {
	var err error
	if last.Phase != Stopped {
		dying, cancel := context.WithTimeout(ctx, dyingTimeout)
		last.Ports.awaitFree(dying)
		cancel()
	}
	if c.ports, c.claims, err = choosePorts(ctx, last.Ports, c.cfg.APIPort); err != nil {
		if !c.marker.Complete {
			// Nothing is lost, and the next start need not stumble over it.
			err = errors.Join(err, os.Remove(c.files.marker()))
		}
		return err
	}
	if err := c.realNodes().assemble(ctx, last); err != nil {
		return err
	}
	if c.id, err = makeIdentities(c.files, c.begun, &c.cfg, c.real); err != nil {
		return err
	}
	if err := c.id.writeKubeconfigs(c.files, c.ports.API, c.real); err != nil {
		return err
	}
	if err := c.id.writeWebhookClient(c.files, c.ports.Webhook); err != nil {
		return err
	}
	if err := c.files.writeAuditPolicy(); err != nil {
		return err
	}
	if c.adminTLS, err = clientTLS(c.id.ca, c.id.adminCert); err != nil {
		return err
	}
	if c.etcdTLS, err = clientTLS(c.id.etcdCA, c.id.etcdClient); err != nil {
		return err
	}
	if c.admin, err = adminConfig(c.files); err != nil {
		return err
	}
	if err := c.files.keepConfiguration(c.cfg.Configuration); err != nil {
		return err
	}
	if err := c.realNodes().writeHardware(); err != nil {
		return err
	}
	if !c.marker.Complete {
		c.marker.Runtime = c.cfg.Runtime
		c.marker.Complete, c.marker.Empty, c.marker.Bare = true, !c.cfg.Tutorial, c.isBare()
		c.marker.Schema = 0 // so that it is written
	}
	return c.files.stamp(&c.marker)
}

// start runs the processes in the order in which they need each other.
func (c *Cluster) start(ctx context.Context) error {
	go c.writeStates()
	c.note()
	// 1. The API: everything else is its client.
	if err := c.store(ctx); err != nil {
		return err
	}
	if err := c.run(ctx, c.apiServer()); err != nil {
		return err
	}
	// 2. What others expect to find there, and who needs no more than that.
	var rest errgroup.Group
	if c.cfg.Parts != APIOnly {
		rest.Go(func() error { return c.run(ctx, c.controllerManager()) })
	}
	if err := c.bootstrap(ctx); err != nil {
		return errors.Join(err, rest.Wait())
	}
	if c.cfg.Parts != APIOnly {
		rest.Go(func() error {
			if c.real != nil {
				return c.realNodes().startNodes(ctx)
			}
			return c.simulateNodes(ctx)
		})
	}
	// 3. What mlbatch's processes expect, and these.
	rest.Go(func() error {
		if err := c.install(ctx); err != nil {
			return err
		}
		return c.startScheduling(ctx)
	})
	if err := rest.Wait(); err != nil {
		return err
	}
	// 4. The administrator's part of the tutorial needs the webhooks.
	if err := c.tutorial(ctx); err != nil {
		return err
	}
	return c.monitor(ctx)
}

// startScheduling runs mlbatch's processes, or the scheduler of Kubernetes.
func (c *Cluster) startScheduling(ctx context.Context) error {
	var both errgroup.Group
	if c.cfg.Parts == Full {
		both.Go(func() error { return c.startController(ctx) })
	}
	if c.cfg.Parts == Full || c.isBare() {
		both.Go(func() error { return c.run(ctx, c.scheduler()) })
	}
	return both.Wait()
}

// startController runs mlbatch's controller until it can be asked.
func (c *Cluster) startController(ctx context.Context) error {
	if err := c.run(ctx, c.controller()); err != nil || c.cfg.Answered == nil {
		return err
	}
	if err := c.cfg.Answered(ctx, c.Access()); err != nil {
		return fmt.Errorf("ask mlbatch's controller: %w", err)
	}
	c.milestone("questions")
	return nil
}

// run starts one component and waits until it is ready.
func (c *Cluster) run(ctx context.Context, p program) error {
	if err := c.sup.Start( //nolint:contextcheck // the process outlives the start, which ctx bounds
		c.spec(p),
	); err != nil {
		return err
	}
	if err := c.sup.WaitReady(ctx, p.name); err != nil {
		return err
	}
	c.milestone(p.name)
	return nil
}

func (c *Cluster) milestone(name string) {
	c.patience.moved()
	c.progress.Lock()
	defer c.progress.Unlock()
	c.cfg.Progress(Milestone{Name: name, Took: c.clock.Since(c.begun)})
}

// Stop ends all components, the ones that others need last, and lets go of the
// data directory. When ctx ends it kills what is left.
func (c *Cluster) Stop(ctx context.Context) error {
	var err error
	c.stopOnce.Do(func() {
		c.setPhase(Stopping)
		c.sup.Stop(ctx)
		if c.real != nil {
			err = c.files.sweep(context.WithoutCancel(ctx), c.real.subnet)
		}
		c.setPhase(Stopped)
		close(c.dirty)
		<-c.written
		err = errors.Join(err, c.save())
		c.claims.release()
		c.lock.Close()
	})
	return err
}

// Kubeconfig is the administrator's kubeconfig file.
func (c *Cluster) Kubeconfig() string { return c.files.kubeconfig() }

// KubeconfigOf is the kubeconfig file of one component's user, for tests that
// play that component.
func (c *Cluster) KubeconfigOf(component string) string { return c.files.kubeconfigOf(component) }

// RESTConfig is a client that may do everything.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// RESTConfigFor is a client that acts as a user, with whatever rights that one
// has.
func (c *Cluster) RESTConfigFor(user string, groups ...string) *rest.Config {
	cfg := c.RESTConfig()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return cfg
}

// Ports are the ports that the cluster listens on.
func (c *Cluster) Ports() Ports { return c.ports }

// Access is what Install got, for tests that serve webhooks themselves. The
// certificate is in the directory WebhookCerts.
func (c *Cluster) Access() Access {
	return Access{
		Client:         c.RESTConfig(),
		WebhookURL:     c.webhookURL(),
		StockScheduler: c.cfg.StockScheduler,
		VisibilityPort: c.ports.Visibility,
		CABundle:       c.id.ca.PEM(),
		Moved:          c.patience.moved,
	}
}

// WebhookCerts is the directory with tls.crt and tls.key for webhooks on
// loopback.
func (c *Cluster) WebhookCerts() string { return c.files.webhookCerts() }

// LogFile is where a component's output goes.
func (c *Cluster) LogFile(component string) string { return c.files.log(component) }

// Kill ends a component as a crash would (SIGKILL). It comes back by itself.
func (c *Cluster) Kill(component string) error { return c.sup.Kill(component) }

// WaitReady waits until a component has been ready once.
func (c *Cluster) WaitReady(ctx context.Context, component string) error {
	return c.sup.WaitReady(ctx, component)
}

// Status lists the components in the order in which they were started.
func (c *Cluster) Status() []ComponentStatus { return c.sup.Status() }

// State is all that is known of the cluster.
func (c *Cluster) State() ClusterFile {
	c.mu.Lock()
	phase, fleet := c.phase, c.cfg.Fleet
	c.mu.Unlock()
	return ClusterFile{
		Phase:             phase,
		PID:               os.Getpid(),
		Started:           c.begun.UTC().Truncate(time.Millisecond),
		KubernetesVersion: kubeversion.Release,
		Ports:             c.ports,
		Fleet:             fleet,
		TimeScale:         c.cfg.TimeScale,
		Monitoring:        c.cfg.Prometheus != nil,
		FeatureGates:      c.cfg.FeatureGates,
		RuntimeConfig:     c.cfg.RuntimeConfig,
		Runtime:           c.cfg.Runtime,
		Subnet:            c.subnet(),
		Components:        c.sup.Status(),
	}
}

// subnet is that of the nodes, zero without real ones.
func (c *Cluster) subnet() realnode.Subnet {
	if c.real == nil {
		return 0
	}
	return c.real.subnet
}

func (c *Cluster) setPhase(p Phase) {
	c.mu.Lock()
	c.phase = p
	c.mu.Unlock()
	c.note()
}

// note says that the state file is out of date. It never blocks.
func (c *Cluster) note() {
	select {
	case c.dirty <- struct{}{}:
	default:
	}
}

// writeStates keeps the state file current until dirty is closed.
func (c *Cluster) writeStates() {
	defer close(c.written)
	for range c.dirty {
		// The file informs others; a cluster whose disk is full still runs.
		_ = c.save()
	}
}

// save writes the state file. Of two writers, the later has the later state.
func (c *Cluster) save() error {
	c.saving.Lock()
	defer c.saving.Unlock()
	return c.files.writeState(c.State())
}

// DataDir is the directory that holds all state.
func (c *Cluster) DataDir() string { return c.files.dir }
