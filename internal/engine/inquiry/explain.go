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

// Explain says why a workload waits and what would help, both found out at now. waits is
// false for workloads that are admitted or unknown. higher are the priorities, in any
// order, that the workload could be given instead of its own; nil if none is known.
func Explain(look Look, k core.Key, now time.Time, higher []int64) (out core.Explanation, waits bool, err error) {
	for _, alike := range []int{fewAlike, manyAlike} {
		var q *question
		if err := look(func(v cycle.View) { q, err = inquire(v, k, now, alike) }); err != nil || q == nil {
			return core.Explanation{}, false, err
		}
		if err != nil {
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

// question is what was found out about a workload that waits, and a copy of what matters
// for advice. The engine is not needed any more.
type question struct {
	found core.Explanation
	key   core.Key
	at    time.Time
	// copied is nil if nothing can be tried; advises says that advice can, grouped is as in
	// cycle.Facts. short says that it was too small.
	copied           *cycle.Excerpt
	advises, grouped bool
	short            bool
}

// inquire finds out why a workload waits; nil if it does not. alike is how many of the workloads
// that are alike are copied.
func inquire(v cycle.View, k core.Key, now time.Time, alike int) (*question, error) {
	facts, waits := v.Facts(k)
	if !waits {
		return nil, nil
	}
	q := &question{found: facts.Explanation, key: k, at: now, grouped: facts.Grouped, advises: advisable(facts)}
	if !q.advises && !removable(facts.Reason) {
		return q, nil
	}
	return q, q.copy(v, alike)
}

// copy copies what matters. While edits wait for a decision, nothing can be tried.
func (q *question) copy(v cycle.View, alike int) error {
	x, err := v.Excerpt(q.key, q.at, alike)
	if errors.Is(err, cycle.ErrUnsettled) {
		return nil
	}
	q.copied = x
	return err
}
