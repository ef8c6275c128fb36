package cycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/place"
)

// Rehearsal judges one workload, as if it were alone, with changes in place: what does not help it
// then does not help at all. It has an engine of its own, made of an excerpt.
type Rehearsal struct {
	on       *question
	workload *workload
	why      core.Reason
	at       time.Time
	undo     []func()
}

// Assumption is what a rehearsal thinks of as different; the zero Change is nothing.
type Assumption struct {
	// Gone are workloads that hold something and are gone.
	Gone []core.Key
	// Ready are nodes that are in service again, Cleared is one without the pods that no queue
	// knows.
	Ready   []string
	Cleared string
	// Anew, if not nil, is as what the workload is submitted again; Open says that its gate, by
	// which it may not evict, is open.
	Anew *Submission
	Open bool
	// Relocating is a queue of which a workload may be relocated within an hour; "" for none.
	Relocating string
	// At, if not zero, is when it is judged.
	At time.Time
}

// Submission is a workload as it is submitted again: to a LocalQueue of its namespace, with pods
// and a priority.
type Submission struct {
	LocalQueue string
	PodSets    []core.PodSet
	Priority   int64
}

// Rehearse makes an engine of the excerpt for a workload that waits for a reason.
func (x *Excerpt) Rehearse(k core.Key, now time.Time, why core.Reason) (*Rehearsal, error) {
	e, err := x.Engine()
	if err != nil {
		return nil, err
	}
	w := e.workloads[k]
	if w == nil {
		return nil, fmt.Errorf("workload %s is not in the excerpt", k)
	}
	e.at(now)
	r := &Rehearsal{on: e.ask(), workload: w, why: why, at: now}
	if w.group != nil {
		r.on.judgeShort(w, why)
	}
	return r, nil
}

// Starts reports whether the workload, if nobody else waited, would start with a change, now or
// once others are gone that leave for it.
func (r *Rehearsal) Starts(c Assumption) bool {
	defer r.back()
	return r.on.judge.verdict(r.with(c)).kind != refuse
}

// with makes a change and returns the workload as it is then.
func (r *Rehearsal) with(c Assumption) *workload {
	for _, k := range c.Gone {
		r.gone(r.on.workloads[k])
	}
	for _, name := range c.Ready {
		r.undo = append(r.undo, r.on.nodes.Suppose(r.on.nodes.Get(name), core.NodeReady))
	}
	if c.Cleared != "" {
		r.undo = append(r.undo, r.on.nodes.Clear(r.on.nodes.Get(c.Cleared)))
	}
	if c.Relocating != "" {
		r.relocating(r.on.queues[c.Relocating])
	}
	if !c.At.IsZero() {
		r.on.at(c.At)
		r.undo = append(r.undo, func() { r.on.at(r.at) })
	}
	switch {
	case c.Anew != nil:
		return r.instead(c.Anew)
	case c.Open:
		return r.as(
			r.workload.localQueue,
			&equivalence{priority: r.workload.Priority, podSets: r.workload.equivalence.podSets},
			r.workload.Time,
		)
	}
	return r.workload
}

// back takes back what was changed, last first.
func (r *Rehearsal) back() {
	for _, undo := range slices.Backward(r.undo) {
		undo()
	}
	r.undo = r.undo[:0]
}

// gone thinks of a workload that holds something as gone.
func (r *Rehearsal) gone(w *workload) {
	if w.State() != leaving {
		r.on.judge.search.Remove(&w.Candidate)
		r.undo = append(r.undo, func() { r.on.judge.search.Add(&w.Candidate) })
	}
	r.undo = append(r.undo, r.on.ledger.Suppose(&w.Allocation, ledger.Free), r.on.without(w))
}

// instead thinks of the workload as submitted again, now. It stands in no queue.
func (r *Rehearsal) instead(s *Submission) *workload {
	d := r.on.localQueues[localQueueKey{r.workload.Key.Namespace, s.LocalQueue}]
	n := r.as(
		d,
		&equivalence{priority: s.Priority, gate: r.workload.equivalence.gate, podSets: s.PodSets},
		r.at.UnixNano(),
	)
	n.UID = "\xff" // after all that are submitted in the same second
	return n
}

// as thinks of the workload in a local queue, with another equivalence class and queue time.
func (r *Rehearsal) as(d *localQueue, s *equivalence, at int64) *workload {
	s.classes = map[string]*place.Class{}
	r.undo = append(r.undo, func() { r.on.forgetClasses(s) })
	n := &workload{equivalence: s, localQueue: d}
	n.Key, n.UID, n.Priority, n.Time = r.workload.Key, r.workload.UID, s.priority, at
	// A group of its own, which no queue knows.
	n.group = &group{queue: d.queue, key: groupKey{equivalence: s}, equivalence: s, index: -1}
	n.group.members.Push(n)
	return n
}

// View reads the engine of the rehearsal.
func (r *Rehearsal) View() View { return r.on.View() }

