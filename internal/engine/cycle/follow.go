package cycle

import "time"

// Follow takes in what was told since the last call and decides nothing: for a
// process that lets another one decide, and answers questions about the picture
// meanwhile (Line, QueueOf, Census, Explain). Whom the other has parked or given
// a place is not known here: who asks is judged. Nor is who was evicted for whom: of one
// that was evicted it may be said that it is about to evict somebody whom the other lets
// it spare. An engine that follows must not
// decide later: it forgets what a decision would look at again.
func (e *Engine) Follow(now time.Time) {
	e.now = now
	e.settle()
	e.sample()
	e.arrive()
	for _, w := range e.displaced {
		w.listed = false
	}
	for _, g := range e.untold { // the other tells them
		for _, w := range g.fresh {
			w.unsaid = false
		}
		g.fresh, g.untold = nil, false
	}
	e.untold = e.untold[:0]
	e.plan, e.displaced, e.freed, e.lent = nil, nil, nil, nil
	e.edited, e.facts, e.nodesFreed, e.nodesNew = false, false, false, false
	clear(e.recheck)
}
