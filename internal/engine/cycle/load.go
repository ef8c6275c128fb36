package cycle

import (
	"fmt"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/order"
	"github.com/mlbatch/mlbatch/internal/engine/preempt"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Load returns an engine that decides from here on what the one that dumped the
// state decides. The options must be the same. It fails on states of another
// version and on states that contradict themselves.
func Load(o Options, s *Snapshot) (*Engine, error) {
	if s.Version != StateVersion {
		return nil, fmt.Errorf("state has version %d, this program loads version %d", s.Version, StateVersion)
	}
	e := New(o)
	l := &loader{model: e.model, known: map[podSetsOf]*equivalence{}}
	e.loadModel(s) // 1. what is there
	e.history.load(s)
	e.forest.Settle()
	e.link()
	for i := range s.Workloads {
		e.loadWorkload(l, &s.Workloads[i]) // 2. what waits, and what each holds
	}
	e.forest.Settle()
	e.stabilizer.load(s)
	for i := range s.Queues {
		e.pending.loadQueue(l, &s.Queues[i]) // 3. where they wait
	}
	e.recovery.load(l, s)
	e.admissions.load(l, s) // 4. what began, and what the next Decide looks at
	e.pending.load(l, s)
	e.settled()
	e.forest.Settle() // what only old admissions name was interned on the way
	if l.wrong != nil {
		return nil, fmt.Errorf("load state: %w", l.wrong)
	}
	return e, nil
}

// loader is what rooms need to know of a state. wrong is the first contradiction found.
type loader struct {
	*model
	wrong error
	// known are the equivalence classes of pod sets that are the same list in memory, as they are where
	// a state comes from an engine and not from a file: their keys need not be made.
	known map[podSetsOf]*equivalence
}

// podSetsOf tells lists of pod sets apart that are used with a priority and a gate.
type podSetsOf struct {
	first    *core.PodSet
	priority int64
	gate     string
}

func (l *loader) fail(format string, args ...any) {
	if l.wrong == nil {
		l.wrong = fmt.Errorf(format, args...)
	}
}

// find returns the workload with a key, nil, and an error in wrong, if the state
// lists none.
func (l *loader) find(k core.Key) *workload {
	w := l.workloads[k]
	if w == nil {
		l.fail("there is no workload %s", k)
	}
	return w
}

func (l *loader) all(keys []core.Key) []*workload {
	var out []*workload
	for _, k := range keys {
		if w := l.find(k); w != nil {
			out = append(out, w)
		}
	}
	return out
}

// equivalenceKnown returns the equivalence class of a workload, counted as used once more.
func (l *loader) equivalenceKnown(o *core.Workload) *equivalence {
	if len(o.PodSets) == 0 {
		return l.equivalenceOf(o)
	}
	of := podSetsOf{&o.PodSets[0], o.Priority, o.PreemptionGate}
	s := l.known[of]
	if s == nil || len(s.podSets) != len(o.PodSets) {
		s = l.equivalenceOf(o)
		l.known[of] = s
		return s
	}
	s.refs++
	return s
}

// loadModel takes in flavors, cohorts, queues, local queues and nodes.
func (m *model) loadModel(s *Snapshot) {
	for _, p := range s.Pairs {
		m.forest.FlavorResource(p.Flavor, p.Resource)
	}
	for _, f := range s.Flavors {
		m.setFlavor(f)
	}
	for _, c := range s.Cohorts {
		m.cohorts[c.Name] = c
		m.forest.SetCohort(c)
	}
	for _, n := range s.Namespaces {
		m.namespaces[n.Name] = n
	}
	for _, n := range s.Nodes {
		m.nodes.Set(n)
	}
	for i := range s.Queues {
		q := m.queueNamed(s.Queues[i].Name)
		if spec := s.Queues[i].Spec; spec != nil {
			m.define(q, spec)
		}
	}
	for _, d := range s.LocalQueues {
		known := m.localQueueNamed(localQueueKey{d.Namespace, d.Name})
		known.spec, known.relocations = d.Spec, slices.Clone(d.Relocations)
		if d.Spec != nil {
			m.queueNamed(d.Spec.Queue)
		}
	}
}

// loadUses is the opposite of dumpUses.
func (m *model) loadUses(amounts []PairAmount) []quota.Use {
	var out []quota.Use
	for _, a := range amounts {
		out = append(out, quota.Use{Pair: m.forest.FlavorResource(a.Flavor, a.Resource), Amount: a.Amount})
	}
	return out
}

func (h *history) load(s *Snapshot) {
	h.sampled = s.Sampled
	for _, d := range s.LocalQueues {
		if d.Past != nil {
			h.localQueueNamed(localQueueKey{d.Namespace, d.Name}).past = &past{
				used: loadPast(d.Past.Used), costs: loadPast(d.Past.Costs), at: d.Past.At,
			}
		}
	}
}

func loadPast(amounts []PastAmount) map[string]order.Past {
	m := map[string]order.Past{}
	for _, a := range amounts {
		m[a.Resource] = order.PastOf(a.Whole, a.Part)
	}
	return m
}

func (e *Engine) loadWorkload(l *loader, s *WorkloadState) {
	if e.workloads[s.Key] != nil {
		l.fail("workload %s is listed twice", s.Key)
		return
	}
	o := core.Workload{
		Key:            s.Key,
		UID:            s.UID,
		Job:            s.Job,
		Endless:        s.Endless,
		Queue:          s.LocalQueue,
		Priority:       s.Priority,
		PreemptionGate: s.Gate,
		PodSets:        s.PodSets,
		Held:           s.Held,
		Invalid:        s.Invalid,
		GatedBy:        s.GatedBy,
		NotBefore:      s.NotBefore,
		Evicting:       s.Evicting,
		Settled:        s.Settled,
		Ended:          s.Ended,
		MinimumRuntime: s.MinimumRuntime,
		Interruption:   s.Interruption,
	}
	w := e.register(&o, l.equivalenceKnown(&o))
	if s.Saved != 0 {
		w.Saves = &preempt.Saves{At: s.Saved, Every: s.SavesEvery}
	}
	w.Time, w.reported, w.relocated = s.Time, s.Told, s.Relocated
	if len(s.Spare) > 0 {
		w.spare, w.spareKey = s.Spare, fmt.Sprint(s.Spare)
	}
	if s.Timed {
		e.pending.backOff(w, s.NotBefore)
	}
	if s.Charged != (core.Key{}) {
		w.charged, w.costs = e.localQueueNamed(
			localQueueKey{s.Charged.Namespace, s.Charged.Name},
		), loadPast(
			s.Costs,
		)
	}
	e.admissions.loadWorkload(l, w, s)
}

// loadWorkload books what a workload holds or has reserved.
func (ad *admissions) loadWorkload(l *loader, w *workload, s *WorkloadState) {
	w.loadGrant(s)
	w.Reserved = s.Reserved
	if !s.Deadline.IsZero() {
		ad.expectBy(w, s.Deadline)
	}
	as := ledger.AllocationState(s.Phase)
	if as > leaving || (as != waiting) != (w.admission != nil) {
		l.fail("workload %s: phase %d, admission %v", s.Key, s.Phase, s.Admission != nil)
		return
	}
	ad.useFilters(l, w, s.Filters)
	switch as {
	case waiting:
	case reserved:
		ad.bookReservation(w)
	case running, leaving:
		w.Interrupted = s.Interrupted
		ad.addUsage(w, as)
	}
	ad.inherit(w, s.Next)
	if s.RelocatedTo != nil && as == leaving {
		ad.holdElsewhere(w, s.RelocatedTo)
	}
	ad.count(w, waiting)
	w.obs.admitted, w.obs.ready = s.Admitted, s.Ready
	ad.countReady(w)
	if len(s.Filters) > 0 {
		ad.forgetClasses(w.equivalence)
	}
}

// useFilters lets the pods of a workload be booked in the classes of the filters that it was admitted
// with.
func (ad *admissions) useFilters(l *loader, w *workload, filters []FilterState) {
	for _, f := range filters {
		set := w.equivalence.podSet(f.PodSet)
		i := slices.IndexFunc(w.admission.PodSets, func(p core.PodSetAdmission) bool { return p.Name == f.PodSet })
		if set < 0 || i < 0 {
			l.fail("workload %s: there is no pod set %q", w.Key, f.PodSet)
			continue
		}
		key := classKey(set, w.admission.PodSets[i].FlavorNames())
		if c := w.equivalence.classes[key]; c != nil {
			ad.nodes.Release(c)
		}
		w.equivalence.classes[key] = ad.nodes.Class(
			w.equivalence.podSets[set].Requests,
			core.Constraints{Filter: f.Filter, Limits: w.equivalence.podSets[set].Limits},
			core.Topology{},
		)
	}
}

// loadQueue restores the groups of a queue.
func (pe *pending) loadQueue(l *loader, s *QueueState) {
	q := pe.queueNamed(s.Name)
	for i := range s.Groups {
		if g := pe.loadGroup(l, q, &s.Groups[i]); g != nil && !g.parked {
			q.active.Push(g)
		}
	}
	q.reserved = l.all(s.Reserved)
	if s.Blocker != nil {
		q.blocker = l.find(*s.Blocker)
	}
	if s.Head == nil {
		return
	}
	if q.active.Len() == 0 {
		l.fail("queue %s has a head and nobody to be judged", s.Name)
		return
	}
	pe.turns.load(q, s.Head)
}

func (pe *pending) loadGroup(l *loader, q *queue, s *GroupState) *group {
	members := l.all(s.Members)
	if len(members) == 0 {
		l.fail("queue %s has a group without members", q.name)
		return nil
	}
	first := members[0]
	g := &group{
		queue:       q,
		key:         groupKey{equivalence: first.equivalence, spare: first.spareKey},
		equivalence: first.equivalence,
		index:       len(q.groups),
		parked:      s.Parked,
		lacksNodes:  s.LacksNodes,
		why:         s.Why,
		reported:    s.Told,
	}
	if q.byUsage {
		g.key.localQueue = first.localQueue
	}
	q.byKey[g.key] = g
	q.groups = append(q.groups, g)
	for _, w := range members {
		if w.group != nil || w.State() != waiting || w.equivalence != g.equivalence || w.spareKey != g.key.spare ||
			(q.byUsage && w.localQueue != g.key.localQueue) {
			l.fail("workload %s is in a group of queue %s where it does not belong", w.Key, q.name)
			return nil
		}
		w.group = g
		g.members.Push(w)
	}
	for _, w := range l.all(s.Fresh) {
		w.unreported = true
		g.newcomers = append(g.newcomers, w)
	}
	if s.Unjudged || len(g.newcomers) > 0 { // older recordings tell the members alone
		g.unreported = true
		pe.unjudged = append(pe.unjudged, g)
	}
	for _, u := range pe.loadUses(s.Shorts) {
		g.shorts = append(g.shorts, short{u.Pair, u.Amount})
	}
	if s.OnNodes {
		pe.onNodes = append(pe.onNodes, g)
		g.onNodes = len(pe.onNodes)
	}
	for _, u := range pe.loadUses(s.BlockedPairs) {
		g.blockedPairs = append(g.blockedPairs, blockedPair{u.Pair, u.Amount})
	}
	if s.Blocked {
		pe.blockedGroups = append(pe.blockedGroups, g)
		g.blockedByReservation = len(pe.blockedGroups)
	}
	if g.onReady = s.OnReady; g.onReady {
		pe.onReady = append(pe.onReady, g)
	}
	pe.loadPlan(l, g, s.Plan)
	return g
}

// loadPlan compiles what the dumped engine had compiled; where that was out of date,
// only that it was is restored.
func (pe *pending) loadPlan(l *loader, g *group, s PlanState) {
	switch {
	case !s.Compiled:
		return
	case s.Current && g.queue.spec == nil:
		l.fail("queue %s is not defined and has a plan", g.queue.name)
		return
	case s.Current:
		pe.judge.compile(g)
		if !s.NodesCurrent {
			g.plan.nodes = outdated
		}
	default:
		g.plan = &compiled{nodes: outdated}
	}
	if s.Bound {
		g.bound = g.plan
	}
}

// outdated is a version of the nodes that never is.
const outdated = ^uint64(0)

// load restores which leave, and for which something is reserved.
func (ad *admissions) load(l *loader, s *Snapshot) {
	ad.leaving = l.all(s.Leaving)
	for _, ps := range s.Reservations {
		w := l.find(ps.Key)
		if w == nil {
			continue
		}
		if w.State() != reserved || w.reservation != nil {
			l.fail("workload %s cannot have this reservation", ps.Key)
			continue
		}
		w.reservation = &reservation{workload: w, evicted: ps.Evicted, relocates: ps.Relocates}
		ad.reservations = append(ad.reservations, w.reservation)
		for _, x := range l.all(ps.Waits) {
			ad.await(w.reservation, x)
		}
	}
	ad.drainAgain = s.DrainAgain
}

// load restores which workloads are to be moved, and which are interrupted.
func (rc *recovery) load(l *loader, s *Snapshot) {
	rc.displaced = l.all(s.Displaced)
	rc.resumedAt = seen(!s.Resumable)
	for _, w := range rc.displaced {
		w.listed = true
	}
	for i := range s.Workloads {
		if w := rc.workloads[s.Workloads[i].Key]; w != nil && w.Interrupted {
			rc.interrupted = append(rc.interrupted, w)
		}
	}
}

// load restores what the next Decide looks at.
func (pe *pending) load(l *loader, s *Snapshot) {
	pe.arrivals = l.all(s.Arrivals)
	for _, w := range pe.arrivals {
		w.inbox = true
	}
	pe.freed, pe.lent = pe.trees(s.Freed), pe.trees(s.Lent)
	pe.rechecks.clear()
	for _, root := range pe.trees(s.Recheck) {
		pe.rechecks.whenSeen(root)
	}
	for _, t := range s.RecheckAt {
		for _, root := range pe.trees([]TreeName{t.Tree}) {
			pe.rechecks.atTime(root, t.At)
		}
	}
	pe.nodesChanged = nodesChanged{freed: s.NodesFreed, other: s.NodesNew, lost: s.NodesLost}
	pe.changes = 2
	pe.blockedGroupsAt, pe.onReadyAt = seen(s.BlockedSeen), seen(s.ReadySeen)
}

// seen is a value of changes: the present one, or one before.
func seen(present bool) uint64 { //nolint:revive // a recorded fact
	if present {
		return 2
	}
	return 1
}

func (m *model) trees(names []TreeName) []*quota.Node {
	var out []*quota.Node
	for _, t := range names {
		if t.Queue {
			out = append(out, m.queueNamed(t.Name).node)
		} else if n := m.forest.Cohort(t.Name); n != nil {
			out = append(out, n)
		}
	}
	return out
}
