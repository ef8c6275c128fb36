package local

import (
	"testing"
	"time"
)

// Work is seen at once, rest when it has lasted: a pause between two requests is
// none.
func TestTide(t *testing.T) {
	const much, some, little = 2 * busyRate, (busyRate + idleRate) / 2, idleRate / 4
	at := time.Unix(0, 0)
	state := tide{working: true}
	for i, step := range []struct {
		why     string
		rate    float64
		wait    time.Duration
		working bool
	}{
		{"the start is work", much, time.Second, true},
		{"a pause", little, time.Second, true},
		{"is over", much, time.Second, true},
		{"another pause", little, idleAfter - time.Second, true},
		{"that lasts", little, 2 * time.Second, true},
		{"is rest", little, idleAfter, false},
		{"a little more is rest, too", some, time.Second, false},
		{"a lot is work", much, time.Second, true},
		{"less is work still", some, 10 * idleAfter, true},
		{"until it is little", little, time.Second, true},
		{"for some time", little, idleAfter, false},
	} {
		at = at.Add(step.wait)
		was := state.working
		if changed := state.look(step.rate, at); state.working != step.working || changed != (was != step.working) {
			t.Fatalf(
				"step %d: working is %v (changed %v), want %v: %s",
				i,
				state.working,
				changed,
				step.working,
				step.why,
			)
		}
	}
}

// What is allocated is counted by this version of Go.
func TestAllocated(t *testing.T) {
	before := allocated()
	waste = make([]byte, 1<<20)
	if after := allocated(); before == 0 || after < before+1<<20 {
		t.Errorf("allocated %d bytes, then %d", before, after)
	}
}

var waste []byte
