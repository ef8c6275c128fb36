package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mlbatch/mlbatch/internal/kube/apply"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/decision"
	"github.com/mlbatch/mlbatch/internal/kube/leaderelection"
)

// shift is what a process does while it leads: what needs the lead waits for it, writes
// only while no other process can have it, and ends before it is given back. A nil shift
// is that of a process without others.
type shift struct {
	candidate *leaderelection.Candidate
	// over ends what needs the lead.
	over context.Context //nolint:containedctx // it is the life of the shift, which begins and ends within Run
	end  context.CancelFunc
	// filled is closed when the caches are: a process that leads before would keep all waiting.
	filled chan struct{}
	// result is how the campaign ended: nil, or it was lost.
	result chan error
	// draining is set when no further calls should come here.
	draining atomic.Bool

	mu      sync.Mutex
	running sync.WaitGroup
}

// newShift returns the shift of a process that competes for a Lease; nil if there is none.
func newShift(cfg *rest.Config, o LeaderElection) (*shift, error) {
	if !o.Enabled {
		return nil, nil //nolint:nilnil // see shift
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this process: %w", err)
	}
	// Renewals have connections of their own: a burst of other requests must not hold
	// them up.
	cfg = rest.AddUserAgent(rest.CopyConfig(cfg), "leader-election")
	leases, err := coordinationclient.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to compete for the lead: %w", err)
	}
	filled := make(chan struct{})
	s := &shift{
		filled: filled,
		result: make(chan error, 1),
		candidate: leaderelection.New(leaderelection.Options{
			Ready:     filled,
			Leases:    leases.Leases(o.Namespace),
			Namespace: o.Namespace,
			Name:      o.Name,
			Identity:  host + "_" + string(uuid.NewUUID()),
			Duration:  o.Lease,
			Retry:     o.Retry,
			Margin:    o.Lease - o.Renew,
			Clock:     clock.RealClock{},
		}),
	}
	s.over, s.end = context.WithCancel(context.Background()) //nolint:forbidigo // it ends by itself
	return s, nil
}

// NeedLeaderElection is false: it is how the lead is won.
func (s *shift) NeedLeaderElection() bool { return false }

// Start is called by the manager when the caches are filled. The shift is over when the manager ends:
// what needs the lead ends then, whatever else takes long.
func (s *shift) Start(ctx context.Context) error {
	close(s.filled)
	select {
	case <-s.over.Done():
	case <-ctx.Done():
		s.mu.Lock()
		s.end()
		s.mu.Unlock()
	}
	return nil
}

// compete wants the lead until the shift is over. It begins before the caches are filled, so that
// a holder that is gone has been waited for by then.
func (s *shift) compete() {
	if !s.begin() {
		return
	}
	go func() {
		defer s.running.Done()
		s.result <- s.candidate.Run(s.over)
	}()
}

// joined is a context that ends with either of two.
func joined(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(other, cancel)
	return ctx, func() { stop(); cancel() }
}

// run runs the manager until the context ends, the lead is lost, or it fails. If that is before the
// caches are filled, the process has nothing to end and need not wait. Otherwise what
// needs the lead ends and the lead is given back; only after that, and after drain, do
// webhooks and the like: whoever calls them may not have heard yet that others are to be
// called.
func (s *shift) run(ctx context.Context, start func(context.Context) error, drain time.Duration) error {
	if s == nil {
		return start(ctx)
	}
	all, endAll := context.WithCancel(context.WithoutCancel(ctx))
	defer endAll()
	s.compete()
	failed := make(chan error, 1)
	go func() { failed <- start(all) }()
	var lost error
	select {
	case err := <-failed:
		s.stop()
		return errors.Join(err, s.candidate.Release(all))
	case <-ctx.Done():
		select {
		case <-s.filled:
		default:
			// Nothing runs yet that has to end. The manager would go on waiting for caches that an
			// API server which is away does not fill, with all of a processor.
			s.stop()
			return nil
		}
	case lost = <-s.result:
	}
	s.draining.Store(true)
	drained := time.After(drain) //nolint:forbidigo // it is about callers elsewhere
	s.stop()
	if err := s.candidate.Release(all); err != nil {
		log.FromContext(ctx).Error(err, "The lead is not given back; others take it when the lease has run out")
	}
	var err error
	select {
	case <-drained:
		endAll()
		err = <-failed
	case err = <-failed:
	}
	return errors.Join(lost, err)
}

