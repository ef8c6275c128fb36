package podplan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// roundPlan is a job of one member whose pods restart in place.
func roundPlan(pods, retries int32) *Plan {
	return &Plan{
		Roles: []Role{
			{Name: "w", Count: 1, Holds: true, Member: "w-{index}", OnFailure: RestartJob},
		},
		Retries: &retries,
		Success: Success{{Roles: []string{"w"}}},
		InPlace: &InPlace{Pods: pods, Patience: 5 * time.Minute},
	}
}

func inRounds(attempt int32, rounds ...int32) []Seen {
	return []Seen{{
		Member: Member{Role: "w"}, ID: fmt.Sprint("job-", attempt), Attempt: attempt, Life: Ready,
		InRound: InRound{Rounds: rounds},
	}}
}

// TestRounds: what follows from the rounds that pods say they are in. Each case has a rule to lose.
func TestRounds(t *testing.T) {
	start := time.Unix(1000, 0)
	together := Rounds{Begun: true, Current: 2, Next: 2, Over: 2}
	coming := Rounds{Begun: true, Current: 2, Next: 3, Over: 3, Since: start, Failures: 1}
	done := func(seen []Seen, n int32) []Seen { seen[0].InRound.Done = n; return seen }
	for name, tc := range map[string]struct {
		kept    Rounds
		seen    []Seen
		after   time.Duration
		want    Rounds
		attempt int32
	}{
		"not all pods are there yet":          {Rounds{}, inRounds(0, 0, 0), 0, Rounds{}, 0},
		"all are there for the first time":    {Rounds{}, inRounds(0, 0, 0, 0), 0, Rounds{Begun: true}, 0},
		"memory and status were lost":         {Rounds{}, inRounds(0, 5, 5, 5), 0, Rounds{Begun: true, Current: 5, Next: 5}, 0},
		"at first they must agree":            {Rounds{}, inRounds(0, 0, 0, 1), 0, Rounds{}, 0},
		"nothing happened":                    {together, inRounds(0, 2, 2, 2), 0, together, 0},
		"one pod is away, and did not begin":  {together, inRounds(0, 2, 2), 0, together, 0},
		"one began anew":                      {together, inRounds(0, 2, 3, 2), 0, Rounds{true, 2, 3, 3, start, 1, 0}, 0},
		"all began anew at once":              {together, inRounds(0, 3, 3, 3), 0, Rounds{true, 2, 3, 3, start, 1, 0}, 0},
		"a number of the future is nothing":   {together, inRounds(0, 2, 2, 4), 0, together, 0},
		"a huge number is nothing":            {together, inRounds(0, 2, 2, 1<<31-1), 0, together, 0},
		"a negative number is nothing":        {together, inRounds(0, 2, 2, -7), 0, together, 0},
		"a number that goes back is nothing":  {together, inRounds(0, 2, 2, 1), 0, together, 0},
		"a second one is the same fault":      {coming, inRounds(0, 3, 3, 2), time.Minute, coming, 0},
		"all came":                            {coming, inRounds(0, 3, 3, 3), time.Minute, Rounds{true, 3, 3, 3, time.Time{}, 1, 0}, 0},
		"one claims to be further":            {coming, inRounds(0, 3, 3, 4), time.Minute, coming, 0},
		"one too many is not all":             {coming, inRounds(0, 3, 3, 3, 3), time.Minute, coming, 0},
		"one did not come in time":            {coming, inRounds(0, 3, 3, 2), 5 * time.Minute, Rounds{true, 2, 3, 3, time.Time{}, 1, 0}, 1},
		"a pod had succeeded before":          {together, done(inRounds(0, 3, 2), 1), 0, Rounds{true, 2, 3, 2, time.Time{}, 1, 0}, 1},
		"a pod succeeded, and nobody failed":  {together, done(inRounds(0, 2, 2), 1), 0, together, 0},
		"a pod succeeded while others began":  {coming, done(inRounds(0, 3, 3), 1), time.Minute, Rounds{true, 2, 3, 3, time.Time{}, 1, 0}, 1},
		"after a suspension all begin":        {Rounds{true, 2, 3, 2, time.Time{}, 0, 0}, inRounds(0, 3, 3, 3), 0, Rounds{true, 3, 3, 2, time.Time{}, 0, 0}, 0},
		"after one, what succeeded stays":     {Rounds{true, 2, 3, 2, time.Time{}, 0, 0}, done(inRounds(0, 3, 3), 1), 0, Rounds{true, 3, 3, 2, time.Time{}, 0, 0}, 0},
		"no pod noticed a suspension":         {Rounds{true, 2, 3, 2, time.Time{}, 0, 0}, inRounds(0, 2, 2, 2), 0, Rounds{true, 2, 2, 2, time.Time{}, 0, 0}, 0},
		"one that did not notice it failed":   {Rounds{true, 2, 3, 2, time.Time{}, 0, 0}, inRounds(0, 2, 3, 2), 0, Rounds{true, 2, 3, 3, start, 0, 0}, 0},
		"without a failure there is no limit": {Rounds{true, 2, 3, 2, time.Time{}, 0, 0}, inRounds(0, 3, 3), time.Hour, Rounds{true, 2, 3, 2, time.Time{}, 0, 0}, 0},
		"pods of an earlier attempt are away": {together, append(inRounds(-1, 3, 3, 3), inRounds(0, 2, 2, 2)...), 0, together, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := RetryState{Started: start, LastFailure: tc.kept.Since, Rounds: tc.kept}
			next := roundPlan(3, 10).Next(tc.seen, &m, start.Add(tc.after))
			if next.RetryState.Rounds != tc.want || next.RetryState.Attempt != tc.attempt {
				t.Errorf("got %+v in attempt %d", next.RetryState.Rounds, next.RetryState.Attempt)
			}
			if len(next.Delete) > len(tc.seen)-1 || next.RetryState.Outcome != Open {
				t.Errorf("it also does %+v", next)
			}
		})
	}
}

