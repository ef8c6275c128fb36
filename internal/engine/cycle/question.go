package cycle

import (
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/place"
)

// question is one question about the picture. It may try changes, on a copy that is there
// for that, one after the other; end takes back what judging changes, so that no later
// decision depends on what was asked.
type question struct {
	*Engine
	at   time.Time
	undo []func()
	// looks is how many more judgements the question may cost.
	looks int
	// class is the kind of pod that nodes are short for, nil if they are not; chosen are the flavors
	// with which, as in quota.Assignment.
	class  *place.Class
	chosen []int
}

// maxLooksAsked bounds what one question costs, in judgements.
const maxLooksAsked = 2000

// ask begins a question.
func (e *Engine) ask() *question {
	e.judge.ask()
	return &question{Engine: e, looks: maxLooksAsked}
}

// end takes back whatever the question changed.
func (q *question) end() {
	q.back(0)
	q.judge.answered()
}

// mark is a moment to which back returns.
func (q *question) mark() int { return len(q.undo) }

// back takes back what was done since a mark, last first.
func (q *question) back(mark int) {
	for _, undo := range slices.Backward(q.undo[mark:]) {
		undo()
	}
	q.undo = q.undo[:mark]
}

// verdict is that of the judge, counted.
func (q *question) verdict(w *workload) *verdict {
	q.looks--
	return q.judge.verdict(w)
}

// gone thinks of a workload that holds something as gone.
func (q *question) gone(w *workload) {
	if w.State() != leaving {
		q.judge.search.Remove(&w.Candidate)
		q.undo = append(q.undo, func() { q.judge.search.Add(&w.Candidate) })
	}
	q.undo = append(q.undo, q.books.Suppose(&w.Allocation, ledger.Free))
	q.undo = append(q.undo, q.without(w))
}

// instead thinks of a workload that is submitted again, now, with other pods or
// another priority. It stands in no queue.
func (q *question) instead(w *workload, podSets []core.PodSet, priority int64) *workload {
	n := q.as(w, &equivalence{priority: priority, gate: w.equivalence.gate, podSets: podSets}, q.at.UnixNano())
	n.UID = "\xff" // after all that are submitted in the same second
	return n
}

// as thinks of a workload with another equivalence class and queue time.
func (q *question) as(w *workload, s *equivalence, time int64) *workload {
	s.classes = map[string]*place.Class{}
	q.undo = append(q.undo, func() { q.forgetClasses(s) })
	n := &workload{equivalence: s, localQueue: w.localQueue}
	n.Key, n.UID, n.Priority, n.Time = w.Key, w.UID, s.priority, time
	// A group of its own, which no queue knows.
	n.group = &group{queue: w.localQueue.queue, key: groupKey{equivalence: s}, equivalence: s, index: -1}
	n.group.members.Push(n)
	return n
}
