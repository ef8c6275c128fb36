package local

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"time"

	"k8s.io/utils/clock"
)

// The servers of a cluster need room for garbage while they work, and most of the
// time they do not: the room is given back then.
const (
	// lookEvery is how often a process looks how much it allocates.
	lookEvery = time.Second
	// busyRate, in bytes per second, is work; below idleRate for idleAfter is rest.
	busyRate, idleRate = 16 << 20, 8 << 20
	idleAfter          = 10 * time.Second
	// idlePercent is how much garbage there may be at rest, in percent of what is
	// alive.
	idlePercent = 40
)

// tide tells work from rest by how fast memory is allocated.
type tide struct {
	working bool
	// low is since when little is allocated; zero if much is.
	low time.Time
}

// look takes a rate in bytes per second, and reports whether work or rest began.
func (t *tide) look(rate float64, now time.Time) (changed bool) {
	if rate >= idleRate {
		t.low = time.Time{}
	} else if t.low.IsZero() {
		t.low = now
	}
	was := t.working
	switch {
	case rate >= busyRate:
		t.working = true
	case !t.low.IsZero() && now.Sub(t.low) >= idleAfter:
		t.working = false
	}
	return was != t.working
}

// plainPercent is how much garbage there may be in a process that nobody told otherwise, in
// percent of what is alive (Go's GOGC).
const plainPercent = 100

// ComponentPercent is how much garbage this process may have while it works, in percent of what is
// alive, and whether it is a component of a cluster.
func ComponentPercent() (percent int, component bool) {
	percent, err := strconv.Atoi(os.Getenv("GOGC"))
	if err != nil {
		percent = plainPercent
	}
	return percent, os.Getenv(childVariable) != ""
}

// GiveBackMemory lets this process hold less memory while it rests, until the context ends.
// While it works there may be busyPercent of what is alive in garbage.
func GiveBackMemory(ctx context.Context, busyPercent int) {
	wall := clock.RealClock{}
	ticker := wall.NewTicker(lookEvery)
	defer ticker.Stop()
	state := tide{working: true} // it starts, which is work
	last, at := allocated(), wall.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		total, now := allocated(), wall.Now()
		rate := float64(total-last) / max(now.Sub(at).Seconds(), lookEvery.Seconds()/2)
		last, at = total, now
		if !state.look(rate, now) {
			continue
		}
		if state.working {
			debug.SetGCPercent(busyPercent)
			continue
		}
		debug.SetGCPercent(idlePercent)
		debug.FreeOSMemory()
	}
}

// allocated is how many bytes this process has allocated since it began.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s[0].Value.Uint64()
}