// TestRestartsInPlaceCount: they count against the same limit as members that are made anew, one for each fault, but
// where the job is not to blame; what a policy gives up ends the job.
func TestRestartsInPlaceCount(t *testing.T) {
	now := time.Unix(1000, 0)
	fault := func(f *core.Failure) []Seen {
		seen := inRounds(0, 1, 0, 0)
		seen[0].InRound.Why, seen[0].InRound.Failure = "pod w-0-0 failed: container c exited with code 1", f
		return seen
	}
	m := RetryState{Started: now, Failures: 1, Rounds: Rounds{Begun: true, Failures: 1}}
	if next := roundPlan(
		3,
		3,
	).Next(fault(nil), &m, now); next.RetryState.Outcome != Open ||
		next.RetryState.Rounds.Failures != 2 {
		t.Errorf("below the limit: %+v", next.RetryState)
	}
	over := roundPlan(3, 2).Next(fault(nil), &m, now).RetryState
	if over.Outcome != JobFailed || over.Reason != RetriesExceeded || over.Rounds != m.Rounds {
		t.Errorf("above it: %+v", over)
	}
	if want := "3 failures are more than the 2 that it may be tried again after; the last: pod w-0-0 failed: " +
		"container c exited with code 1"; over.Message != want {
		t.Errorf("it says %q, want %q", over.Message, want)
	}
	p := roundPlan(3, 2)
	p.Retry = &core.RetryPolicy{}
	free := p.Next(fault(&core.Failure{Category: core.CategoryNodeFailure}), &m, now).RetryState
	if free.Outcome != Open || free.Rounds.Failures != 1 || free.Rounds.Free != 1 || free.Rounds.Next != 1 {
		t.Errorf("of a node: %+v", free)
	}
}

// TestLostRoundsMoveTheLastFailure: what follows is the next attempt, and what was saved before is no progress of it.
func TestLostRoundsMoveTheLastFailure(t *testing.T) {
	now := time.Unix(1000, 0)
	m := RetryState{Started: now, Rounds: Rounds{Begun: true}}
	later := now.Add(time.Hour)
	if m = roundPlan(2, 9).Next(inRounds(0, 0, 1), &m, later).RetryState; !m.LastFailure.Equal(later) {
		t.Errorf("the last failure was at %s", m.LastFailure)
	}
}

// TestWhatSucceededIsNotWaitedFor: pods of members that are done come to no round, also where neither is there any more.
func TestWhatSucceededIsNotWaitedFor(t *testing.T) {
	now := time.Unix(1000, 0)
	p := roundPlan(5, 9)
	p.Roles = append(p.Roles, Role{Name: "once", Count: 1, Holds: true, Member: "once", OnFailure: RestartJob})
	p.Success, p.InPlace.Each = Success{{Roles: []string{"w", "once"}}}, map[string]int32{"w": 4, "once": 1}
	m := RetryState{
		Started: now, Rounds: Rounds{Begun: true, Next: 1}, Done: map[string]Indexes{"once": {{0, 0}}},
	}
	gone := inRounds(0, 1, 1, 1, 1)
	there := append(inRounds(0, 1, 1, 1, 1), Seen{
		Member: Member{Role: "once"}, ID: "done", Life: Succeeded, InRound: InRound{Done: 1},
	})
	for _, seen := range [][]Seen{gone, there} {
		if next := p.Next(seen, &m, now).RetryState; next.Rounds.Current != 1 {
			t.Errorf("of %d members it says %+v", len(seen), next.Rounds)
		}
	}
}

