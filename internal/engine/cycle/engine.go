// Package cycle is the decision engine: events in, a plan out. One picture of
// the world decides quota, nodes and preemption together.
//
// The main path is Engine.Decide. Everything else keeps the picture current
// (apply.go), judges one workload (judge.go), carries a verdict out
// (commit.go), keeps refused work out of the way until what it waits for
// changes (park.go), holds plans whose victims must first go
// (reservation.go), keeps a StrictFIFO queue's own quota for its first workload
// (headreservation.go), and moves pods off lost nodes (move.go).
//
// What Kueue keeps from one scheduling cycle to the next has no counterpart here.
// Its LastAssignment remembers which flavors of a workload were tried, so that the
// next cycle goes on with the others; here one judgement tries them all, in the
// same order and with the same preferences, and takes the first that will do, so
// that a workload waits only if none does. Its sticky head, which keeps a workload
// in front while its victims go, is the reservation. Where it requeues a workload at
// once, because another took its place within the cycle, Decide has not ended yet.
// The queue time comes with the workload: its creation, or its eviction where the
// rules say so. Back-offs are timers; a workload whose
// LocalQueue changes moves to the other queue, and keeps its time.
//
// The engine is pure: no clock, no I/O, no goroutines, and no decision depends
// on the order of a map. The same events give the same plan.
//
// Invariants, checked by Check:
//   - what the ledger has on its books is what the phases of workloads say;
//   - what is reserved fits into account Projected: nobody else can take it;
//   - every waiting workload is in one group, or told why it is in none.
package cycle

