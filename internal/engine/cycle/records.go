package cycle

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/order"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/preempt"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Where a workload stands is the state of its allocation.
const (
	waiting  = ledger.Free
	reserved = ledger.Promised // its plan is reserved, victims must first go
	running  = ledger.Held     // admitted
	leaving  = ledger.Leaving  // evicted, still holding quota and nodes
)

// workload is one workload, with what each room keeps of it.
type workload struct {
	preempt.Candidate // what it holds, while running or leaving, or what is reserved for it

	// Of the model.
	obs         observed
	equivalence *equivalence
	localQueue  *localQueue
	at          int32 // in localQueue.workloads

	// Of admissions.
	grant
	// spare are the workloads that this one was evicted for, and those they must
	// spare in turn, sorted; spareKey is the same as text, "" until it is needed.
	// One that evicts is spared by its victims, so that no circle of evictions goes
	// round twice.
	spare    []core.Key
	spareKey string
	// deadline is when its admission must have been seen, while it was not.
	deadline    *timer
	reservation *reservation
	// relocation is what is held for it elsewhere while it leaves; relocated is when it was made to go elsewhere, in
	// seconds, 0 for never.
	relocation *relocation
	relocated  int64
	// inherited is what an engine before this one held for it, until the first Decide.
	inherited *core.Admission
	// awaitedBy are the reservations that wait for this workload to be gone.
	awaitedBy []*reservation
	listed    bool // in recovery.displaced

	unready bool // counted in model.unready

	// Of pending, as long as it waits.
	counted    bool // in localQueue.held
	unreported bool // in group.newcomers
	inbox      bool // in pending.arrivals

	shifted bool // in stabilizer.shifted

	group    *group
	slot     int // in the group's heap
	timer    *timer
	reported *core.Reason // why it waits, as it was reported last

	// Of history: charged is the local queue that pays its costs, until it is admitted.
	charged *localQueue
	costs   map[string]order.Past
}

// turn is a workload's place in its queue.
func (w *workload) turn() order.Key { return order.Key{Priority: w.Priority, Time: w.Time, UID: w.UID} }

// observed is the part of core.Workload that is kept.
type observed struct {
	job      string
	admitted bool
	ready    bool
	evicting bool
	endless  bool
	// rest is nil for most waiting workloads: there may be millions of them.
	rest *details
}

// details are what few workloads have.
type details struct {
	held      string
	invalid   string
	gatedBy   string
	notBefore time.Time
	settled   []core.PodSetPlaces
	ended     []core.PodSetPlaces
	minimum   *time.Duration // runtime
	// interruption is how far it is, as observed.
	interruption core.Interruption
}

// details returns what was observed, empty if there is nothing of the kind.
func (o *observed) details() details {
	if o.rest == nil {
		return details{}
	}
	return *o.rest
}

// keep notes what was observed.
func (o *observed) keep(d details) {
	o.rest = nil
	if !d.empty() {
		rest := d // a copy, so that only these cost memory
		o.rest = &rest
	}
}

func (d *details) empty() bool {
	return d.held == "" && d.invalid == "" && d.gatedBy == "" && d.notBefore.IsZero() && d.settled == nil &&
		d.ended == nil && d.minimum == nil && d.interruption == core.NotInterrupted
}

// bars reports whether the workload must not be considered, whatever the time.
func (d *details) bars() bool { return d.held != "" || d.invalid != "" || d.gatedBy != "" }

func detailsOf(o *core.Workload) details {
	return details{
		held:      o.Held,
		invalid:   o.Invalid,
		gatedBy:   o.GatedBy,
		notBefore: o.NotBefore,
		settled:   o.Settled,
		ended:     o.Ended,
		minimum:   o.MinimumRuntime,

		interruption: o.Interruption,
	}
}

// Before orders waiting workloads of a queue.
func (w *workload) Before(o *workload) bool {
	if a, b := w.localQueue.stands, o.localQueue.stands; a != b && a != nil && b != nil {
		if c := a.Compare(*b); c != 0 {
			return c < 0
		}
	}
	if c := w.turn().Compare(o.turn()); c != 0 {
		return c < 0
	}
	return w.Key.Compare(o.Key) < 0
}

// Slot is the position in the group's heap.
func (w *workload) Slot() *int { return &w.slot }

// timer is the end of a back-off.
type timer struct {
	workload *workload
	at       time.Time
	slot     int
}

// Before orders timers by time.
func (t *timer) Before(o *timer) bool {
	if c := t.at.Compare(o.at); c != 0 {
		return c < 0
	}
	return t.workload.Key.Compare(o.workload.Key) < 0
}

