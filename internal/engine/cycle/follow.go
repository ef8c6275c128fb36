package cycle

import (
	"time"
)

// Follow takes in what was told since the last call and decides nothing: for a
// process that lets another one decide, and answers questions meanwhile
// (Line, QueueOf, Stats, View). Which workloads the other has parked or given a
// reservation is not known here: one that is asked about is judged. Nor is which was
// evicted for which: of one that was evicted it may be said that it is about to evict
// another that the deciding engine has it spare. An engine that follows must not decide
// later: it forgets what a decision would look at again.
func (e *Engine) Follow(now time.Time) {
	e.at(now)
	e.settle()
	e.history.sample()
	e.pending.arrive()
	e.pending.forget()
	e.admissions.forget()
	e.recovery.forget()
	e.settled()
	e.draft.begin()
}
