package rig

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"
)

const (
	// lookEvery is how long it is waited between two looks at a condition.
	lookEvery = 50 * time.Millisecond
	// patienceFactor times a patience is all the time that there is.
	patienceFactor = 5
)

// Eventually waits until a condition holds, as Await does, and fails the test with why it did not.
func Eventually(t testing.TB, patience time.Duration, holds func(context.Context) error) {
	t.Helper()
	if err := Await(t.Context(), patience, holds); err != nil {
		t.Fatal(err)
	}
}

// Await waits until a condition holds. On a machine that does much else all takes long, and comes to be: it
// goes on while what the condition says changes, durations left aside, and gives up when that has stayed the
// same for as long as patience lasts.
func Await(ctx context.Context, patience time.Duration, holds func(context.Context) error) error {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patienceFactor*patience)
	defer cancel()
	var last error
	for moved := begun; ; {
		now := look(ctx, moved.Add(patience), holds)
		if now == nil {
			return nil
		}
		cutOff := ctx.Err() != nil || time.Since(moved) >= patience
		if last == nil || !cutOff { // what was said of a look that was cut off says less
			if last == nil || timeless(now) != timeless(last) {
				moved = time.Now()
			}
			last = now
		}
		if cutOff {
			return fmt.Errorf(
				"it did not come to be in %s: %w",
				time.Since(begun).Round(time.Second),
				errors.Join(last, ctx.Err()),
			)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
}

// look looks once, until then at most.
func look(ctx context.Context, until time.Time, holds func(context.Context) error) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return holds(ctx)
}

// durations are those of Go and of kubectl: 1m30s, 5d.
var durations = regexp.MustCompile(`\b([0-9]+(\.[0-9]+)?(ns|µs|ms|s|m|h|d))+\b`)

// timeless is what an error says, however late it is.
func timeless(err error) string { return durations.ReplaceAllString(err.Error(), "") }