// Slot is the position in the heap of timers.
func (t *timer) Slot() *int { return &t.slot }

// flavor is a flavor's spec.
type flavor struct{ spec core.Flavor }

// queue is a ClusterQueue; without spec it is only named.
type queue struct {
	name        string
	spec        *core.Queue
	node        *quota.Node
	closed      *core.Reason // why nothing may be admitted
	localQueues []*localQueue
	groups      []*group
	byKey       map[groupKey]*group
	active      order.Heap[*group]
	head        order.Head
	slot        int // among the heads of turns
	// counts is the quota by which the head's level was found; stable says that the
	// level cannot get better while there is room for it.
	counts []quota.Use
	stable bool
	// With fair sharing: node is the queue's place in the tournament; exact says
	// that the head plays with counts and not with nothing; stale that its matches
	// have to be played again.
	tournamentNode *tournamentNode
	exact, stale   bool
	headSettled    bool // in tournament.pinned
	// blocker is the first workload of a StrictFIFO queue when it was refused:
	// none may pass it. reserved are its workloads with a reservation, which wait for their victims.
	blocker  *workload
	reserved []*workload
	// lookedBehind is pending.wakes when what is parked behind the first was recalled.
	lookedBehind uint64
	// reserving counts workloads that hold quota here, evicting those of them that
	// were evicted.
	reserving, evicting int
	// byUsage says that groups are of one local queue each.
	byUsage bool
	// Of stabilizer: unsettled is since when its tree changes; touched says that it is listed
	// there since the last Decide, edited that nothing of its tree is judged for that;
	// wouldEvict that its first would evict others.
	unsettled                   unsettled
	touched, edited, wouldEvict bool
}

// Before orders queues by their heads.
func (q *queue) Before(o *queue) bool {
	if c := q.head.Compare(o.head); c != 0 {
		return c < 0
	}
	return q.name < o.name
}

// Slot is the position among the heads.
func (q *queue) Slot() *int { return &q.slot }

func (q *queue) first() *workload { return q.active.First().members.First() }

// ahead returns the workload that a StrictFIFO queue must admit first although
// it cannot now; nil if the queue's first may be judged.
func (q *queue) ahead() *workload {
	if q.blocker != nil || !q.strict() || q.active.Len() == 0 {
		return q.blocker
	}
	for _, p := range q.reserved {
		if p.Before(q.first()) {
			return p
		}
	}
	return nil
}

// reclaims reports whether workloads of the queue may take quota back from other queues.
func (q *queue) reclaims() bool { return q.spec != nil && preempt.Allows(q.spec.Preemption.Reclaim) }

func (q *queue) strict() bool { return q.spec != nil && q.spec.Strategy == core.StrictFIFO }

// groupKey tells groups apart. What a workload must spare is part of it, because
// others may evict that one.
type groupKey struct {
	equivalence *equivalence
	spare       string
	// localQueue is set in ClusterQueues that order by past usage, where all workloads of a LocalQueue
	// stand at the same place.
	localQueue *localQueue
}

// group is the workloads of one equivalence class that wait in a queue. They are refused
// together: what is true of one is true of all.
type group struct {
	queue       *queue
	key         groupKey
	equivalence *equivalence
	members     order.Heap[*workload]
	slot        int // in queue.active
	index       int // in queue.groups
	plan        *compiled
	// Parked groups wait for quota, nodes, or both.
	parked     bool
	shorts     []short
	bound      *compiled // the plan for which shorts was found
	onNodes    int       // position in pending.onNodes plus one
	lacksNodes bool      // it was nodes that failed, with some flavor at least
	// blockedPairs are the pairs that others have reserved, blockedByReservation the position in
	// pending.blockedGroups plus one.
	blockedPairs         []blockedPair
	blockedByReservation int
	onReady              bool // in pending.onReady
	// why is the last refusal, reported what was reported of members, newcomers members of which
	// nothing was reported yet.
	why        *core.Reason
	reported   *core.Reason
	newcomers  []*workload
	unreported bool // in pending.unreported or unjudged
}

// short is a pair that a parked group found too scarce.
type short struct {
	pair quota.FlavorResource
	need core.Amount
}

// Before orders a queue's groups by their first members.
func (g *group) Before(o *group) bool { return g.members.First().Before(o.members.First()) }

// considered reports whether the group counts as one that is looked at. So does a
// parked one that will have what it asks for as soon as another is gone, or that
// a head reservation of another queue keeps from it: in Kueue it stays in the queue, and there is
// nothing that has to change first. So does all that waits in a StrictFIFO queue.
func (g *group) considered() bool {
	if !g.parked || g.queue.spec != nil && g.queue.spec.Strategy == core.StrictFIFO {
		return true
	}
	return g.why != nil && (g.why.Code == core.WaitingForPreempted || g.why.Cause == core.QuotaClaimed)
}

