package rig

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A condition is waited for while something moves, and not for ever.
func TestAwaitGoesOnWhileSomethingMoves(t *testing.T) {
	const patience = 2 * time.Minute
	for name, tc := range map[string]struct {
		why   string
		holds func(ctx context.Context, after time.Duration) error
		want  time.Duration // until it holds, or it is given up
		says  string        // part of the error, "" if it holds
	}{
		"At once": {"it holds", func(context.Context, time.Duration) error { return nil }, 0, ""},
		"Stuck":   {"it stays as it is", func(context.Context, time.Duration) error { return errors.New("Pending") }, patience, "Pending"},
		"Moves": {"one step takes nearly all patience", func(_ context.Context, after time.Duration) error {
			if step := after / (patience - time.Second); step < 4 {
				return fmt.Errorf("step %d of 4", step)
			}
			return nil
		}, 4 * (patience - time.Second), ""},
		"Clock": {"only the clock moves", func(_ context.Context, after time.Duration) error {
			return fmt.Errorf("node-0 has not answered for %s", after.Round(time.Second))
		}, patience, "not answered for"},
		"Forever": {"it moves and gets nowhere", func(_ context.Context, after time.Duration) error {
			return fmt.Errorf("restart %d", int(after.Seconds()))
		}, patienceFactor * patience, "restart"},
		"Hangs": {"no look ends by itself after the first", func(ctx context.Context, after time.Duration) error {
			if after == 0 {
				return errors.New("starting")
			}
			<-ctx.Done()
			return ctx.Err()
		}, patience, "starting"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				err := Await(
					t.Context(),
					patience,
					func(ctx context.Context) error { return tc.holds(ctx, time.Since(begun)) },
				)
				if took := time.Since(begun); took < tc.want || took > tc.want+2*lookEvery {
					t.Errorf("%s: waited %v, want %v", tc.why, took, tc.want)
				}
				if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%s: says %v, want %q", tc.why, err, tc.says)
				}
			})
		})
	}
}
