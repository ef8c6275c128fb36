package cycle

import (
	"errors"
	"maps"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/order"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// ErrUnsettled says that edits of queues, cohorts, flavors or namespaces wait for
// the next Decide: a state cannot be dumped in between.
var ErrUnsettled = errors.New("edits wait for a decision")

// Dump returns everything that the engine knows. It fails with ErrUnsettled
// between an edit and the next Decide. It takes microseconds per workload and
// changes nothing.
func (e *Engine) Dump() (*Snapshot, error) {
	if e.edited || e.forest.Dirty() {
		return nil, ErrUnsettled
	}
	all := slices.SortedFunc(maps.Values(e.workloads), func(a, b *workload) int { return a.Key.Compare(b.Key) })
	return e.dump(all, func(g *group) []*workload { return slices.Clone(g.members.Items()) }), nil
}

// dump is Dump with some of the workloads, sorted by key: of the waiting ones
// at least one of each group, and of all others the ones that are named elsewhere in the dump.
func (e *Engine) dump(workloads []*workload, members func(*group) []*workload) *Snapshot {
	s := &Snapshot{Version: StateVersion}
	e.dumpModel(s)
	e.history.dump(s)
	e.admissions.dump(s, workloads)
	e.recovery.dump(s)
	e.pending.dump(s, members)
	e.stabilizer.dump(s)
	return s
}

// dumpModel is what the engine was told, workloads left out.
func (m *model) dumpModel(s *Snapshot) {
	s.Nodes, s.Pairs = m.nodes.Specs(), m.forest.Names()
	for _, name := range slices.Sorted(maps.Keys(m.flavors)) {
		s.Flavors = append(s.Flavors, m.flavors[name].spec)
	}
	for _, name := range slices.Sorted(maps.Keys(m.cohorts)) {
		s.Cohorts = append(s.Cohorts, m.cohorts[name])
	}
	for _, name := range slices.Sorted(maps.Keys(m.namespaces)) {
		s.Namespaces = append(s.Namespaces, m.namespaces[name])
	}
	for _, d := range m.sortedLocalQueues() {
		s.LocalQueues = append(
			s.LocalQueues,
			LocalQueueState{
				Namespace: d.key.namespace, Name: d.key.name, Spec: d.spec,
				Relocations: slices.Clone(d.relocations),
			},
		)
	}
	for _, q := range m.sortedQueues() {
		s.Queues = append(
			s.Queues,
			QueueState{Name: q.name, Spec: q.spec},
		)
	}
}

// dump is the past of every LocalQueue.
func (h *history) dump(s *Snapshot) {
	s.Sampled = h.sampled
	for i, d := range h.sortedLocalQueues() {
		if d.past != nil {
			s.LocalQueues[i].Past = &PastState{
				Used:  dumpPast(d.past.used),
				Costs: dumpPast(d.past.costs),
				At:    d.past.at,
			}
		}
	}
}

// dump is what workloads hold, which leave, and for which something is reserved.
func (ad *admissions) dump(s *Snapshot, workloads []*workload) {
	s.DrainAgain = ad.drainAgain
	s.Workloads = make([]WorkloadState, len(workloads))
	for i, w := range workloads {
		s.Workloads[i] = ad.dumpWorkload(w)
	}
	for _, w := range ad.leaving {
		s.Leaving = append(s.Leaving, w.Key)
	}
	for _, p := range ad.reservations {
		s.Reservations = append(s.Reservations, ad.dumpReservation(p))
	}
}

// dump is which workloads are to be moved, and whether one may go on.
func (rc *recovery) dump(s *Snapshot) {
	s.Resumable = rc.resumable || rc.resumedAt != rc.pending.changes
	for _, w := range rc.displaced {
		if rc.workloads[w.Key] == w {
			s.Displaced = append(s.Displaced, w.Key)
		}
	}
}

// dump is what waits where, and what wakes it.
func (pe *pending) dump(s *Snapshot, members func(*group) []*workload) {
	s.NodesFreed, s.NodesNew, s.NodesLost = pe.nodesChanged.freed, pe.nodesChanged.other, pe.nodesChanged.lost
	s.BlockedSeen, s.ReadySeen = pe.blockedGroupsAt == pe.changes, pe.onReadyAt == pe.changes
	for i, q := range pe.sortedQueues() {
		pe.dumpQueue(&s.Queues[i], q, members)
	}
	for _, w := range pe.arrivals {
		if w.inbox && pe.workloads[w.Key] == w && !slices.Contains(s.Arrivals, w.Key) {
			s.Arrivals = append(s.Arrivals, w.Key)
		}
	}
	s.Freed, s.Lent = treeNames(pe.freed), treeNames(pe.lent)
	s.Recheck = treeNames(slices.SortedFunc(maps.Keys(pe.rechecks.seen), compareTrees))
	for _, root := range slices.SortedFunc(maps.Keys(pe.rechecks.at), compareTrees) {
		s.RecheckAt = append(s.RecheckAt, TimedTree{TreeName{root.Name, root.Queue}, pe.rechecks.at[root]})
	}
}

func treeNames(roots []*quota.Node) []TreeName {
	var out []TreeName
	for _, n := range roots {
		out = append(out, TreeName{n.Name, n.Queue})
	}
	return out
}

func dumpPast(m map[string]order.Past) []PastAmount {
	var out []PastAmount
	for _, r := range slices.Sorted(maps.Keys(m)) {
		whole, part := m[r].Parts()
		out = append(out, PastAmount{r, whole, part})
	}
	return out
}

func (pe *pending) dumpQueue(s *QueueState, q *queue, members func(*group) []*workload) {
	for _, g := range q.groups {
		s.Groups = append(s.Groups, pe.dumpGroup(g, members(g)))
	}
	if q.blocker != nil {
		s.Blocker = new(q.blocker.Key)
	}
	for _, w := range q.reserved {
		s.Reserved = append(s.Reserved, w.Key)
	}
	if q.slot > 0 {
		s.Head = pe.turns.dump(q)
	}
}

func (m *model) dumpUses(uses []quota.Use) []PairAmount {
	var out []PairAmount
	for _, u := range uses {
		out = append(out, PairAmount{m.forest.Name(u.Pair), u.Amount})
	}
	return out
}

func (pe *pending) dumpGroup(g *group, members []*workload) GroupState {
	s := GroupState{
		Parked: g.parked, OnNodes: g.onNodes > 0, LacksNodes: g.lacksNodes,
		Blocked: g.blockedByReservation > 0, OnReady: g.onReady, Why: g.why, Told: g.reported,
		Unjudged: g.unreported,
	}
	for _, x := range g.blockedPairs {
		s.BlockedPairs = append(s.BlockedPairs, PairAmount{pe.forest.Name(x.pair), x.need})
	}
	for _, w := range members {
		s.Members = append(s.Members, w.Key)
	}
	slices.SortFunc(s.Members, core.Key.Compare)
	for _, w := range g.newcomers {
		if w.group == g && w.unreported && !slices.Contains(s.Fresh, w.Key) {
			s.Fresh = append(s.Fresh, w.Key)
		}
	}
	if p := g.plan; p != nil {
		s.Plan = PlanState{Compiled: true, Current: p.revision == pe.revision}
		if s.Plan.Current { // else the rest is not looked at
			s.Plan.NodesCurrent, s.Plan.Bound = p.nodes == pe.nodes.Version(), g.bound == p
		}
	}
	if s.Plan.Bound {
		for _, x := range g.shorts {
			s.Shorts = append(s.Shorts, PairAmount{pe.forest.Name(x.pair), x.need})
		}
	}
	return s
}

func (ad *admissions) dumpWorkload(w *workload) WorkloadState {
	d := w.obs.details()
	s := WorkloadState{
		Key:        w.Key,
		UID:        w.UID,
		Job:        w.obs.job,
		Endless:    w.obs.endless,
		LocalQueue: w.localQueue.key.name,
		Priority:   w.Priority,
		Gate:       w.equivalence.gate,
		Time:       w.Time,
		PodSets:    w.equivalence.podSets,
		Held:       d.held,
		Invalid:    d.invalid,
		GatedBy:    d.gatedBy,
		NotBefore:  d.notBefore,
		Admitted:   w.obs.admitted,
		Ready:      w.obs.ready,
		Evicting:   w.obs.evicting,
		Settled:    d.settled,
		Ended:      d.ended,

		MinimumRuntime: d.minimum,
		Relocated:      w.relocated,
		Next:           w.inherited,
		Interrupted:    w.Interrupted,
		Interruption:   d.interruption,

		Phase:    uint8(w.State()),
		Reserved: w.Reserved,
		Spare:    w.spare,
		Timed:    w.timer != nil,
		Told:     w.reported,
	}
	if w.Saves != nil {
		s.Saved, s.SavesEvery = w.Saves.At, w.Saves.Every
	}
	w.dumpGrant(&s)
	if w.relocation != nil {
		s.RelocatedTo = w.relocation.admission
	}
	if w.deadline != nil {
		s.Deadline = w.deadline.at
	}
	if w.charged != nil {
		s.Charged, s.Costs = core.Key{
			Namespace: w.charged.key.namespace,
			Name:      w.charged.key.name,
		}, dumpPast(
			w.costs,
		)
	}
	s.Filters = ad.dumpFilters(w)
	return s
}

// dumpFilters lists the pod sets whose nodes are held under an older filter than
// their flavors have now. Holds are in the order of holdsOf.
func (ad *admissions) dumpFilters(w *workload) []FilterState {
	var out []FilterState
	holds, ended := w.Holds, w.obs.details().ended
	for i := 0; len(holds) > 0; i++ {
		p := &w.admission.PodSets[i]
		n := 0
		for _, pl := range p.Places {
			if pl.Count > core.PodsAt(ended, p.Name, pl.Node) {
				n++
			}
		}
		set := w.equivalence.podSet(p.Name)
		if set < 0 || n == 0 {
			continue
		}
		was, is := holds[0].Class.Filter(), ad.filter(w.equivalence, set, p.FlavorNames())
		if !was.Equal(is) {
			out = append(out, FilterState{p.Name, was})
		}
		holds = holds[n:]
	}
	return out
}

func (ad *admissions) dumpReservation(p *reservation) ReservationState {
	s := ReservationState{Key: p.workload.Key, Evicted: p.evicted, Relocates: p.relocates}
	for _, w := range ad.leaving {
		for _, o := range w.awaitedBy {
			if o == p {
				s.Waits = append(s.Waits, w.Key)
			}
		}
	}
	return s
}