// Slot is the position among the queue's active groups.
func (g *group) Slot() *int { return &g.slot }

type localQueueKey struct{ namespace, name string }

// localQueue is a LocalQueue. Its spec is nil while workloads or admissions name a LocalQueue that does
// not exist.
type localQueue struct {
	key       localQueueKey
	spec      *core.LocalQueue
	queue     *queue
	closed    *core.Reason
	workloads []*workload      // in no order
	counts    [leaving + 1]int // workloads by state
	held      int              // how many waiting ones must not be admitted
	// relocations are when workloads of it were relocated lately, in seconds, sorted.
	relocations []int64
	// past is what it used, stands where it stands in a queue that goes by usage;
	// nil in others.
	past   *past
	stands *core.UsageRank
}

// sorted returns the local queue's workloads in a stable order.
func (d *localQueue) sorted() []*workload {
	out := slices.Clone(d.workloads)
	slices.SortFunc(out, compareWorkloads)
	return out
}

// add lists a workload.
func (d *localQueue) add(w *workload) {
	w.at = int32(len(d.workloads)) //nolint:gosec // workloads fit in 31 bits
	d.workloads = append(d.workloads, w)
}

// remove takes a workload off the list; the last takes its place.
func (d *localQueue) remove(w *workload) {
	last := len(d.workloads) - 1
	moved := d.workloads[last]
	d.workloads[w.at], moved.at = moved, w.at
	d.workloads[last] = nil
	d.workloads = d.workloads[:last]
}

// countHeld counts a workload of the local queue, in a state, if it waits and must not be admitted.
func (d *localQueue) countHeld(w *workload, as ledger.AllocationState) {
	held := as == waiting && w.obs.rest != nil && w.obs.rest.held != ""
	switch {
	case held == w.counted:
	case held:
		d.held++
	default:
		d.held--
	}
	w.counted = held
}

// uncountHeld takes that back of a workload that leaves the local queue.
func (d *localQueue) uncountHeld(w *workload) {
	if w.counted {
		d.held--
	}
	w.counted = false
}

// compareWorkloads is the order of a queue, for any set of workloads.
func compareWorkloads(a, b *workload) int {
	return cmp.Or(a.turn().Compare(b.turn()), a.Key.Compare(b.Key))
}

// equivalence is a class of workloads with the same priority, preemption gate and pod sets. What one of
// them gets or is refused in a queue, each of the others there would, so that they are judged together.
// Workloads of the same class share one record. A minimum tells classes apart even where no pod can be left out:
// once such a workload has stopped, it may ask for more pods.
type equivalence struct {
	key      string
	refs     int
	priority int64
	// gate, if closed, forbids to evict.
	gate    string
	podSets []core.PodSet
	classes map[string]*place.Class
	// last is an admission of the equivalence class, uses what it counts against quota, kinds
	// what its pod sets are on nodes, nil until that is asked for.
	last  *core.Admission
	uses  []quota.Use
	kinds []*place.Class
}

func equivalenceKey(w *core.Workload) string {
	var b strings.Builder
	b.WriteString(strconv.Itoa(int(w.Priority)))
	if w.PreemptionGate != "" {
		b.WriteString("!" + strconv.Quote(w.PreemptionGate))
	}
	for _, p := range w.PodSets {
		b.WriteString("[" + strconv.Quote(p.Name) + strconv.Itoa(int(p.Count)))
		if p.MinCount > 0 {
			b.WriteString("-" + strconv.Itoa(int(p.MinCount)))
		}
		if p.Group != "" {
			b.WriteString("@" + strconv.Quote(p.Group))
		}
		for _, parent := range p.Parents {
			b.WriteString(">" + strconv.Quote(parent))
		}
		for _, q := range p.Requests {
			b.WriteString(strconv.Quote(q.Resource) + strconv.FormatInt(int64(q.Amount), 10))
		}
		if p.Quota != nil {
			b.WriteString("=")
			for _, q := range p.Quota {
				b.WriteString(strconv.Quote(q.Resource) + strconv.FormatInt(int64(q.Amount), 10))
			}
		}
		c := p.Constraints()
		c.Key(&b)
	}
	return b.String()
}

// describes reports whether a workload is of the equivalence class: whether equivalenceKey would be
// the same, without making it. Most states that are observed change nothing of it.
func (s *equivalence) describes(w *core.Workload) bool {
	return s.priority == w.Priority && s.gate == w.PreemptionGate &&
		slices.EqualFunc(s.podSets, w.PodSets, samePodSet)
}

