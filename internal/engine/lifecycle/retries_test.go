package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// TestPolicyOfRetries: what a failed pod ended by decides what follows, before the limit of retries is asked.
func TestPolicyOfRetries(t *testing.T) {
	user := func(code int32) core.Failure {
		return core.Failure{Category: core.CategoryUserError, ExitCode: code, Pod: "j-0"}
	}
	preempted := core.Failure{Category: core.CategoryPreemption}
	for name, c := range map[string]struct {
		why     string
		fails   core.Failure
		earlier []core.Failure
		policy  func(*Policy)
		retries int32
		want    Phase
		charged int32
		told    string
	}{
		"exception": {
			why: "it may be a peer that was lost", fails: user(1), want: Resetting, charged: 1, told: "Retry 1 of 3",
		},
		"wrong usage": {
			why: "no retry mends that", fails: user(2), want: Failed, told: `exit code 1; no retry mends that (rule "UserError`,
		},
		"same exception": {
			why: "it ends alike again", fails: user(1), earlier: []core.Failure{user(1)}, retries: 1, want: Failed, charged: 1,
			told: "the attempt before ended alike",
		},
		"preempted by the scheduler, no retries left": {
			why: "that was not the job's doing", fails: preempted, retries: 3, want: Resetting, charged: 3,
		},
		"terminal by the author's list": {
			why: "that goes before all rules", fails: user(1), want: Failed, told: "which rules out another attempt",
			policy: func(p *Policy) {
				p.TerminalExitCodes = []int32{1}
				p.RetryRules = []core.RetryRule{{Categories: []core.Category{core.CategoryUserError}, Action: core.RetryOnFailure}}
			},
		},
		"no rules": {
			why: "the author set a limit of his own, and nothing else goes", fails: user(2), want: Resetting, charged: 1,
			policy: func(p *Policy) { p.RetryRules = nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := Facts{
				Phase: Running, Finalizer: true, Fresh: true, Retries: c.retries,
				Conditions: deployed(time.Hour, ago(Unhealthy, true, time.Hour)),
				Components: []Component{counted(2)}, Pods: pods(PodRunning, PodFailed),
				Policy:  with(func(p *Policy) { p.RetryRules = core.DefaultRetryRules() }),
				Failure: c.fails, Earlier: core.RetryHistory{Last: c.earlier},
			}
			if c.policy != nil {
				c.policy(&f.Policy)
			}
			s := Decide(f, start())
			var told []string
			for _, e := range s.Events {
				told = append(told, e.Message)
			}
			if s.Phase != c.want || s.Retries != c.charged || !strings.Contains(strings.Join(told, "\n"), c.told) {
				t.Errorf("%s: %s with %d retries, want %s with %d; told %q, want %s",
					c.why, s.Phase, s.Retries, c.want, c.charged, told, c.told)
			}
		})
	}
}

// TestFlappingNode: a job whose node goes bad again and again moves with longer and longer pauses, and fails in the end.
func TestFlappingNode(t *testing.T) {
	w := newWorld(Defaults(), job(Undecided, 1))
	w.suspend = false
	w.advanceTo(t, Running)
	var pauses []time.Duration
	for w.phase == Running {
		if len(pauses) > 20 {
			t.Fatal("it restarts for ever")
		}
		w.pods = onBadNode(pods(PodRunning), 0)
		began := w.now
		w.once()
		if w.phase == Failed {
			break
		}
		w.earlier.Last = append(w.earlier.Last, core.Failure{Category: core.CategoryNodeFailure})
		w.advanceTo(t, Running)
		pauses = append(pauses, w.now.Sub(began))
	}
	if w.phase != Failed || len(pauses) != core.DefaultDisruptions || w.retries != 0 {
		t.Errorf("phase %s after %d moves with %d retries", w.phase, len(pauses), w.retries)
	}
	if !slices.IsSorted(pauses) || pauses[0] != 90*time.Second || pauses[len(pauses)-1] != 10*time.Minute {
		t.Errorf("the pauses are %v", pauses)
	}
	if i := slices.IndexFunc(w.conditions, func(c Condition) bool { return c.Type == Unhealthy }); i < 0 ||
		!strings.Contains(w.conditions[i].Message, "12 disruptions in a row without progress") {
		t.Errorf("nothing says why: %+v", w.conditions)
	}
}

// TestPauseOfTheAuthor: a pause that the author set is not stretched.
func TestPauseOfTheAuthor(t *testing.T) {
	w := newWorld(with(func(p *Policy) { p.RetryPause, p.PauseSaid = 0, true }), job(Undecided, 1))
	w.earlier.Last = slices.Repeat([]core.Failure{{Category: core.CategoryNodeFailure}}, 9)
	w.suspend = false
	w.advanceTo(t, Running)
	w.pods = onBadNode(pods(PodRunning), 0)
	began := w.now
	w.once()
	w.advanceTo(t, Running)
	if pause := w.now.Sub(began); pause > time.Second {
		t.Errorf("it waited %s", pause)
	}
}
