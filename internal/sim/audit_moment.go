package sim

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// How often the dearer checks are made, in moments.
const (
	everyReason   = 5
	everyRestart  = 7
	everyWorkload = 3
	everyAdvice   = 4
)

// moment compares the engine's account with the truth, once everything that
// happens at a moment has happened.
func (a *Auditor) moment(r *Run) error {
	a.moments++
	for _, j := range r.cluster.jobs {
		if j.state == absent || j.state == done {
			continue
		}
		if err := r.heldInVain(j); err != nil {
			return err
		}
		if r.podLife().hasPods() && j.object != nil {
			if err := cmp.Or(a.podsHold(r, j), a.wakes(r, j)); err != nil {
				return err
			}
		}
		w := a.workloads[j.spec.Key]
		held, ok := r.engine.Holding(j.spec.Key)
		if j.state.holds() && !ok {
			return fmt.Errorf("P10: pods of %s exist and its quota is free", j.spec.Key)
		}
		if j.state.holds() && !j.evicting && w != nil && held.Queue != j.admission.Queue {
			return fmt.Errorf(
				"P10: pods of %s use quota of %s, the engine counts %s",
				j.spec.Key,
				j.admission.Queue,
				held.Queue,
			)
		}
		if a.moments%everyWorkload == 0 && !r.podLife().hasPods() {
			if err := r.stranded(j); err != nil {
				return err
			}
		}
		if w == nil {
			continue // on its way
		}
		why, waits := r.engine.Why(j.spec.Key)
		if ok == waits || (waits && why.Code == "") {
			return fmt.Errorf("P1: %s holds quota: %t, waits: %t for %q", j.spec.Key, ok, waits, why.Code)
		}
	}
	if r.inFlight() || r.engine.Stabilizing() { // or is to be decided once no more changes
		return nil
	}
	if err := a.quiet(r); err != nil {
		return err
	}
	if a.moments%everyReason == 0 {
		if err := a.reasonIsTrue(r.engine, r.clock(), a.moments); err != nil {
			return err
		}
	}
	if a.moments%everyAdvice == 0 {
		return a.adviceHelps(r.engine, r.clock(), a.moments)
	}
	return nil
}

// stranded checks that a controller will look at a job that is neither at rest nor
// running.
func (r *Run) stranded(j *job) error {
	if j.object == nil || j.deleting || j.reconciling {
		return nil
	}
	f := r.workloads().observationOf(j)
	if why := j.object.Stranded(f); why != "" {
		return fmt.Errorf("%s: %s", j.spec.Key, why)
	}
	return nil
}

// inFlight reports whether events or writes are under way.
func (r *Run) inFlight() bool {
	for i := range r.queue.items {
		x := &r.queue.items[i]
		if ((x.kind == doTell || x.kind == doShow) && x.gen == r.cluster.process) ||
			(x.kind == doWrite && x.order != nil) {
			return true
		}
	}
	return false
}

// quiet checks what holds when the engine knows everything: each workload that waits
// was told why, one with a reservation has victims to wait for, and a process that
// starts now would find nothing more to do (P6).
func (a *Auditor) quiet(r *Run) error {
	if r.podLife().hasPods() {
		for _, j := range r.cluster.jobs {
			if _, ok := r.engine.Holding(j.spec.Key); ok != (j.admission != nil) && j.state != absent {
				return fmt.Errorf(
					"P10: nothing is under way, the engine counts quota for %s: %t, the API has an admission: %t",
					j.spec.Key,
					ok,
					!ok,
				)
			}
		}
	}
	leaving, promised := 0, 0
	var last core.Key
	for _, key := range sortedKeys(a.workloads) {
		w := a.workloads[key]
		if w.held != nil {
			if w.leaving {
				leaving++
			}
			continue
		}
		why, _ := r.engine.Why(key)
		if why.Code == core.WaitingForPreempted {
			promised++
			last = key
		}
		if why.Code == core.PendingEvaluation || w.code == "" {
			return fmt.Errorf("P1: nothing is under way and %s was never told why it waits (%s)", key, why.Code)
		}
	}
	if promised > 0 && leaving == 0 && !a.unready() {
		return fmt.Errorf("P4: %s waits for others to go, and none leaves", last)
	}
	if promised == 0 && leaving == 0 && a.moments%everyRestart == 0 {
		return a.restartFindsNothing(r)
	}
	return nil
}

func (a *Auditor) restartFindsNothing(r *Run) error {
	r.keepUsage()
	fresh := cycle.New(a.options)
	for _, ev := range r.allObjects(r.watches().newObjectCache()) {
		fresh.Apply(ev)
	}
	for _, d := range fresh.Decide(r.clock()) {
		switch d := d.(type) {
		case core.Admit:
			if a.headByUsage() {
				return nil // what workloads cost that are not admitted yet is in memory only
			}
			return fmt.Errorf(
				"P6: a fresh engine admits %s, which waits for %s here",
				d.Key,
				a.reasonOf(r.engine, d.Key),
			)
		case core.Evict:
			// Else it was forgotten which to spare, or the first of a queue is another one, as above.
			if a.evictions == 0 && !a.headByUsage() {
				return fmt.Errorf(
					"P6: a fresh engine evicts %s for %s, which waits for %s here",
					d.Key,
					d.For,
					a.reasonOf(r.engine, d.For),
				)
			}
			return nil
		case core.Replace, core.Refuse:
		}
	}
	return nil
}

// headByUsage reports whether past usage decides which workload all others of
// a queue wait behind.
func (a *Auditor) headByUsage() bool {
	for _, q := range a.queues { // any will do, so order does not matter
		if q.UsageBased && q.Strategy == core.StrictFIFO {
			return true
		}
	}
	return false
}

func (a *Auditor) reasonOf(e *cycle.Engine, k core.Key) string {
	why, _ := e.Why(k)
	return fmt.Sprintf("%s %s", why.Code, why.Cause)
}

func printPlan(p core.Plan) string {
	var b strings.Builder
	for _, d := range p {
		fmt.Fprintf(&b, "  %T %+v\n", d, d)
	}
	return b.String()
}
