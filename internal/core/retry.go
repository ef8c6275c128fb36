package core

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RetryAction is what a rule of a retry policy says of a failure.
type RetryAction string

// The actions.
const (
	RetryOnFailure RetryAction = "Retry"
	FailOnFailure  RetryAction = "Fail"
)

// RetryRule says what follows failures of some kind.
type RetryRule struct {
	// From says who wrote it, for people: "the job", "ClusterQueue gpu".
	From string
	// Categories and ExitCodes of the failures that it is for; none are all.
	Categories []Category
	ExitCodes  []int32
	// Repeated: only those that ended the attempt before alike, in pods of the same role, without progress in either.
	Repeated bool
	Action   RetryAction
	// Limit is how many retries the rule allows; nil is as many as the policy.
	Limit *int32
}

// RetryPolicy says which failures of a job are followed by another attempt. The first rule that fits decides; what
// fits none is retried. Disruptions, which the job is not to blame for, are counted apart: see Disrupts.
type RetryPolicy struct {
	Rules []RetryRule
	// Limit is how many retries for failures of its own a job has.
	Limit int32
	// Disruptions is how many of them in a row, without progress, are followed by another attempt; 0 is
	// DefaultDisruptions.
	Disruptions int32
}

// Defaults of policies.
const (
	// DefaultDisruptions in a row and without progress take more than an hour with their pauses.
	DefaultDisruptions = 12
	// ProgressTime is how long an attempt has to run to count as progress where no checkpoint is told of.
	ProgressTime = 10 * time.Minute
)

// Pauses after disruptions in a row: none after the first ones, then one that doubles.
const (
	disruptionsAtOnce  = 2
	firstDisruption    = 30 * time.Second
	longestDisruption  = 10 * time.Minute
	disruptionDoubling = 5 // times at most
)

// Failure is how an attempt of a job ended, or the pod in it that failed first.
type Failure struct {
	Category Category
	// ExitCode is 0 if none is known.
	ExitCode int32
	Pod      string
	// Pressure: what its node had too little of ended it, and not a limit of its own.
	Pressure bool
	// Progress: the job told of a checkpoint in the attempt, or it ran for more than ProgressTime.
	Progress bool
}

// RetryHistory is what happened to a job before.
type RetryHistory struct {
	// Retries are those for failures of its own, as they were counted.
	Retries int32
	// Last are the last attempts that ended, the latest at the end, and Earlier how many of those before ended by each
	// category.
	Last    []Failure
	Earlier map[Category]int32
}

// RetryVerdict is what follows a failure.
type RetryVerdict struct {
	Retry bool
	// Ruled: a rule of the policy says so.
	Ruled bool
	// Charged: the retry counts against the limit of the policy.
	Charged bool
	// Why is a clause for people: it follows what failed, and a comma or semicolon.
	Why string
}

// DefaultRetryRules are those of a job for which nobody said anything: what is certain to end alike is not tried again.
func DefaultRetryRules() []RetryRule {
	const from = "the defaults"
	return []RetryRule{
		{
			From:       from,
			Categories: []Category{CategoryUserError},
			ExitCodes:  []int32{2, 126, 127},
			Action:     FailOnFailure,
		},
		{From: from, Categories: []Category{CategoryUserError}, Repeated: true, Action: FailOnFailure},
		{From: from, Categories: []Category{CategoryOutOfMemory}, Repeated: true, Action: FailOnFailure},
	}
}

// RuledCategories are those that rules may name: failures that may be the job's own. The others are disruptions, or
// decided by queues and people.
func RuledCategories() []Category {
	return []Category{
		CategoryUserError,
		CategoryCrash,
		CategoryOutOfMemory,
		CategoryStorageFailure,
		CategoryStartFailure,
		CategoryUnknown,
	}
}

// Disrupts reports whether a failure is none of the job's own, which never counts against its limit.
func (f *Failure) Disrupts() bool {
	switch f.Category {
	case CategoryNodeFailure,
		CategoryNetworkFailure,
		CategoryMaintenance,
		CategoryPreemption,
		CategoryRelocation:
		return true
	case CategoryStorageFailure:
		return f.Pressure
	case CategoryUserError,
		CategoryCrash,
		CategoryOutOfMemory,
		CategoryStartFailure,
		CategoryHang,
		CategoryTimeLimit,
		CategoryStopped,
		CategoryUnknown:
	}
	return false
}

// Decide says what follows a failure of a job with such a history.
func (p *RetryPolicy) Decide(h RetryHistory, f Failure) RetryVerdict {
	rule := p.rule(h, f)
	out := p.decide(rule, h, f)
	out.Ruled = rule != nil
	return out
}

