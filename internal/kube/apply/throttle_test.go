package apply

import (
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

func TestCrowd(t *testing.T) {
	mine, theirs := core.Key{Namespace: "blue", Name: "q"}, core.Key{Namespace: "red", Name: "q"}
	tests := map[string]struct {
		why          string
		mine, theirs int
		wait         time.Duration
		quiet        bool
	}{
		"nobody":     {"it may hold for a moment only", 0, 0, 100 * time.Millisecond, false},
		"a few":      {"there is time for all", 4, 0, 180 * time.Millisecond, false},
		"among many": {"one job is told soon, whatever others submit", 1, 20_000, 300 * time.Millisecond, false},
		"some of many": {
			"a small crowd waits for most of the large one",
			50,
			20_000,
			50100 * time.Millisecond,
			true,
		},
		"many of many":  {"most of them start before they are told why not", 2000, 10_000, 2 * time.Minute, true},
		"many, alone":   {"writing takes as long as it takes", 1000, 0, 20100 * time.Millisecond, true},
		"others only":   {"it is not in their queue", 0, 20_000, 100 * time.Millisecond, false},
		"quiet at last": {"a hundred events are no news", 100, 0, 2100 * time.Millisecond, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := throttle{of: map[core.Key]int{}}
			for range 2 { // nothing is left of those who were told
				c.add(mine, tc.mine)
				c.add(theirs, tc.theirs)
				if wait, quiet := c.wait(mine), c.silent(mine); wait != tc.wait || quiet != tc.quiet {
					t.Errorf("waits %v, quiet %v; want %v, %v: %s", wait, quiet, tc.wait, tc.quiet, tc.why)
				}
				c.add(mine, -tc.mine)
				c.add(theirs, -tc.theirs)
			}
			if c.all != 0 || len(c.of) != 0 {
				t.Errorf("counts %+v when all were told", c)
			}
		})
	}
}
