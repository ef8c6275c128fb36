package nodehealth

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// State is how a node is, in one word.
type State string

// The states of health, best first.
const (
	// Healthy: nothing is wrong.
	Healthy State = "Healthy"
	// Suspect: something is worse than it should be.
	Suspect State = "Suspect"
	// Back: what was wrong is gone, and for how long it has to be is not over.
	Back State = "Back"
	// Testing: a test has the GPUs for itself.
	Testing State = "Testing"
	// FailedState is what no new work should start on.
	FailedState State = "Failed"
	// Draining is what has to be left, until a deep test passed or somebody said that it is well.
	Draining State = "Draining"
)

// States are all of them, best first.
func States() []State { return []State{Healthy, Suspect, Back, Testing, FailedState, Draining} }

func (s State) rank() int { return max(slices.Index(States(), s), 0) }

func (s Severity) state() State {
	switch s {
	case Warned:
		return Suspect
	case Failed:
		return FailedState
	case Fatal:
		return Draining
	case Ignored:
	}
	return Healthy
}

// Policy says how fast states change.
type Policy struct {
	Rules []Rule
	// Hold is for how long what was wrong has to be gone before a node is back; it doubles with each return of the
	// trouble, up to MaxHold.
	Hold, MaxHold time.Duration
	// Forget is after how long a healthy node is as one that never failed.
	Forget time.Duration
	// Percent of the nodes of a pool, and one at least, may be taken out of service within an hour; 0 is none
	// by findings at all, 100 is no limit.
	Percent int
	// Most bounds how many nodes are remembered.
	Most int
	// TestReturned has nodes that somebody cleared of what was fatal wait for a deep test before they are used.
	TestReturned bool
}

// DefaultMost nodes that are not healthy fit into one ConfigMap, if little has to be said of each.
const DefaultMost = 2000

const (
	// mostBytes of what is remembered fit into one ConfigMap, which may have 1 MiB: the API server refuses more.
	mostBytes = 900 << 10
	// mostParts of a node are remembered.
	mostParts = 8
)

// Part is how a node as a whole is, or all its devices of one resource.
type Part struct { //nolint:recvcheck // its next state is made in a copy
	// Of is the resource, "" for the node.
	Of    string    `json:"of,omitempty"`
	State State     `json:"state"`
	Since time.Time `json:"since"`
	// Level is how bad it was when it was last found bad.
	Level Severity `json:"level,omitempty"`
	// Worst is the finding that it is for, kept until it is healthy again.
	Worst *Finding `json:"worst,omitempty"`
	// FatalAt is when the first fatal finding was made that neither a deep test nor somebody has cleared.
	FatalAt time.Time `json:"fatalAt,omitzero"`
	// Gone is since when nothing as bad is found.
	Gone time.Time `json:"gone,omitzero"`
	// Repeats is how often the trouble came back.
	Repeats int `json:"repeats,omitempty"`
	// Seen is when findings that have no time of their own were first seen.
	Seen []Seen `json:"seen,omitempty"`
}

// Seen is the first sight of a finding.
type Seen struct {
	Key string    `json:"key"`
	At  time.Time `json:"at"`
}

const (
	mostSeen    = 4
	mostRepeats = 16
)

// Evidence is what speaks for a node.
type Evidence struct {
	// DeepPassed is when a deep test last passed.
	DeepPassed time.Time
	// Cleared is when somebody last said that the node is well, whatever was found until then.
	Cleared time.Time
	// Trusted says that who cleared it wants no test of it.
	Trusted bool
}

// Overrules reports whether a deep test that passed has looked at a finding since: at fatal ones of checks, and at hangs.
func (e Evidence) Overrules(f Finding) bool {
	return (f.Source == SourceCheck && f.Severity == Fatal || f.Source == SourceHang) &&
		!f.Since.IsZero() && e.DeepPassed.After(f.Since)
}

// Next is how a part is after a look at what is found on it, all of the part and worst first. Nothing but what it is
// given has a say, and the same is said of the same however often it looks.
//
//   - What gets worse does so at once.
//   - What gets better is Back first, for as long as the policy holds it.
//   - Fatal stays until a deep test passed after the finding, or somebody cleared it.
//   - What somebody cleared does not count any more: findings that were there by then do not, until they were gone.
func (p Part) Next(found []Finding, e Evidence, policy Policy, now time.Time) Part {
	found = p.date(found, now)
	if p.State == "" {
		p.State, p.Since = Healthy, now
	}
	if !e.Cleared.IsZero() {
		found = slices.DeleteFunc(found, func(f Finding) bool { return !f.Since.After(e.Cleared) })
		if p.State != Healthy && !p.Since.After(e.Cleared) {
			p = Part{Of: p.Of, State: Healthy, Since: now, Seen: p.Seen}
		}
	}
	level, worst := Ignored, (*Finding)(nil)
	if len(found) > 0 {
		level, worst = found[0].Severity, &found[0]
	}
	if !p.FatalAt.IsZero() && e.DeepPassed.After(p.FatalAt) {
		p.FatalAt = time.Time{}
	}
	if p.FatalAt.IsZero() { // a check that says it anew each hour is no news: a deep test that passed is told at once
		for _, f := range found {
			if f.Severity == Fatal && f.Since.After(p.FatalAt) {
				p.FatalAt = f.Since
			}
		}
	}
	if !p.FatalAt.IsZero() {
		if level != Fatal {
			worst = nil // what was fatal is what it is for
		}
		level = Fatal
	}
	switch was := cmp.Or(p.Level, Ignored); {
	case level.rank() > 0 && level.rank() >= was.rank():
		p.bad(level, worst, now)
	case was.rank() > level.rank():
		p.better(level, worst, policy, now)
	}
	return p
}

