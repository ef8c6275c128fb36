package decision

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// A decision without events and without a plan may still be a sampling of past
// usage: what writes numbers is told.
func TestSamplingIsTold(t *testing.T) {
	l := New(Options{Clock: clocktesting.NewFakeClock(time.Unix(1e9, 0))})
	for range 2 {
		l.decide(t.Context())
		select {
		case <-l.Changed():
		default:
			t.Fatal("no reader was told")
		}
	}
}