// TestRoundsBeginAfterAPause: what crashes at once would begin in place for ever, as fast as it can. Who waits for that is
// not late.
func TestRoundsBeginAfterAPause(t *testing.T) {
	now := time.Unix(1000, 0)
	for failures, pause := range map[int32]time.Duration{
		3: 0, 4: 10 * time.Second, 6: 40 * time.Second, 30: 5 * time.Minute,
	} {
		p, m := roundPlan(2, 100), RetryState{Started: now, Rounds: Rounds{Begun: true, Failures: failures - 1}}
		m = p.Next(inRounds(0, 0, 1), &m, now).RetryState
		if pause > 0 {
			early := p.Next(inRounds(0, 1, 1), &m, now.Add(time.Second))
			if early.Changed || early.Again != pause-time.Second {
				t.Errorf("after %d failures: %+v", failures, early)
			}
		}
		if next := p.Next(
			inRounds(0, 1, 1),
			&m,
			now.Add(pause),
		).RetryState; next.Rounds.Current != 1 ||
			next.Attempt != 0 {
			t.Errorf("after %d failures and %s: %+v", failures, pause, next)
		}
	}
}

// TestLatenessIsCountedOnce: not all come to a round in time, which is the failure for which they had to and no other.
// Where none was counted, as where a pod says what is not so, it is one: else all would be made anew for ever.
func TestLatenessIsCountedOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	for counted, want := range map[bool]int32{true: 1, false: 2} {
		m := RetryState{Started: now, Rounds: Rounds{Begun: true, Next: 1, Over: 1, Failures: 1, Since: now}}
		if counted {
			m.LastFailure = now
		}
		m = roundPlan(2, 9).Next(inRounds(0, 0, 1), &m, now.Add(time.Hour)).RetryState
		if m.Attempt != 1 || m.Rounds.Failures != want || !m.LastFailure.Equal(now.Add(time.Hour)) {
			t.Errorf("counted %t: got %+v", counted, m)
		}
	}
}

// TestAMemberThatIsMadeAnewHasTheOthersLeave: one failure, one count: that of the member.
func TestAMemberThatIsMadeAnewHasTheOthersLeave(t *testing.T) {
	now := time.Unix(1000, 0)
	p := roundPlan(4, 3)
	p.Roles[0].Count, p.Roles[0].OnFailure = 2, Replace
	seen := append(inRounds(0, 0, 0), inRounds(0)...)
	seen[1].Index, seen[1].ID, seen[1].Life = 1, "b", Failed
	m := RetryState{Started: now, Rounds: Rounds{Begun: true}}
	m = p.Next(seen, &m, now).RetryState
	if want := (Rounds{Begun: true, Next: 1, Over: 1, Since: now}); m.Rounds != want || m.Failures != 1 {
		t.Errorf("got %+v, %d failures", m.Rounds, m.Failures)
	}
}

// TestSuspensionsAreNoFailures: one that meets a restart, or meets none, is noted before the pods that follow it begin,
// and costs nothing.
func TestSuspensionsAreNoFailures(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, kept := range []Rounds{
		{Begun: true, Current: 1, Next: 1, Over: 1, Failures: 1},
		{Begun: true, Current: 1, Next: 2, Over: 2, Failures: 1, Since: now},
	} {
		p := roundPlan(3, 3)
		p.Suspended = true
		m := RetryState{Started: now, Rounds: kept}
		first := p.Next(inRounds(0, 1, 1, 1), &m, now)
		if !first.Changed || first.Hold != nil {
			t.Fatalf("pods are stopped before it is noted: %+v", first)
		}
		second := p.Next(inRounds(0, 1, 1, 1), &first.RetryState, now)
		if second.Changed || len(second.Hold) != 1 {
			t.Fatalf("they are not stopped: %+v", second)
		}
		p.Suspended = false
		last := p.Next(inRounds(0, 2, 2, 2), &second.RetryState, now.Add(time.Hour)).RetryState.Rounds
		if last.Current != 2 || last.Next != 2 || last.Failures != 1 || last.Over != kept.Over {
			t.Errorf("then it is %+v", last)
		}
	}
}

