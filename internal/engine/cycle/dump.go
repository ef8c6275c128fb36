package cycle

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/order"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// StateVersion is the version of State. It grows when an old state would be
// loaded with another meaning.
const StateVersion = 2

// State is everything that an engine knows, as values: an engine that loads it
// decides from there on what the one that dumped it decides, to the byte. What
// can be computed from the rest is left out; state_test.go says for every field
// of the engine which it is. Lists are sorted unless they say otherwise. The
// values are shared with the engine and with others: treat them as read-only.
type State struct {
	Version int
	// Pairs are all flavors and resources ever named together, in that order.
	Pairs      []core.FlavorResource
	Flavors    []core.Flavor
	Cohorts    []core.Cohort
	Namespaces []core.Namespace
	Nodes      []core.Node
	Doors      []DoorState
	Queues     []QueueState
	Works      []WorkState
	// Leaving and Reservations are in the order in which they began, Arrivals and
	// Displaced in that in which they are looked at.
	Leaving   []core.Key
	Pledges   []PledgeState
	Arrivals  []core.Key
	Displaced []core.Key
	// Freed, Lent and Recheck are trees, in the order in which they are looked at.
	Freed, Lent, Recheck []TreeName
	NodesFreed, NodesNew bool
	Facts                bool
	// ContestedSeen and ReadySeen say that nothing changed since groups that wait
	// for head reservations, or for pods, were looked at.
	ContestedSeen, ReadySeen bool
	// Sampled is when past usage was counted last.
	Sampled time.Time
}

// DoorState is a LocalQueue; Spec is nil if it is only named.
type DoorState struct {
	Namespace, Name string
	Spec            *core.LocalQueue
	Past            *PastState
}

// PastState is what a LocalQueue used in the past, and when that was counted.
type PastState struct {
	Used, Costs []PastAmount
	At          time.Time
}

// PastAmount is past usage of a resource: base units and 2^-64 parts of one.
type PastAmount struct {
	Resource string
	Whole    uint64
	Part     uint64
}

// QueueState is a ClusterQueue; Spec is nil if it is only named.
type QueueState struct {
	Name string
	Spec *core.Queue
	// Groups are in the engine's order, in which it tells them why they wait.
	Groups   []GroupState
	Blocker  *core.Key
	Promised []core.Key
	// Head is set while the queue has a first workload to be judged: after a
	// Decide, only if that ran out of budget.
	Head *HeadState
}

// HeadState is how far the first workload of a queue would borrow, as far as it
// is known. With fair sharing every Decide finds that out afresh.
type HeadState struct {
	Level int
	// Ranked says that the queue's place goes by its first workload, in queues
	// where it may also go by the best that could be behind it.
	Ranked bool
	// Pinned says that Counts and Firm tell whether Level still holds.
	Pinned bool
	Counts []PairAmount
	Firm   bool
}

// PairAmount is an amount of a resource in a flavor.
type PairAmount struct {
	core.FlavorResource
	Amount core.Amount
}

// GroupState is the waiting workloads of one equivalence class.
type GroupState struct {
	// Members are sorted; Fresh are those who were not told why they wait, in the
	// engine's order.
	Members []core.Key
	Fresh   []core.Key
	Parked  bool
	Shorts  []PairAmount
	Plan    PlanState
	// OnNodes says that it waits for nodes too, Contested that it waits for the end
	// of head reservations, OnReady for the pods of others.
	OnNodes, LacksNodes bool
	Contested, OnReady  bool
	Contests            []PairAmount
	Why, Told           *core.Reason
}

// PlanState says how current a group's compiled plan is.
type PlanState struct {
	Compiled bool
	// Current holds for edits, NodesCurrent for the set of nodes; Bound says that
	// the group's shorts were found for this plan.
	Current, NodesCurrent, Bound bool
}

// WorkState is a workload as observed and as decided.
type WorkState struct {
	Key      core.Key
	UID      string
	Door     string
	Priority int64
	// Gate, if closed, forbids to evict.
	Gate string
	// Time is the queue time in nanoseconds since 1970.
	Time      int64
	PodSets   []core.PodSet
	Held      string
	Invalid   string
	GatedBy   string
	NotBefore time.Time
	Admitted  bool
	Ready     bool
	Evicting  bool
	Settled   []core.PodSetPlaces
	Ended     []core.PodSetPlaces

	Phase     uint8
	Admission *core.Admission
	// Seen is the last admission that was observed, left out if it is Admission;
	// SeenSame says so.
	Seen     *core.Admission
	SeenSame bool
	// Filters are those of pods that were placed before their flavors changed.
	Filters  []FilterState
	Assumed  bool
	Unseen   bool
	Ordered  bool
	Moved    bool
	Applied  uint64
	Seq      uint64
	Reserved int64
	Spare    []core.Key
	// Timed says that the end of a back-off is waited for; Deadline is when the
	// admission must have been seen, zero if nobody waits for that.
	Timed    bool
	Deadline time.Time
	// Charged is the LocalQueue that Costs are charged to; zero if none is.
	Charged core.Key
	Costs   []PastAmount
	Told    *core.Reason
}

