package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// Auditor knows what must always hold. It keeps an account of its own, in the
// simplest way: what the engine was told, and what each workload holds by the engine's
// account. Messages begin with the number of the promise in docs/promises.md.
type Auditor struct {
	options      cycle.Options
	flavors      map[string]core.Flavor
	cohorts      map[string]core.Cohort
	queues       map[string]core.Queue
	localQueues  map[string]core.LocalQueue
	namespaces   map[string]core.Namespace
	nodes        map[string]core.Node
	workloads    map[core.Key]*audited
	reservations map[core.Key]*reservation
	spared       map[[2]core.Key]bool // victim, beneficiary
	// disturbed counts what may make a plan fail through no fault of the engine;
	// outside counts what happens that the engine did not bring about.
	disturbed, outside int
	moments            int
	evictions          int
	// promised is what workloads that wait are promised since the last decision, promisedBefore what they were before it.
	promised, promisedBefore map[core.Key]core.Admission
	// relocations are when workloads of a queue were relocated.
	relocations map[string][]time.Time
	// now is when the plan was made that is looked at.
	now time.Time
	// tally, if not nil, counts what was advised.
	tally Tally
}

// audited is one workload as the engine was told of it.
type audited struct {
	told core.Workload
	held *core.Admission
	// leaving says that it was evicted and holds still.
	leaving bool
	// keeps says that it was evicted because nodes failed, and keeps what it has.
	keeps  bool
	unseen bool
	code   core.Code
	// relocated says that it was evicted to go elsewhere, and has not ended where it was; disturbed is then that of
	// the auditor, and moves how many pods it had.
	relocated bool
	disturbed int
	moves     int32
	// evicted counts evictions since something happened from outside.
	evicted, evictedAt int
}

// reservation is kept for a beneficiary that waits for its victims.
type reservation struct {
	disturbed int
	victims   []core.Key
}

func newAuditor(w *World) *Auditor {
	a := &Auditor{options: w.Engine}
	a.options.StabilizationWindow = 0 // what its copies are told is decided at once
	a.restarted()
	return a
}

// restarted forgets everything: a new process is told it again.
func (a *Auditor) restarted() {
	a.flavors, a.cohorts, a.queues = map[string]core.Flavor{}, map[string]core.Cohort{}, map[string]core.Queue{}
	a.localQueues, a.namespaces, a.nodes = map[string]core.LocalQueue{}, map[string]core.Namespace{}, map[string]core.Node{}
	a.workloads, a.reservations, a.spared = map[core.Key]*audited{}, map[core.Key]*reservation{}, map[[2]core.Key]bool{}
	a.relocations = map[string][]time.Time{}
	a.promised, a.promisedBefore = nil, nil
	a.disturbed++
	a.outside++
}

// told takes in an event that the engine was just told.
func (a *Auditor) told(e *cycle.Engine, ev core.Event) error {
	switch ev := ev.(type) {
	case core.WorkloadSet:
		return a.observe(e, ev.Workload)
	case core.WorkloadGone:
		a.outside++
		delete(a.workloads, ev.Key)
		return nil
	case core.Refused:
		a.disturbed++
		a.outside++
		if w := a.workloads[ev.Key]; w != nil {
			a.withdrawRelocation(w)
			w.leaving = w.leaving && w.told.Evicting && w.told.Interruption == core.NotInterrupted
			a.follow(e, w)
		}
		return nil
	case core.Applied:
		return nil
	case core.FlavorSet:
		a.flavors[ev.Flavor.Name] = ev.Flavor
	case core.FlavorGone:
		delete(a.flavors, ev.Name)
	case core.CohortSet:
		a.cohorts[ev.Cohort.Name] = ev.Cohort
	case core.CohortGone:
		delete(a.cohorts, ev.Name)
	case core.QueueSet:
		a.queues[ev.Queue.Name] = ev.Queue
	case core.QueueGone:
		delete(a.queues, ev.Name)
	case core.LocalQueueSet:
		a.localQueues[ev.LocalQueue.Namespace+"/"+ev.LocalQueue.Name] = ev.LocalQueue
	case core.LocalQueueGone:
		delete(a.localQueues, ev.Namespace+"/"+ev.Name)
	case core.NamespaceSet:
		a.namespaces[ev.Namespace.Name] = ev.Namespace
	case core.NamespaceGone:
		delete(a.namespaces, ev.Name)
	case core.NodeSet:
		a.nodes[ev.Node.Name] = ev.Node
	case core.NodeGone:
		delete(a.nodes, ev.Name)
	}
	a.disturbed++
	a.outside++
	return nil
}

