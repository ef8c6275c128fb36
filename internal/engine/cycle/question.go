package cycle

import "github.com/mlbatch/mlbatch/internal/engine/place"

// question is one question about the picture. It reads the records of the engine, has the judge
// look at workloads, and changes neither: what the judge finds out for a question stays out of
// the records (judge.asked).
type question struct {
	*Engine
	// short is the kind of pod that nodes are short for, nil if they are not; chosen are the flavors
	// with which, as in quota.Assignment.
	short  *place.Class
	chosen []int
}

// ask begins a question; no other may be asked before its end.
func (e *Engine) ask() *question {
	e.judge.ask()
	return &question{Engine: e}
}

func (q *question) end() { q.judge.answered() }

// unsettled reports whether edits wait for the next Decide, which takes them in: nothing can be
// tried before.
func (e *Engine) unsettled() bool { return e.edited || e.forest.Dirty() }