// patience is how long what needs the lead may take to end. What is still on its way then
// is announced, or may be done by anybody.
const patience = 10 * time.Second

// stop ends what needs the lead and waits for it.
func (s *shift) stop() {
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() { s.running.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(patience): //nolint:forbidigo // it bounds an end
	}
}

// begin notes that something that needs the lead runs; false if it must not any more.
func (s *shift) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over.Err() != nil {
		return false
	}
	s.running.Add(1)
	return true
}

// ready says whether calls may come here.
func (s *shift) ready(*http.Request) error {
	if s != nil && s.draining.Load() {
		return errors.New("this process is about to end")
	}
	return nil
}

// lead is how decisions are announced; nil if there is nobody to be told.
func (s *shift) lead() decision.Lead {
	if s == nil {
		return nil
	}
	return announcer{s.candidate}
}

// announcer is a candidate as package apply knows it.
type announcer struct{ *leaderelection.Candidate }

// Announce announces what is about to be written.
func (a announcer) Announce(ctx context.Context, name string) (func(apply.WriteResult), error) {
	done, err := a.Candidate.Announce(ctx, name)
	if err != nil {
		return nil, err
	}
	return func(o apply.WriteResult) {
		switch o {
		case apply.Settled:
			done(leaderelection.Settled)
		case apply.Refused:
			done(leaderelection.Refused)
		case apply.Unknown:
			done(leaderelection.Unknown)
		}
	}, nil
}

// manager is the manager whose runnables need the lead of this shift.
func (s *shift) manager(mgr manager.Manager) (manager.Manager, error) {
	if s == nil {
		return mgr, nil
	}
	return led{mgr, s}, mgr.Add(s)
}

// led is a manager that does not start what needs the lead before this process has it.
type led struct {
	manager.Manager
	shift *shift
}

// Elected is closed when the process leads.
func (m led) Elected() <-chan struct{} { return m.shift.candidate.Won() }

// Add adds a runnable; it needs the lead unless it says that it does not, or is a cache: a cache
// decides nothing, and controllers that warm up wait for theirs, not longer than some minutes.
func (m led) Add(r manager.Runnable) error {
	if l, says := r.(manager.LeaderElectionRunnable); says && !l.NeedLeaderElection() {
		return m.Manager.Add(r)
	}
	if _, reads := r.(interface{ GetCache() cache.Cache }); reads {
		return m.Manager.Add(r)
	}
	return m.Manager.Add(waiting{r, m.shift})
}

// waiting is a runnable that waits for the lead.
type waiting struct {
	manager.Runnable
	shift *shift
}

// NeedLeaderElection is true, and the manager believes that it leads: it has no election of
// its own.
func (w waiting) NeedLeaderElection() bool { return true }

// Warmup fills what the runnable reads from while it waits. What it starts ends with the lead: a
// controller's workers end when its queue does, and that is told so by this context.
func (w waiting) Warmup(ctx context.Context) error {
	r, warms := w.Runnable.(interface{ Warmup(context.Context) error })
	if !warms {
		return nil
	}
	ctx, cancel := joined(ctx, w.shift.over)
	context.AfterFunc(ctx, cancel)
	return r.Warmup(ctx)
}

// Start runs it while the process leads.
func (w waiting) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-w.shift.over.Done():
		return nil
	case <-w.shift.candidate.Won():
	}
	if !w.shift.begin() {
		return nil
	}
	defer w.shift.running.Done()
	ctx, cancel := joined(ctx, w.shift.over)
	defer cancel()
	return w.Runnable.Start(ctx)
}