// observe takes in a state of a workload, late or not.
func (a *Auditor) observe(e *cycle.Engine, o core.Workload) error {
	w := a.workloads[o.Key]
	if w == nil {
		w = &audited{}
		a.workloads[o.Key] = w
		a.outside++
		a.disturbed++
	} else if w.told.Priority != o.Priority || w.told.Held != o.Held || w.told.GatedBy != o.GatedBy || w.told.PreemptionGate != o.PreemptionGate {
		a.outside++
		a.disturbed++
		for pair := range a.spared {
			if pair[0] == o.Key || pair[1] == o.Key {
				delete(a.spared, pair)
			}
		}
	}
	if o.Ready != w.told.Ready || o.Admitted != w.told.Admitted || (o.Evicting && !w.leaving) ||
		len(o.Ended) != len(w.told.Ended) {
		a.outside++
	}
	w.told = o
	before := w.held
	a.follow(e, w)
	w.unseen = w.unseen && o.Admission == nil
	switch {
	case w.held == nil:
		w.leaving = false
	case o.Evicting && o.Interruption == core.NotInterrupted:
		w.leaving = true
	}
	if before == nil && w.held != nil {
		a.disturbed++ // an admission that the engine did not decide
	}
	return nil
}

// follow asks the engine what a workload holds by its account.
func (a *Auditor) follow(e *cycle.Engine, w *audited) {
	w.held = nil
	if h, ok := e.Holding(w.told.Key); ok {
		w.held = &h
	}
	told, _ := e.View().Told(w.told.Key)
	w.keeps = told.Interruption != core.NotInterrupted
}

// decided checks a plan, step by step and as a whole.
func (a *Auditor) decided(e *cycle.Engine, plan core.Plan, now time.Time) error {
	a.now = now
	a.promises(e)
	for _, d := range plan {
		if err := a.step(d, plan); err != nil {
			return fmt.Errorf("%w\nin the plan\n%s", err, printPlan(plan))
		}
	}
	for _, d := range plan {
		if r, ok := d.(core.Refuse); ok {
			if w := a.workloads[r.Key]; w == nil || w.held != nil {
				return fmt.Errorf("P1: %s is told why it waits, and does not wait", r.Key)
			}
		}
	}
	if err := e.Check(); err != nil {
		return fmt.Errorf("the engine's account: %w\nafter the plan\n%s", err, printPlan(plan))
	}
	if err := a.reservationsHold(e); err != nil {
		return fmt.Errorf("%w\nafter the plan\n%s", err, printPlan(plan))
	}
	if err := a.relocationsArrive(); err != nil {
		return fmt.Errorf("%w\nafter the plan\n%s", err, printPlan(plan))
	}
	return nil
}

func (a *Auditor) step(d core.Decision, plan core.Plan) error {
	switch d := d.(type) {
	case core.Admit:
		return a.admit(d)
	case core.Replace:
		return a.replace(d)
	case core.Evict:
		return a.evict(d, plan)
	case core.Refuse:
		w := a.workloads[d.Key]
		if w == nil || d.Why.Code == "" {
			return fmt.Errorf("P1: %s is refused for %q: unknown workload or no reason", d.Key, d.Why.Code)
		}
		w.code = d.Why.Code
	}
	return nil
}

