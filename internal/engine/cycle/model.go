package cycle

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// model is what the engine was told, and by what that is known. All rooms read it;
// what each workload holds is in its ledger.
type model struct {
	catalog
	opt Options
	now time.Time
	// edited says that queues, cohorts, flavors, local queues or namespaces changed since
	// the last Decide.
	edited      bool
	queues      map[string]*queue
	byNode      []*queue // by quota.Node.ID
	localQueues map[localQueueKey]*localQueue
	workloads   map[core.Key]*workload
	byID        []*workload
	freeIDs     []int32
	// inherited are the workloads for which an engine before this one held something.
	inherited []*workload
	// unready counts admitted workloads whose pods are not ready, with
	// Options.BlockAdmission.
	unready int
}

// catalog is what requests are compiled by: quota, nodes, flavors, and the equivalence
// classes of workloads.
type catalog struct {
	// books is what workloads hold; forest and nodes are what it keeps, to be read.
	books        *ledger.Ledger
	forest       *quota.Forest
	nodes        *place.Nodes
	flavors      map[string]*flavor
	cohorts      map[string]core.Cohort
	namespaces   map[string]core.Namespace
	equivalences map[string]*equivalence
	// revision grows with edits; plans compiled before are stale.
	revision uint64
}

func newModel(o Options) *model {
	books := ledger.New(o.Pack, o.FairSharing != nil)
	return &model{
		catalog: catalog{
			books:        books,
			forest:       books.Forest,
			nodes:        books.Nodes,
			flavors:      map[string]*flavor{},
			cohorts:      map[string]core.Cohort{},
			namespaces:   map[string]core.Namespace{},
			equivalences: map[string]*equivalence{},
			revision:     1,
		},
		opt:         o,
		queues:      map[string]*queue{},
		localQueues: map[localQueueKey]*localQueue{},
		workloads:   map[core.Key]*workload{},
	}
}

// edit takes in changes of queues, cohorts, flavors and namespaces. They take
// effect at the next Decide, many at once. An edit that changes nothing costs
// nothing. It reports whether it changes anything.
func (m *model) edit(ev core.Event) bool {
	changed := false
	switch ev := ev.(type) {
	case core.FlavorSet:
		changed = m.setFlavor(ev.Flavor)
	case core.FlavorGone:
		_, changed = m.flavors[ev.Name]
		delete(m.flavors, ev.Name)
	case core.CohortSet:
		if old, ok := m.cohorts[ev.Cohort.Name]; !ok || !reflect.DeepEqual(old, ev.Cohort) {
			m.cohorts[ev.Cohort.Name] = ev.Cohort
			m.forest.SetCohort(ev.Cohort)
			changed = true
		}
	case core.CohortGone:
		_, changed = m.cohorts[ev.Name]
		delete(m.cohorts, ev.Name)
		m.forest.DropCohort(ev.Name)
	case core.QueueSet:
		q := m.queueNamed(ev.Queue.Name)
		if q.spec == nil || !reflect.DeepEqual(*q.spec, ev.Queue) {
			m.define(q, &ev.Queue)
			changed = true
		}
	case core.QueueGone:
		q := m.queueNamed(ev.Name)
		changed = q.spec != nil
		q.spec = nil
		m.forest.DropQueue(ev.Name)
	case core.LocalQueueSet:
		d := m.localQueueNamed(localQueueKey{ev.LocalQueue.Namespace, ev.LocalQueue.Name})
		changed = d.spec == nil
		if !changed { // what the API remembers follows the engine
			ev.LocalQueue.Consumed, ev.LocalQueue.ConsumedAt = d.spec.Consumed, d.spec.ConsumedAt
			changed = !reflect.DeepEqual(*d.spec, ev.LocalQueue)
		}
		d.spec = &ev.LocalQueue
	case core.LocalQueueGone:
		d := m.localQueueNamed(localQueueKey{ev.Namespace, ev.Name})
		changed = d.spec != nil
		d.spec = nil
	case core.NamespaceSet:
		if old, ok := m.namespaces[ev.Namespace.Name]; !ok || !reflect.DeepEqual(old, ev.Namespace) {
			m.namespaces[ev.Namespace.Name] = ev.Namespace
			changed = true
		}
	case core.NamespaceGone:
		_, changed = m.namespaces[ev.Name]
		delete(m.namespaces, ev.Name)
	}
	m.edited = m.edited || changed
	return changed
}