// InTheWay are workloads that hold the quota or the nodes that are short, at most so many.
func (r *Rehearsal) InTheWay(most int) []core.Holder {
	var out []core.Holder
	switch {
	case r.why.LacksQuota() && r.why.Cause != core.BehindStrict && r.why.Cause != core.QuotaClaimed:
		for _, c := range r.on.quotaHolders(r.workload.group.queue.node, r.why, most) {
			out = append(out, r.on.holder(r.on.byID[c.ID]))
		}
	case r.why.LacksNodes() && r.on.short != nil:
		for _, h := range r.on.nodeHolders(r.on.short, most) {
			x := r.on.workloads[h.Key]
			if x != nil && x.State() == running &&
				!slices.ContainsFunc(out, func(o core.Holder) bool { return o.Key == h.Key }) {
				out = append(out, r.on.holder(x))
			}
		}
	}
	return out
}

// Protected are the times at which minimum runtimes of workloads end, the first of them, at most so many.
func (r *Rehearsal) Protected(most int) []time.Time {
	var ends []int64
	for _, w := range r.on.workloads { // sorted below
		if w.State() == running && w.Until > r.at.Unix() && !slices.Contains(ends, w.Until) {
			ends = append(ends, w.Until)
		}
	}
	slices.Sort(ends)
	var out []time.Time
	for _, end := range ends[:min(len(ends), most)] {
		out = append(out, time.Unix(end, 0))
	}
	return out
}

// relocating thinks of a queue as one of which a workload may be relocated.
func (r *Rehearsal) relocating(q *queue) {
	was, spec := q.spec, *q.spec
	spec.RelocationsPerHour = 1
	q.spec = &spec
	r.on.judge.settleRelocating()
	r.undo = append(r.undo, func() {
		q.spec = was
		r.on.judge.settleRelocating()
	})
}

// NotRelocating are queues of the tree whose workloads may not be relocated, at most so many: that of the workload
// first, then by name.
func (r *Rehearsal) NotRelocating(most int) []string {
	own := r.workload.localQueue.queue
	var out []string
	for _, q := range r.on.sortedQueues() {
		if q.spec == nil || q.spec.RelocationsPerHour > 0 || q.node.Root() != own.node.Root() ||
			len(r.on.judge.search.Running(q.node)) == 0 {
			continue
		}
		if q == own {
			out = slices.Insert(out, 0, q.name)
		} else {
			out = append(out, q.name)
		}
	}
	return out[:min(len(out), most)]
}

// NextRelocation is when one more workload of the tree may be relocated, of a queue of which none may be now; zero if
// there is none.
func (r *Rehearsal) NextRelocation() time.Time {
	first := int64(0)
	for _, q := range r.on.judge.relocating[r.workload.localQueue.queue.node.Root()] {
		if n, from := r.on.relocatable(q); n == 0 && (first == 0 || from < first) {
			first = from
		}
	}
	if first == 0 {
		return time.Time{}
	}
	return time.Unix(first, 0)
}

// Down are nodes out of service that the pods could use for which nodes are short, at most so many.
func (r *Rehearsal) Down(most int) []core.Node {
	var out []core.Node
	if r.on.short != nil {
		for _, n := range r.on.nodes.Down(r.on.short, most) {
			out = append(out, *n.Spec())
		}
	}
	return out
}

// Foreign are pods that no queue knows on nodes that these pods could use. It looks at so many nodes.
func (r *Rehearsal) Foreign(looks int) []core.Holder {
	var out []core.Holder
	if r.on.short == nil {
		return nil
	}
	for _, o := range r.on.nodes.Occupied(r.on.short, looks) {
		if resource, amount := r.on.nodes.TakenByOthers(o); amount > 0 {
			out = append(out, core.Holder{Node: o.Name(), Resource: resource, Amount: amount})
		}
	}
	return out
}

// Taints are taints that alone keep nodes from these pods, at most so many.
func (r *Rehearsal) Taints(most int) []core.Taint {
	if r.on.short == nil {
		return nil
	}
	return r.on.nodes.TaintsInTheWay(r.on.short, most)
}

// Unready are the workloads whose pods are not ready and for which others wait, without those
// that never end by themselves, in the order of a queue.
func (r *Rehearsal) Unready() []core.Key {
	var unready []*workload
	for _, w := range r.on.workloads {
		if w.unready && !w.obs.endless {
			unready = append(unready, w)
		}
	}
	slices.SortFunc(unready, compareWorkloads)
	return keysOf(unready)
}

// OtherQueues are the open LocalQueues of the namespace that lead to other queues, by name.
func (r *Rehearsal) OtherQueues() []string {
	var out []string
	own := r.workload.localQueue
	for _, d := range r.on.sortedLocalQueues() {
		if d.key.namespace == own.key.namespace && d != own && d.queue != nil && d.queue != own.queue &&
			d.closed == nil {
			out = append(out, d.key.name)
		}
	}
	return out
}

func keysOf(workloads []*workload) []core.Key {
	var keys []core.Key
	for _, w := range workloads {
		keys = append(keys, w.Key)
	}
	return keys
}