// agent plays the agent of a pod: what upstream's does with a status, and what a tenant writes over it.
type agent struct {
	round int32 // what it knows
	said  int32 // what the annotation says
	down  int   // steps until it begins
}

// TestRoundsComeToAnEndWhateverHappens: pods that fail, are lost and come back late, suspensions, tenants who write any
// number and controllers killed between their writes: once that ends, all pods come to one round, pods run in no two of
// them, and the limit counts no more than there were faults.
func TestRoundsComeToAnEndWhateverHappens(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 66))
		w := newRoundWorld(t, r)
		for range 200 {
			w.step(true)
		}
		for range 120 { // they may be late once, and then there is a pause
			w.step(false)
		}
		m := &w.kept.Rounds
		if !m.Begun || m.Current != m.Next ||
			slices.ContainsFunc(w.pods, func(a agent) bool { return a.round != m.Current }) {
			t.Fatalf("seed %d: they came to %+v, pods %+v", seed, *m, w.pods)
		}
		if int(m.Failures) > w.faults {
			t.Fatalf("seed %d: %d failures are counted of %d faults", seed, m.Failures, w.faults)
		}
	}
}

// roundWorld is a job with its pods, what is stored of it, and what its status says.
type roundWorld struct {
	t       *testing.T
	r       *rand.Rand
	plan    *Plan
	pods    []agent
	kept    RetryState // JobRecovery
	status  Rounds     // as agents read it
	now     time.Time
	attempt int32
	faults  int
}

func newRoundWorld(t *testing.T, r *rand.Rand) *roundWorld {
	t.Helper()
	w := &roundWorld{t: t, r: r, plan: roundPlan(4, 1<<20), pods: make([]agent, 4), now: time.Unix(1000, 0)}
	w.kept.Started = w.now
	for i := range w.pods {
		w.pods[i].down = 1
	}
	return w
}

// begin has a pod begin: its agent reads the status.
func (w *roundWorld) begin(a *agent) {
	a.round = 0
	if w.status.Begun {
		a.round = w.status.Current + 1
	}
	a.said = a.round
}

func (w *roundWorld) step(hostile bool) { //nolint:revive // who writes to its pods
	w.t.Helper()
	w.now = w.now.Add(10 * time.Second)
	for i := range w.pods {
		a := &w.pods[i]
		switch {
		case a.down > 0:
			if a.down--; a.down == 0 {
				w.begin(a)
			}
		case a.round < w.status.Over: // the status says that it is over
			w.begin(a)
		}
	}
	if hostile {
		w.attack()
	}
	var said []int32
	for i := range w.pods {
		if w.pods[i].down == 0 {
			said = append(said, w.pods[i].said)
		}
	}
	next := w.plan.Next(inRounds(w.attempt, said...), &w.kept, w.now)
	if !next.Changed {
		w.status = w.kept.Rounds
		return
	}
	w.kept = next.RetryState
	if w.kept.Attempt > w.attempt { // all are made anew
		w.attempt = w.kept.Attempt
		for i := range w.pods {
			w.pods[i].down = 1 + w.r.IntN(3)
		}
	}
	if !hostile || w.r.IntN(4) > 0 { // else it is killed before the status is written
		w.status = w.kept.Rounds
	}
	run := map[int32]bool{}
	for i := range w.pods {
		if a := &w.pods[i]; a.down == 0 && w.status.Begun && a.round == w.status.Current {
			run[a.round] = true
		}
	}
	if len(run) > 1 {
		w.t.Fatalf("workers of several rounds run: %v", run)
	}
}

// attack is one thing that may happen at any time.
func (w *roundWorld) attack() {
	a := &w.pods[w.r.IntN(len(w.pods))]
	switch w.r.IntN(12) {
	case 0: // its worker fails
		w.faults++
		if a.down == 0 {
			w.begin(a)
		}
	case 1: // its node is lost, and it comes back, maybe too late
		w.faults++
		a.down = 1 + w.r.IntN(50)
	case 2: // a tenant writes
		w.faults++
		a.said = int32(w.r.IntN(9)) - 1 + w.kept.Rounds.Current - 3
	case 3: // it is stopped and continues
		w.plan.Suspended = true
		for range 3 {
			w.kept = w.plan.Next(inRounds(w.attempt), &w.kept, w.now).RetryState
		}
		w.plan.Suspended = false
		w.kept.Started, w.status = w.now, w.kept.Rounds
		for i := range w.pods {
			w.pods[i].down = 1 + w.r.IntN(4)
		}
	}
}