import (
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/order"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/preempt"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Options are settings that hold for an engine's whole life.
type Options struct {
	// Budget bounds how many workloads one Decide judges; the next one goes on
	// where it stopped, with the same outcome. Zero means no bound.
	Budget int
	// FairSharing makes queues of a cohort share by weight what none of them owns;
	// nil is off. Without strategies it has both.
	FairSharing *core.FairSharing
	// BlockAdmission admits nobody while pods of an admitted workload are not ready
	// (waitForPodsReady.blockAdmission).
	BlockAdmission bool
	// AdmissionFairSharing is how past usage counts in queues with UsageBased.
	AdmissionFairSharing core.AdmissionFairSharing
	// Observe is how long an admission may stay unobserved before it is taken back;
	// 0 means 5 minutes.
	Observe time.Duration
	// Pack is the resource of which whole nodes are kept free; core.GPU if empty.
	Pack string
	// IgnoreUndeclared lets a workload ask for resources that its queue does not
	// cover: they count against nothing. Otherwise such a workload is refused.
	IgnoreUndeclared bool
}

// Engine is the picture of the world and the decisions on it.
type Engine struct {
	opt Options
	// books is who holds what; forest and nodes are what it keeps, to be read.
	books  *ledger.Ledger
	forest *quota.Forest
	nodes  *place.Nodes
	search preempt.Searcher

	flavors      map[string]*flavor
	cohorts      map[string]core.Cohort
	queues       map[string]*queue
	byNode       []*queue // by quota.Node.ID
	localQueues  map[localQueueKey]*localQueue
	namespaces   map[string]core.Namespace
	workloads    map[core.Key]*workload
	byID         []*workload
	freeIDs      []int32
	equivalences map[string]*equivalence

	// What happened since the last Decide.
	edited    bool        // queues, cohorts, flavors, local queues or namespaces changed
	facts     bool        // admissions were observed that were not decided here, or in queues being drained
	arrivals  []*workload // waiting, not sorted in yet
	displaced []*workload // may have pods planned on nodes that take no work
	freed     []*quota.Node
	lent      []*quota.Node // trees in which somebody borrowed
	// recheck are trees in which somebody could not be evicted yet because its
	// admission was not seen.
	recheck    map[*quota.Node]bool
	nodesFreed bool
	nodesNew   bool // which nodes there are, or what they are like, changed

	heads order.Heap[*queue]
	// tournaments are the heads with fair sharing, by tree.
	tournaments order.Heap[*tournament]
	// loosened and standing are scratch of one walk over trees or heads.
	loosened []*tournament
	standing []*queue
	// wanted is, by kind of pod, the most that some judged head counts on.
	wanted map[*place.Class]int64
	timers order.Heap[*timer]
	// deadlines are when admissions must have been seen.
	deadlines    order.Heap[*timer]
	reservations []*reservation
	leaving      []*workload
	// onNodes are the parked groups that wait for nodes; untold those with members
	// that were not told why they wait.
	onNodes []*group
	untold  []*group
	// unready counts admitted workloads whose pods are not ready, onReady are the
	// groups that wait for them; both only with Options.BlockAdmission.
	unready   int
	onReady   []*group
	onReadyAt uint64 // the value of changes when they were looked at
	// metered are the local queues that go by past usage, sampled when that was counted.
	metered []*localQueue
	sampled time.Time
	// headReservers are the queues that may reserve for their heads, by tree; blockedGroups the parked
	// groups that are blocked by that.
	headReservers map[*quota.Node][]*queue
	blockedGroups []*group
	// changes counts what could end a head reservation or make room beside it; blockedGroupsAt is
	// its value when blockedGroups were looked at last.
	changes, blockedGroupsAt uint64

	// revision grows with edits; plans compiled before are stale.
	revision uint64
	now      time.Time
	plan     core.Plan
	// repeals says that somebody was admitted who had been told why it waits, perhaps
	// by the same plan.
	repeals  bool
	scene    scene
	assigned quota.Assignment
	ranked   quota.Assignment
	// met are the obstacles of the judgement under way.
	met    obstacles
	lifted []quota.Use
	// borrowers are the heads that would borrow, by tree: their level is looked at
	// again when somebody else of the tree is admitted.
	borrowers map[*quota.Node][]*queue
	tried     []uint64
	sets      []place.Set
	// asked is the question that is being answered, nil while a decision is made.
	asked *question
}

// New returns an engine that knows nothing.
func New(o Options) *Engine {
	if o.AdmissionFairSharing.HalfLife <= 0 { // never silently off
		o.AdmissionFairSharing.HalfLife = defaultHalfLife
	}
	if o.AdmissionFairSharing.Sampling <= 0 {
		o.AdmissionFairSharing.Sampling = defaultSampling
	}
	if o.Observe <= 0 {
		o.Observe = defaultObserve
	}
	if o.Pack == "" {
		o.Pack = core.GPU
	}
	books := ledger.New(o.Pack, o.FairSharing != nil)
	e := &Engine{
		opt:           o,
		books:         books,
		forest:        books.Forest,
		nodes:         books.Nodes,
		flavors:       map[string]*flavor{},
		cohorts:       map[string]core.Cohort{},
		queues:        map[string]*queue{},
		localQueues:   map[localQueueKey]*localQueue{},
		namespaces:    map[string]core.Namespace{},
		workloads:     map[core.Key]*workload{},
		equivalences:  map[string]*equivalence{},
		recheck:       map[*quota.Node]bool{},
		borrowers:     map[*quota.Node][]*queue{},
		headReservers: map[*quota.Node][]*queue{},
		wanted:        map[*place.Class]int64{},
		revision:      1,
	}
	e.search.Ledger = books
	if o.FairSharing != nil {
		fair := *o.FairSharing // whoever switches it on gets it, with nothing else to set
		if len(fair.Strategies) == 0 {
			fair.Strategies = core.DefaultFairSharing().Strategies
		}
		e.opt.FairSharing, e.search.Fair = &fair, &fair
	}
	e.scene.engine = e
	return e
}

// Decide decides everything that can be decided at this time and returns the
// decisions in order. The state already contains them; the edge reports what
// became of them as events.
func (e *Engine) Decide(now time.Time) core.Plan {
	e.now, e.plan = now, nil

	e.settle()        // 1. take in edits of queues, cohorts and flavors
	e.sample()        //    and count what local queues have used
	e.drain()         // 2. evict from queues that are being drained
	e.move()          // 3. move pods off nodes that went away
	e.expire()        // 4. take back admissions that never arrived
	e.admitReserved() //    admit those whose victims are gone
	e.arrive()        // 5. sort in what is new
	e.wake()          // 6. look again at parked work whose blocker changed
	e.rejudge()
	judged := 0 // 7. the best head of all queues, again and again
	for q := e.turn(); q != nil && (e.opt.Budget == 0 || judged < e.opt.Budget); q = e.turn() {
		if e.dismiss(q) {
			continue
		}
		w := q.first()
		if e.hopeless(w) {
			e.repark(w)
			continue
		}
		v := e.judge(w)
		if v.kind == admit && e.unready > 0 {
			v = verdict{why: podsReady(q), met: v.met}
		}
		if v.kind != refuse && e.fallsBack(w, &v) {
			continue // others borrow less: they go first
		}
		judged++
		switch v.kind {
		case admit:
			reserved := w.group.queue.reservesForHead()
			e.admit(w, v)
			if reserved { // and does so no more, or for another
				e.wakeBlocked()
			}
		case reserve:
			blocked := e.unready > 0
			e.reserve(w, v)
			if blocked && e.unready == 0 {
				e.admitReserved() // the last whose pods others waited for makes way
			}
			e.wake() // what its victims leave beyond its need
		case refuse:
			e.park(w, &v)
		}
	}
	e.tell() // 8. say why the others wait
	e.retract()
	return e.plan
}

// NextWake returns when something is due without an event: the earliest end of a
// back-off or of the wait for an admission to be seen; zero if nothing is.
func (e *Engine) NextWake() time.Time {
	var at time.Time
	for _, h := range []*order.Heap[*timer]{&e.timers, &e.deadlines} {
		if h.Len() > 0 && (at.IsZero() || h.First().at.Before(at)) {
			at = h.First().at
		}
	}
	if len(e.metered) > 0 {
		if next := e.sampled.Add(e.opt.AdmissionFairSharing.Sampling); at.IsZero() || next.Before(at) {
			at = next
		}
	}
	return at
}
