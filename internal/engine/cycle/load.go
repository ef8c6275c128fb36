package cycle

import (
	"fmt"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/order"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Load returns an engine that decides from here on what the one that dumped the
// state decides. The options must be the same. It fails on states of another
// version and on those that contradict themselves.
func Load(o Options, s *State) (*Engine, error) {
	if s.Version != StateVersion {
		return nil, fmt.Errorf("state has version %d, this program loads version %d", s.Version, StateVersion)
	}
	l := loader{Engine: New(o), known: map[podSetsOf]*equivalence{}}
	l.world(s) // 1. what is there
	for i := range s.Works {
		l.workload(&s.Works[i]) // 2. who waits, and who holds what
	}
	l.forest.Settle()
	for i := range s.Queues {
		l.queue(&s.Queues[i]) // 3. where they wait
	}
	l.pending(s) // 4. what the next Decide looks at
	if l.wrong != nil {
		return nil, fmt.Errorf("load state: %w", l.wrong)
	}
	return l.Engine, nil
}

// loader is an engine being filled. wrong is the first contradiction found.
type loader struct {
	*Engine
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

// world takes in flavors, cohorts, queues, local queues and nodes, and settles them as
// a Decide would.
func (l *loader) world(s *State) {
	for _, p := range s.Pairs {
		l.forest.FlavorResource(p.Flavor, p.Resource)
	}
	for _, f := range s.Flavors {
		l.setFlavor(f)
	}
	for _, c := range s.Cohorts {
		l.cohorts[c.Name] = c
		l.forest.SetCohort(c)
	}
	for _, n := range s.Namespaces {
		l.namespaces[n.Name] = n
	}
	for _, n := range s.Nodes {
		l.nodes.Set(n)
	}
	for i := range s.Queues {
		q := l.queueNamed(s.Queues[i].Name)
		if spec := s.Queues[i].Spec; spec != nil {
			l.define(q, spec)
		}
	}
	for _, d := range s.Doors {
		localQueue := l.localQueueNamed(localQueueKey{d.Namespace, d.Name})
		localQueue.spec = d.Spec
		if d.Spec != nil {
			l.queueNamed(d.Spec.Queue)
		}
		if d.Past != nil {
			localQueue.past = &past{used: loadPast(d.Past.Used), costs: loadPast(d.Past.Costs), at: d.Past.At}
		}
	}
	l.forest.Settle()
	l.draw()
	for _, q := range l.sortedQueues() {
		q.closed = l.closedQueue(q)
	}
	l.settleHeadReservations()
	for _, d := range l.sortedLocalQueues() {
		l.settleLocalQueue(d)
	}
	l.settleUsage()
	l.sampled = s.Sampled
}

func loadPast(amounts []PastAmount) map[string]order.Past {
	m := map[string]order.Past{}
	for _, a := range amounts {
		m[a.Resource] = order.PastOf(a.Whole, a.Part)
	}
	return m
}

func (l *loader) workload(s *WorkState) {
	if l.workloads[s.Key] != nil {
		l.fail("workload %s is listed twice", s.Key)
		return
	}
	o := core.Workload{
		Key: s.Key, UID: s.UID, Queue: s.Door, Priority: s.Priority, PreemptionGate: s.Gate, PodSets: s.PodSets,
		Held: s.Held, Invalid: s.Invalid, GatedBy: s.GatedBy, NotBefore: s.NotBefore, Evicting: s.Evicting, Settled: s.Settled, Ended: s.Ended,
	}
	w := l.register(&o, l.equivalenceKnown(&o))
	w.Time = s.Time
	w.admission, w.seen = s.Admission, s.Seen
	if s.SeenSame {
		w.seen = s.Admission
	}
	w.assumed, w.Unseen, w.ordered, w.moved, w.Reserved = s.Assumed, s.Unseen, s.Ordered, s.Moved, s.Reserved
	w.applied, w.seq = s.Applied, s.Seq
	w.told = s.Told
	if len(s.Spare) > 0 {
		w.spare, w.spareKey = s.Spare, fmt.Sprint(s.Spare)
	}
	if s.Timed {
		w.timer = &timer{workload: w, at: s.NotBefore}
		l.timers.Push(w.timer)
	}
	if !s.Deadline.IsZero() {
		w.deadline = &timer{workload: w, at: s.Deadline}
		l.deadlines.Push(w.deadline)
	}
	if s.Charged != (core.Key{}) {
		w.charged, w.costs = l.localQueueNamed(localQueueKey{s.Charged.Namespace, s.Charged.Name}), loadPast(s.Costs)
	}
	l.phase(w, s)
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

// phase books what a workload holds or has reserved.
func (l *loader) phase(w *workload, s *WorkState) {
	p := phase(s.Phase)
	if p > leaving || (p != waiting) != (w.admission != nil) {
		l.fail("workload %s: phase %d, admission %v", s.Key, s.Phase, s.Admission != nil)
		return
	}
	l.setPhase(w, p)
	w.obs.admitted, w.obs.ready = s.Admitted, s.Ready
	l.countReady(w)
	l.useFilters(w, s.Filters)
	switch p {
	case waiting:
	case reserved:
		l.bookReservation(w)
	case running, leaving:
		l.hold(w)
	}
	l.forgetFilters(w, s.Filters)
}

// useFilters makes the classes of old filters those that hold books.
func (l *loader) useFilters(w *workload, filters []FilterState) {
	for _, f := range filters {
		set := w.equivalence.podSet(f.PodSet)
		i := slices.IndexFunc(w.admission.PodSets, func(p core.PodSetAdmission) bool { return p.Name == f.PodSet })
		if set < 0 || i < 0 {
			l.fail("workload %s: there is no pod set %q", w.Key, f.PodSet)
			continue
		}
		key := classKey(set, w.admission.PodSets[i].FlavorNames())
		if c := w.equivalence.classes[key]; c != nil {
			l.nodes.Release(c)
		}
		w.equivalence.classes[key] = l.nodes.Class(w.equivalence.podSets[set].Requests, f.Filter)
	}
}

func (l *loader) forgetFilters(w *workload, filters []FilterState) {
	if len(filters) > 0 {
		l.forgetClasses(w.equivalence)
	}
}

// queue restores the groups of a queue.
func (l *loader) queue(s *QueueState) {
	q := l.queueNamed(s.Name)
	for i := range s.Groups {
		if g := l.group(q, &s.Groups[i]); g != nil && !g.parked {
			q.active.Push(g)
		}
	}
	q.reserved = l.all(s.Promised)
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
	l.rehead(q)
	if s.Head.Ranked {
		q.head.Key = q.first().turn()
	}
	q.head.Level = s.Head.Level
	l.enlist(q)
	if s.Head.Pinned {
		q.counts, q.firm = l.uses(s.Head.Counts), s.Head.Firm
		root := q.node.Root()
		l.borrowers[root] = append(l.borrowers[root], q)
	}
}

func (l *loader) uses(amounts []PairAmount) []quota.Use {
	var out []quota.Use
	for _, a := range amounts {
		out = append(out, quota.Use{Pair: l.forest.FlavorResource(a.Flavor, a.Resource), Amount: a.Amount})
	}
	return out
}

func (l *loader) group(q *queue, s *GroupState) *group {
	members := l.all(s.Members)
	if len(members) == 0 {
		l.fail("queue %s has a group without members", q.name)
		return nil
	}
	first := members[0]
	g := &group{
		queue: q, key: groupKey{equivalence: first.equivalence, spare: first.spareKey}, equivalence: first.equivalence, index: len(q.groups),
		parked: s.Parked, lacksNodes: s.LacksNodes, why: s.Why, told: s.Told,
	}
	if q.byUsage {
		g.key.localQueue = first.localQueue
	}
	q.byKey[g.key] = g
	q.groups = append(q.groups, g)
	for _, w := range members {
		if w.group != nil || w.phase != waiting || w.equivalence != g.equivalence || w.spareKey != g.key.spare || (q.byUsage && w.localQueue != g.key.localQueue) {
			l.fail("workload %s is in a group of queue %s where it does not belong", w.Key, q.name)
			return nil
		}
		w.group = g
		g.members.Push(w)
	}
	for _, w := range l.all(s.Fresh) {
		w.unsaid = true
		g.fresh = append(g.fresh, w)
	}
	for _, u := range l.uses(s.Shorts) {
		g.shorts = append(g.shorts, short{u.Pair, u.Amount})
	}
	if s.OnNodes {
		l.onNodes = append(l.onNodes, g)
		g.onNodes = len(l.onNodes)
	}
	for _, u := range l.uses(s.Contests) {
		g.blockedPairs = append(g.blockedPairs, blockedPair{u.Pair, u.Amount})
	}
	if s.Contested {
		l.blockedGroups = append(l.blockedGroups, g)
		g.blockedByReservation = len(l.blockedGroups)
	}
	if g.onReady = s.OnReady; g.onReady {
		l.onReady = append(l.onReady, g)
	}
	l.plan(g, s.Plan)
	return g
}

// plan compiles what the dumped engine had compiled; where that was out of date,
// only that it was is restored.
func (l *loader) plan(g *group, s PlanState) {
	switch {
	case !s.Compiled:
		return
	case s.Current && g.queue.spec == nil:
		l.fail("queue %s is not defined and has a plan", g.queue.name)
		return
	case s.Current:
		l.compile(g)
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

// pending restores what began and what the next Decide looks at.
func (l *loader) pending(s *State) {
	l.leaving = l.all(s.Leaving)
	for _, ps := range s.Pledges {
		w := l.find(ps.Key)
		if w == nil {
			continue
		}
		if w.phase != reserved || w.reservation != nil {
			l.fail("workload %s cannot have this reservation", ps.Key)
			continue
		}
		w.reservation = &reservation{workload: w, evicted: ps.Evicted}
		l.reservations = append(l.reservations, w.reservation)
		for _, x := range l.all(ps.Waits) {
			l.await(w.reservation, x)
		}
	}
	l.arrivals, l.displaced = l.all(s.Arrivals), l.all(s.Displaced)
	for _, w := range l.arrivals {
		w.inbox = true
	}
	for _, w := range l.displaced {
		w.listed = true
	}
	l.freed, l.lent = l.trees(s.Freed), l.trees(s.Lent)
	for _, root := range l.trees(s.Recheck) {
		l.recheck[root] = true
	}
	l.nodesFreed, l.nodesNew, l.facts, l.edited = s.NodesFreed, s.NodesNew, s.Facts, false
	l.changes = 2
	l.blockedGroupsAt, l.onReadyAt = seen(s.ContestedSeen), seen(s.ReadySeen)
	l.forest.Settle() // what only old admissions name was interned on the way
}

// seen is a value of changes: the present one, or one before.
func seen(present bool) uint64 { //nolint:revive // a recorded fact
	if present {
		return 2
	}
	return 1
}

func (l *loader) trees(names []TreeName) []*quota.Node {
	var out []*quota.Node
	for _, t := range names {
		if t.Queue {
			out = append(out, l.queueNamed(t.Name).node)
		} else if n := l.forest.Cohort(t.Name); n != nil {
			out = append(out, n)
		}
	}
	return out
}
