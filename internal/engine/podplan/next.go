package podplan

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Actions is what has to be done next for a job.
type Actions struct {
	// RetryState is what to keep from now on. If it differs from what is kept, it is written
	// first, and nothing else is done before it is: all else is empty then.
	RetryState RetryState
	Changed    bool
	// Create are members to be made, in the attempt of RetryState.
	Create []Member
	// Delete are indexes of what was seen and has to go, Hold of what has to be held back, and
	// Release of what is held and may run.
	Delete, Hold, Release []int
	// Remove: the job itself is to be deleted, its time is over.
	Remove bool
	// Again is when to look again if nothing happens; 0 is never.
	Again time.Duration
}

// Next returns the next step of a job, by what is seen of it and what was kept. It
// changes none of its arguments. The same step follows until it was taken.
func (p *Plan) Next(seen []Seen, kept *RetryState, now time.Time) Actions {
	m := *kept
	switch {
	case m.Outcome != Open:
		return p.ended(seen, m, now)
	case p.Suspended:
		return p.suspended(seen, m)
	case m.Started.IsZero():
		m.Started = now
		return Actions{RetryState: m, Changed: true}
	}
	if p.outdated(seen, &m) {
		m.remade()
		return Actions{RetryState: m, Changed: true}
	}
	failures := p.failures(seen, &m)
	changed := p.settle(seen, &m)
	if p.succeeded(&m) { // what fails because the others have ended is no failure of the job
		return end(m, JobSucceeded, 0, "", now)
	}
	worst := p.worst(seen, failures)
	if worst != nil && worst.then == FailJob {
		m.Rule = worst.name()
		return end(m, JobFailed, MemberFailed, p.told(&seen[worst.of], worst), now)
	}
	before := m
	changed = p.count(seen, failures, worst, &m, now) || changed
	if worst == nil {
		moved, ended := p.rounds(seen, &m, now)
		if changed = changed || moved; ended != "" {
			return end(before, JobFailed, MemberFailed, ended, now)
		}
	}
	if why, message := p.exceeded(seen, &m, now); why != 0 {
		if worst != nil || m.Rounds != before.Rounds { // nothing begins anew
			m.Attempt, m.Failures, m.Free, m.Done = before.Attempt, before.Failures, before.Free, before.Done
			if i := first(seen, &before); m.Rounds != before.Rounds && i >= 0 {
				message += "; the last: " + seen[i].InRound.Why
			}
			m.Rounds = before.Rounds
		}
		if worst != nil {
			message += "; the last: " + p.told(&seen[worst.of], worst)
		}
		return end(m, JobFailed, why, message, now)
	}
	if changed {
		return Actions{RetryState: m, Changed: true}
	}
	return p.make(seen, m, now)
}

// outdated reports whether there are members of this attempt that another version of the plan
// made.
func (p *Plan) outdated(seen []Seen, m *RetryState) bool {
	return p.Renews && slices.ContainsFunc(seen, func(x Seen) bool {
		return x.Attempt >= m.Attempt && x.Version != "" && x.Version != p.Version && p.Role(x.Role) != nil
	})
}

// end is the step with which a job ends.
func end(m RetryState, how Outcome, why Reason, message string, now time.Time) Actions {
	m.Outcome, m.Reason, m.Message, m.Ended = how, why, message, now
	return Actions{RetryState: m, Changed: true}
}

// ended cleans up after a job. One that is suspended by then keeps nothing that runs.
func (p *Plan) ended(seen []Seen, m RetryState, now time.Time) Actions {
	s := Actions{RetryState: m}
	for i := range seen {
		r := p.Role(seen[i].Role)
		kept := r != nil && r.Kept
		gone := p.CleanUp == RemoveAll && !kept || (p.CleanUp != Keep || p.Suspended) && seen[i].Life < Succeeded
		if gone && !seen[i].Leaving && (r == nil || !r.Remote) {
			s.Delete = append(s.Delete, i)
		}
	}
	if left := m.Ended.Add(p.CleanUpAfter).Sub(now); left > 0 && len(s.Delete) > 0 && !p.Suspended {
		s.Delete, s.Again = nil, left
	}
	if p.TTL != nil {
		switch left := m.Ended.Add(*p.TTL).Sub(now); {
		case left <= 0:
			s.Again, s.Remove = 0, true
		case s.Again == 0 || left < s.Again:
			s.Again = left
		}
	}
	return s
}

