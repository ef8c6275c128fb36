// Package progress tells a job that goes on from one that hangs. What counts is a number of steps that
// grows, of the slowest rank: processes of a job that hangs are alive, answer, and keep their GPUs busy.
//
// Everything is pure: what was stated, what was reported and the time in, the verdict out.
package progress

import (
	"cmp"
	"slices"
	"time"
)

// Rule is what a job states.
type Rule struct {
	// First is how long its first step may take, once all of its pods run.
	First time.Duration
	// Every is how long each further step takes at most, with pauses such as those for checkpoints.
	Every time.Duration
}

// Patience is for how long there is no step until a job counts as hung: half as long again as it stated.
func (r Rule) Patience() time.Duration { return r.Every + r.Every/2 }

// Report is what one rank said.
type Report struct {
	Rank      int32
	Pod, Node string
	// Step is the last one that it has taken, from 1 on, At when that was known.
	Step int64
	At   time.Time
}

// Mark is the last progress of a job: the step of its slowest rank, and since when it has that. The zero value is
// that it has taken none.
type Mark struct {
	Step int64
	At   time.Time
}

// None reports whether no step was taken.
func (m Mark) None() bool { return m.At.IsZero() }

// Advance is the mark after some reports, of an attempt of which all pods run since a moment. A mark or a report
// from before that is of another attempt, and one from the future is none. Steps go back where processes began again
// from a checkpoint: they have as much time from there as for any other step.
func Advance(m Mark, began, now time.Time, reports []Report) Mark {
	switch {
	case m.At.Before(began):
		m = Mark{}
	case m.At.After(now): // a clock was set back: nobody waits for that time to come again
		m.At = now
	}
	var slowest Report
	var latest time.Time
	for _, r := range reports {
		if r.Step < 1 || r.At.Before(began) || r.At.After(now) {
			continue
		}
		if slowest.Step == 0 || r.Step < slowest.Step {
			slowest = r
		}
		if r.At.After(latest) {
			latest = r.At
		}
	}
	switch {
	case slowest.Step == 0:
	case m.None(), slowest.Step != m.Step:
		m = Mark{slowest.Step, latest}
	}
	return m
}

// Kind is how a job stands.
type Kind string

// The kinds.
const (
	// Starting: not all of its pods run, or it may still take its time for the first step.
	Starting Kind = "Starting"
	Fine     Kind = "Fine"
	// Late: it took no step for as long as it stated, and may still.
	Late Kind = "Late"
	Hung Kind = "Hung"
)

// Verdict is how a job stands, and when to look again at the latest, zero is when something changes.
type Verdict struct {
	Kind  Kind
	Again time.Time
}

// Judge says how a job stands of which all pods run since a moment, zero if they do not. What was before somebody
// watched, without a gap, is not held against it: a computer may have been asleep, or its clock
// may have been set.
func Judge(r Rule, began, watched time.Time, m Mark, now time.Time) Verdict {
	if began.IsZero() {
		return Verdict{Kind: Starting}
	}
	from, end, before, after := began, r.First, Starting, Starting
	if !m.None() {
		from, end, before, after = m.At, r.Patience(), Fine, Late
	}
	if watched.After(from) {
		from = watched
	}
	due := from.Add(end)
	switch {
	case !now.Before(due):
		return Verdict{Kind: Hung}
	case m.None() || now.Before(from.Add(r.Every)):
		return Verdict{Kind: before, Again: due}
	}
	return Verdict{Kind: after, Again: due}
}

// Straggler is the report of the rank that a job waits for: the first of those behind, if that is one rank, or a quarter of
// all at most. Where more are behind, nothing tells who keeps the others.
func Straggler(reports []Report) (Report, bool) {
	behind := Behind(reports)
	if n := len(behind); n == 0 || n > 1 && 4*n > len(reports) {
		return Report{}, false
	}
	return behind[0], true
}

// Behind are the reports of the ranks that have taken the fewest steps, in the order of ranks; none if all have
// taken as many, which tells nobody apart.
func Behind(reports []Report) []Report {
	if len(reports) == 0 {
		return nil
	}
	step := func(a, b Report) int { return cmp.Compare(a.Step, b.Step) }
	least, most := slices.MinFunc(reports, step).Step, slices.MaxFunc(reports, step).Step
	if least == most {
		return nil
	}
	out := slices.DeleteFunc(slices.Clone(reports), func(r Report) bool { return r.Step > least })
	slices.SortFunc(
		out,
		func(a, b Report) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Pod, b.Pod)) },
	)
	return out
}
