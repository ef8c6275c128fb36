package chaos_test

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/chaos"
)

// TestHangingWorlds: the promises hold while things fail under jobs. No job is stopped for a hang that takes its steps in
// time, and what hangs is found within twice the time that it stated, which the auditor looks at.
func TestHangingWorlds(t *testing.T) {
	const worlds = 60
	hangs, resets := 0, 0
	for seed := uint64(1); seed <= worlds; seed++ {
		w := chaos.HangingWorld(seed)
		if err := chaos.Audit(w, nil); err != nil {
			report(t, w, err)
			continue
		}
		run := sim.New(w, sim.Watch{})
		run.Advance(20_000)
		for i := range w.Script {
			if j := w.Script[i].Job; j != nil {
				g := run.Goodput(j.Key)
				hangs, resets = hangs+g.Hangs, resets+g.Resets
				if s := j.Steps; s != nil && g.Hangs > s.Restarts {
					t.Errorf("seed %d: %s was stopped %d times for hangs, of %d", seed, j.Key, g.Hangs, s.Restarts)
				}
			}
		}
	}
	if hangs < worlds/10 || resets < worlds/10 {
		t.Errorf("in %d worlds there were %d hangs and %d resets: they say little", worlds, hangs, resets)
	}
	t.Logf("%d hangs were found, %d resets", hangs, resets)
}

// TestHangingWorldsAreWritten: a world that breaks can be kept.
func TestHangingWorldsAreWritten(t *testing.T) {
	w := chaos.HangingWorld(7)
	var b bytes.Buffer
	if err := chaos.Write(&b, w); err != nil {
		t.Fatal(err)
	}
	again, err := chaos.Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	faults := func(w sim.World) (out []sim.Fault) {
		for i := range w.Script {
			if f := w.Script[i].Fault; f != nil {
				out = append(out, *f)
			}
		}
		return out
	}
	if !reflect.DeepEqual(w.Recovery, again.Recovery) || len(faults(w)) == 0 ||
		!reflect.DeepEqual(faults(w), faults(again)) {
		t.Errorf("%+v became %+v", w.Recovery, again.Recovery)
	}
}
