package chaos

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// maxMoments bounds a world that does not come to rest.
const maxMoments = 20_000

// tape keeps what an engine was told and decided.
type tape struct {
	entries []entry
}

// entry is one line of a tape: a fresh engine, an event or a decision.
type entry struct {
	options *cycle.Options
	event   core.Event
	at      time.Time
	plan    core.Plan
}

func (t *tape) Began(o cycle.Options) { t.entries = append(t.entries, entry{options: &o}) }
func (t *tape) Event(ev core.Event)   { t.entries = append(t.entries, entry{event: ev}) }
func (t *tape) Decided(at time.Time, p core.Plan) {
	t.entries = append(t.entries, entry{at: at, plan: p})
}

// Try runs a world under the auditor's eyes and then replays it. The error says
// which promise broke; nil if all were kept.
func Try(w sim.World) error { return Audit(w, nil) }

// Audit is Try, and counts the advice that was followed; advised may be nil.
func Audit(w sim.World, advised sim.Tally) error { return play(w, sim.Watch{Advised: advised}) }

// Mishear is Try with an engine that is told something else than what is: to break its rules on purpose.
func Mishear(w sim.World, heard func(core.Event) core.Event) error {
	return play(w, sim.Watch{Mishear: heard})
}

func play(w sim.World, watch sim.Watch) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if w.Lifecycle != nil && w.Rules == nil {
		return errors.New("the world has a life cycle and no rules for it")
	}
	t := &tape{}
	watch.Check, watch.Log = true, t
	run := sim.New(w, watch)
	if run.Advance(maxMoments) {
		return fmt.Errorf("P5: the world does not come to rest within %d moments", maxMoments)
	}
	if err := run.Err(); err != nil {
		return err
	}
	return t.replay()
}

// replay feeds a fresh engine the same events and compares decisions (P7). This
// engine is asked no questions: they must not change decisions.
func (t *tape) replay() error {
	var e *cycle.Engine
	for i := range t.entries {
		x := &t.entries[i]
		switch {
		case x.options != nil:
			e = cycle.New(*x.options)
		case x.event != nil:
			e.Apply(x.event)
		default:
			if again := e.Decide(x.at); len(again)+len(x.plan) > 0 && !reflect.DeepEqual(again, x.plan) {
				want, got := printPlan(x.plan), printPlan(again)
				return fmt.Errorf("P7: at %s the engine decided\n%sand in a replay\n%s", x.at.UTC(), want, got)
			}
		}
	}
	return nil
}

func printPlan(p core.Plan) string {
	var b strings.Builder
	for _, d := range p {
		fmt.Fprintf(&b, "  %T %+v\n", d, d)
	}
	return b.String()
}

// promise is which promise an error is about: its number, or what precedes the
// first colon.
func promise(err error) string {
	s := err.Error()
	if i := strings.Index(s, "start): "); i >= 0 {
		s = s[i+len("start): "):]
	}
	for _, p := range []string{"P1:", "P2:", "P3:", "P4:", "P5:", "P6:", "P7:", "P9:", "P10:", "P11:"} {
		if strings.Contains(s, p) {
			return p
		}
	}
	head, _, _ := strings.Cut(s, ":")
	return head
}

// Shorten leaves out of a broken world's script whatever is not needed for the
// same promise to break, and returns what is left with its error.
func Shorten(w sim.World, broken error) (sim.World, error) {
	want := promise(broken)
	try := func(c sim.World) bool {
		err := Try(c)
		if err == nil || promise(err) != want {
			return false
		}
		w, broken = c, err
		return true
	}
	for _, simpler := range []func(*sim.World){
		func(c *sim.World) { c.Cluster = sim.ClusterModel{} },
		func(c *sim.World) { c.Cluster.Refuse, c.Cluster.Repeat = 0, 0 },
		func(c *sim.World) { c.Faults = sim.Faults{} },
		func(c *sim.World) { c.Engine.FairSharing = nil },
		func(c *sim.World) { c.Engine.BlockAdmission = false },
		func(c *sim.World) { c.Checks = nil },
		func(c *sim.World) { c.Lifecycle = nil },
		func(c *sim.World) {
			if c.Lifecycle != nil {
				c.Lifecycle = &sim.Lifecycle{Pods: c.Lifecycle.Pods, LongestEnd: c.Lifecycle.LongestEnd}
			}
		},
	} {
		c := w
		simpler(&c)
		try(c)
	}
	for changed := true; changed; {
		changed = false
		for size := max(1, len(w.Script)/2); size > 0; size /= 2 {
			for at := 0; at < len(w.Script); {
				c := w
				c.Script = slices.Concat(w.Script[:at], w.Script[min(len(w.Script), at+size):])
				if try(c) {
					changed = true
				} else {
					at += size
				}
			}
		}
	}
	return w, broken
}
