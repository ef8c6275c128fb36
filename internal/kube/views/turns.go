package views

import (
	"context"
	"sync"
)

// turns bound how many answers are computed at the same time, in all and for each asker: what is asked must
// not take the processors from what is decided, nor one who asks much from the others.
type turns struct {
	all chan struct{}

	mu  sync.Mutex // guards own
	own map[string]*ownTurn
}

// ownTurn is that of one asker, who has one at a time.
type ownTurn struct {
	taken chan struct{}
	users int
}

// computedAtOnce is how many answers are computed at the same time.
const computedAtOnce = 2

func newTurns() *turns {
	return &turns{all: make(chan struct{}, computedAtOnce), own: map[string]*ownTurn{}}
}

// take waits for a turn of an asker and returns what ends it. It fails if ctx ends before.
func (t *turns) take(ctx context.Context, asker string) (end func(), err error) {
	own := t.join(asker)
	select {
	case own.taken <- struct{}{}:
	case <-ctx.Done():
		t.leave(asker, own)
		return nil, context.Cause(ctx)
	}
	select {
	case t.all <- struct{}{}:
	case <-ctx.Done():
		<-own.taken
		t.leave(asker, own)
		return nil, context.Cause(ctx)
	}
	return func() {
		<-t.all
		<-own.taken
		t.leave(asker, own)
	}, nil
}

func (t *turns) join(asker string) *ownTurn {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.own[asker]
	if own == nil {
		own = &ownTurn{taken: make(chan struct{}, 1)}
		t.own[asker] = own
	}
	own.users++
	return own
}

func (t *turns) leave(asker string, own *ownTurn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(t.own, asker)
	}
}
