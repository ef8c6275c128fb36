package rollout

import (
	"context"
	"fmt"
	"time"
)

// patienceFactor times Cluster.Patience is all the time that there is, whatever moves.
const patienceFactor = 10

// bound ends the context when nothing has moved for x.Patience: on a slow cluster all takes long,
// and comes. Without patience it leaves the context alone.
func (x *Cluster) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if x.Patience <= 0 {
		return ctx, func() {}
	}
	begun := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	still := time.AfterFunc(x.Patience, func() { cancel(&impatience{x.Patience, "and nothing moves"}) })
	all := time.AfterFunc(patienceFactor*x.Patience, func() { cancel(&impatience{patienceFactor * x.Patience, "which is all the time that there is"}) })
	x.moved = func() {
		if time.Since(begun) < patienceFactor*x.Patience {
			still.Reset(x.Patience)
		}
	}
	return ctx, func() {
		still.Stop()
		all.Stop()
		cancel(nil)
	}
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
