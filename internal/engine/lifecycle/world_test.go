package lifecycle

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
)

// world carries steps out the way the controller does, against components and
// pods that do what they are told.
type world struct {
	now        time.Time
	phase      Phase
	retries    int32
	conditions []Condition
	suspend    bool
	deleting   bool
	finalizer  bool
	policy     Policy
	components []Component
	pods       []Pod
	failure    core.Failure
	earlier    core.RetryHistory
	// stubborn pods ignore deletion without force.
	stubborn bool
	// createFails makes creation fail with a passing error.
	createFails bool
	// kept objects stay once they are deleted, by another's finalizer: components,
	// and pods that ended.
	kept bool
	gone bool
	last Transition
}

func newWorld(p Policy, components ...Component) *world {
	w := &world{now: start(), suspend: true, policy: p}
	for _, c := range components {
		w.components = append(w.components, missing(c))
	}
	return w
}

func (w *world) facts() Facts {
	return Facts{
		Phase: w.phase, Retries: w.retries, Conditions: w.conditions, Suspend: w.suspend, Deleting: w.deleting,
		Finalizer: w.finalizer, Policy: w.policy, Components: append([]Component(nil), w.components...),
		Pods: append([]Pod(nil), w.pods...), Fresh: true, Failure: w.failure, Earlier: w.earlier,
	}
}

// once carries out one step and reports whether anything changed.
func (w *world) once() bool {
	f := w.facts()
	s := Decide(f, w.now)
	if s.Finalizer == AddFinalizer {
		w.finalizer, f.Finalizer = true, true
	}
	if s.Action == Create {
		if w.createFails {
			f.CreateError = &CreateError{Component: "Job j", Message: "timeout"}
		} else {
			for i := range w.components {
				w.components[i].Exists = true
				f.Components[i].Exists = true
			}
		}
		s = Decide(f, w.now)
	}
	changed := s.Phase != w.phase || !equalConditions(s.Conditions, w.conditions) || s.Retries != w.retries
	w.phase, w.retries, w.conditions, w.last = s.Phase, s.Retries, s.Conditions, s
	if s.Action == Delete || s.Action == ForceDelete {
		for i := range w.components {
			c := &w.components[i]
			if w.kept {
				changed = changed || c.Exists && !c.Deleting
				c.Deleting = c.Exists
				continue
			}
			changed = changed || c.Exists
			c.Exists, c.Deleting, c.Outcome = false, false, Undecided
		}
		switch stops := !w.stubborn || s.Action == ForceDelete; {
		case stops && !w.kept:
			changed = changed || len(w.pods) > 0
			w.pods = nil
		case stops:
			for i := range w.pods {
				changed = changed || !w.pods[i].Finished()
				w.pods[i].Phase = PodFailed
			}
		}
		for i := range w.pods {
			changed = changed || !w.pods[i].Deleting
			w.pods[i].Deleting = true
		}
	}
	if s.Finalizer == RemoveFinalizer {
		w.finalizer, w.gone, changed = false, true, true
	}
	return changed
}

func equalConditions(a, b []Condition) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// advance works until a step changes nothing, and then lets the time pass that
// the last step asked for. It reports false if the world rests for good.
func (w *world) advance() bool {
	if w.gone {
		return false
	}
	if w.once() {
		return true
	}
	if w.last.RecheckAfter == 0 {
		return false
	}
	w.now = w.now.Add(w.last.RecheckAfter)
	return true
}

func (w *world) advanceTo(t *testing.T, p Phase) {
	t.Helper()
	for range 200 {
		if w.phase == p {
			return
		}
		if !w.advance() {
			break
		}
	}
	t.Fatalf("reached %s and not %s", w.phase, p)
}

func (w *world) unfinished() bool {
	return slices.ContainsFunc(w.pods, func(p Pod) bool { return p.State().HoldsQuota() })
}

func (w *world) has(t ConditionType) bool {
	for _, c := range w.conditions {
		if c.Type == t {
			return c.True
		}
	}
	return false
}

func anyPods(t *rapid.T) []Pod {
	phases := rapid.SliceOfN(
		rapid.SampledFrom([]PodPhase{PodPending, PodRunning, PodSucceeded, PodFailed, "Unknown"}),
		0,
		4,
	).
		Draw(t, "phases")
	out := pods(phases...)
	for i := range out {
		out[i].Deleting = rapid.Bool().Draw(t, "deleting")
		if rapid.IntRange(0, 5).Draw(t, "bad") == 0 {
			out = onBadNode(out, i)
		}
		if rapid.IntRange(0, 5).Draw(t, "stray") == 0 {
			out[i].PodSet = ""
		}
	}
	return out
}

