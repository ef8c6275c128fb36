package views

import (
	"context"
	"errors"
	"testing"
)

// TestAnswersAreComputedAFewAtATime: two in all, one of each asker, and who is waited for no more waits no
// more.
func TestAnswersAreComputedAFewAtATime(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	all := newTurns()
	take := func(ctx context.Context, who string) func() {
		t.Helper()
		end, err := all.take(ctx, who)
		if err != nil {
			t.Fatalf("%s: %v", who, err)
		}
		return end
	}
	refused := func(who, why string) {
		t.Helper()
		for range 20 { // a free turn would be taken in some of them
			if end, err := all.take(gone, who); err == nil {
				end()
				t.Fatalf("%s has a turn: %s", who, why)
			} else if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
	}
	a := take(t.Context(), "a")
	refused("a", "a has one")
	b := take(t.Context(), "b")
	refused("c", "two have theirs")
	b()
	take(t.Context(), "c")()
	a()
	if len(all.own) != 0 || len(all.all) != 0 {
		t.Errorf("%d askers and %d turns are left", len(all.own), len(all.all))
	}
}
