package demo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Recorder watches a cluster and writes down what happens. Make one with
// Record and stop it by its context; Wait returns when it has ended.
type Recorder struct {
	clock clock.PassiveClock
	group sync.WaitGroup

	mu      sync.Mutex
	tell    func(Moment)
	changed chan struct{} // closed and replaced at each moment
	seen    *observer
	begin   time.Time
	line    Timeline
}

// Record starts to watch.
func Record(ctx context.Context, c client.WithWatch, clk clock.PassiveClock) (*Recorder, error) {
	r := &Recorder{clock: clk, changed: make(chan struct{}), seen: newObserver(), begin: clk.Now()}
	r.Hush()
	for _, list := range []client.ObjectList{
		&appwrapper.AppWrapperList{}, &kueue.WorkloadList{}, &corev1.PodList{}, &corev1.NodeList{},
	} {
		w, err := c.Watch(ctx, list)
		if err != nil {
			return nil, fmt.Errorf("watch %T: %w", list, err)
		}
		r.group.Go(func() { r.follow(ctx, c, list, w) })
	}
	return r, nil
}

// Wait returns when the recorder, whose context ended, has ended too.
func (r *Recorder) Wait() { r.group.Wait() }

// follow reads one watch, and starts it again when the API server ends it.
func (r *Recorder) follow(
	ctx context.Context,
	c client.WithWatch,
	list client.ObjectList,
	w watch.Interface,
) {
	for {
		r.read(ctx, w)
		if ctx.Err() != nil {
			return
		}
		again, err := c.Watch(ctx, list)
		if err != nil {
			return // the API server is gone; what waits for a moment will time out
		}
		w = again
	}
}

func (r *Recorder) read(ctx context.Context, w watch.Interface) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, open := <-w.ResultChan():
			if !open {
				return
			}
			r.note(e)
		}
	}
}

func (r *Recorder) note(e watch.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ms := r.seen.observe(e)
	if len(ms) == 0 {
		return
	}
	for _, m := range ms {
		m.At = r.clock.Since(r.begin)
		r.line = append(r.line, m)
		r.tell(m)
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// Begin starts a new, empty timeline. Each of its moments is also given to
// tell, one at a time, until Hush.
func (r *Recorder) Begin(tell func(Moment)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line, r.begin, r.tell = nil, r.clock.Now(), tell
}

// Hush ends the telling; the timeline goes on.
func (r *Recorder) Hush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell = func(Moment) {}
}

// Timeline returns what was seen since Begin, in the order in which it happened.
func (r *Recorder) Timeline() Timeline {
	t, _ := r.look()
	return t
}

func (r *Recorder) look() (Timeline, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := slices.Clone(r.line)
	slices.SortStableFunc(t, func(a, b Moment) int { return cmp.Compare(a.rev, b.rev) })
	return t, r.changed
}

// Until waits until the timeline satisfies reached. The context bounds it.
func (r *Recorder) Until(ctx context.Context, what string, reached func(Timeline) bool) error {
	for {
		t, changed := r.look()
		if reached(t) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		case <-changed:
		}
	}
}
