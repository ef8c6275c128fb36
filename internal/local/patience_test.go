package local

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// A start goes on while something moves, and not for ever.
func TestStartGoesOnWhileSomethingMoves(t *testing.T) {
	const limit = 2 * time.Minute
	for name, tc := range map[string]struct {
		why   string
		every time.Duration // something moves until then
		until time.Duration
		busy  float64 // processors that what starts keeps busy
		want  time.Duration
		says  string
	}{
		"Nothing": {"it hangs", time.Hour, 0, 0, limit, "nothing has moved"},
		"Moves":   {"objects come slowly", 100 * time.Second, 10 * time.Minute, 0, 10*time.Minute + limit, "nothing has moved"},
		"Busy":    {"the API server gets a tenth of a processor", time.Hour, 0, 0.1, patienceFactor * limit, "not ready after 20m0s"},
		"Waits":   {"it asks every moment for what does not come", time.Hour, 0, 0.01, limit, "nothing has moved"},
		"Forever": {"something moves all the time", time.Second, time.Hour, 0, patienceFactor * limit, "not ready after 20m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				p := &patience{clock: clock.RealClock{}}
				ctx, cancel := p.bound(
					t.Context(),
					limit,
					func() time.Duration { return time.Duration(float64(time.Since(begun)) * tc.busy) },
				)
				defer cancel()
				go func() {
					for time.Since(begun)+tc.every <= tc.until {
						select {
						case <-ctx.Done():
							return
						case <-time.After(tc.every):
							p.moved()
						}
					}
				}()
				<-ctx.Done()
				if took := time.Since(begun); took < tc.want || took > tc.want+limit/10 {
					t.Errorf("%s: gave up after %v, want %v", tc.why, took, tc.want)
				}
				if err := context.Cause(ctx); !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%s: says %q, want %q", tc.why, err, tc.says)
				}
			})
		})
	}
}

func TestProcessorTimeOf(t *testing.T) {
	const stat = "4711 (a) b (c) R 1 2 3 4 5 6 7 8 9 10 250 75 0 0 20 0 1 0 100 0 0"
	if got := processorTimeOf(stat); got != 3250*time.Millisecond {
		t.Errorf("processor time = %v, want 3.25s", got)
	}
	if got := processorTimeOf(""); got != 0 {
		t.Errorf("without a process it is %v, want 0", got)
	}
}