func (p *RetryPolicy) decide(rule *RetryRule, h RetryHistory, f Failure) RetryVerdict {
	if rule != nil && rule.Action == FailOnFailure {
		return RetryVerdict{Why: rule.mends() + " (rule " + strconv.Quote(rule.String()) + " of " + rule.From + ")"}
	}
	if f.Disrupts() {
		return p.disrupted(h, f)
	}
	if rule != nil && rule.Limit != nil && h.count(rule) >= *rule.Limit {
		return RetryVerdict{
			Why: fmt.Sprintf("the limit of %d of the rule %q of %s is reached", *rule.Limit, rule, rule.From),
		}
	}
	if h.Retries >= p.Limit {
		return RetryVerdict{Why: fmt.Sprintf("the limit of %d retries is reached", p.Limit)}
	}
	return RetryVerdict{Retry: true, Charged: true, Why: fmt.Sprintf("retry %d of %d", h.Retries+1, p.Limit)}
}

// disrupted is Decide for a disruption.
func (p *RetryPolicy) disrupted(h RetryHistory, f Failure) RetryVerdict {
	most := cmp.Or(p.Disruptions, DefaultDisruptions)
	n := h.disruptions()
	if f.Progress {
		n = 0
	}
	if n >= most {
		return RetryVerdict{Why: fmt.Sprintf(
			"%d disruptions in a row without progress are the most that are followed by another attempt", most)}
	}
	return RetryVerdict{Retry: true, Why: "that counts against no limit of retries"}
}

// rule is the first that fits; nil if none does.
func (p *RetryPolicy) rule(h RetryHistory, f Failure) *RetryRule {
	for i := range p.Rules {
		if r := &p.Rules[i]; r.fits(f) && (!r.Repeated || h.repeats(f)) {
			return r
		}
	}
	return nil
}

func (r *RetryRule) fits(f Failure) bool {
	return (len(r.Categories) == 0 && !f.Disrupts() || slices.Contains(r.Categories, f.Category)) &&
		(len(r.ExitCodes) == 0 || slices.Contains(r.ExitCodes, f.ExitCode))
}

// mends is why a rule that ends a job does.
func (r *RetryRule) mends() string {
	if r.Repeated {
		return "the attempt before ended alike, and neither made progress: no retry mends that"
	}
	return "no retry mends that"
}

// repeats reports whether the attempt before, disruptions left aside, ended as this one did, neither with progress.
func (h *RetryHistory) repeats(f Failure) bool {
	for i := len(h.Last) - 1; i >= 0; i-- {
		before := &h.Last[i]
		if before.Progress {
			return false
		}
		if before.Disrupts() {
			continue // it proves nothing
		}
		return !f.Progress && before.Category == f.Category && before.ExitCode == f.ExitCode &&
			roleOf(before.Pod) == roleOf(f.Pod)
	}
	return false
}

// roleOf is what the names of pods of a role begin with: they end with indexes, with what makes them unique, or with
// both, as those of Jobs do.
func roleOf(pod string) string {
	parts := strings.Split(pod, "-")
	number := func(s string) bool {
		_, err := strconv.ParseUint(s, 10, 64)
		return err == nil
	}
	if last := len(parts) - 1; !number(parts[last]) {
		parts = parts[:last]
	}
	for len(parts) > 0 && number(parts[len(parts)-1]) {
		parts = parts[:len(parts)-1]
	}
	return strings.Join(parts, "-")
}

// count is how many failures a rule was for: among those that are summed up, if they say.
func (h *RetryHistory) count(r *RetryRule) (n int32) {
	for i := range h.Last {
		if f := h.Last[i]; r.fits(f) && !f.Disrupts() {
			n++
		}
	}
	if len(r.ExitCodes) == 0 {
		for _, c := range r.Categories {
			n += h.Earlier[c]
		}
	}
	return n
}

// disruptions is how many there were since the last attempt with progress.
func (h *RetryHistory) disruptions() (n int32) {
	for i := len(h.Last) - 1; i >= 0 && !h.Last[i].Progress; i-- {
		if h.Last[i].Disrupts() {
			n++
		}
	}
	return n
}

// Pause is how long the next attempt waits if the last one was disrupted: the longer, the more there were in a row.
func (h *RetryHistory) Pause() time.Duration {
	if len(h.Last) == 0 || !h.Last[len(h.Last)-1].Disrupts() {
		return 0
	}
	n := h.disruptions()
	if n <= disruptionsAtOnce {
		return 0
	}
	return min(firstDisruption<<min(n-disruptionsAtOnce-1, disruptionDoubling), longestDisruption)
}

// Used is how much of its limits a job has used: retries, and disruptions in a row.
func (h *RetryHistory) Used() (retries, disruptions int32) { return h.Retries, h.disruptions() }
