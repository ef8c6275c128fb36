// Package decision runs the decision loop: changes come in from the watches,
// the engine decides, the plan goes out as status writes. One goroutine owns
// the engine; everything that may block happens elsewhere.
package decision

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/explain"
	"github.com/mlbatch/mlbatch/internal/kube/apply"
	world "github.com/mlbatch/mlbatch/internal/kube/cache"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/crowd"
	"github.com/mlbatch/mlbatch/internal/kube/metrics"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
	"github.com/mlbatch/mlbatch/internal/record"
)

// Options are what the loop works with.
type Options struct {
	// Cache has the informers; Client reads from it and writes.
	Cache cache.Cache
	// Health has what is remembered of nodes; nil is nothing.
	Health   cache.Cache
	Client   client.Client
	Clock    clock.WithTicker
	Recorder events.EventRecorder
	Metrics  *metrics.Metrics
	Engine   cycle.Options
	// Rules are how Workloads are read.
	Rules convert.Rules
	// Lifecycle are the settings of what follows a reservation.
	Lifecycle workloadlifecycle.Config
	// Pods counts the unfinished pods of a workload that are known; nil is never asked.
	Pods func(context.Context, core.Key) (int, error)
	// Flight is where the engine's input and decisions are recorded; nil is nowhere.
	Flight *record.Ring
	// Writers is how many Workloads are written at the same time.
	Writers int
	// Live reads from the API server; nil believes that the cache is up to date.
	Live client.Reader
	// Lead is nil if no other process decides.
	Lead Lead
	// Crowd is told how many are evicted at once, and says when reasons to wait yield to that.
	Crowd *crowd.Crowd
}

// Loop is the decision loop.
type Loop struct {
	opts  Options
	inbox *world.Inbox
	world *world.World
	apply *apply.Applier
	// flight is nil where nothing is recorded.
	flight *record.Recorder

	// mu guards engine: the loop changes it, Numbers reads it.
	mu      sync.Mutex
	engine  *cycle.Engine
	counted bool // the engine has been told of all that exists
	changed chan struct{}
	// decides is closed by the first decision.
	decides chan struct{}
	// asking lets one question after the other look for advice, which takes a while:
	// no user gets all processors by asking.
	asking sync.Mutex
}

// New returns a loop that Start runs.
func New(opts Options) *Loop {
	l := &Loop{
		opts:    opts,
		inbox:   world.NewInbox(),
		world:   world.NewWorld(opts.Rules),
		engine:  cycle.New(opts.Engine),
		changed: make(chan struct{}, 1),
		decides: make(chan struct{}),
	}
	l.apply = apply.New(apply.Options{
		Client:    opts.Client,
		Clock:     opts.Clock,
		Refused:   l.inbox.Refused,
		Done:      l.tell,
		Pods:      opts.Pods,
		Sentence:  explain.Paragraph,
		Lifecycle: opts.Lifecycle,
		Workers:   opts.Writers,
		Lead:      opts.Lead,
		Yields:    opts.Crowd.Yields,
	})
	return l
}

// NeedLeaderElection makes sure that one process decides.
func (l *Loop) NeedLeaderElection() bool { return true }

// Start watches, decides and writes until the context ends.
func (l *Loop) Start(ctx context.Context) error {
	if err := l.watch(ctx); err != nil {
		return err
	}
	if err := l.succeed(ctx); err != nil {
		return nil // it was told to end
	}
	var writers sync.WaitGroup
	writers.Go(func() { l.apply.Run(ctx) })
	defer writers.Wait()

	if l.opts.Flight != nil {
		l.flight = record.NewRecorder(l.opts.Flight, l.opts.Engine, func(err error) {
			log.FromContext(ctx).Error(err, "The flight recorder has a gap")
		})
		defer l.flight.Close()
	}

	timer := l.opts.Clock.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		again := l.decide(ctx)
		timer.Stop()
		timer = l.opts.Clock.NewTimer(again)
		select {
		case <-ctx.Done():
			return nil
		case <-l.inbox.Wake():
		case <-timer.C():
		}
	}
}

// decide runs one cycle, from changes to a plan on its way out, and returns
// when to look again at the latest.
func (l *Loop) decide(ctx context.Context) time.Duration {
	began := l.opts.Clock.Now()
	// 1. what changed since the last cycle
	changes, answers := l.inbox.Take()
	events := append(answers, l.world.Translate(changes)...)
	// 2. tell the engine, and let it decide
	l.mu.Lock()
	for _, e := range events {
		l.engine.Apply(e)
		switch e := e.(type) {
		case core.Refused:
			l.world.Undone(e.Key)
		case core.WorkloadGone:
			l.apply.Forget(e.Key)
		}
	}
	now := l.opts.Clock.Now()
	plan := l.engine.Decide(now)
	if !l.counted {
		l.counted = true
		close(l.decides)
	}
	wake := l.engine.NextWake()
	held := l.engine.View().Held()
	l.mu.Unlock()
	if l.flight != nil {
		l.flight.Record(events, now, plan, func() (any, error) { return l.engine.Dump() })
	}
	// 3. remember what is planned, and write it
	for _, d := range plan {
		if r, ok := d.(core.Refuse); ok && r.Why.Cause == core.AdmissionLost {
			l.world.Undone(r.Key)
			log.FromContext(ctx).
				Error(nil, "An admission was decided and never seen; it is taken back", "workload", r.Key.String())
		}
	}
	l.world.Decided(plan)
	l.world.Holds(held)
	l.opts.Crowd.Comes(evictions(plan))
	l.apply.Plan(plan, l.world.Workload)
	l.observe(ctx, len(events), plan, began)
	select { // past usage is sampled without any event
	case l.changed <- struct{}{}:
	default:
	}

	if wake.IsZero() {
		return time.Hour
	}
	return max(wake.Sub(now), 0)
}

func (l *Loop) observe(ctx context.Context, events int, plan core.Plan, began time.Time) {
	if events == 0 && len(plan) == 0 {
		return
	}
	took := l.opts.Clock.Since(began)
	result := metrics.Inadmissible
	if admits(plan) > 0 {
		result = metrics.Success
	}
	l.opts.Metrics.Attempted(result, took)
	log.FromContext(ctx).
		V(1).
		Info("Decided", "events", events, "decisions", len(plan), "admitted", admits(plan), "took", took.String())
}

func admits(plan core.Plan) int {
	n := 0
	for _, d := range plan {
		if _, ok := d.(core.Admit); ok {
			n++
		}
	}
	return n
}

// watch feeds the inbox from the informers and returns when all of them have
// delivered what exists: deciding on half a picture would admit too much.
func (l *Loop) watch(ctx context.Context) error {
	f := feed{cache: l.opts.Cache, inbox: l.inbox}
	if err := f.watchAll(ctx, append(queued(), placed()...)); err != nil {
		return err
	}
	if err := f.watchHealth(ctx, l.opts.Health); err != nil {
		return err
	}
	if err := f.watch(ctx, &kueue.Workload{}, l.opts.Metrics.Workloads(l.opts.Clock.Now)); err != nil {
		return err
	}
	return f.sync(ctx)
}

// evictions is how many workloads a plan evicts.
func evictions(plan core.Plan) (n int) {
	for _, d := range plan {
		if _, is := d.(core.Evict); is {
			n++
		}
	}
	return n
}
