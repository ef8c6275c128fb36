// Package inquiry answers questions about workloads: why one waits and what would let it start, how
// it stands to another, what would become of one that is not there.
//
// A question changes nothing. It sees the engine as a cycle.View: facts that the engine finds out
// about itself, and excerpts of what it knows. Whatever is tried, is tried in engines that are made
// of an excerpt and thrown away, while the engine that was asked may go on; it is not asked again.
// The engine knows nothing of this package.
package inquiry

import (
	"errors"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// Look shows a question an engine, and fails if there is none. The view holds as long as the
// question looks at it; afterwards the engine may go on.
type Look func(func(cycle.View)) error

// At looks at an engine that stands still.
func At(v cycle.View) Look {
	return func(ask func(cycle.View)) error {
		ask(v)
		return nil
	}
}

// ask is the look, with what became of what was asked.
func (l Look) ask(what func(cycle.View) error) error {
	var failed error
	if err := l(func(v cycle.View) { failed = what(v) }); err != nil {
		return err
	}
	return failed
}

// Explain says why a workload waits and what would help, both found out at now. waits is
// false for workloads that are admitted or unknown. higher are the priorities, in any
// order, that the workload could be given instead of its own; nil if none is known.
func Explain(
	look Look,
	k core.Key,
	now time.Time,
	higher []int64,
) (out core.Explanation, waits bool, err error) {
	for _, alike := range []int{fewAlike, manyAlike} {
		q := &question{key: k, at: now}
		err = look.ask(func(v cycle.View) error {
			waits, err = q.inquire(v, alike)
			return err
		})
		if err != nil || !waits {
			return core.Explanation{}, false, err
		}
		q.advise(higher)
		q.next()
		if out = q.found; !q.short {
			break
		}
	}
	return out, true, nil
}

// question is what was found out about a workload that waits, and an excerpt for advice. The
// engine is not needed any more.
type question struct {
	key   core.Key
	at    time.Time
	found core.Explanation
	// copied is nil if nothing can be tried; advises says that advice can, grouped is as in
	// cycle.Diagnosis. short says that it was too small.
	copied           *cycle.Excerpt
	advises, grouped bool
	short            bool
}

// inquire finds out why the workload waits; false if it does not. alike is how many of the workloads
// that are alike are copied.
func (q *question) inquire(v cycle.View, alike int) (waits bool, err error) {
	facts, waits := v.Facts(q.key)
	if !waits {
		return false, nil
	}
	q.found, q.grouped, q.advises = facts.Explanation, facts.Grouped, advisable(facts)
	if q.advises || removable(facts.Reason) {
		err = q.take(v, alike)
	}
	return true, err
}

// take takes an excerpt of what matters. While edits wait for a decision, nothing can be tried.
func (q *question) take(v cycle.View, alike int) error {
	x, err := v.Excerpt(q.key, q.at, alike)
	if errors.Is(err, cycle.ErrUnsettled) {
		return nil
	}
	q.copied = x
	return err
}
