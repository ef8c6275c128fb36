package podplan

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Step is what has to be done next for a job.
type Step struct {
	// Memory is what to keep from now on. If it differs from what is kept, it is written
	// first, and nothing else is done before it is: Create and Delete are empty then.
	Memory  Memory
	Changed bool
	// Create are members to be made, in the attempt of Memory.
	Create []Member
	// Delete are indexes of what was seen and has to go.
	Delete []int
	// Remove: the job itself is to be deleted, its time is over.
	Remove bool
	// Again is when to look again if nothing happens; 0 is never.
	Again time.Duration
}

// Next returns the next step of a job, by what is seen of it and what was kept. It
// changes none of its arguments. The same step follows until it was taken.
func (p *Plan) Next(seen []Seen, kept *Memory, now time.Time) Step {
	m := *kept
	switch {
	case m.Outcome != Open:
		return p.ended(seen, m, now)
	case p.Suspended:
		return p.suspended(seen, m)
	case m.Started.IsZero():
		m.Started = now
		return Step{Memory: m, Changed: true}
	}
	restart := false
	changed := p.settle(seen, &m, now, &restart)
	if p.succeeded(&m) { // what fails because the others have ended is no failure of the job
		return end(m, JobSucceeded, 0, "", now)
	}
	switch why, message := p.failed(seen, &m, now); {
	case why != 0:
		return end(m, JobFailed, why, message, now)
	case restart:
		m.Attempt++
		m.Done = nil
	}
	if changed {
		return Step{Memory: m, Changed: true}
	}
	return p.make(seen, m, now)
}

// end is the step with which a job ends.
func end(m Memory, how Outcome, why Reason, message string, now time.Time) Step {
	m.Outcome, m.Reason, m.Message, m.Ended = how, why, message, now
	return Step{Memory: m, Changed: true}
}

// ended cleans up after a job.
func (p *Plan) ended(seen []Seen, m Memory, now time.Time) Step {
	s := Step{Memory: m}
	for i := range seen {
		gone := p.CleanUp == RemoveAll || p.CleanUp == RemoveRunning && seen[i].Life < Succeeded
		if gone && !seen[i].Leaving {
			s.Delete = append(s.Delete, i)
		}
	}
	if p.TTL != nil {
		if s.Again = m.Ended.Add(*p.TTL).Sub(now); s.Again <= 0 {
			s.Again, s.Remove = 0, true
		}
	}
	return s
}

// suspended takes all members away. Only when none is left that can run it is noted, which
// tells everybody that none will come.
func (p *Plan) suspended(seen []Seen, m Memory) Step {
	s := Step{Memory: m}
	left := false
	for i := range seen {
		left = left || !seen[i].Over
		if !seen[i].Leaving {
			s.Delete = append(s.Delete, i)
		}
	}
	if !left && !m.Started.IsZero() {
		s.Memory.Started, s.Memory.Done, s.Memory.Counted = time.Time{}, nil, nil
		s.Changed = true
	}
	return s
}

// settle takes in who succeeded and who failed since the last step. It reports whether
// there was anything, and sets restart if all has to begin anew.
func (p *Plan) settle(seen []Seen, m *Memory, now time.Time, restart *bool) (changed bool) {
	counted := map[string]bool{}
	for _, id := range m.Counted {
		counted[id] = true
	}
	done := map[string]Indexes{}
	var there []string // of those counted before
	for i := range seen {
		s := &seen[i]
		r := p.Role(s.Role)
		if counted[s.ID] {
			there = append(there, s.ID)
			continue
		}
		if r == nil || s.Attempt < m.Attempt || s.Index >= r.Count {
			continue
		}
		switch s.Life {
		case Succeeded:
			if !m.Done[r.Name].Has(s.Index) {
				done[r.Name] = append(done[r.Name], Range{s.Index, s.Index})
			}
		case Failed:
			if s.Leaving || s.Disrupted || !r.again(s) {
				continue
			}
			m.Failures += max(s.Failures, 1)
			m.LastFailure = now
			there = append(there, s.ID)
			changed = true
			*restart = *restart || r.OnFailure == RestartJob
		case Pending, Running, Ready:
		}
	}
	if len(done) > 0 {
		m.Done = maps.Clone(m.Done)
		if m.Done == nil {
			m.Done = map[string]Indexes{}
		}
		for role, some := range done {
			m.Done[role] = Union(m.Done[role], some)
		}
		changed = true
	}
	if changed {
		m.Counted = there
	}
	return changed
}

