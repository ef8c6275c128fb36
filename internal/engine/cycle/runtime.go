package cycle

import (
	"cmp"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Minimum runtime: a workload that has not run for it yet is not evicted for others, within its queue and by others
// of the cohort, for quota and for nodes alike. What it says itself goes before what its queue says.

// until is when the minimum runtime of a workload that runs ends, in seconds; 0 if it has none.
func (m *model) until(w *workload) int64 {
	if w.Interrupted {
		return 0
	}
	minimum := time.Duration(0)
	if q := m.byNode[w.Queue.ID]; q.spec != nil {
		minimum = q.spec.MinimumRuntime
	}
	if own := w.obs.details().minimum; own != nil {
		minimum = *own
	}
	if minimum <= 0 {
		return 0
	}
	return w.Reserved + int64((minimum+time.Second-1)/time.Second)
}

// protect notes that the minimum runtime of a workload may be another than before.
func (e *Engine) protect(w *workload) {
	if w.State() != running {
		return
	}
	was := w.Until
	if w.Until = e.until(w); w.Until < was {
		e.pending.free(w.Queue, false)
	}
}

// spreadRecheck is after how many seconds a tree is looked at again in which pods wait that spread with those of other
// workloads: that more of these come elsewhere makes room, and frees nothing.
const spreadRecheck = 10

// spreads reports whether pods of a plan spread with those of other workloads.
func (p *compiled) spreads() bool {
	for _, options := range p.classes {
		if slices.ContainsFunc(options, func(c *place.Class) bool { return c != nil && c.Shares() }) {
			return true
		}
	}
	return false
}

// rechecks are trees to be looked at again in which a workload could not be evicted, though nothing comes free there.
type rechecks struct {
	// seen are those in which its admission was not seen yet.
	seen map[*quota.Node]bool
	// at are those in which its minimum runtime had not ended, and when, in seconds, the first of these ends.
	at map[*quota.Node]int64
}

func newRechecks() rechecks {
	return rechecks{seen: map[*quota.Node]bool{}, at: map[*quota.Node]int64{}}
}

func (r *rechecks) clear() {
	clear(r.seen)
	clear(r.at)
}

// whenSeen has a tree looked at again when an admission in it is seen.
func (r *rechecks) whenSeen(n *quota.Node) { r.seen[n.Root()] = true }

// atTime has a tree looked at again at some time, in seconds, if it is not before.
func (r *rechecks) atTime(n *quota.Node, at int64) {
	if is, has := r.at[n.Root()]; !has || at < is {
		r.at[n.Root()] = at
	}
}

// first is the earliest of the times; zero if there is none.
func (r *rechecks) first() (first time.Time) {
	for _, at := range r.at { // the least, so order does not matter
		if t := time.Unix(at, 0); first.IsZero() || t.Before(first) {
			first = t
		}
	}
	return first
}

// due are the trees whose time has come, by name. They are not listed any more.
func (r *rechecks) due(now time.Time) (out []*quota.Node) {
	for root, at := range r.at { // sorted below
		if at <= now.Unix() {
			out = append(out, root)
			delete(r.at, root)
		}
	}
	slices.SortFunc(out, compareTrees)
	return out
}

// compareTrees orders roots by name, cohorts before queues.
func compareTrees(a, b *quota.Node) int {
	switch {
	case a.Name != b.Name || a.Queue == b.Queue:
		return cmp.Compare(a.Name, b.Name)
	case a.Queue:
		return 1
	}
	return -1
}
