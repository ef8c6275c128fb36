// Package podplan says what a job is made of and what has to be done next for it. A
// Plan is what a kind of job asks for, as values: roles with so many members each,
// when they start, what happens to failed ones, what success is, and what is left
// behind. Next compares a plan with what there is and returns the next step. It makes
// no object: a member is a pod, or a child object such as a Job, of which only the
// life matters here.
package podplan

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Plan is what a job asks for.
type Plan struct {
	Roles []Role
	// Suspended: nothing of the job may run.
	Suspended bool
	// Success is when the job has succeeded.
	Success Success
	// Rules say what follows certain failures, the first that fits; where none does it is
	// the OnFailure of the role.
	Rules []Rule
	// Retry says what follows failures that no rule fits, if one of its own does or the job is not to blame; else it is
	// the OnFailure of the role, too, as it always is where Retry is nil. Earlier are the attempts before.
	Retry   *core.RetryPolicy
	Earlier core.RetryHistory
	// Retries is how many failures of members the job survives; nil is without limit. Where
	// all begin anew it is one, however many failed.
	Retries *int32
	// Together: when all members are made anew, none is before the last of those before is
	// gone.
	Together bool
	// InPlace has pods of members that have not failed restart together in place; nil if they do not.
	InPlace *InPlace
	// Deadline is how long the job may run, counted from each start; 0 is without end. EachTry:
	// it is counted from when all members were last made anew, if that is later.
	Deadline time.Duration
	EachTry  bool
	// Version says what members are made from. With Renews all are made anew when it changes,
	// which counts for no limit.
	Version string
	Renews  bool
	// CleanUp is what becomes of members when the job has ended, so long after its end.
	CleanUp      CleanUp
	CleanUpAfter time.Duration
	// Trims: members that stay after the job's end are changed by it, as those of a job that runs.
	Trims bool
	// TTL is how long the job itself stays after it ended; nil is for ever.
	TTL *time.Duration
}

// Role are members that are alike but for their index.
type Role struct {
	// Name of the role, unique in the plan.
	Name string
	// Count is how many members there are; their indexes begin with 0.
	Count int32
	// Floating: it does not matter which indexes they have. A member that is gone leaves a
	// gap, which the next one that is made fills, as one does that ended, however well; those
	// of Unwanted go first when there are too many, then the last.
	Floating bool
	Unwanted []int32
	// Forever: one that ends, however well, is made anew.
	Forever bool
	// Holds: while the job is suspended its members stay and are held back, and what they
	// have done stays done. Otherwise they go.
	Holds bool
	// Version says what members are made from that are held back and cannot be changed by their
	// release: one that has not ended and that another version made goes, and is made anew. "" is
	// that of all.
	Version string
	// Kept: of members that have ended none is removed when the job has, whatever CleanUp
	// says: they are its result.
	Kept bool
	// Remote: its members are no objects. What became of them is told from elsewhere, and none
	// is made, removed or held back here.
	Remote bool
	// Alone: none is made while there are members of no role.
	Alone bool
	// Rank of the first member among all of the job.
	Rank int32
	// Member is the name of a member's object, in which {index} stands for its index at most
	// once, and Labels are what it carries; see Role.Expand.
	Member string
	Labels map[string]string
	// Env is added to the containers: those of the name Container, all if it is "".
	// A variable that the author set stays.
	Env       []Env
	Container string
	// Ports are those of a service for each member, of the member's name; none are no
	// service.
	Ports []Port
	// OnFailure is what follows the failure of a member.
	OnFailure OnFailure
	// After are what has to be before members are made.
	After []Dependency
}

// OnFailure is what follows the failure of a member.
type OnFailure int

// What may follow.
const (
	// FailJob ends the job.
	FailJob OnFailure = iota
	// Replace makes the member anew.
	Replace
	// ReplaceRetriable makes it anew if the failure may be one of the moment (Seen.Final is
	// false), and ends the job if it is not.
	ReplaceRetriable
	// RestartJob makes all members anew.
	RestartJob
	// Ignore leaves it failed; the others go on.
	Ignore
)

// Rule says what follows failures of some kind.
type Rule struct {
	// Name is told when the rule fits.
	Name string
	// Roles whose failures these are, Reasons that a failure has one of, and Messages that it
	// matches one of; none are all.
	Roles, Reasons []string
	Messages       []*regexp.Regexp
	// Then is what follows. Free: it counts for no limit.
	Then OnFailure
	Free bool
}

// Dependency holds a role back.
type Dependency struct {
	// Role that comes first, with all its members.
	Role string
	// Done waits for their success, else it is enough that they are ready.
	Done bool
}

// Env is a variable. Value may name what differs between members, see Role.Expand;
// Field is the path of a field of the pod instead.
type Env struct{ Name, Value, Field string }

// Port of a service.
type Port struct {
	Name string
	Port int32
}

// Success is when a job has succeeded: as soon as one of the terms holds. None never
// does.
type Success []Term

// Term are roles of which so many members have to succeed.
type Term struct {
	Roles []string
	// First asks for the members of index 0 alone, AtLeast for so many of all; otherwise all
	// have to.
	First   bool
	AtLeast int32
}

// CleanUp is what becomes of members when a job has ended.
type CleanUp int

// What may become of them.
const (
	// Keep leaves all.
	Keep CleanUp = iota
	// RemoveRunning removes the pods that have not ended.
	RemoveRunning
	// RemoveAll removes all.
	RemoveAll
)

// Member is one of a job's members.
type Member struct {
	Role  string
	Index int32
}

// Expand replaces what differs between members in a name, a label or a variable:
// {index} is the index in the role, {rank} that in the job.
func (r *Role) Expand(s string, index int32) string {
	if strings.Contains(s, "{index}") {
		s = strings.ReplaceAll(s, "{index}", strconv.Itoa(int(index)))
	}
	if strings.Contains(s, "{rank}") {
		s = strings.ReplaceAll(s, "{rank}", strconv.Itoa(int(r.Rank+index)))
	}
	return s
}

// endless reports whether members that succeeded are made anew.
func (r *Role) endless() bool { return r.Forever || r.Floating }

// remote reports whether a member is no object.
func (p *Plan) remote(x *Seen) bool {
	r := p.Role(x.Role)
	return r != nil && r.Remote
}

// Named returns the index of the member that has a name; false if the role has none.
func (r *Role) Named(name string) (int32, bool) {
	before, after, many := strings.Cut(r.Member, "{index}")
	if r.Remote {
		return 0, false
	}
	if !many {
		return 0, name == r.Member && r.Count > 0
	}
	number, begins := strings.CutPrefix(name, before)
	number, ends := strings.CutSuffix(number, after)
	n, err := strconv.ParseInt(number, 10, 32)
	if !begins || !ends || err != nil || n < 0 || strconv.FormatInt(n, 10) != number {
		return 0, false
	}
	return int32(n), r.has(int32(n))
}

// Role returns a role of the plan, nil if there is none of the name.
func (p *Plan) Role(name string) *Role {
	for i := range p.Roles {
		if p.Roles[i].Name == name {
			return &p.Roles[i]
		}
	}
	return nil
}