func anyWorld(t *rapid.T) *world {
	minutes := func(name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Minute
	}
	p := Policy{
		AdmissionGrace: minutes(
			"admission",
			3,
		),
		WarmupGrace:  minutes("warmup", 5),
		FailureGrace: minutes("failure", 3),
		RetryPause: minutes(
			"pause",
			3,
		),
		RetryLimit:    int32(rapid.IntRange(0, 3).Draw(t, "limit")),
		DeletionGrace: minutes("deletion", 10),
		FailedGrace:   minutes("failed", 10),
		SuccessTTL:    minutes("ttl", 100),
		GraceMaximum:  24 * time.Hour,
	}
	w := newWorld(p)
	for range rapid.IntRange(1, 2).Draw(t, "components") {
		c := counted(int32(rapid.IntRange(0, 3).Draw(t, "expected")))
		c.Deputies = rapid.Bool().Draw(t, "deputies")
		c.Reports, c.Watched, c.Exists = rapid.Bool().Draw(
			t,
			"reports",
		), rapid.Bool().Draw(
			t,
			"watched",
		), rapid.Bool().Draw(
			t,
			"exists",
		)
		w.components = append(w.components, c)
	}
	w.phase = rapid.SampledFrom(append(Phases(), New, "Odd")).Draw(t, "phase")
	w.retries = int32(rapid.IntRange(0, int(p.RetryLimit)).Draw(t, "retries"))
	w.suspend, w.deleting, w.finalizer = rapid.Bool().Draw(
		t,
		"suspend",
	), rapid.IntRange(0, 3).Draw(t, "del") == 0, rapid.Bool().Draw(
		t,
		"finalizer",
	)
	for _, c := range []ConditionType{QuotaReserved, ResourcesDeployed, PodsReady, Unhealthy, DeletingResources} {
		if rapid.Bool().Draw(t, "has") {
			w.conditions = append(w.conditions, ago(c, rapid.Bool().Draw(t, "true"), minutes("since", 20)))
		}
	}
	w.pods = anyPods(t)
	w.stubborn, w.createFails = rapid.Bool().Draw(t, "stubborn"), rapid.IntRange(0, 3).Draw(t, "fails") == 0
	w.kept = rapid.IntRange(0, 3).Draw(t, "kept") == 0
	w.failure = core.Failure{
		Category: rapid.SampledFrom(core.Categories()).Draw(t, "category"),
		ExitCode: rapid.SampledFrom([]int32{0, 1, 2}).Draw(t, "code"),
		Progress: rapid.Bool().Draw(t, "progress"),
	}
	w.earlier.Last = slices.Repeat([]core.Failure{w.failure}, rapid.IntRange(0, 14).Draw(t, "earlier"))
	if rapid.Bool().Draw(t, "rules") {
		w.policy.RetryRules = core.DefaultRetryRules()
	}
	return w
}

// TestHolds checks the invariants at every step of random lives: quota is held
// while an unfinished pod exists, and retries stay within the limit.
func TestHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld(t)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			before := w.unfinished()
			w.once()
			if before && !w.has(QuotaReserved) {
				t.Fatalf("phase %s: pods run and the quota is released", w.phase)
			}
			if w.retries > w.policy.RetryLimit {
				t.Fatalf("%d retries, the limit is %d", w.retries, w.policy.RetryLimit)
			}
			w.disturb(t)
		}
	})
}

// disturb lets the outside world do something.
func (w *world) disturb(t *rapid.T) {
	w.now = w.now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "seconds")) * time.Second)
	switch rapid.IntRange(0, 5).Draw(t, "what") {
	case 0:
		w.suspend = !w.suspend
	case 1:
		w.pods = anyPods(t)
	case 2:
		w.components[0].Outcome = Outcome(rapid.IntRange(0, 3).Draw(t, "outcome"))
	case 3:
		w.components[0].Exists = !w.components[0].Exists
	}
}

// TestSettles checks that with pods obeying and time going on every state comes
// to rest, and at rest is what it should be.
func TestSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld(t)
		rest := false
		for range 2000 {
			if !w.advance() {
				rest = true
				break
			}
			// Objects that others keep are looked at for ever, and hold nothing.
			if w.kept && w.last.Action == ForceDelete && w.last.RecheckAfter == longestRecheck {
				if w.has(QuotaReserved) {
					t.Fatalf("phase %s, no pod runs or may come, and the quota is held: %+v", w.phase, w.last)
				}
				return
			}
			// Whatever is created makes no pods: the attempts run out. Forced
			// deletion works on the most stubborn.
		}
		switch {
		case w.gone,
			!rest && w.phase == Running,
			w.deleting && !w.finalizer && !w.unfinished() && !w.has(QuotaReserved):
			// Running with unwatched components never stops looking at them.
		case !rest:
			t.Fatalf("never comes to rest: phase %s, last step %+v", w.phase, w.last)
		case w.phase == Suspended && !w.suspend:
			t.Fatalf("rests suspended although it may run: %+v", w.last)
		case w.phase == Suspended || w.phase == Running:
		case w.phase == Succeeded || w.phase == Failed:
			if w.has(QuotaReserved) {
				t.Fatalf("rests as %s and holds quota: %+v", w.phase, w.last)
			}
		default:
			t.Fatalf("rests in %s: %+v", w.phase, w.last)
		}
	})
}

// TestDeterministic checks that the same facts give the same step.
func TestDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld(t)
		a, b := Decide(w.facts(), w.now), Decide(w.facts(), w.now)
		if len(a.Events) != len(b.Events) || a.Phase != b.Phase || !equalConditions(a.Conditions, b.Conditions) ||
			a.Action != b.Action {
			t.Fatalf("differs:\n%+v\n%+v", a, b)
		}
	})
}