// bad notes what is as bad as before, or worse.
func (p *Part) bad(level Severity, worst *Finding, now time.Time) {
	if p.Worst != nil && !p.Gone.IsZero() {
		p.Repeats = min(p.Repeats+1, mostRepeats)
	}
	if worst != nil && (p.Worst == nil || !p.Worst.same(*worst)) {
		p.Worst = new(*worst)
	}
	p.Level, p.Gone = level, time.Time{}
	if state := level.state(); p.State != state {
		p.State, p.Since = state, now
	}
}

// better notes what is not as bad as before.
func (p *Part) better(level Severity, worst *Finding, policy Policy, now time.Time) {
	if p.Gone.IsZero() {
		p.Gone = now
		p.State, p.Since = Back, now
	}
	if now.Before(p.Gone.Add(policy.holds(p.Repeats))) {
		return
	}
	p.Level, p.State, p.Since = level, level.state(), now
	if level == Ignored {
		p.Level = ""
	}
	if worst != nil {
		p.Worst, p.Gone = new(*worst), time.Time{}
	}
}

// holds is for how long trouble that came back so often has to be gone.
func (p Policy) holds(repeats int) time.Duration {
	d := p.Hold
	for range repeats {
		if d >= p.MaxHold {
			break
		}
		d *= 2
	}
	return min(d, max(p.MaxHold, p.Hold))
}

// date gives findings without a time that of their first sight, and forgets those that are gone. Of more than there is
// room for, the rest has the time of the first: one that is another at each look would be new after each clearing.
func (p *Part) date(found []Finding, now time.Time) []Finding {
	var seen []Seen
	out := slices.Clone(found)
	for i := range out {
		if !out[i].Since.IsZero() {
			continue
		}
		key := out[i].key()
		out[i].Since = now
		if at := slices.IndexFunc(p.Seen, func(s Seen) bool { return within(key, s.Key) }); at >= 0 {
			out[i].Since = p.Seen[at].At
		} else if len(p.Seen) >= mostSeen {
			out[i].Since = slices.MinFunc(p.Seen, func(a, b Seen) int { return a.At.Compare(b.At) }).At
		}
		if len(seen) < mostSeen {
			seen = append(seen, Seen{key, out[i].Since})
		}
	}
	p.Seen = seen
	return out
}

// nodeState is what the engine makes of it. What has to be left is closed here: who runs the nodes says by the label
// that pods have to go.
func (p Part) nodeState() core.NodeState {
	switch p.State {
	case Suspect:
		return core.NodeWarned
	case Back:
		if p.Level == Warned {
			return core.NodeWarned
		}
		return core.NodeClosed
	case Testing, FailedState, Draining:
		return core.NodeClosed
	case Healthy:
	}
	return core.NodeReady
}

// forgettable reports whether nothing of a part has to be remembered.
func (p Part) forgettable(policy Policy, now time.Time) bool {
	return p.State == Healthy && len(p.Seen) == 0 && (p.Worst == nil || !now.Before(p.Since.Add(policy.Forget)))
}

// due is when a part changes if nothing else does; zero for never.
func (p Part) due(policy Policy) time.Time {
	switch {
	case p.State == Back:
		return p.Gone.Add(policy.holds(p.Repeats))
	case p.State == Healthy && p.Worst != nil:
		return p.Since.Add(policy.Forget)
	}
	return time.Time{}
}

// equal reports whether two parts say the same.
func (p Part) equal(o Part) bool {
	worst := p.Worst == o.Worst || p.Worst != nil && o.Worst != nil && *p.Worst == *o.Worst
	return p.Of == o.Of && p.State == o.State && p.Since.Equal(o.Since) && p.Level == o.Level && worst &&
		p.FatalAt.Equal(o.FatalAt) && p.Gone.Equal(o.Gone) && p.Repeats == o.Repeats && slices.Equal(p.Seen, o.Seen)
}