func (a *Auditor) admit(d core.Admit) error {
	w := a.workloads[d.Key]
	if w == nil || w.held != nil && !w.keeps {
		return fmt.Errorf("P1: %s is admitted, but does not wait", d.Key)
	}
	_, promised := a.promisedBefore[d.Key] // then its places were chosen when it was
	fresh := !w.keeps && !promised
	if w.keeps {
		if err := goesOn(w, d); err != nil {
			return err
		}
		w.held, w.keeps = nil, false
	}
	if err := a.allowed(w, &d.Admission); err != nil {
		return fmt.Errorf("%s is admitted: %w", d.Key, err)
	}
	if err := a.whole(w, &d.Admission, nil); err != nil {
		return fmt.Errorf("%s is admitted: %w", d.Key, err)
	}
	if err := a.withinQuota(&d.Admission); err != nil {
		return fmt.Errorf("%s is admitted: %w", d.Key, err)
	}
	w.held, w.leaving, w.unseen, w.code = &d.Admission, false, true, ""
	if err := a.onNodes(w, nil); err != nil || !fresh {
		return err
	}
	if err := cmp.Or(a.nearest(w), a.avoided(w)); err != nil {
		return fmt.Errorf("%s: %w", d.Key, err)
	}
	return nil
}

// goesOn checks that an interrupted workload gets what it kept, and that its pods have ended.
func goesOn(w *audited, d core.Admit) error {
	if w.told.Interruption != core.InterruptedStopped {
		return fmt.Errorf("P3: %s goes on before its pods have ended", d.Key)
	}
	if d.Admission.Queue != w.held.Queue || len(d.Admission.PodSets) != len(w.held.PodSets) {
		return fmt.Errorf("P2: %s goes on in another queue or with other pod sets", d.Key)
	}
	for i := range d.Admission.PodSets {
		if !slices.Equal(d.Admission.PodSets[i].Usage, w.held.PodSets[i].Usage) {
			return fmt.Errorf("P2: %s goes on and its usage changes", d.Key)
		}
	}
	return nil
}

func (a *Auditor) replace(d core.Replace) error {
	w := a.workloads[d.Key]
	if w == nil || w.held == nil || w.leaving {
		return fmt.Errorf("P1: %s is moved, but is not admitted", d.Key)
	}
	if err := a.whole(w, &d.Admission, w.held); err != nil {
		return fmt.Errorf("%s is moved: %w", d.Key, err)
	}
	old := w.held
	for i := range d.Admission.PodSets {
		if !slices.Equal(d.Admission.PodSets[i].Usage, old.PodSets[i].Usage) {
			return fmt.Errorf("P2: %s is moved and its usage changes", d.Key)
		}
	}
	w.held = &d.Admission
	return a.onNodes(w, old)
}

// allowed checks that the queue is open to the workload.
func (a *Auditor) allowed(w *audited, adm *core.Admission) error {
	localQueue, ok := a.localQueues[w.told.Key.Namespace+"/"+w.told.Queue]
	q, known := a.queues[adm.Queue]
	switch {
	case !ok || localQueue.Queue != adm.Queue || !known:
		return fmt.Errorf("P2: its queue is not %s", adm.Queue)
	case localQueue.Stop == core.Hold || localQueue.Stop == core.HoldAndDrain || q.Stop == core.Hold || q.Stop == core.HoldAndDrain || q.Inactive != "":
		return fmt.Errorf("P2: its queue is stopped")
	case w.told.Held != "":
		return fmt.Errorf("P2: it is held: %s", w.told.Held)
	case w.told.GatedBy != "":
		return fmt.Errorf("P2: its admission is gated by %s", w.told.GatedBy)
	}
	return nil
}

// whole checks that a gang has all its pods, and all of them places (P3). Before is
// what it had, if it is moved.
func (a *Auditor) whole(w *audited, adm, before *core.Admission) error {
	if len(adm.PodSets) != len(w.told.PodSets) {
		return fmt.Errorf("P3: %d of %d pod sets", len(adm.PodSets), len(w.told.PodSets))
	}
	for i := range adm.PodSets {
		got, want := &adm.PodSets[i], &w.told.PodSets[i]
		least, most := want.Count, want.Count
		if want.MinCount > 0 {
			least = want.MinCount
		}
		if before != nil { // however many of its pods are done
			least, most = before.PodSets[i].Count, before.PodSets[i].Count
		}
		if got.Name != want.Name || got.Count > most || got.Count < least {
			return fmt.Errorf("P3: %d of %d pods of pod set %s", got.Count, want.Count, want.Name)
		}
		for _, u := range got.Usage {
			if each := want.Counted().Of(
				u.Resource,
			); u.Resource != core.Pods &&
				u.Amount != each.Mul(int64(got.Count)) {
				return fmt.Errorf(
					"P2: pod set %s counts %v of %s, not %d times %v",
					want.Name,
					u.Amount,
					u.Resource,
					got.Count,
					each,
				)
			}
		}
		var placed int32
		for _, p := range got.Places {
			placed += p.Count
		}
		need := a.needsNodes(got) &&
			(before == nil || len(before.PodSets[i].Places) > 0) // admitted by quota alone it stays
		if placed != got.Count && (need || placed != 0) {
			return fmt.Errorf("P3: %d of %d pods of pod set %s have a place", placed, got.Count, want.Name)
		}
	}
	return nil
}