// again reports whether a member that failed is made anew.
func (r *Role) again(s *Seen) bool {
	switch r.OnFailure {
	case Replace, RestartJob:
		return true
	case ReplaceRetriable:
		return !s.Final
	case FailJob, Ignore:
	}
	return false
}

// failed says why a job has failed; 0 if it has not.
func (p *Plan) failed(seen []Seen, m *Memory, now time.Time) (why Reason, message string) {
	failures := m.Failures
	for i := range seen {
		s := &seen[i]
		r := p.Role(s.Role)
		if r == nil || s.Attempt < m.Attempt || s.Index >= r.Count || slices.Contains(m.Counted, s.ID) {
			continue
		}
		if s.Life == Failed && !s.Disrupted && !s.Leaving && !r.again(s) && r.OnFailure != Ignore {
			return MemberFailed, fmt.Sprintf("%s failed%s", r.Expand(r.Member, s.Index), because(s.Why))
		}
		if !s.Disrupted && (r.OnFailure == Replace || r.OnFailure == ReplaceRetriable) {
			failures += s.Failures
		}
	}
	if p.Retries != nil && failures > *p.Retries {
		return RetriesExceeded, fmt.Sprintf("%d failures are more than the %d that it may be tried again after", failures, *p.Retries)
	}
	if p.Deadline > 0 && now.Sub(m.Started) >= p.Deadline {
		return DeadlineExceeded, fmt.Sprintf("it ran longer than %s", p.Deadline)
	}
	return 0, ""
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// succeeded reports whether enough members are done.
func (p *Plan) succeeded(m *Memory) bool {
	for _, t := range p.Success {
		if p.fulfilled(&t, m) {
			return true
		}
	}
	return false
}

func (p *Plan) fulfilled(t *Term, m *Memory) bool {
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

// make removes what is in the way and makes what is missing.
func (p *Plan) make(seen []Seen, m Memory, now time.Time) Step {
	s := Step{Memory: m}
	there := make(map[Member]bool, len(seen))
	for i := range seen {
		x := &seen[i]
		there[x.Member] = true
		r := p.Role(x.Role)
		gone := r == nil || x.Index >= r.Count || x.Attempt < m.Attempt ||
			x.Life == Failed && (x.Disrupted || slices.Contains(m.Counted, x.ID))
		if gone && !x.Leaving {
			s.Delete = append(s.Delete, i)
		}
	}
	if p.Deadline > 0 {
		s.Again = m.Started.Add(p.Deadline).Sub(now)
	}
	if left := m.LastFailure.Add(pause(m.Failures)).Sub(now); !m.LastFailure.IsZero() && left > 0 {
		if s.Again == 0 || left < s.Again {
			s.Again = left
		}
		return s
	}
	counts := p.Count(seen, &m)
	for i := range p.Roles {
		r := &p.Roles[i]
		if !p.mayBegin(r, counts) {
			continue
		}
		for index := range r.Count {
			if x := (Member{r.Name, index}); !there[x] && !m.Done[r.Name].Has(index) {
				s.Create = append(s.Create, x)
			}
		}
	}
	return s
}

// Pauses before pods are made after failures: none after the first few, then one that
// doubles, as kubelets do for containers that crash.
const (
	failuresAtOnce = 3
	firstPause     = 10 * time.Second
	longestPause   = 5 * time.Minute
)

func pause(failures int32) time.Duration {
	if failures <= failuresAtOnce {
		return 0
	}
	return min(firstPause<<min(failures-failuresAtOnce-1, 5), longestPause)
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