func (m *model) define(q *queue, spec *core.Queue) {
	q.spec = spec
	m.forest.SetQueue(q.name, spec.Cohort, spec.Groups).Weigh(spec.Weight)
}

func (ct *catalog) setFlavor(f core.Flavor) bool {
	old := ct.flavors[f.Name]
	if old != nil && reflect.DeepEqual(old.spec, f) {
		return false
	}
	ct.flavors[f.Name] = &flavor{spec: f}
	for _, s := range ct.equivalences { // every equivalence class alike, so order does not matter
		ct.forgetClasses(s)
	}
	return true
}

// register makes the record of a workload that waits and is nowhere yet, with its
// equivalence class if that is known.
func (m *model) register(o *core.Workload, s *equivalence) *workload {
	w := &workload{equivalence: s}
	w.Key, w.UID = o.Key, o.UID
	if n := len(m.freeIDs); n > 0 {
		w.ID = m.freeIDs[n-1]
		m.freeIDs = m.freeIDs[:n-1]
		m.byID[w.ID] = w
	} else {
		w.ID = int32(len(m.byID)) //nolint:gosec // workloads fit in 31 bits
		m.byID = append(m.byID, w)
	}
	m.workloads[o.Key] = w
	m.describe(w, o, waiting)
	return w
}

// drop forgets a workload that holds nothing and waits nowhere, and still counts in a state.
func (m *model) drop(w *workload, as ledger.AllocationState) {
	if w.unready {
		m.unready--
	}
	w.localQueue.counts[as]--
	w.localQueue.uncountHeld(w)
	w.localQueue.remove(w)
	delete(m.workloads, w.Key)
	m.dropEquivalence(w.equivalence)
	m.byID[w.ID] = nil
	m.freeIDs = append(m.freeIDs, w.ID)
}

// without thinks of a workload as gone that may have pods which are not ready; back
// undoes it.
func (m *model) without(w *workload) (back func()) {
	if !w.unready {
		return func() {}
	}
	m.unready--
	return func() { m.unready++ }
}

// at says what time it is.
func (m *model) at(now time.Time) { m.now = now }

// settled notes that all edits were taken in.
func (m *model) settled() { m.edited = false }

// outdate makes all compiled plans stale.
func (ct *catalog) outdate() { ct.revision++ }

// describe copies what is kept of an observed workload, which counts in a state.
func (m *model) describe(w *workload, o *core.Workload, as ledger.AllocationState) {
	w.obs = observed{job: o.Job, evicting: o.Evicting, endless: o.Endless}
	w.obs.keep(detailsOf(o))
	at := o.QueueTime
	if at.IsZero() {
		at = o.Created
	}
	w.Priority, w.Time = o.Priority, at.UnixNano()
	old := w.equivalence
	if old == nil || !old.describes(o) {
		w.equivalence = m.equivalenceOf(o)
		if old != nil {
			m.dropEquivalence(old)
		}
	}
	d := m.localQueueNamed(localQueueKey{o.Key.Namespace, o.Queue})
	if w.localQueue != d {
		if w.localQueue != nil {
			w.localQueue.remove(w)
			w.localQueue.counts[as]--
			w.localQueue.uncountHeld(w)
		}
		d.add(w)
		d.counts[as]++
		w.localQueue = d
	}
	d.countHeld(w, as)
}

// queueNamed returns the queue, made up if it is not defined.
func (m *model) queueNamed(name string) *queue {
	q := m.queues[name]
	if q == nil {
		q = &queue{name: name, node: m.forest.Queue(name), byKey: map[groupKey]*group{}}
		q.closed = m.closedQueue(q)
		m.queues[name] = q
		for len(m.byNode) <= q.node.ID {
			m.byNode = append(m.byNode, nil)
		}
		m.byNode[q.node.ID] = q
	}
	return q
}