// needsNodes reports whether all flavors of a pod set have nodes.
func (a *Auditor) needsNodes(p *core.PodSetAdmission) bool {
	for _, f := range p.FlavorNames() {
		flavor := a.flavors[f]
		some := false
		for _, n := range a.nodes {
			if !some && matches(flavor.NodeLabels, n.Labels) {
				some = true
			}
		}
		if !some {
			return false
		}
	}
	return len(a.nodes) > 0 && p.Count > 0
}

func matches(want, have map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func (a *Auditor) evict(d core.Evict, plan core.Plan) error {
	w := a.workloads[d.Key]
	if w == nil || w.held == nil || w.leaving || d.Interrupts && w.keeps {
		return fmt.Errorf("P4: %s is evicted, but is not admitted or leaves already", d.Key)
	}
	if d.Interrupts {
		w.keeps = true
		return a.hasLost(w)
	}
	keeps := w.keeps
	w.leaving, w.keeps = true, false
	if d.For == (core.Key{}) {
		return nil
	}
	a.evictions++
	b := a.workloads[d.For]
	if b == nil || b.held != nil {
		return fmt.Errorf("P4: %s is evicted for %s, which does not wait", d.Key, d.For)
	}
	announced := b.code == core.WaitingForPreempted || slices.ContainsFunc(plan, func(x core.Decision) bool {
		r, ok := x.(core.Refuse)
		return ok && r.Key == d.For && r.Why.Code == core.WaitingForPreempted
	})
	if !announced {
		return fmt.Errorf("P4: %s is evicted for %s, which has no plan", d.Key, d.For)
	}
	if w.unseen {
		return fmt.Errorf("P4: %s is evicted before its admission was seen", d.Key)
	}
	if until := w.told.Reserved.Add(a.minimumRuntime(w)); until.After(a.now) && !keeps {
		return fmt.Errorf("P4: %s is evicted for %s, and its minimum runtime ends at %s", d.Key, d.For, until)
	}
	if d.Reason == core.Relocated {
		if err := a.relocate(w, b); err != nil {
			return err
		}
	}
	if gate := b.told.PreemptionGate; gate != "" {
		return fmt.Errorf("P4: %s is evicted for %s, whose gate %s is closed", d.Key, d.For, gate)
	}
	if a.spared[[2]core.Key{d.For, d.Key}] && d.Reason == core.InClusterQueue {
		return fmt.Errorf("P5: %s is evicted for %s, which was evicted for it", d.Key, d.For)
	}
	a.spared[[2]core.Key{d.Key, d.For}] = true
	p := a.reservations[d.For]
	if p == nil {
		p = &reservation{}
		a.reservations[d.For] = p
	}
	p.disturbed = a.disturbed
	p.victims = append(p.victims, d.Key)
	if w.evictedAt != a.outside {
		w.evicted, w.evictedAt = 0, a.outside
	}
	if w.evicted++; w.evicted > len(a.workloads) {
		return fmt.Errorf("P5: %s was evicted %d times while nothing happened", d.Key, w.evicted)
	}
	return nil
}

// relocate checks that a workload may be relocated for another.
func (a *Auditor) relocate(w, beneficiary *audited) error {
	q := w.held.Queue
	if !w.told.Relocated.IsZero() || w.relocated {
		return fmt.Errorf("P4: %s is relocated a second time", w.told.Key)
	}
	if w.told.Priority > beneficiary.told.Priority {
		return fmt.Errorf("P4: %s is relocated for %s, which is less important", w.told.Key, beneficiary.told.Key)
	}
	a.relocations[q] = slices.DeleteFunc(
		append(a.relocations[q], a.now),
		func(at time.Time) bool { return a.now.Sub(at) > time.Hour },
	)
	if most := a.queues[q].RelocationsPerHour; len(a.relocations[q]) > int(most) {
		return fmt.Errorf(
			"P4: %d workloads of %s are relocated within an hour, and %d may be",
			len(a.relocations[q]),
			q,
			most,
		)
	}
	w.relocated, w.disturbed, w.moves = true, a.disturbed, w.pods()
	return nil
}

// pods is how many pods a workload has that are not done.
func (w *audited) pods() (n int32) {
	for i := range w.told.PodSets {
		n += w.told.PodSets[i].Count
	}
	return n
}

// withdrawRelocation notes that the API did not accept that a workload is relocated.
func (a *Auditor) withdrawRelocation(w *audited) {
	if !w.relocated || !w.told.Relocated.IsZero() {
		return
	}
	w.relocated = false
	if q := w.held; q != nil {
		times := a.relocations[q.Queue]
		a.relocations[q.Queue] = times[:max(0, len(times)-1)]
	}
}

// relocationsArrive checks that a workload that was relocated starts elsewhere as soon as it has ended where it was,
// unless the world changed meanwhile.
func (a *Auditor) relocationsArrive() error {
	for _, key := range sortedKeys(a.workloads) {
		w := a.workloads[key]
		switch {
		case !w.relocated || w.held != nil && w.leaving:
		case w.held != nil || w.disturbed != a.disturbed, w.told.Held != "" || w.told.NotBefore.After(a.now),
			w.pods() != w.moves: // some ended by themselves while they were stopped
			w.relocated = false // or it may not start, for a reason of its own
		case !a.unready():
			return fmt.Errorf("P4: %s was relocated, and does not start elsewhere", key)
		}
	}
	return nil
}

// hasLost checks that some node of a workload that is interrupted takes no work.
func (a *Auditor) hasLost(w *audited) error {
	for i := range w.held.PodSets {
		for _, p := range w.held.PodSets[i].Places {
			if n, is := a.nodes[p.Node]; !is || !n.State.TakesWork() {
				return nil
			}
		}
	}
	return fmt.Errorf("P4: %s is interrupted, and none of its nodes failed", w.told.Key)
}

// minimumRuntime is for how long a workload that runs is not evicted for others.
func (a *Auditor) minimumRuntime(w *audited) time.Duration {
	if own := w.told.MinimumRuntime; own != nil {
		return *own
	}
	return a.queues[w.held.Queue].MinimumRuntime
}

// reservationsHold checks that a workload for which others were evicted starts once
// they are gone, unless the world changed meanwhile (P4).
func (a *Auditor) reservationsHold(e *cycle.Engine) error {
	leaving := 0
	for _, w := range a.workloads {
		if w.held != nil && w.leaving {
			leaving++
		}
	}
	for _, key := range sortedKeys(a.reservations) {
		p, w := a.reservations[key], a.workloads[key]
		if w == nil || w.held != nil || p.disturbed != a.disturbed {
			delete(a.reservations, key)
			continue
		}
		why, _ := e.Why(key)
		if why.Code == core.WaitingForPodsReady && a.unready() {
			continue // it keeps its place meanwhile
		}
		if why.Code != core.WaitingForPreempted {
			return fmt.Errorf("P4: %v were evicted for %s, which now waits for %s instead", p.victims, key, why.Code)
		}
		if leaving == 0 {
			return fmt.Errorf("P4: %v were evicted for %s and are gone, and it does not start", p.victims, key)
		}
	}
	return nil
}

// unready reports whether pods of an admitted workload are not ready where
// others wait for them.
func (a *Auditor) unready() bool {
	for _, w := range a.workloads { // any will do, so order does not matter
		if a.options.BlockAdmission && w.held != nil && !w.leaving && !w.keeps && !w.told.Ready &&
			(w.unseen || w.told.Admitted) {
			return true
		}
	}
	return false
}

func sortedKeys[T any](m map[core.Key]T) []core.Key {
	keys := make([]core.Key, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, core.Key.Compare)
	return keys
}