// FilterState is which nodes the pods of a pod set could use when they were
// placed.
type FilterState struct {
	PodSet string
	Filter core.Filter
}

// PledgeState is a reservation, whom it waits for, and whether somebody was evicted
// for it.
type PledgeState struct {
	Key     core.Key
	Waits   []core.Key
	Evicted bool
}

// TreeName names the root of a tree: a cohort, or a queue without one.
type TreeName struct {
	Name  string
	Queue bool
}

// ErrUnsettled says that edits of queues, cohorts, flavors or namespaces wait for
// the next Decide: a state cannot be dumped in between.
var ErrUnsettled = errors.New("edits wait for a decision")

// Dump returns everything that the engine knows. It fails with ErrUnsettled
// between an edit and the next Decide. It takes microseconds per workload and
// changes nothing.
func (e *Engine) Dump() (*State, error) {
	if e.edited || e.forest.Dirty() {
		return nil, ErrUnsettled
	}
	all := slices.SortedFunc(maps.Values(e.workloads), func(a, b *workload) int { return a.Key.Compare(b.Key) })
	return e.dump(all, func(g *group) []*workload { return slices.Clone(g.members.Items()) }), nil
}

// dump is Dump with some of the workloads, sorted by key: of those that wait in groups
// at least one of each, and of all others whoever is named elsewhere.
func (e *Engine) dump(workloads []*workload, members func(*group) []*workload) *State {
	s := &State{
		Version: StateVersion, NodesFreed: e.nodesFreed, NodesNew: e.nodesNew, Facts: e.facts, Sampled: e.sampled,
		ContestedSeen: e.blockedGroupsAt == e.changes, ReadySeen: e.onReadyAt == e.changes, Nodes: e.nodes.Specs(),
		Pairs: e.forest.Names(),
	}
	for _, name := range slices.Sorted(maps.Keys(e.flavors)) {
		s.Flavors = append(s.Flavors, e.flavors[name].spec)
	}
	for _, name := range slices.Sorted(maps.Keys(e.cohorts)) {
		s.Cohorts = append(s.Cohorts, e.cohorts[name])
	}
	for _, name := range slices.Sorted(maps.Keys(e.namespaces)) {
		s.Namespaces = append(s.Namespaces, e.namespaces[name])
	}
	for _, d := range e.sortedLocalQueues() {
		ds := DoorState{Namespace: d.key.namespace, Name: d.key.name, Spec: d.spec}
		if d.past != nil {
			ds.Past = &PastState{Used: dumpPast(d.past.used), Costs: dumpPast(d.past.costs), At: d.past.at}
		}
		s.Doors = append(s.Doors, ds)
	}
	for _, q := range e.sortedQueues() {
		s.Queues = append(s.Queues, e.dumpQueue(q, members))
	}
	s.Works = make([]WorkState, len(workloads))
	for i, w := range workloads {
		s.Works[i] = e.dumpWorkload(w)
	}
	for _, w := range e.leaving {
		s.Leaving = append(s.Leaving, w.Key)
	}
	for _, p := range e.reservations {
		s.Pledges = append(s.Pledges, e.dumpReservation(p))
	}
	for _, w := range e.arrivals {
		if w.inbox && e.workloads[w.Key] == w && !slices.Contains(s.Arrivals, w.Key) {
			s.Arrivals = append(s.Arrivals, w.Key)
		}
	}
	for _, w := range e.displaced {
		if e.workloads[w.Key] == w {
			s.Displaced = append(s.Displaced, w.Key)
		}
	}
	s.Freed, s.Lent = treeNames(e.freed), treeNames(e.lent)
	s.Recheck = treeNames(slices.Collect(maps.Keys(e.recheck)))
	slices.SortFunc(s.Recheck, func(a, b TreeName) int {
		switch {
		case a.Name != b.Name || a.Queue == b.Queue:
			return cmp.Compare(a.Name, b.Name)
		case a.Queue:
			return 1
		}
		return -1
	})
	return s
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

func (e *Engine) dumpQueue(q *queue, members func(*group) []*workload) QueueState {
	s := QueueState{Name: q.name, Spec: q.spec}
	for _, g := range q.groups {
		s.Groups = append(s.Groups, e.dumpGroup(g, members(g)))
	}
	if q.blocker != nil {
		s.Blocker = new(q.blocker.Key)
	}
	for _, w := range q.reserved {
		s.Promised = append(s.Promised, w.Key)
	}
	if q.slot > 0 {
		s.Head = e.dumpHead(q)
	}
	return s
}

func (e *Engine) dumpHead(q *queue) *HeadState {
	if e.opt.FairSharing != nil {
		return &HeadState{}
	}
	s := &HeadState{Level: q.head.Level, Ranked: q.head.Key == q.first().turn()}
	// Who goes by its own place without borrowing, or by the best that could be
	// behind it, is listed at most since an earlier turn, and nobody looks at that.
	if s.Level == 0 && (!q.byUsage || !s.Ranked) {
		return s
	}
	if s.Pinned = slices.Contains(e.borrowers[q.node.Root()], q); s.Pinned {
		s.Firm, s.Counts = q.firm, e.dumpUses(q.counts)
	}
	return s
}

func (e *Engine) dumpUses(uses []quota.Use) []PairAmount {
	var out []PairAmount
	for _, u := range uses {
		out = append(out, PairAmount{e.forest.Name(u.Pair), u.Amount})
	}
	return out
}

func (e *Engine) dumpGroup(g *group, members []*workload) GroupState {
	s := GroupState{
		Parked: g.parked, OnNodes: g.onNodes > 0, LacksNodes: g.lacksNodes,
		Contested: g.blockedByReservation > 0, OnReady: g.onReady, Why: g.why, Told: g.told,
	}
	for _, x := range g.blockedPairs {
		s.Contests = append(s.Contests, PairAmount{e.forest.Name(x.pair), x.need})
	}
	for _, w := range members {
		s.Members = append(s.Members, w.Key)
	}
	slices.SortFunc(s.Members, core.Key.Compare)
	for _, w := range g.fresh {
		if w.group == g && w.unsaid && !slices.Contains(s.Fresh, w.Key) {
			s.Fresh = append(s.Fresh, w.Key)
		}
	}
	if p := g.plan; p != nil {
		s.Plan = PlanState{Compiled: true, Current: p.revision == e.revision}
		if s.Plan.Current { // else nobody looks at the rest
			s.Plan.NodesCurrent, s.Plan.Bound = p.nodes == e.nodes.Version(), g.bound == p
		}
	}
	if s.Plan.Bound {
		for _, x := range g.shorts {
			s.Shorts = append(s.Shorts, PairAmount{e.forest.Name(x.pair), x.need})
		}
	}
	return s
}

func (e *Engine) dumpWorkload(w *workload) WorkState {
	d := w.obs.details()
	s := WorkState{
		Key: w.Key, UID: w.UID, Door: w.obs.localQueue, Priority: w.Priority, Gate: w.equivalence.gate,
		Time: w.Time, PodSets: w.equivalence.podSets, Held: d.held, Invalid: d.invalid, GatedBy: d.gatedBy,
		NotBefore: d.notBefore, Admitted: w.obs.admitted, Ready: w.obs.ready, Evicting: w.obs.evicting, Settled: d.settled, Ended: d.ended,
		Phase: uint8(w.phase), Admission: w.admission, SeenSame: identical(w.seen, w.admission),
		Assumed: w.assumed, Unseen: w.Unseen, Ordered: w.ordered, Moved: w.moved, Applied: w.applied, Seq: w.seq, Reserved: w.Reserved,
		Spare: w.spare, Timed: w.timer != nil, Told: w.told,
	}
	if !s.SeenSame {
		s.Seen = w.seen
	}
	if w.deadline != nil {
		s.Deadline = w.deadline.at
	}
	if w.charged != nil {
		s.Charged, s.Costs = core.Key{Namespace: w.charged.key.namespace, Name: w.charged.key.name}, dumpPast(w.costs)
	}
	s.Filters = e.dumpFilters(w)
	return s
}

// identical reports whether two admissions are the same to the byte: in the API
// an empty list is none, and what was written may come back that way.
func identical(a, b *core.Admission) bool {
	if a == nil || !sameAdmission(a, b) || (a.PodSets == nil) != (b.PodSets == nil) {
		return false
	}
	for i := range a.PodSets {
		x, y := &a.PodSets[i], &b.PodSets[i]
		if (x.Flavors == nil) != (y.Flavors == nil) || (x.Usage == nil) != (y.Usage == nil) || (x.Places == nil) != (y.Places == nil) {
			return false
		}
	}
	return true
}

// dumpFilters lists the pod sets whose nodes are held under an older filter than
// their flavors have now. Holds are in the order of holdsOf.
func (e *Engine) dumpFilters(w *workload) []FilterState {
	var out []FilterState
	holds, ended := w.Holds, w.obs.details().ended
	for i := 0; len(holds) > 0; i++ {
		p := &w.admission.PodSets[i]
		n := 0
		for _, pl := range p.Places {
			if pl.Count > podsAt(ended, p.Name, pl.Node) {
				n++
			}
		}
		set := w.equivalence.podSet(p.Name)
		if set < 0 || n == 0 {
			continue
		}
		if was := holds[0].Class.Filter(); !sameFilter(was, e.filter(w.equivalence, set, p.FlavorNames())) {
			out = append(out, FilterState{p.Name, was})
		}
		holds = holds[n:]
	}
	return out
}

func sameFilter(a, b core.Filter) bool {
	if len(a.Terms)+len(b.Terms)+len(a.Must)+len(b.Must) == 0 && slices.Equal(a.Tolerations, b.Tolerations) {
		return true // as it is for most
	}
	var x, y strings.Builder
	place.FilterKey(&x, a)
	place.FilterKey(&y, b)
	return x.String() == y.String()
}

func (e *Engine) dumpReservation(p *reservation) PledgeState {
	s := PledgeState{Key: p.workload.Key, Evicted: p.evicted}
	for _, w := range e.leaving {
		for _, o := range w.awaitedBy {
			if o == p {
				s.Waits = append(s.Waits, w.Key)
			}
		}
	}
	return s
}