// localQueueNamed returns the local queue, made up if it is not defined.
func (m *model) localQueueNamed(k localQueueKey) *localQueue {
	d := m.localQueues[k]
	if d == nil {
		d = &localQueue{key: k}
		d.closed = &core.Reason{
			Code:   core.Misconfigured,
			Cause:  core.QueueMissing,
			Queue:  k.name,
			Detail: "LocalQueue",
		}
		m.localQueues[k] = d
	}
	return d
}

// equivalenceOf returns the shared equivalence class of a workload.
func (ct *catalog) equivalenceOf(w *core.Workload) *equivalence {
	key := equivalenceKey(w)
	s := ct.equivalences[key]
	if s == nil {
		s = &equivalence{
			key:      key,
			priority: w.Priority,
			gate:     w.PreemptionGate,
			podSets:  w.PodSets,
			classes:  map[string]*place.Class{},
		}
		ct.equivalences[key] = s
	}
	s.refs++
	return s
}

func (ct *catalog) dropEquivalence(s *equivalence) {
	if s.refs--; s.refs > 0 {
		return
	}
	delete(ct.equivalences, s.key)
	ct.forgetClasses(s)
}

// class is the kind of pod that a pod set becomes with the given flavors.
func (ct *catalog) class(s *equivalence, set int, flavors []string) *place.Class {
	return ct.classOn(s, set, flavors, false)
}

// recoveryClass is class of pods that come back after a fault: they may use the nodes that are kept for that.
func (ct *catalog) recoveryClass(s *equivalence, set int, flavors []string) *place.Class {
	return ct.classOn(s, set, flavors, ct.keepsSpares())
}

// keepsSpares reports whether nodes of some flavor are kept for recovery.
func (ct *catalog) keepsSpares() bool {
	for _, f := range ct.flavors { // any, so order does not matter
		if f.spec.KeepsSpares {
			return true
		}
	}
	return false
}

func (ct *catalog) classOn( //nolint:revive // which nodes
	s *equivalence,
	set int,
	flavors []string,
	spares bool,
) *place.Class {
	key := classKey(set, flavors)
	if spares {
		key += "|spares"
	}
	if c := s.classes[key]; c != nil {
		return c
	}
	is := s.podSets[set].Constraints()
	is.Filter = ct.filter(s, set, flavors)
	if !spares {
		is.Filter = ct.withoutSpares(is.Filter)
	}
	var t core.Topology
	is.Topology, t = is.Topology.For(s.podSets[set].Count).In(ct.topology(flavors))
	c := ct.nodes.Class(s.podSets[set].Requests, is, t)
	s.classes[key] = c
	return c
}

func classKey(set int, flavors []string) string {
	return strconv.Itoa(set) + "|" + strings.Join(flavors, "|")
}

// topology is how the nodes of the given flavors are nested: what the first says that says it.
func (ct *catalog) topology(flavors []string) core.Topology {
	for _, name := range flavors {
		if f := ct.flavors[name]; f != nil && len(f.spec.Topology.Levels) > 0 {
			return f.spec.Topology
		}
	}
	return core.Topology{}
}

// filter says which nodes a pod set may use with the given flavors.
func (ct *catalog) filter(s *equivalence, set int, flavors []string) core.Filter {
	p := &s.podSets[set]
	filter := core.Filter{
		Terms:       p.Filter.Terms,
		Must:        slices.Clone(p.Filter.Must),
		Volumes:     p.Filter.Volumes,
		Tolerations: slices.Clone(p.Filter.Tolerations),
		Refused:     p.Filter.Refused,
		Avoided:     p.Filter.Avoided,
	}
	for _, name := range flavors {
		f := ct.flavors[name]
		if f == nil {
			continue
		}
		for _, label := range sortedLabels(f.spec.NodeLabels) {
			filter.Must = append(filter.Must, core.Requirement{
				Key: label, Operator: core.In, Values: []string{f.spec.NodeLabels[label]},
			})
		}
		filter.Tolerations = append(filter.Tolerations, f.spec.Tolerations...)
	}
	return filter
}

// withoutSpares leaves out the nodes that are kept for recovery.
func (ct *catalog) withoutSpares(f core.Filter) core.Filter {
	if ct.keepsSpares() {
		f.Must = append(f.Must, core.Requirement{Key: core.SpareLabel, Operator: core.DoesNotExist})
	}
	return f
}