// suspended takes members away, or holds them back. Only when none is left that can run it is
// noted, which tells everybody that none will come.
func (p *Plan) suspended(seen []Seen, m RetryState) Actions {
	s := Actions{RetryState: m}
	left := false
	var there []string
	for i := range seen {
		x := &seen[i]
		left = left || !x.Over
		if !x.Leaving && slices.Contains(m.Counted, x.ID) {
			there = append(there, x.ID)
		}
		r := p.Role(x.Role)
		switch {
		case x.Leaving || r != nil && r.Remote:
		case r == nil || !r.Holds || !r.has(x.Index) || x.Attempt < m.Attempt || r.stale(x):
			s.Delete = append(s.Delete, i)
		default:
			if !x.Held && x.Life < Succeeded {
				s.Hold = append(s.Hold, i)
			}
		}
	}
	failed := p.failedHeld(seen, &m)
	if p.InPlace != nil && m.Rounds.Begun && (m.Rounds.Next == m.Rounds.Current || !m.Rounds.Since.IsZero()) {
		s.RetryState.Rounds.restart() // noted before its pods end: those that follow have not failed
		s.Changed = true
	}
	switch {
	case !left && !m.Started.IsZero():
		s.RetryState.Started, s.RetryState.Counted = time.Time{}, append(there, failed...)
		s.RetryState.Done = p.lasting(m.Done)
	case failed != nil:
		s.RetryState.Counted = append(slices.Clone(m.Counted), failed...)
	case !s.Changed:
		return s
	}
	s.Changed, s.Delete, s.Hold = true, nil, nil
	return s
}

// failedHeld are members that failed while they were held back, as a Job does of whose pods one was on
// the node for which all were stopped. The job is not to blame: they count as if they were counted, and
// are made anew once it runs again.
func (p *Plan) failedHeld(seen []Seen, m *RetryState) []string {
	var out []string
	for i := range seen {
		x := &seen[i]
		r := p.Role(x.Role)
		if x.Life == Failed && !x.Leaving && r != nil && r.Holds && r.has(x.Index) && x.Attempt >= m.Attempt &&
			!slices.Contains(m.Counted, x.ID) && p.judge(r, x, i, m).then != Ignore {
			out = append(out, x.ID)
		}
	}
	return out
}

// lasting is what stays done when a job is suspended.
func (p *Plan) lasting(done map[string]Indexes) map[string]Indexes {
	var out map[string]Indexes
	for i := range p.Roles {
		if r := &p.Roles[i]; r.Holds && len(done[r.Name]) > 0 {
			if out == nil {
				out = map[string]Indexes{}
			}
			out[r.Name] = done[r.Name]
		}
	}
	return out
}

// stale reports whether a member that has not ended was made from what is no more.
func (r *Role) stale(x *Seen) bool {
	return r.Version != "" && x.Version != "" && x.Version != r.Version && x.Life < Succeeded
}

// has reports whether a member of an index is one of the role.
func (r *Role) has(index int32) bool { return r.Floating || index < r.Count }

// name is that of a member.
func (r *Role) name(index int32) string { return r.Expand(r.Member, index) }

// settle takes in who succeeded since the last step. It reports whether anybody did.
func (p *Plan) settle(seen []Seen, m *RetryState) (changed bool) {
	done := map[string]Indexes{}
	for i := range seen {
		s := &seen[i]
		r := p.Role(s.Role)
		if s.Life != Succeeded || r == nil || r.endless() || s.Attempt < m.Attempt || !r.has(s.Index) ||
			m.Done[r.Name].Has(s.Index) {
			continue
		}
		done[r.Name] = append(done[r.Name], Range{s.Index, s.Index})
	}
	if len(done) == 0 {
		return false
	}
	m.Done = maps.Clone(m.Done)
	if m.Done == nil {
		m.Done = map[string]Indexes{}
	}
	for role, some := range done {
		m.Done[role] = Union(m.Done[role], some)
	}
	return true
}

// succeeded reports whether enough members are done.
func (p *Plan) succeeded(m *RetryState) bool {
	for _, t := range p.Success {
		if p.fulfilled(&t, m) {
			return true
		}
	}
	return false
}

func (p *Plan) fulfilled(t *Term, m *RetryState) bool {
	var done, all int32
	for _, name := range t.Roles {
		r := p.Role(name)
		switch {
		case r == nil:
			return false
		case t.First:
			all++
			if m.Done[name].Has(0) {
				done++
			}
		default:
			all += r.Count
			done += m.Done[name].Below(r.Count)
		}
	}
	if t.AtLeast > 0 {
		all = t.AtLeast
	}
	return len(t.Roles) > 0 && done >= all
}

