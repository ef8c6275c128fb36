package podplan

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// failure is one that nothing followed yet.
type failure struct {
	of   int // in what was seen
	then OnFailure
	// rule that it fits, nil for none, and its place among them: after all for none.
	rule *Rule
	at   int
	// spared: it counts for no limit, as a disruption. why is what the policy of retries says of the end of the job.
	spared bool
	why    string
}

func (f *failure) name() string {
	if f.rule == nil {
		return ""
	}
	return f.rule.Name
}

// free reports whether it counts for no limit.
func (f *failure) free() bool { return f.spared || f.rule != nil && f.rule.Free }

// failures are those of this attempt that were not counted yet.
func (p *Plan) failures(seen []Seen, m *RetryState) []failure {
	var out []failure
	for i := range seen {
		s := &seen[i]
		if !s.failed() || s.Leaving || s.Disrupted || s.Attempt < m.Attempt ||
			slices.Contains(m.Counted, s.ID) {
			continue
		}
		if r := p.Role(s.Role); r != nil && r.has(s.Index) {
			out = append(out, p.judge(r, s, i, m))
		}
	}
	return out
}

// failed reports whether a member failed. One that is failing has if its job is not to blame: by the time
// at which its last pod has ended, nobody may know why any more.
func (s *Seen) failed() bool {
	return s.Life == Failed || s.Failing && s.Failure != nil && s.Failure.Disrupts()
}

// judge says what follows a failure.
func (p *Plan) judge(r *Role, s *Seen, of int, m *RetryState) failure {
	f := failure{of: of, then: r.OnFailure, at: len(p.Rules)}
	for i := range p.Rules {
		if rule := &p.Rules[i]; rule.fits(s) {
			f.then, f.rule, f.at = rule.Then, rule, i
			break
		}
	}
	if f.rule == nil && p.Retry != nil && s.Failure != nil && f.then != Ignore {
		p.consult(s.Failure, m, &f)
	}
	if f.then == ReplaceRetriable {
		f.then = Replace
		if s.Final {
			f.then = FailJob
		}
	}
	return f
}

// consult takes in what the policy of retries says of a failure, if it says anything.
func (p *Plan) consult(of *core.Failure, m *RetryState, f *failure) {
	earlier := p.Earlier
	earlier.Retries = m.Failures + m.Rounds.Failures
	next := p.Retry.Decide(earlier, *of)
	switch {
	case !next.Ruled && !of.Disrupts():
		return
	case !next.Retry:
		f.then, f.why = FailJob, next.Why
		return
	case f.then == FailJob: // the others lose touch with one that is made anew
		f.then = RestartJob
	case f.then == ReplaceRetriable:
		f.then = Replace
	}
	f.spared = !next.Charged
}

// Free reports whether a member's failure counts for no limit, by the rules.
func (p *Plan) Free(s *Seen) bool {
	r := p.Role(s.Role)
	if r == nil {
		return false
	}
	f := p.judge(r, s, 0, &RetryState{})
	return f.free()
}

func (r *Rule) fits(s *Seen) bool {
	return (len(r.Roles) == 0 || slices.Contains(r.Roles, s.Role)) &&
		(len(r.Reasons) == 0 || slices.Contains(r.Reasons, s.Reason)) &&
		(len(r.Messages) == 0 || slices.ContainsFunc(r.Messages, func(m *regexp.Regexp) bool { return m.MatchString(s.Why) }))
}

// worst is the failure that all of the job follows, nil if there is none: that of the first
// rule, and of these the earliest. Where rules say nothing it is one that ends the job.
func (p *Plan) worst(seen []Seen, failures []failure) *failure {
	var out *failure
	for i := range failures {
		f := &failures[i]
		if f.then != FailJob && f.then != RestartJob {
			continue
		}
		if out == nil || before(f, out, seen) {
			out = f
		}
	}
	return out
}

func before(a, b *failure, seen []Seen) bool {
	return cmp.Or(
		cmp.Compare(a.at, b.at),
		cmp.Compare(a.then, b.then), // FailJob is less
		seen[a.of].FailedAt.Compare(seen[b.of].FailedAt),
		cmp.Compare(a.of, b.of),
	) < 0
}