func sortedLabels(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// looksForNodes reports whether pods that get the flavor in a queue get nodes with
// it: where no node is known at all quota alone decides, and nodes that are made on
// demand come later. A flavor whose labels no node has then admits nothing.
func (ct *catalog) looksForNodes(q *core.Queue, flavor string) bool {
	return ct.flavors[flavor] != nil && ct.nodes.Any(nil) && !slices.Contains(q.Provisioned, flavor)
}

// closedLocalQueue says why nothing passes through a local queue; nil if it is open.
func (m *model) closedLocalQueue(d *localQueue, q *queue) *core.Reason {
	switch {
	case d.spec == nil:
		return &core.Reason{
			Code:   core.Misconfigured,
			Cause:  core.QueueMissing,
			Queue:  d.key.name,
			Detail: "LocalQueue",
		}
	case stopped(d.spec.Stop):
		return &core.Reason{Code: core.Suspended, Cause: core.QueueStopped, Queue: d.key.name, Detail: "LocalQueue"}
	case q.closed != nil:
		return q.closed
	case q.spec.Namespaces == nil || !q.spec.Namespaces.Matches(m.namespaces[d.key.namespace].Labels):
		return &core.Reason{
			Code: core.Misconfigured, Cause: core.NamespaceMismatch, Queue: q.name, Detail: d.key.namespace,
		}
	}
	return nil
}

// closedQueue says why a queue admits nothing; nil if it is open.
func (m *model) closedQueue(q *queue) *core.Reason {
	switch {
	case q.spec == nil:
		return &core.Reason{
			Code:   core.Misconfigured,
			Cause:  core.QueueMissing,
			Queue:  q.name,
			Detail: "ClusterQueue",
		}
	case stopped(q.spec.Stop):
		return &core.Reason{Code: core.Suspended, Cause: core.QueueStopped, Queue: q.name, Detail: "ClusterQueue"}
	case q.spec.Inactive != "":
		return &core.Reason{Code: core.Suspended, Cause: core.QueueUnready, Queue: q.name, Detail: q.spec.Inactive}
	case q.node.Cyclic():
		return &core.Reason{Code: core.Misconfigured, Cause: core.CohortCycle, Queue: q.name, Tree: q.spec.Cohort}
	}
	for _, g := range q.spec.Groups {
		for _, f := range g.Flavors {
			if m.flavors[f.Flavor] == nil {
				return &core.Reason{Code: core.Misconfigured, Cause: core.FlavorMissing, Queue: q.name, Flavor: f.Flavor}
			}
		}
	}
	return nil
}

func stopped(p core.StopPolicy) bool { return p == core.Hold || p == core.HoldAndDrain }

// recount books all usage anew after a sum overflowed and cannot be undone.
func (m *model) recount() { m.books.Recount(m.allocations) }

// allocations lists what all workloads hold, in any order.
func (m *model) allocations(yield func(*ledger.Allocation) bool) {
	for _, w := range m.workloads {
		if !yield(&w.Allocation) || w.relocation != nil && !yield(&w.relocation.Allocation) {
			return
		}
	}
}

func (m *model) sortedQueues() []*queue {
	out := make([]*queue, 0, len(m.queues))
	for _, q := range m.queues {
		out = append(out, q)
	}
	slices.SortFunc(out, func(a, b *queue) int { return cmp.Compare(a.name, b.name) })
	return out
}

func (m *model) sortedLocalQueues() []*localQueue {
	out := make([]*localQueue, 0, len(m.localQueues))
	for _, d := range m.localQueues {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b *localQueue) int {
		return cmp.Or(cmp.Compare(a.key.namespace, b.key.namespace), cmp.Compare(a.key.name, b.key.name))
	})
	return out
}

// queueOf names the ClusterQueue that a workload waits in, "" if there is none.
func (m *model) queueOf(w *workload) string {
	if w.localQueue.queue == nil {
		return ""
	}
	return w.localQueue.queue.name
}

func (ct *catalog) forgetClasses(s *equivalence) {
	for _, c := range s.classes {
		ct.nodes.Release(c)
	}
	clear(s.classes)
	s.last = nil
}