// Health is what is remembered of a node that is not, or was not, healthy.
type Health struct {
	// UID of the node: one that is made anew begins afresh.
	UID string `json:"uid,omitempty"`
	// Pools are the flavors that it serves.
	Pools []string `json:"pools,omitempty"`
	// Parts by resource, that of the node as a whole first.
	Parts []Part `json:"parts,omitempty"`
	// Testing says that the health label, which others write, speaks of a test.
	Testing bool `json:"testing,omitempty"`
	// Taken is when findings last took it out of service.
	Taken time.Time `json:"taken,omitzero"`
	// Held is since when it would be out of service and is not, since too many are already.
	Held time.Time `json:"held,omitzero"`
	// Untested is when somebody cleared it of what was fatal; it waits for a deep test.
	Untested time.Time `json:"untested,omitzero"`
	// DeepPassed is when a deep test passed that overrules what is still said of it.
	DeepPassed time.Time `json:"deepPassed,omitzero"`
	// UnderTest says that a deep test of ours runs on it while it is out of service.
	UnderTest bool `json:"underTest,omitempty"`
}

// until is what is remembered with no time after now, and without parts that nobody here has written: who is not
// healthy has a level.
func (h Health) until(now time.Time) Health {
	past := func(at time.Time) time.Time {
		if at.After(now) {
			return now
		}
		return at
	}
	h.Taken, h.Held, h.Untested = past(h.Taken), past(h.Held), past(h.Untested)
	if h.DeepPassed.After(now) {
		h.DeepPassed = time.Time{}
	}
	var parts []Part
	for _, p := range h.Parts {
		if p.State != Healthy && p.Level.rank() == 0 {
			continue
		}
		p.Since, p.FatalAt, p.Gone = past(p.Since), past(p.FatalAt), past(p.Gone)
		p.Seen = slices.Clone(p.Seen)
		for i := range p.Seen {
			p.Seen[i].At = past(p.Seen[i].At)
		}
		parts = append(parts, p)
	}
	h.Parts = parts
	return h
}

// Text is what is stored of it.
func (h Health) Text() (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // which would have six bytes for one
	err := e.Encode(h)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// size is how many bytes there are of it at most, whatever the breaker makes of it.
func (h Health) size(now time.Time) int {
	h.Taken, h.Held = now, now
	text, err := h.Text()
	if err != nil {
		return mostBytes // it cannot be stored: times of no year that JSON knows
	}
	return len(text)
}

// worst is the part that is worst, nil if there is none.
func (h Health) worst() *Part {
	var out *Part
	for i := range h.Parts {
		if p := &h.Parts[i]; out == nil || p.State.rank() > out.State.rank() {
			out = p
		}
	}
	return out
}

// State is that of the worst part; Suspect of one that is held in service, and Testing if there is nothing worse.
func (h Health) State() State {
	p := h.worst()
	switch {
	case (h.Testing || !h.Untested.IsZero()) && (p == nil || p.State.rank() < Testing.rank()):
		return Testing
	case p == nil:
		return Healthy
	case !h.Held.IsZero() && p.State.rank() > Suspect.rank():
		return Suspect
	}
	return p.State
}

// Worst is the finding that it is for and since when it is so; nil if nothing is wrong.
func (h Health) Worst() (*Finding, time.Time) {
	p := h.worst()
	if p == nil || p.State == Healthy {
		return nil, time.Time{}
	}
	return p.Worst, p.Since
}

// returned is since when a node that was as was waits for a deep test: somebody cleared it of what was fatal, or cleared
// it again, which is a new reason to test it. Zero is of one that does not.
func (h Health) returned(was Health, e Evidence, policy Policy) time.Time {
	fatal := func(p Part) bool { return !p.FatalAt.IsZero() }
	since := was.Untested
	if slices.ContainsFunc(was.Parts, fatal) && !slices.ContainsFunc(h.Parts, fatal) ||
		!since.IsZero() && e.Cleared.After(since) {
		since = e.Cleared
	}
	if !policy.TestReturned || e.DeepPassed.After(since) || e.Trusted && !e.Cleared.Before(since) {
		return time.Time{}
	}
	return since
}

// out reports whether findings would keep new work off the node.
func (h Health) out() bool {
	return slices.ContainsFunc(h.Parts, func(p Part) bool { return !p.nodeState().TakesWork() })
}

// bad reports whether what would keep new work off the node is there still.
func (h Health) bad() bool {
	return slices.ContainsFunc(
		h.Parts,
		func(p Part) bool { return p.State != Back && !p.nodeState().TakesWork() },
	)
}

// Equal reports whether both say the same.
func (h Health) Equal(o Health) bool {
	return h.UID == o.UID && slices.Equal(h.Pools, o.Pools) && slices.EqualFunc(h.Parts, o.Parts, Part.equal) &&
		h.Testing == o.Testing && h.Taken.Equal(o.Taken) && h.Held.Equal(o.Held) &&
		h.Untested.Equal(o.Untested) && h.DeepPassed.Equal(o.DeepPassed) && h.UnderTest == o.UnderTest
}