// client makes the manager's client: one that writes only while this process leads for
// certain. Questions to the API server that are written as objects (who is this, who may
// do what, could this be created) are none: replicas that stand by answer webhooks as well.
func (s *shift) client(cfg *rest.Config, o client.Options) (client.Client, error) {
	c, err := client.New(cfg, o)
	if err != nil || s == nil {
		return c, err
	}
	return guarded{c, s.candidate.Valid}, nil
}

type guarded struct {
	client.Client
	valid func() error
}

func (g guarded) refuse(o runtime.Object) error {
	err := g.valid()
	if err == nil {
		return nil
	}
	if gvk, known := apiutil.GVKForObject(
		o,
		g.Scheme(),
	); known == nil &&
		(gvk.Group == "authentication.k8s.io" || gvk.Group == "authorization.k8s.io") {
		return nil
	}
	return fmt.Errorf("nothing is written: %w", err)
}

// Create creates an object.
func (g guarded) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	var asked client.CreateOptions
	asked.ApplyOptions(opts)
	if err := g.refuse(o); err != nil && !slices.Contains(asked.DryRun, metav1.DryRunAll) {
		return err
	}
	return g.Client.Create(ctx, o, opts...)
}

// Update updates an object.
func (g guarded) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if err := g.refuse(o); err != nil {
		return err
	}
	return g.Client.Update(ctx, o, opts...)
}

// Patch patches an object.
func (g guarded) Patch(
	ctx context.Context,
	o client.Object,
	p client.Patch,
	opts ...client.PatchOption,
) error {
	if err := g.refuse(o); err != nil {
		return err
	}
	return g.Client.Patch(ctx, o, p, opts...)
}

// Apply applies a configuration.
func (g guarded) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if err := g.valid(); err != nil {
		return fmt.Errorf("nothing is written: %w", err)
	}
	return g.Client.Apply(ctx, o, opts...)
}

// Delete deletes an object.
func (g guarded) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if err := g.refuse(o); err != nil {
		return err
	}
	return g.Client.Delete(ctx, o, opts...)
}

// DeleteAllOf deletes objects of a kind.
func (g guarded) DeleteAllOf(ctx context.Context, o client.Object, opts ...client.DeleteAllOfOption) error {
	if err := g.refuse(o); err != nil {
		return err
	}
	return g.Client.DeleteAllOf(ctx, o, opts...)
}

// Status writes statuses.
func (g guarded) Status() client.SubResourceWriter { return g.SubResource("status") }

// SubResource writes a part of an object.
func (g guarded) SubResource(name string) client.SubResourceClient {
	return guardedPart{g.Client.SubResource(name), g}
}

type guardedPart struct {
	client.SubResourceClient
	of guarded
}

// Create creates a part of an object.
func (g guardedPart) Create(
	ctx context.Context,
	o, part client.Object,
	opts ...client.SubResourceCreateOption,
) error {
	if err := g.of.refuse(o); err != nil {
		return err
	}
	return g.SubResourceClient.Create(ctx, o, part, opts...)
}

// Update updates a part of an object.
func (g guardedPart) Update(
	ctx context.Context,
	o client.Object,
	opts ...client.SubResourceUpdateOption,
) error {
	if err := g.of.refuse(o); err != nil {
		return err
	}
	return g.SubResourceClient.Update(ctx, o, opts...)
}

// Patch patches a part of an object.
func (g guardedPart) Patch(
	ctx context.Context,
	o client.Object,
	p client.Patch,
	opts ...client.SubResourcePatchOption,
) error {
	if err := g.of.refuse(o); err != nil {
		return err
	}
	return g.SubResourceClient.Patch(ctx, o, p, opts...)
}

// Apply applies a configuration to a part of an object.
func (g guardedPart) Apply(
	ctx context.Context,
	o runtime.ApplyConfiguration,
	opts ...client.SubResourceApplyOption,
) error {
	if err := g.of.valid(); err != nil {
		return fmt.Errorf("nothing is written: %w", err)
	}
	return g.SubResourceClient.Apply(ctx, o, opts...)
}
