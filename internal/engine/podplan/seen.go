package podplan

import (
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Seen is a member's object as it is.
type Seen struct {
	Member
	// ID tells apart objects that had the same name one after the other.
	ID string
	// Attempt is the attempt of the job that it was made in.
	Attempt int32
	// Version of the plan that it was made by; "" is not known, and is as good as any.
	Version string
	Life    Life
	// Leaving: it is being deleted. Over: it can run no more without more being done, only its
	// object is left, which anybody may keep for as long as they like.
	Leaving, Over bool
	// Held: it is held back, as members of a role that Holds are while the job is suspended.
	Held bool
	// Failures are how many runs in it have failed, its own end included.
	Failures int32
	// Final: it failed in a way that another try would not mend.
	Final bool
	// Disrupted: it failed because it was evicted or its node was lost, for which the job
	// is not to blame.
	Disrupted bool
	// Reason is the word for why it failed, for Rules, and Why says it to the job's author.
	Reason, Why string
	// Failing: it has failed but for pods of it that have not ended yet, as those on a node out of reach.
	Failing bool
	// Failure is what Plan.Retry goes by; nil is unknown.
	Failure *core.Failure
	// FailedAt is when it did; the zero time is unknown.
	FailedAt time.Time
	// InRound is what its pods say of rounds, where the plan is InPlace.
	InRound InRound
}

// Life is how far a member is.
type Life int

// In the order in which they follow each other.
const (
	Pending Life = iota
	Running
	Ready
	Succeeded
	Failed
)

// RetryState is what is kept of a job between steps: the rest is seen anew.
type RetryState struct {
	// Started is when the job last began; zero while it is suspended.
	Started time.Time
	// Attempt counts how often all members were made anew.
	Attempt int32
	// Failures are those of members that are gone, or about to go: these are in Counted
	// by ID, so that a failure is counted once whatever happens in between; so are those that failed
	// while they were held back, which are no failures of the job.
	Failures int32
	Counted  []string
	// Free are the failures that a rule counts against no limit. They are in Counted, too.
	Free int32
	// LastFailure is when the last of all these was counted: the more there were, the
	// longer it takes until the next try.
	LastFailure time.Time
	// Done are the indexes that succeeded, by role. They stay done if their objects are
	// removed.
	Done map[string]Indexes
	// Rounds are those of a plan that is InPlace.
	Rounds Rounds
	// Ended is when the job came to its outcome.
	Ended   time.Time
	Outcome Outcome
	// Rule is the name of the one that the last failure that was counted, or that ended the
	// job, fitted.
	Rule string
	// Reason and Message say why it failed.
	Reason  Reason
	Message string
}

// Outcome is how a job ended.
type Outcome int

// The outcomes; Open is that of a job that has not ended.
const (
	Open Outcome = iota
	JobSucceeded
	JobFailed
)

// Reason is why a job failed.
type Reason int

// The reasons.
const (
	MemberFailed Reason = iota + 1
	RetriesExceeded
	DeadlineExceeded
)

// Tally counts a role's members.
type Tally struct {
	// Active have not ended, Ready of them are ready, and Pending have not begun.
	Active, Ready, Pending int32
	// Succeeded counts the pods that are done, Failed the pods that are there and failed.
	Succeeded, Failed int32
	// Held are held back.
	Held int32
}

// Count counts the members of each role.
func (p *Plan) Count(seen []Seen, m *RetryState) map[string]Tally {
	out := make(map[string]Tally, len(p.Roles))
	for i := range p.Roles {
		name := p.Roles[i].Name
		out[name] = Tally{Succeeded: m.Done[name].Below(p.Roles[i].Count)}
	}
	for i := range seen {
		s := &seen[i]
		t, known := out[s.Role]
		if !known {
			continue
		}
		switch s.Life {
		case Failed:
			t.Failed++
		case Pending, Running, Ready:
			switch {
			case s.Held:
				t.Held++
			case s.Life == Ready:
				t.Ready++
				fallthrough
			default:
				t.Active++
			}
			if s.Life == Pending && !s.Held {
				t.Pending++
			}
		case Succeeded:
		}
		out[s.Role] = t
	}
	return out
}

// AllReady reports whether every member that may be there is ready or done. A role that
// waits for the end of another lacks nothing while that one runs, however long it takes.
func (p *Plan) AllReady(counts map[string]Tally) bool {
	for i := range p.Roles {
		r := &p.Roles[i]
		if t := counts[r.Name]; t.Ready+t.Succeeded < r.Count && p.mayBegin(r, counts) {
			return false
		}
	}
	return true
}
