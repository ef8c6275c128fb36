package decision

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	world "github.com/mlbatch/mlbatch/internal/kube/cache"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// Follower keeps track of which workload waits where and why in a process that does not
// decide, so that it can answer as the one that does would. It decides nothing and writes
// nothing, and it is not what the process decides with once it leads: that begins
// with a picture of its own.
type Follower struct {
	opts FollowerOptions

	// mu guards what follows.
	mu     sync.Mutex
	engine *cycle.Engine // nil before the picture is whole, and after the end
}

// FollowerOptions are what a Follower works with.
type FollowerOptions struct {
	Cache cache.Cache
	// Health has what is remembered of nodes; nil is nothing.
	Health cache.Cache
	Clock  clock.WithTicker
	Engine cycle.Options
	Rules  convert.Rules
	// From begins the following: another process decides; nil is at once. A process that leads as
	// soon as it can needs no second picture, which would hold up the first.
	From <-chan struct{}
	// Until ends the following: the process decides.
	Until <-chan struct{}
	// Pause is the least time between two looks at what changed; 0 means
	// DefaultPause.
	Pause time.Duration
}

// DefaultPause is the least time between two looks of a Follower.
const DefaultPause = 200 * time.Millisecond

// NewFollower returns a follower that Start runs.
func NewFollower(o FollowerOptions) *Follower {
	if o.Pause == 0 {
		o.Pause = DefaultPause
	}
	if o.From == nil {
		at := make(chan struct{})
		close(at)
		o.From = at
	}
	return &Follower{opts: o}
}

// NeedLeaderElection is false: it works until the process leads.
func (f *Follower) NeedLeaderElection() bool { return false }

// Start follows, from when another process decides, until the process decides or the context ends.
func (f *Follower) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-f.opts.Until:
		return nil
	case <-f.opts.From:
	}
	inbox, picture := world.NewInbox(), world.NewWorld(f.opts.Rules) // they end with the following
	watch := feed{cache: f.opts.Cache, inbox: inbox}
	if err := watch.watchAll(ctx, append(queued(), placed()...)); err != nil {
		return err
	}
	if err := watch.watchHealth(ctx, f.opts.Health); err != nil {
		return err
	}
	defer func() {
		if err := watch.end(); err != nil {
			log.FromContext(ctx).Error(err, "Stop following")
		}
		f.mu.Lock()
		f.engine = nil
		f.mu.Unlock()
	}()
	if err := watch.sync(ctx); err != nil {
		return nil // it ended because it was told to
	}
	engine := cycle.New(f.opts.Engine)
	for {
		changes, _ := inbox.Take()
		events := picture.Translate(changes)
		f.mu.Lock()
		for _, e := range events {
			engine.Apply(e)
		}
		engine.Follow(f.opts.Clock.Now())
		f.engine = engine
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-f.opts.Until:
			return nil
		case <-inbox.Wake():
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.opts.Until:
			return nil
		case <-f.opts.Clock.After(f.opts.Pause):
		}
	}
}

// look gives a question the engine; false if there is none.
func (f *Follower) look(ask func(*cycle.Engine)) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.engine == nil {
		return false
	}
	ask(f.engine)
	return true
}
