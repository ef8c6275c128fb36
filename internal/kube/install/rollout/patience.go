package rollout

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"
)

// patienceFactor times Cluster.Patience is all the time that there is, whatever moves.
const patienceFactor = 10

// bound ends the context when nothing has moved for x.Patience: on a slow cluster all takes long,
// and comes. Without patience it leaves the context alone.
func (x *Cluster) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if x.Patience <= 0 {
		return ctx, func() {}
	}
	why := &impatience{patienceFactor * x.Patience, "which is all the time that there is"}
	ctx, end := context.WithTimeoutCause(ctx, why.after, why)
	ctx, cancel := context.WithCancelCause(ctx)
	moved := make(chan struct{}, 1)
	go func() {
		still := clock.RealClock{}.NewTimer(x.Patience)
		defer still.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-moved:
				still.Reset(x.Patience)
			case <-still.C():
				cancel(&impatience{x.Patience, "and nothing moves"})
				return
			}
		}
	}()
	x.moved = func() {
		select {
		case moved <- struct{}{}:
		default: // it is about to be noted
		}
	}
	return ctx, func() { cancel(nil); end() }
}

// progress notes that something moved.
func (x *Cluster) progress() {
	if x.moved != nil {
		x.moved()
	}
}

// impatience is why a wait was ended.
type impatience struct {
	after time.Duration
	why   string
}

// Error says how long that was.
func (e *impatience) Error() string { return fmt.Sprintf("not ready after %s, %s", e.after, e.why) }
