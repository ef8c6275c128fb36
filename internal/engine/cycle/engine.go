// Package cycle is the decision engine: events in, a plan out. One picture of
// the world decides quota, nodes and preemption together.
//
// The main path is Engine.Decide. The state belongs to rooms, of which each uses only
// those before it: the model (model.go) takes in what is told (apply.go, settle.go), the
// judge (judge.go, compile.go, bounds.go) returns a verdict on one workload, turns
// (turns.go, level.go, share.go) say whose is next, pending (pending.go, wake.go) keeps
// refused workloads out of the way until what they wait for changes, stabilizer (stabilizer.go)
// has one change that is written in parts decided as one, history (history.go) remembers what LocalQueues
// used, admissions (admissions.go, admit.go, reservation.go) carry verdicts out and hold plans
// whose victims must first go, and recovery (move.go, interrupt.go) moves pods off lost nodes. A StrictFIFO queue's own quota is kept for its
// first workload by headreservation.go.
//
// Questions are of package inquiry. They read the engine (view.go), which gives them facts
// (why.go, facts.go, contrast.go) and excerpts of its state (excerpt.go) to try things in
// (rehearsal.go).
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
//   - what the ledger has in its accounts is what the phases of workloads say;
//   - what is reserved fits into account Projected: no other can take it;
//   - every waiting workload is in one group, or told why it is in none;
//   - every group that was refused is listed under something that wakes it.
package cycle

import (
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// New returns an engine that knows nothing.
func New(o Options) *Engine {
	o = o.withDefaults()
	m := newModel(o)
	d := &draft{}
	j := newJudge(m)
	p := newPending(m, d, j)
	h := &history{model: m, pending: p}
	a := &admissions{model: m, draft: d, judge: j, turns: p.turns, pending: p, history: h}
	return &Engine{
		model: m, draft: d, judge: j, turns: p.turns, pending: p, history: h,
		stabilizer: &stabilizer{model: m, turns: p.turns, walked: map[*quota.Node]bool{}},
		admissions: a,
		recovery:   &recovery{model: m, draft: d, judge: j, turns: p.turns, pending: p, admissions: a},
	}
}

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options {
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
	if o.FairSharing != nil && len(o.FairSharing.Strategies) == 0 { // to switch it on is enough
		fair := *o.FairSharing
		fair.Strategies = core.DefaultFairSharing().Strategies
		o.FairSharing = &fair
	}
	return o
}

// Decide decides everything that can be decided at this time and returns the
// decisions in order. The state already contains them; the controllers report what
// became of them as events.
func (e *Engine) Decide(now time.Time) core.Plan {
	e.at(now)
	e.draft.begin()

	e.settle()           // 1. take in edits of queues, cohorts and flavors
	e.stabilizer.begin() //    leave alone what changed just now
	e.history.sample()   //    and count what local queues have used
	e.admissions.resumeRelocations()
	e.admissions.drain() // 2. evict from queues that are being drained
	e.settled()
	e.recovery.move()            // 3. move pods off nodes that went away
	e.admissions.expire()        // 4. take back admissions that never arrived
	e.admissions.admitReserved() //    admit those whose victims are gone
	e.pending.arrive()           // 5. sort in what is new
	e.pending.wake()             // 6. look again at parked work whose blocker changed
	if e.recovery.resume() {     //    and let those go on that had no other nodes
		e.pending.wake()
	}
	e.turns.resume()
	judged := 0 // 7. the best head of all queues, again and again
	for q := e.turns.next(); q != nil && (e.opt.Budget == 0 || judged < e.opt.Budget); q = e.turns.next() {
		if e.pending.parkIdle(q) {
			continue
		}
		w := q.first()
		if e.pending.stillRefused(w) {
			e.pending.parkAgain(w)
			continue
		}
		v := e.judge.verdict(w)
		if v.kind == admit && e.unready > 0 {
			v = &verdict{why: podsReady(q), met: v.met}
		}
		if v.kind != refuse && e.turns.fallsBack(w, v) {
			continue // others borrow less: they go first
		}
		judged++
		if e.stabilizer.defers(q, v) {
			continue
		}
		switch v.kind {
		case admit:
			reserved := q.reservesForHead()
			e.admissions.admit(w, v)
			e.pending.lookBehind(w, q)
			if reserved { // and does so no more, or for another
				e.pending.wakeBlocked()
			}
		case reserve:
			blocked := e.unready > 0
			e.admissions.reserve(w, v)
			if blocked && e.unready == 0 {
				e.admissions.admitReserved() // the last whose pods others waited for makes way
			}
			e.pending.wake() // what its victims leave beyond its need
		case refuse:
			e.pending.park(w, v)
		}
	}
	e.recovery.resumeYielded()
	e.pending.reportReasons() // 8. say why the others wait
	e.draft.withdrawReasons()
	return e.draft.plan
}

// NextWake returns when something is due without an event: the earliest end of a
// back-off, of the wait for an admission to be seen or for changes to end; zero if nothing is.
func (e *Engine) NextWake() time.Time {
	var first time.Time
	for _, at := range []time.Time{e.pending.nextWake(), e.history.nextWake(), e.admissions.nextWake(), e.stabilizer.until} {
		if first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}
