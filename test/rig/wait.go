package rig

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Eventually waits until a condition holds, and fails the test with why it did not.
func Eventually(t testing.TB, patience time.Duration, holds func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		if now := holds(ctx); now == nil || ctx.Err() == nil || last == nil {
			last = now // what was said of the cut off last look says less
		}
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("it did not come to be in %s: %v", patience, errors.Join(last, err))
	}
}
