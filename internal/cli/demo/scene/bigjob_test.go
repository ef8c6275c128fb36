package scene

import (
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/sim/worldfile"
)

// TestWhoFillsTheGap: what is kept for the big job is lent to those whom its queue could stop for
// it, whichever queue they are in, unless that queue lets none pass its own first job.
func TestWhoFillsTheGap(t *testing.T) {
	for name, tc := range map[string]struct {
		why    string
		change func(f *worldfile.File)
		fills  bool
	}{
		"another queue":     {"they matter less than the big job", func(*worldfile.File) {}, true},
		"the same queue":    {"so they do beside jobs as important as the big one", shortInSand, true},
		"in strict order":   {"the first of their queue may not have the gap, and none passes it", func(f *worldfile.File) { shortInSand(f); f.Teams[1].Strategy = "StrictFIFO" }, false},
		"not to be evicted": {"the big job could not stop them", func(f *worldfile.File) { f.Teams[0].Preemption.Reclaim = "Never" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			run, err := floodOf(tc.change)
			if err != nil {
				t.Fatal(err)
			}
			big, err := run.first(bigName)
			if err != nil {
				t.Fatal(err)
			}
			began := 0
			for _, sp := range run.all {
				if strings.Contains(sp.job, "/short-") && sp.from >= bigComes && sp.from < big.from {
					began++
				}
			}
			if (began > 0) != tc.fills {
				t.Errorf("%d short jobs began in the gap, want some: %v: %s", began, tc.fills, tc.why)
			}
			t.Log(began, big.from)
		})
	}
}

func shortInSand(f *worldfile.File) {
	for i := range f.Jobs {
		if f.Jobs[i].Name == "short" {
			f.Jobs[i].Team = "sand"
		}
	}
}
