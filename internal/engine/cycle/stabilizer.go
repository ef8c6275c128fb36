package cycle

import (
	"reflect"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// mostWindows bounds for how many times Options.StabilizationWindow a tree waits, while changes go on.
const mostWindows = 20

// unsettled is since when changes go on in a queue's tree, and when the last was; the zero
// value is none. All queues of a tree have the same.
type unsettled struct {
	first, last time.Time
	// edited says that nothing of the tree is judged.
	edited bool
}

func (u unsettled) open() bool { return !u.first.IsZero() }

// due is when the tree counts as settled.
func (u unsettled) due(window time.Duration) time.Time {
	quiet, most := u.last.Add(window), u.first.Add(mostWindows*window)
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
func (st *stabilizer) watches() bool { return st.began && st.opt.StabilizationWindow > 0 }

// trees are those in which an edit changes what there is, as they are before it.
func (st *stabilizer) trees(ev core.Event) []*quota.Node {
	if !st.watches() {
		return nil
	}
	switch ev := ev.(type) {
	case core.QueueSet:
		if q := st.queues[ev.Queue.Name]; q != nil && q.spec != nil || ev.Queue.Cohort != "" {
			return []*quota.Node{st.queueNamed(ev.Queue.Name).node}
		}
	case core.QueueGone:
		return st.ofQueues(func(q *queue) bool { return q.name == ev.Name })
	case core.CohortSet:
		return st.ofCohort(ev.Cohort.Name)
	case core.CohortGone:
		return st.ofCohort(ev.Name)
	case core.FlavorSet:
		return st.ofFlavor(ev.Flavor.Name)
	case core.FlavorGone:
		return st.ofFlavor(ev.Name)
	case core.LocalQueueSet:
		if d := st.localQueues[localQueueKey{ev.LocalQueue.Namespace, ev.LocalQueue.Name}]; d != nil &&
			d.spec != nil {
			return st.ofQueues(func(q *queue) bool { return q == d.queue || q.name == ev.LocalQueue.Queue })
		}
	case core.LocalQueueGone:
		if d := st.localQueues[localQueueKey{ev.Namespace, ev.Name}]; d != nil {
			return st.ofQueues(func(q *queue) bool { return q == d.queue })
		}
	case core.NamespaceSet:
		return st.ofNamespace(ev.Namespace.Name)
	case core.NamespaceGone:
		return st.ofNamespace(ev.Name)
	}
	return nil
}

// followsHealth reports whether nothing of a queue or a cohort changes but what is cut of its quotas, and of the slack
// queue how much it lends. That follows the health of nodes, by the second on a bad day; nobody writes another part of
// the same change, and jobs that leave bad nodes must not wait for it.
func (st *stabilizer) followsHealth(ev core.Event) bool {
	if !st.watches() {
		return false
	}
	switch ev := ev.(type) {
	case core.QueueSet:
		q := st.queues[ev.Queue.Name]
		if q == nil || q.spec == nil {
			return false
		}
		was, is, slack := *q.spec, ev.Queue, ev.Queue.Name == st.opt.SlackQueue
		was.Groups, is.Groups = asPromised(was.Groups, slack), asPromised(is.Groups, slack)
		return reflect.DeepEqual(was, is)
	case core.CohortSet:
		was, known := st.model.cohorts[ev.Cohort.Name]
		is := ev.Cohort
		was.Groups, is.Groups = asPromised(was.Groups, false), asPromised(is.Groups, false)
		return known && reflect.DeepEqual(was, is)
	}
	return false
}

// asPromised are quotas with nothing cut of them; of the slack queue without lending limits.
func asPromised( //nolint:revive // whose they are
	groups []core.ResourceGroup,
	slack bool,
) []core.ResourceGroup {
	out := slices.Clone(groups)
	for i := range out {
		flavors := slices.Clone(out[i].Flavors)
		for j := range flavors {
			quotas := slices.Clone(flavors[j].Quotas)
			for k := range quotas {
				q := &quotas[k]
				q.Nominal, q.Cut = q.Nominal.Add(q.Cut), 0
				if slack {
					q.Lending = nil
				}
			}
			flavors[j].Quotas = quotas
		}
		out[i].Flavors = flavors
	}
	return out
}

// ofQueues are the places of the queues that match, in any order.
func (st *stabilizer) ofQueues(match func(*queue) bool) (out []*quota.Node) {
	for _, q := range st.queues {
		if match(q) {
			out = append(out, q.node)
		}
	}
	return out
}

func (st *stabilizer) ofCohort(name string) []*quota.Node {
	if n := st.forest.Cohort(name); n != nil {
		return []*quota.Node{n}
	}
	return nil
}

func (st *stabilizer) ofFlavor(name string) []*quota.Node {
	if st.flavors[name] == nil {
		return nil // nothing is admitted with it yet
	}
	return st.ofQueues(func(q *queue) bool {
		return q.spec != nil && slices.ContainsFunc(q.spec.Groups, func(g core.ResourceGroup) bool {
			return slices.ContainsFunc(g.Flavors, func(f core.FlavorQuotas) bool { return f.Flavor == name })
		})
	})
}

func (st *stabilizer) ofNamespace(name string) (out []*quota.Node) {
	for k, d := range st.localQueues {
		if k.namespace == name && d.queue != nil {
			out = append(out, d.queue.node)
		}
	}
	return out
}

// edit notes that what trees give changed. Until the next Decide links are as they were; a
// cohort may stand in another tree from then on.
func (st *stabilizer) edit(ev core.Event, trees []*quota.Node) {
	if c, ok := ev.(core.CohortSet); ok && st.watches() {
		trees = st.ofCohort(c.Cohort.Name)
		st.cohorts = append(st.cohorts, trees...)
	}
	for _, n := range trees {
		if root := n.Root(); !st.walked[root] {
			st.walked[root] = true
			st.walk(root)
		}
	}
}

func (st *stabilizer) walk(n *quota.Node) {
	if n.Queue && n.ID < len(st.byNode) && st.byNode[n.ID] != nil {
		st.touch(st.byNode[n.ID], true)
	}
	for _, c := range n.Children() {
		st.walk(c)
	}
}

// touch notes a change in the tree of a queue: one for which nothing of it is judged, if edited.
func (st *stabilizer) touch(q *queue, edited bool) {
	if !q.touched {
		q.touched = true
		st.touched = append(st.touched, q)
	}
	q.edited = q.edited || edited
}

// shift notes that a workload changed its place among others: that of a queue, or from
// one queue to another.
func (st *stabilizer) shift(w *workload, from *localQueue) {
	if !st.watches() {
		return
	}
	for _, d := range []*localQueue{from, w.localQueue} {
		if d.queue != nil {
			st.touch(d.queue, from != w.localQueue || d.queue.strict())
		}
	}
	if !w.shifted {
		w.shifted = true
		st.shifted = append(st.shifted, w)
	}
}

// begin begins a Decide: trees in which something changed are left alone for a while, those
// in which nothing did any more are not.
func (st *stabilizer) begin() {
	if !st.watches() {
		st.began = true
		return
	}
	if len(st.touched)+len(st.cohorts) == 0 && (st.until.IsZero() || st.now.Before(st.until)) {
		return
	}
	queues := st.sortedQueues()
	st.note(queues)
	var changed []*queue
	st.until = time.Time{}
	for _, q := range queues {
		if !q.unsettled.open() {
			continue
		}
		changed = append(changed, q)
		if at := q.unsettled.due(st.opt.StabilizationWindow); !st.now.Before(at) {
			q.unsettled, q.wouldEvict = unsettled{}, false
		} else if st.until.IsZero() || at.Before(st.until) {
			st.until = at
		}
	}
	st.shifted = slices.DeleteFunc(st.shifted, func(w *workload) bool {
		q := w.localQueue.queue
		w.shifted = st.workloads[w.Key] == w && q != nil && q.unsettled.open()
		return !w.shifted
	})
	for _, q := range changed {
		st.turns.rehead(q)
	}
}

// note takes in what changed since the last Decide.
func (st *stabilizer) note(queues []*queue) {
	trees := map[*quota.Node]unsettled{}
	for _, n := range st.cohorts {
		trees[n.Root()] = unsettled{edited: true}
	}
	for _, q := range st.touched {
		u := trees[q.node.Root()]
		u.edited = u.edited || q.edited
		trees[q.node.Root()] = u
		q.touched, q.edited = false, false
	}
	st.touched, st.cohorts = nil, nil
	clear(st.walked)
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
			if u.last = st.now; u.first.IsZero() {
				u.first = st.now
			}
			q.unsettled = u
		}
	}
}

