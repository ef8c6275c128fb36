package manager

import (
	"context"
	"errors"
	"testing"
)

// TestEarlyRunsWhileTheManagerWaits: what is early runs before the manager has got anywhere, and is
// over when the manager is, however that ended.
func TestEarlyRunsWhileTheManagerWaits(t *testing.T) {
	e := &early{}
	begun, over := make(chan struct{}), false
	e.add(func(ctx context.Context) {
		close(begun)
		<-ctx.Done()
		over = true
	})
	failed := errors.New("the caches were never filled")
	err := e.with(func(context.Context) error {
		<-begun
		return failed
	})(t.Context())
	if !errors.Is(err, failed) || !over {
		t.Errorf("it ended with %v, and what is early is over: %v", err, over)
	}
}
