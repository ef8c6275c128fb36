package cycle

import (
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// mostSettles bounds for how many times Options.Settle a tree waits, while changes go on.
const mostSettles = 20

// settling keeps decisions back that a change could make in vain which is written
// one object after the other: a label on ten jobs, the quota of one queue and then that of
// another. A person changes one thing; decisions that fall between the writes evict
// workloads that nobody would evict at the end.
//
// So a tree in which something was changed that was there is left alone until nothing more was
// changed in it for Options.Settle, or changes have gone on for mostSettles times as long.
// Until then
//   - none of it is judged at all, if it is what the tree gives that changed: queues, cohorts,
//     flavors, LocalQueues, namespaces; or which workloads stand in a queue, or which of a
//     StrictFIFO queue is the first, for whom others leave room;
//   - none evicts in it, and no workload that was itself changed is judged, nor any behind
//     it, if it is priorities alone that changed. All others start meanwhile as they ever do.
//
// What is new changes nothing that was there: workloads that are submitted, queues in no cohort.
type settling struct {
	*model
	turns turns
	// began says that a Decide was made: before, there is nothing that could have changed.
	began bool
	// touched are the queues in whose trees something changed since the last Decide, walked
	// the trees of which all queues are listed.
	touched []*queue
	walked  map[*quota.Node]bool
	// cohorts are those that changed since, wherever they stand now.
	cohorts []*quota.Node
	// shifted are the workloads that were changed themselves.
	shifted []*workload
	// until is when the first tree counts as settled, zero if all do.
	until time.Time
}

// unsettled is since when changes go on in a queue's tree, and when the last was; the zero
// value is none. All queues of a tree have the same.
type unsettled struct {
	first, last time.Time
	// edited says that nothing of the tree is judged.
	edited bool
}

func (u unsettled) open() bool { return !u.first.IsZero() }

// due is when the tree counts as settled.
func (u unsettled) due(settle time.Duration) time.Time {
	quiet, most := u.last.Add(settle), u.first.Add(mostSettles*settle)
	if most.Before(quiet) {
		return most
	}
	return quiet
}

// mayJudge reports whether the first workload of a queue may be judged although its tree
// may not be settled.
func (q *queue) mayJudge() bool {
	return !q.unsettled.open() || !q.unsettled.edited && !q.wouldEvict && !q.first().shifted
}

// watches reports whether changes are of any interest.
func (se *settling) watches() bool { return se.began && se.opt.Settle > 0 }

// trees are those in which an edit changes what there is, as they are before it.
func (se *settling) trees(ev core.Event) []*quota.Node {
	if !se.watches() {
		return nil
	}
	switch ev := ev.(type) {
	case core.QueueSet:
		if q := se.queues[ev.Queue.Name]; q != nil && q.spec != nil || ev.Queue.Cohort != "" {
			return []*quota.Node{se.queueNamed(ev.Queue.Name).node}
		}
	case core.QueueGone:
		return se.ofQueues(func(q *queue) bool { return q.name == ev.Name })
	case core.CohortSet:
		return se.ofCohort(ev.Cohort.Name)
	case core.CohortGone:
		return se.ofCohort(ev.Name)
	case core.FlavorSet:
		return se.ofFlavor(ev.Flavor.Name)
	case core.FlavorGone:
		return se.ofFlavor(ev.Name)
	case core.LocalQueueSet:
		if d := se.localQueues[localQueueKey{ev.LocalQueue.Namespace, ev.LocalQueue.Name}]; d != nil && d.spec != nil {
			return se.ofQueues(func(q *queue) bool { return q == d.queue || q.name == ev.LocalQueue.Queue })
		}
	case core.LocalQueueGone:
		if d := se.localQueues[localQueueKey{ev.Namespace, ev.Name}]; d != nil {
			return se.ofQueues(func(q *queue) bool { return q == d.queue })
		}
	case core.NamespaceSet:
		return se.ofNamespace(ev.Namespace.Name)
	case core.NamespaceGone:
		return se.ofNamespace(ev.Name)
	}
	return nil
}

// ofQueues are the places of the queues that match, in any order.
func (se *settling) ofQueues(match func(*queue) bool) (out []*quota.Node) {
	for _, q := range se.queues {
		if match(q) {
			out = append(out, q.node)
		}
	}
	return out
}

func (se *settling) ofCohort(name string) []*quota.Node {
	if n := se.forest.Cohort(name); n != nil {
		return []*quota.Node{n}
	}
	return nil
}

func (se *settling) ofFlavor(name string) []*quota.Node {
	if se.flavors[name] == nil {
		return nil // nothing is admitted with it yet
	}
	return se.ofQueues(func(q *queue) bool {
		return q.spec != nil && slices.ContainsFunc(q.spec.Groups, func(g core.ResourceGroup) bool {
			return slices.ContainsFunc(g.Flavors, func(f core.FlavorQuotas) bool { return f.Flavor == name })
		})
	})
}

func (se *settling) ofNamespace(name string) (out []*quota.Node) {
	for k, d := range se.localQueues {
		if k.namespace == name && d.queue != nil {
			out = append(out, d.queue.node)
		}
	}
	return out
}

// edit notes that what trees give changed. Until the next Decide links are as they were; a
// cohort may stand in another tree from then on.
func (se *settling) edit(ev core.Event, trees []*quota.Node) {
	if c, ok := ev.(core.CohortSet); ok && se.watches() {
		trees = se.ofCohort(c.Cohort.Name)
		se.cohorts = append(se.cohorts, trees...)
	}
	for _, n := range trees {
		if root := n.Root(); !se.walked[root] {
			se.walked[root] = true
			se.walk(root)
		}
	}
}

func (se *settling) walk(n *quota.Node) {
	if n.Queue && n.ID < len(se.byNode) && se.byNode[n.ID] != nil {
		se.touch(se.byNode[n.ID], true)
	}
	for _, c := range n.Children() {
		se.walk(c)
	}
}

// touch notes a change in the tree of a queue: one for which nothing of it is judged, if edited.
func (se *settling) touch(q *queue, edited bool) {
	if !q.touched {
		q.touched = true
		se.touched = append(se.touched, q)
	}
	q.edited = q.edited || edited
}

// shift notes that a workload changed its place among others: that of a queue, or from
// one queue to another.
func (se *settling) shift(w *workload, from *localQueue) {
	if !se.watches() {
		return
	}
	for _, d := range []*localQueue{from, w.localQueue} {
		if d.queue != nil {
			se.touch(d.queue, from != w.localQueue || d.queue.strict())
		}
	}
	if !w.shifted {
		w.shifted = true
		se.shifted = append(se.shifted, w)
	}
}

// begin begins a Decide: trees in which something changed are left alone for a while, those
// in which nothing did any more are not.
func (se *settling) begin() {
	if !se.watches() {
		se.began = true
		return
	}
	if len(se.touched)+len(se.cohorts) == 0 && (se.until.IsZero() || se.now.Before(se.until)) {
		return
	}
	queues := se.sortedQueues()
	se.note(queues)
	var changed []*queue
	se.until = time.Time{}
	for _, q := range queues {
		if !q.unsettled.open() {
			continue
		}
		changed = append(changed, q)
		if at := q.unsettled.due(se.opt.Settle); !se.now.Before(at) {
			q.unsettled, q.wouldEvict = unsettled{}, false
		} else if se.until.IsZero() || at.Before(se.until) {
			se.until = at
		}
	}
	se.shifted = slices.DeleteFunc(se.shifted, func(w *workload) bool {
		q := w.localQueue.queue
		w.shifted = se.workloads[w.Key] == w && q != nil && q.unsettled.open()
		return !w.shifted
	})
	for _, q := range changed {
		se.turns.rehead(q)
	}
}

// note takes in what changed since the last Decide.
func (se *settling) note(queues []*queue) {
	trees := map[*quota.Node]unsettled{}
	for _, n := range se.cohorts {
		trees[n.Root()] = unsettled{edited: true}
	}
	for _, q := range se.touched {
		u := trees[q.node.Root()]
		u.edited = u.edited || q.edited
		trees[q.node.Root()] = u
		q.touched, q.edited = false, false
	}
	se.touched, se.cohorts = nil, nil
	clear(se.walked)
	for _, q := range queues { // trees may have been joined
		if u, changed := trees[q.node.Root()]; changed && q.unsettled.open() {
			u.edited = u.edited || q.unsettled.edited
			if u.first.IsZero() || q.unsettled.first.Before(u.first) {
				u.first = q.unsettled.first
			}
			trees[q.node.Root()] = u
		}
	}
	for _, q := range queues {
		if u, changed := trees[q.node.Root()]; changed {
			if u.last = se.now; u.first.IsZero() {
				u.first = se.now
			}
			q.unsettled = u
		}
	}
}

// defers keeps a queue's first from evicting others until its tree is settled, and reports
// whether it does.
func (se *settling) defers(q *queue, v *verdict) bool {
	if len(v.victims) == 0 || !q.unsettled.open() {
		return false
	}
	q.wouldEvict = true
	se.turns.rehead(q)
	return true
}

// Settling reports whether decisions are kept back because something changed just now; NextWake
// says when they are made.
func (e *Engine) Settling() bool { return !e.settling.until.IsZero() || len(e.settling.touched) > 0 }

func (se *settling) dump(s *State) {
	s.Decided = se.began
	for i, q := range se.sortedQueues() {
		x := &s.Queues[i]
		x.Touched, x.Edited, x.WouldEvict = q.touched, q.edited, q.wouldEvict
		if u := q.unsettled; u.open() {
			x.Unsettled = &UnsettledState{u.first, u.last, u.edited}
		}
	}
	for i := range s.Workloads {
		s.Workloads[i].Shifted = se.workloads[s.Workloads[i].Key].shifted
	}
}

// load is the opposite of dump. An engine that keeps nothing back, as copies for
// questions are, leaves it out.
func (se *settling) load(s *State) {
	se.began = s.Decided
	if !se.watches() {
		return
	}
	for i := range s.Queues {
		x := &s.Queues[i]
		q := se.queueNamed(x.Name)
		if x.Touched {
			se.touch(q, x.Edited)
		}
		if u := x.Unsettled; u != nil {
			q.unsettled, q.wouldEvict = unsettled{u.First, u.Last, u.Edited}, x.WouldEvict
			if at := q.unsettled.due(se.opt.Settle); se.until.IsZero() || at.Before(se.until) {
				se.until = at
			}
		}
	}
	for i := range s.Workloads {
		if w := se.workloads[s.Workloads[i].Key]; w != nil && s.Workloads[i].Shifted {
			w.shifted = true
			se.shifted = append(se.shifted, w)
		}
	}
}