// counter is where a failure is counted.
func (f *failure) counter(m *RetryState) *int32 {
	if f.free() {
		return &m.Free
	}
	return &m.Failures
}

// restarts are the runs in a member that failed before its own end.
func (s *Seen) restarts() int32 { return max(s.Failures-1, 0) }

// count takes in who failed since the last step and is made anew, and reports whether
// anybody did. If all are, that is one failure.
func (p *Plan) count(
	seen []Seen,
	failures []failure,
	worst *failure,
	m *RetryState,
	now time.Time,
) (changed bool) {
	if worst != nil { // it restarts the job, or it would have ended
		m.remade()
		m.Rule, m.LastFailure = worst.name(), now
		*worst.counter(m)++
		return true
	}
	var more []string
	for i := range failures {
		f := &failures[i]
		if f.then != Replace {
			continue
		}
		s := &seen[f.of]
		more = append(more, s.ID)
		*f.counter(m)++
		m.Failures += s.restarts()
		m.LastFailure = now
	}
	for i := range seen { // what evicted it has not made its runs fail before
		s := &seen[i]
		r := p.Role(s.Role)
		if s.Disrupted && s.Life == Failed && s.restarts() > 0 && s.Attempt >= m.Attempt &&
			r != nil && r.has(s.Index) && (r.OnFailure == Replace || r.OnFailure == ReplaceRetriable) &&
			!slices.Contains(m.Counted, s.ID) {
			more = append(more, s.ID)
			m.Failures += s.restarts()
		}
	}
	if more == nil {
		return false
	}
	var there []string // of those counted before
	for i := range seen {
		if slices.Contains(m.Counted, seen[i].ID) {
			there = append(there, seen[i].ID)
		}
	}
	m.Counted = append(there, more...)
	p.leaveRound(m, now)
	return true
}

// exceeded says which limit a job has exceeded; 0 if none.
func (p *Plan) exceeded(seen []Seen, m *RetryState, now time.Time) (why Reason, message string) {
	failures := m.Failures + m.Rounds.Failures
	for i := range seen {
		s := &seen[i]
		r := p.Role(s.Role)
		if r == nil || s.Attempt < m.Attempt || !r.has(s.Index) ||
			s.Life == Failed && slices.Contains(m.Counted, s.ID) {
			continue
		}
		if !s.Disrupted && (r.OnFailure == Replace || r.OnFailure == ReplaceRetriable) {
			failures += s.Failures
		}
	}
	if p.Retries != nil && failures > *p.Retries {
		return RetriesExceeded, fmt.Sprintf(
			"%d failures are more than the %d that it may be tried again after",
			failures,
			*p.Retries,
		)
	}
	if p.Deadline > 0 && now.Sub(p.began(m)) >= p.Deadline {
		return DeadlineExceeded, fmt.Sprintf("it ran longer than %s", p.Deadline)
	}
	return 0, ""
}

// began is when the time began of which there is a deadline.
func (p *Plan) began(m *RetryState) time.Time {
	if p.EachTry && m.Attempt > 0 && m.LastFailure.After(m.Started) {
		return m.LastFailure
	}
	return m.Started
}

// told is what is said of a failure.
func (p *Plan) told(s *Seen, f *failure) string {
	out := p.Role(s.Role).name(s.Index) + " failed" + because(s.Why)
	if f.why != "" {
		out += "; " + f.why
	}
	return out
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// Pauses before pods are made after failures, or a round begins: none after the first few, then one that
// doubles, as kubelets do for containers that crash.
const (
	failuresAtOnce = 3
	firstPause     = 10 * time.Second
	longestPause   = 5 * time.Minute
)

// paused is how long it still is until anything begins after the last failure; 0 if it may.
func (m *RetryState) paused(now time.Time) time.Duration {
	if m.LastFailure.IsZero() {
		return 0
	}
	of := m.Failures + m.Free + m.Rounds.Failures + m.Rounds.Free
	return max(m.LastFailure.Add(pause(of)).Sub(now), 0)
}

func pause(failures int32) time.Duration {
	if failures <= failuresAtOnce {
		return 0
	}
	return min(firstPause<<min(failures-failuresAtOnce-1, 5), longestPause)
}