// make removes what is in the way, makes what is missing and releases what is held.
func (p *Plan) make(seen []Seen, m RetryState, now time.Time) Actions {
	s := Actions{RetryState: m}
	there := make(map[Member]bool, len(seen))
	old := false
	var held []int
	for i := range seen {
		x := &seen[i]
		there[x.Member] = true
		old = old || x.Attempt < m.Attempt
		switch gone := p.gone(x, &m); {
		case x.Leaving || p.remote(x):
		case gone:
			s.Delete = append(s.Delete, i)
		case x.Held && x.Life < Succeeded:
			held = append(held, i)
		}
	}
	s.Delete = append(s.Delete, p.surplus(seen, &m)...)
	if p.Deadline > 0 {
		s.Again = p.began(&m).Add(p.Deadline).Sub(now)
	}
	if left := p.patience(&m, now); left > 0 && (s.Again == 0 || left < s.Again) {
		s.Again = left
	}
	if left := m.paused(now); left > 0 {
		if s.Again == 0 || left < s.Again {
			s.Again = left
		}
		return s
	}
	if old && p.Together {
		return s
	}
	p.fill(&s, seen, there, held)
	return s
}

// gone reports whether a member has to go: it is of no role or of an earlier attempt, it is held
// back and was made from what is no more, or it ended and is made anew.
func (p *Plan) gone(x *Seen, m *RetryState) bool {
	r := p.Role(x.Role)
	return r == nil || !r.has(x.Index) || x.Attempt < m.Attempt || x.Held && r.stale(x) ||
		x.Life == Failed && (x.Disrupted || slices.Contains(m.Counted, x.ID)) ||
		x.Life == Succeeded && r.endless()
}

// stays reports whether a member counts as one of its role.
func (p *Plan) stays(x *Seen, m *RetryState) bool { return !x.Leaving && !p.gone(x, m) }

// surplus are members of floating roles that have too many.
func (p *Plan) surplus(seen []Seen, m *RetryState) []int {
	var out []int
	for i := range p.Roles {
		r := &p.Roles[i]
		if !r.Floating {
			continue
		}
		var have []int
		for j := range seen {
			if seen[j].Role == r.Name && p.stays(&seen[j], m) {
				have = append(have, j)
			}
		}
		slices.SortFunc(have, func(a, b int) int {
			return cmp.Or(r.wanted(seen[a].Index)-r.wanted(seen[b].Index), cmp.Compare(seen[b].Index, seen[a].Index))
		})
		out = append(out, have[:max(len(have)-int(r.Count), 0)]...)
	}
	return out
}

// wanted is 0 for the index of a member that goes first, and 1 for others.
func (r *Role) wanted(index int32) int {
	if slices.Contains(r.Unwanted, index) {
		return 0
	}
	return 1
}

// fill makes and releases the members of roles that may begin.
func (p *Plan) fill(s *Actions, seen []Seen, there map[Member]bool, held []int) {
	counts := p.Count(seen, &s.RetryState)
	strangers := slices.ContainsFunc(seen, func(x Seen) bool { return p.Role(x.Role) == nil })
	for i := range p.Roles {
		r := &p.Roles[i]
		if r.Remote || r.Alone && strangers || !p.mayBegin(r, counts) {
			continue
		}
		for _, j := range held {
			if seen[j].Role == r.Name {
				s.Release = append(s.Release, j)
			}
		}
		if r.Floating {
			s.Create = append(s.Create, p.floating(r, seen, there, &s.RetryState)...)
			continue
		}
		for index := range r.Count {
			if x := (Member{r.Name, index}); !there[x] && !s.RetryState.Done[r.Name].Has(index) {
				s.Create = append(s.Create, x)
			}
		}
	}
}

// floating are members that a floating role lacks, of the lowest indexes that are free.
func (p *Plan) floating(r *Role, seen []Seen, there map[Member]bool, m *RetryState) []Member {
	missing := r.Count
	for i := range seen {
		if seen[i].Role == r.Name && p.stays(&seen[i], m) {
			missing--
		}
	}
	var out []Member
	for index := int32(0); missing > 0; index++ {
		if x := (Member{r.Name, index}); !there[x] {
			out = append(out, x)
			missing--
		}
	}
	return out
}

// mayBegin reports whether all is as a role waits for.
func (p *Plan) mayBegin(r *Role, counts map[string]Tally) bool {
	for _, d := range r.After {
		t, n := counts[d.Role], int32(0)
		if first := p.Role(d.Role); first != nil {
			n = first.Count
		}
		have := t.Succeeded
		if !d.Done {
			have += t.Ready
		}
		if have < n {
			return false
		}
	}
	return true
}