func samePodSet(a, b core.PodSet) bool {
	x, y := a.Constraints(), b.Constraints()
	return a.Name == b.Name && a.Count == b.Count && a.Group == b.Group && a.MinCount == b.MinCount &&
		slices.Equal(a.Parents, b.Parents) && slices.Equal(a.Requests, b.Requests) &&
		(a.Quota == nil) == (b.Quota == nil) && slices.Equal(a.Quota, b.Quota) && x.Equal(&y)
}

// compiled is an equivalence class's requests in terms of one queue: what flavor assignment
// and placement work on.
type compiled struct {
	quota.CompiledRequests
	revision uint64 // of the engine's edits
	nodes    uint64 // version of the nodes
	// refusal is set when the queue can never serve the equivalence class.
	refusal *core.Reason
	// classes are, per ask and option, the kind of pod that the option's flavor
	// makes of the pod set; nil if no nodes are looked for.
	classes [][]*place.Class
	// single says that there is one flavor for everything.
	single bool
	// sure says that room in quota and on the nodes of each flavor is all that an
	// admission needs.
	sure bool
	// shared says that several pod sets use the same pair.
	shared bool
	// headReservation is what is reserved for the equivalence class as the first of its queue; over says that it
	// is larger than the nominal quota.
	headReservation []quota.Use
	over            bool
	// joint are asks that have to get the same flavor, in lists of two at least.
	joint [][]int
	// asks are the indices of each pod set's asks.
	asks [][]int
	// fixed is what it uses if single.
	fixed []quota.Use
	// pairs are all that some flavor would use, in a stable order.
	pairs []quota.FlavorResource
	// counts are the pods per pod set: those of the equivalence class, or fewer.
	counts []int32
	// emptied is whether empty nodes would hold the pod sets, by the flavors for which
	// that was asked.
	emptied []emptied
	// least is the plan for as few pods as possible, nil until it is asked for.
	least *compiled
}

// verdict is what was found out about one workload. It changes nothing yet, and holds
// until the next judgement.
type verdict struct {
	kind verdictKind
	// plan is what was tried last: of an admission or a reservation, what is given.
	plan *compiled
	// assigned are the flavors of the plan, sets the pods that need nodes with them, spots
	// the nodes of each.
	assigned *quota.Assignment
	sets     []place.Set
	spots    [][]place.Spot
	// victims must go first; empty if others that already leave suffice.
	victims []preempt.Victim
	// moves must go elsewhere first; empty where others have to leave.
	moves []move
	// why is the reason of a refusal, or to wait for victims; ahead the workload for which
	// that is reserved which the reason says is short.
	why   *core.Reason
	ahead *workload
	// met is the judge's own, like what else is shared with it.
	met *obstacles
}

// stops reports whether others are stopped by it.
func (v *verdict) stops() bool { return len(v.victims)+len(v.moves) > 0 }

// reservation is a complete plan, quota and nodes, held for a workload until those
// that must first go are gone. It is booked in account Projected, so that none,
// least of all a victim, can take it; that makes loops impossible. It ends when
// it is carried out, when the workload leaves, or when it does not fit any more.
type reservation struct {
	workload *workload
	// pendingVictims counts workloads that must be gone before it is carried out.
	pendingVictims int
	// evicted says that some of them were evicted for it. Else it counts on workloads that left
	// anyway.
	evicted bool
	// relocates says that some of them are relocated for it, or that it is itself: then it outlives this engine.
	relocates bool
}

// next is what is held for a workload and has to be written down.
func (w *workload) next() *core.Admission {
	if w.reservation == nil || !w.reservation.relocates {
		return nil
	}
	return w.admission
}

func sameAdmission(a, b *core.Admission) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Queue == b.Queue && slices.EqualFunc(a.PodSets, b.PodSets, func(x, y core.PodSetAdmission) bool {
		return x.Name == y.Name && x.Count == y.Count && slices.Equal(x.Flavors, y.Flavors) &&
			slices.Equal(x.Usage, y.Usage) && slices.Equal(x.Places, y.Places)
	})
}

// identical reports whether two admissions are the same to the byte: in the API
// an empty list is none, and what was written may come back that way.
func identical(a, b *core.Admission) bool {
	if a == nil || !sameAdmission(a, b) || (a.PodSets == nil) != (b.PodSets == nil) {
		return false
	}
	for i := range a.PodSets {
		x, y := &a.PodSets[i], &b.PodSets[i]
		if (x.Flavors == nil) != (y.Flavors == nil) || (x.Usage == nil) != (y.Usage == nil) ||
			(x.Places == nil) != (y.Places == nil) {
			return false
		}
	}
	return true
}
