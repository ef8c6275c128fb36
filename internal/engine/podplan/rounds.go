package podplan

import (
	"fmt"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// InPlace has the pods of a job begin anew together where they are, when one of them has, as long as no member failed.
// Each time they do is a round. Pods say themselves in which round they are: one that begins is in the one after that in
// which all were last, and lets nothing run before all have come to its round.
type InPlace struct {
	// Pods is how many there are, and Each how many a member has, by role.
	Pods int32
	Each map[string]int32
	// Patience is how long they may take to come to a round, counted from the failure: then all members are made anew.
	Patience time.Duration
}

// Rounds are those of a job whose pods restart in place, as far as they have to be remembered.
type Rounds struct {
	// Begun: all pods were in one round once.
	Begun bool
	// Current is the round in which all were last, and Next the one that they are to come to; Current, if they have.
	Current, Next int32
	// Over are how many rounds pods are told to leave: those that are in a lower one restart.
	Over int32
	// Since is when they were told so last, while they come to Next. Zero else: also where all begin anyway, as after a
	// suspension.
	Since time.Time
	// Failures are the rounds that failed; Free are those that count for no limit. They are in no counter of RetryState
	// besides. That not all come to the next in time is the same failure, and is none of its own.
	Failures, Free int32
}

// InRound is what the pods of a member say of the rounds that they are in.
type InRound struct {
	// Rounds are those of pods that have not ended, of those that say one.
	Rounds []int32
	// Done is how many of its pods have succeeded; these need not be there any more.
	Done int32
	// Failure is what the pod that began anew first says of why, for Plan.Retry; nil is unknown. Why says it to the author.
	Failure *core.Failure
	Why     string
}

// lastRound bounds what is believed: no job begins anew so often.
const lastRound = 1 << 30

// remade has all members made anew: their pods begin the next round without having failed for it.
func (m *RetryState) remade() {
	m.Attempt++
	m.Done, m.Counted = nil, nil
	m.Rounds.restart()
}

// restart has all pods begin: they come to the next round by themselves.
func (r *Rounds) restart() {
	r.Since = time.Time{}
	if r.Begun && r.Next == r.Current {
		r.Next++
	}
}

// CountFrom has pods come to the next round from now on where they were told to and it is not known when, as where what was
// remembered is lost: they are waited for no longer than others.
func (r *Rounds) CountFrom(now time.Time) {
	if r.Begun && r.Next > r.Current && r.Over == r.Next && r.Since.IsZero() {
		r.Since = now
	}
}

// turnout is how many pods are in the round in which all were last, how many in the one after it, and how many said any;
// what else they say counts for none of them: no pod that begins comes further than one round, and none goes back.
type turnout struct {
	current, next, any int32
	// agreed: all say the same, which is value.
	agreed bool
	value  int32
	done   int32
}

func (p *Plan) turnout(seen []Seen, m *RetryState) turnout {
	t := turnout{agreed: true}
	for i := range p.Roles { // members that are done may be gone, and so may their pods
		r := &p.Roles[i]
		t.done += m.Done[r.Name].Below(r.Count) * p.InPlace.Each[r.Name]
	}
	for i := range seen {
		s := &seen[i]
		r := p.Role(s.Role)
		if r == nil || !r.has(s.Index) || s.Leaving || s.Attempt < m.Attempt || m.Done[r.Name].Has(s.Index) {
			continue
		}
		t.done += s.InRound.Done
		for _, n := range s.InRound.Rounds {
			t.agreed = t.agreed && n >= 0 && n < lastRound && (t.any == 0 || t.value == n)
			t.value = n
			t.any++
			switch n {
			case m.Rounds.Current:
				t.current++
			case m.Rounds.Current + 1:
				t.next++
			}
		}
	}
	return t
}

// rounds takes in which round pods are in, and what follows from that. ended, if it is not "", is why the job ends.
func (p *Plan) rounds(seen []Seen, m *RetryState, now time.Time) (changed bool, ended string) {
	if p.InPlace == nil {
		return false, ""
	}
	t, r := p.turnout(seen, m), &m.Rounds
	all := p.InPlace.Pods - t.done
	switch {
	case !r.Begun:
		if t.agreed && t.any == all && all > 0 {
			r.Begun, r.Current, r.Next = true, t.value, t.value
			return true, ""
		}
		return false, ""
	case r.Next == r.Current && t.next == 0:
		return false, ""
	case r.Next == r.Current:
		return p.lostRound(seen, m, &t, now)
	case t.next == all && (t.done == 0 || r.Since.IsZero()):
		if m.paused(now) > 0 { // they wait for each other, and for that
			return false, ""
		}
		r.Current, r.Since = r.Next, time.Time{}
		return true, ""
	case !r.Since.IsZero() && t.done > 0:
		m.remade() // the failure is counted
		return true, ""
	case !r.Since.IsZero() && now.Sub(r.Since) >= p.InPlace.Patience:
		if m.LastFailure.Before(r.Since) { // it follows from no failure that was counted
			r.Failures++
		}
		m.remade()
		m.LastFailure = now
		return true, ""
	case !r.Since.IsZero():
		return false, ""
	case t.current == all: // it was suspended so shortly that no pod noticed
		r.Next = r.Current
		return true, ""
	case t.any > t.next && t.next > 0: // one of those that noticed nothing failed, or a pod says what is not so
		r.Over, r.Since = r.Next, now
		return true, ""
	}
	return false, ""
}

// leaveRound has pods leave the round that all were in, since a member of them is made anew: its failure is counted.
func (p *Plan) leaveRound(m *RetryState, now time.Time) {
	if r := &m.Rounds; p.InPlace != nil && r.Begun && r.Next == r.Current {
		r.Next, r.Over, r.Since = r.Current+1, r.Current+1, now
	}
}

// lostRound follows that a pod has left the round that all were in: all are told to.
func (p *Plan) lostRound(seen []Seen, m *RetryState, t *turnout, now time.Time) (changed bool, ended string) {
	r := &m.Rounds
	free := false
	if i := first(seen, m); i >= 0 && p.Retry != nil && seen[i].InRound.Failure != nil {
		f := failure{of: i, then: RestartJob}
		p.consult(seen[i].InRound.Failure, m, &f)
		if f.then == FailJob {
			return true, fmt.Sprintf("%s; %s", seen[i].InRound.Why, f.why)
		}
		free = f.spared
	}
	counter := &r.Failures
	if free {
		counter = &r.Free
	}
	*counter++
	m.LastFailure = now
	if t.done > 0 { // what succeeded does not begin anew in place
		m.remade()
		return true, ""
	}
	r.Next, r.Over, r.Since = r.Current+1, r.Current+1, now
	return true, ""
}

// first is the member of which a pod began anew first, as far as is known; -1 if none is.
func first(seen []Seen, m *RetryState) int {
	out := -1
	for i := range seen {
		s := &seen[i]
		if s.InRound.Why != "" && s.Attempt >= m.Attempt && !s.Leaving &&
			(out < 0 || seen[out].InRound.Failure == nil) {
			out = i
		}
	}
	return out
}

// patience is when to look whether all have come to a round; 0 is never.
func (p *Plan) patience(m *RetryState, now time.Time) time.Duration {
	if p.InPlace == nil || m.Rounds.Since.IsZero() {
		return 0
	}
	return max(m.Rounds.Since.Add(p.InPlace.Patience).Sub(now), time.Second)
}
