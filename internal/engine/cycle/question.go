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
	at time.Time
	// plans are the plans of groups as they were before somebody asked: with one
	// made meanwhile, the next Decide could take another way.
	plans map[*group]*compiled
	undo  []func()
	// looks is how many more judgements the question may cost.
	looks int
	// class is the kind of pod that nodes are short for, nil if they are not.
	class *place.Class
}

// maxLooksAsked bounds what one question costs, in judgements.
const maxLooksAsked = 2000

// ask begins a question.
func (e *Engine) ask() *question {
	q := &question{Engine: e, plans: map[*group]*compiled{}, looks: maxLooksAsked}
	e.asked = q
	return q
}

// end takes back whatever the question changed.
func (q *question) end() {
	q.back(0)
	q.asked = nil
	for g, p := range q.plans { // each alone, so order does not matter
		g.plan = p
	}
}

// keep notes the plan of a group before it is made anew for a question.
func (q *question) keep(g *group) {
	if _, kept := q.plans[g]; !kept {
		q.plans[g] = g.plan
	}
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

// judge is Engine.judge, counted.
func (q *question) judge(w *workload) verdict {
	q.looks--
	return q.Engine.judge(w)
}

// gone thinks of a workload that holds something as gone.
func (q *question) gone(w *workload) {
	if w.phase != leaving {
		q.search.Remove(&w.Candidate)
		q.undo = append(q.undo, func() { q.search.Add(&w.Candidate) })
	}
	q.undo = append(q.undo, q.books.Suppose(&w.Allocation, ledger.Free))
	if w.unready {
		q.unready--
		q.undo = append(q.undo, func() { q.unready++ })
	}
}

// instead thinks of a workload that is submitted again, now, with other pods or
// another priority. It stands in no queue.
func (q *question) instead(w *workload, podSets []core.PodSet, priority int64) *workload {
	n := q.as(w, &equivalence{priority: priority, gate: w.equivalence.gate, podSets: podSets}, q.at.UnixNano())
	n.UID = "\xff" // after whoever is submitted in the same second
	return n
}

// as thinks of a workload with another equivalence class and queue time.
func (q *question) as(w *workload, s *equivalence, time int64) *workload {
	s.classes = map[string]*place.Class{}
	q.undo = append(q.undo, func() { q.forgetClasses(s) })
	n := &workload{equivalence: s, localQueue: w.localQueue, obs: observed{localQueue: w.obs.localQueue}}
	n.Key, n.UID, n.Priority, n.Time = w.Key, w.UID, s.priority, time
	// A group of its own, which no queue knows.
	n.group = &group{queue: w.localQueue.queue, key: groupKey{equivalence: s}, equivalence: s, index: -1}
	n.group.members.Push(n)
	return n
}
