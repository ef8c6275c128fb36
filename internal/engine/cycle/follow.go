package cycle

import (
	"time"
)

// Follow takes in what was told since the last call and decides nothing: for a
// process that lets another one decide, and answers questions about the picture
// meanwhile (Line, QueueOf, Stats, Explain). Whom the other has parked or given
// a place is not known here: who asks is judged. Nor is who was evicted for whom: of one
// that was evicted it may be said that it is about to evict somebody whom the other lets
// it spare. An engine that follows must not
// decide later: it forgets what a decision would look at again.
func (e *Engine) Follow(now time.Time) {
	e.at(now)
	e.settle()
	e.history.sample()
	e.pending.arrive()
	e.pending.forget()
	e.admissions.forget()
	e.settled()
	e.draft.begin()
}