// defers keeps a queue's first from evicting others until its tree is settled, and reports
// whether it does.
func (st *stabilizer) defers(q *queue, v *verdict) bool {
	if !v.stops() || !q.unsettled.open() {
		return false
	}
	q.wouldEvict = true
	st.turns.rehead(q)
	return true
}

// Stabilizing reports whether decisions are kept back because something changed just now; NextWake
// says when they are made.
func (e *Engine) Stabilizing() bool {
	return !e.stabilizer.until.IsZero() || len(e.stabilizer.touched) > 0
}

func (st *stabilizer) dump(s *Snapshot) {
	s.Decided = st.began
	for i, q := range st.sortedQueues() {
		x := &s.Queues[i]
		x.Touched, x.Edited, x.WouldEvict = q.touched, q.edited, q.wouldEvict
		if u := q.unsettled; u.open() {
			x.Unsettled = &UnsettledState{u.first, u.last, u.edited}
		}
	}
	for i := range s.Workloads {
		s.Workloads[i].Shifted = st.workloads[s.Workloads[i].Key].shifted
	}
}

// load is the opposite of dump. An engine that keeps nothing back, as copies for
// questions are, leaves it out.
func (st *stabilizer) load(s *Snapshot) {
	st.began = s.Decided
	if !st.watches() {
		return
	}
	for i := range s.Queues {
		x := &s.Queues[i]
		q := st.queueNamed(x.Name)
		if x.Touched {
			st.touch(q, x.Edited)
		}
		if u := x.Unsettled; u != nil {
			q.unsettled, q.wouldEvict = unsettled{u.First, u.Last, u.Edited}, x.WouldEvict
			if at := q.unsettled.due(st.opt.StabilizationWindow); st.until.IsZero() || at.Before(st.until) {
				st.until = at
			}
		}
	}
	for i := range s.Workloads {
		if w := st.workloads[s.Workloads[i].Key]; w != nil && s.Workloads[i].Shifted {
			w.shifted = true
			st.shifted = append(st.shifted, w)
		}
	}
}
