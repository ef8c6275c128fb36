package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// state is where a job is in truth, whatever the engine knows of it.
type state uint8

const (
	absent    state = iota // not submitted yet
	queued                 // it waits
	checking               // it has quota, an admission check thinks about it
	starting               // admitted, pods come up
	running                // all pods run
	stopping               // evicted, pods go
	resetting              // pods go and come back, the admission stays
	done                   // finished or deleted, pods are gone
	states    = iota
)

// holds reports whether a job in this state has quota, and perhaps pods.
func (s state) holds() bool {
	return s == checking || s == starting || s == running || s == stopping || s == resetting
}

// job is one job in the API and on the nodes.
type job struct {
	spec  *Job
	index int
	team  int
	units core.Amount // of World.Unit that its pods ask for
	state state
	// gen lapses what was queued for an earlier state.
	gen uint32

	// What the API has.
	admission *core.Admission
	reserved  time.Time
	evicting  bool
	// interruption is how far a job without an object is whose nodes failed, keeps until when it keeps the others.
	interruption core.Interruption
	keeps        int64
	// relocated is when it was; zero for never.
	relocated time.Time
	// next is what is held for it, as it was written.
	next      *core.Admission
	settled   []core.PodSetPlaces
	priority  int32
	held      string
	gatedBy   string
	gate      string // for preemption
	notBefore time.Time
	checked   bool // admission checks have agreed
	deleting  bool
	// past is how many pods of the first pod set ended in admissions before, ended
	// where pods of this one ended.
	past          int32
	ended         []core.PodSetPlaces
	seq           uint64
	workloadState // if the controllers' own rules hold
	refusalState  // if nodes refuse its pods
	jobPods       // if pods exist one by one
	faultState    // if faults happen

	left  time.Duration // work left
	since int64         // when it began to run, or to wait
	// told and written are when the last event and the last write arrive: one
	// object's changes keep their order.
	told, written int64
	// deaf is until when decisions are dropped, because one before was refused.
	deaf  int64
	draws uint64

	// For reports.
	started, finished             int64 // first start, end; -1 before
	admitted                      int
	preempted, evicted, restarted int
	lost                          time.Duration // work done in vain
	code                          core.Code     // why it waits
	grants                        []grant       // what its admission uses, while it has one
	runs                          core.Amount   // of World.Unit, by its pods that run
	payer                         int           // the team whose quota that is
}

// clusterState is everything outside the engine.
type clusterState struct {
	jobs        []*job
	byKey       map[core.Key]*job
	nodes       map[string]*node
	objects     []core.Event // as the API has them, nodes excepted
	index       map[string]int
	told        map[string]int64 // when the last change of an object arrives
	count       [states]int
	process     uint32
	refuseNext  bool
	edited      bool   // quotas are not those of the beginning
	version     uint64 // of the newest state in the API
	teams       map[string]int
	localQueues map[[2]string]string // LocalQueue to ClusterQueue
	unit        string
	start       time.Time
}

func (e *clusterState) init(w *World) {
	e.byKey = make(map[core.Key]*job, len(w.Jobs))
	e.nodes, e.index, e.teams, e.localQueues = map[string]*node{}, map[string]int{}, map[string]int{}, map[[2]string]string{}
	for i, t := range w.Teams {
		e.teams[t.Queue] = i
	}
	e.told = map[string]int64{}
	e.unit, e.start = w.unit(), w.Start
}

// job makes a job known that will be submitted.
func (e *clusterState) job(spec *Job) *job {
	j := &job{
		spec:     spec,
		index:    len(e.jobs),
		team:     -1,
		started:  -1,
		finished: -1,
		priority: spec.Priority,
		left:     spec.Work,
	}
	j.gatedBy, j.gate = spec.GatedBy, spec.PreemptionGate
	for _, p := range spec.PodSets {
		j.units = j.units.Add(p.Requests.Of(e.unit).Mul(int64(p.Count)))
	}
	e.jobs = append(e.jobs, j)
	e.byKey[spec.Key] = j
	e.count[absent]++
	return j
}

func (r *Run) enter(j *job, s state) {
	r.cluster.count[j.state]--
	r.cluster.count[s]++
	r.meter.moved(j, j.state, s)
	j.state = s
	j.gen++
}

func (r *Run) span(s Span, j *job) int64 {
	if s.Max <= s.Min {
		return int64(s.Min)
	}
	j.draws++
	return int64(s.draw(chance(r.world.Seed, j.spec.UID, j.draws)))
}

// at queues the next turn of a job in its present state.
func (r *Run) at(j *job, k kind, after int64) {
	r.queue.push(item{at: r.now + after, kind: k, job: j, gen: j.gen})
}

func (r *Run) submit(j *job) {
	if t, ok := r.cluster.teams[r.cluster.localQueues[[2]string{j.spec.Key.Namespace, j.spec.Queue}]]; ok {
		j.team = t
	}
	j.since = r.now
	r.enter(j, queued)
	if r.world.Lifecycle != nil {
		j.object = r.world.Rules.NewWorkload(&r.world, j.spec, r.clock())
		j.maker.Stopped, j.due = true, -1
		j.seen.maker, j.seen.pods = j.maker, map[string]core.PodState{}
		r.workloads().follow(j)
		return
	}
	r.changed(j)
}

// changed tells the engine, in a while, what the API has of a job.
func (r *Run) changed(j *job) {
	if r.podLife().hasPods() {
		r.watches().showWorkload(j)
		return
	}
	r.cluster.version++
	j.seq = r.cluster.version
	ev := core.Event(core.WorkloadGone{Key: j.spec.Key})
	if j.state != done {
		ev = core.WorkloadSet{Workload: j.observed(r.world.Start)}
	}
	r.tell(j, ev)
}

func (r *Run) tell(j *job, ev core.Event) {
	if r.podLife().hasPods() {
		r.watches().show(j, WatchEvent{Event: ev}, &j.seen.told)
		j.told = j.seen.told
		return
	}
	model := &r.world.Cluster
	at := max(r.now+r.span(model.Observe, j), j.told)
	j.told = at
	r.deliver(at, ev)
	if _, refused := ev.(core.Refused); refused {
		return
	}
	if model.Repeat > 0 && share(r.draw("repeat "+j.spec.UID)) < model.Repeat {
		j.told = at + r.span(model.Observe, j)
		r.deliver(j.told, ev)
	}
}

func (r *Run) deliver(at int64, ev core.Event) {
	if at <= r.now {
		r.inbox = append(r.inbox, ev)
		return
	}
	r.queue.push(item{at: at, kind: doTell, event: ev, gen: r.cluster.process})
}

// observed is the job's Workload as the API has it.
func (j *job) observed(start time.Time) core.Workload {
	if j.object != nil {
		return j.fromObject()
	}
	at := start.Add(j.spec.Submit)
	w := core.Workload{
		Key:            j.spec.Key,
		UID:            j.spec.UID,
		Queue:          j.spec.Queue,
		Priority:       int64(j.priority),
		Created:        at,
		QueueTime:      at,
		PodSets:        j.podSets(),
		Held:           j.held,
		GatedBy:        j.gatedBy,
		PreemptionGate: j.gate,
		NotBefore:      j.notBefore,
		Admission:      j.admission,
		Reserved:       j.reserved,
		Evicting:       j.evicting,
		Settled:        j.settled,
		Ended:          j.ended,
		Seq:            j.seq,
		Interruption:   j.interruption,
		Relocated:      j.relocated,
		Next:           j.next,
		Admitted:       j.admission != nil && j.checked,
		Ready:          j.state == running,
	}
	if j.deleting {
		w.Held = "it is being deleted"
	}
	return w
}

// carryOut sends a decision to the API server.
func (r *Run) carryOut(d core.Decision) {
	var key core.Key
	switch d := d.(type) {
	case core.Admit:
		key = d.Key
	case core.Replace:
		key = d.Key
	case core.Evict:
		key = d.Key
	case core.Refuse:
		j := r.cluster.byKey[d.Key]
		if j != nil {
			j.code = d.Why.Code
		}
		if j == nil || j.next == nil && d.Next == nil { // nothing that is read again
			return
		}
		key = d.Key
	}
	j := r.cluster.byKey[key]
	if j == nil || r.now < j.deaf {
		return
	}
	at := max(r.now+r.span(r.world.Cluster.Write, j), j.written)
	if j.written = at; at <= r.now {
		r.write(j, d)
		return
	}
	r.queue.push(item{at: at, kind: doWrite, job: j, order: d})
}

// write is the API server's answer to a decision. It accepts what suits the state
// that it has; the engine may have decided on an older one.
func (r *Run) write(j *job, d core.Decision) {
	if d == nil {
		return
	}
	accepted := !r.rejected(j)
	switch {
	case !accepted:
	case j.object != nil:
		accepted = r.workloads().recorded(j, d)
	default:
		switch d := d.(type) {
		case core.Admit:
			accepted = r.admitted(j, d)
		case core.Replace:
			accepted = r.replaced(j, &d.Admission)
		case core.Evict:
			accepted = r.evicted(j, d)
		case core.Refuse:
			accepted = j.admission == nil
		}
	}
	if accepted {
		j.holdNext(d)
	}
	if !accepted {
		// Refusals keep their order among the states of the object: the engine knows
		// what was accepted before.
		r.tell(j, core.Refused{Key: j.spec.Key})
		// What was decided before the engine hears of it builds on what was refused.
		j.deaf = j.told
		for i := range r.queue.items {
			if x := &r.queue.items[i]; x.kind == doWrite && x.job == j {
				x.order = nil
			}
		}
	}
}

func (r *Run) rejected(j *job) bool {
	if r.cluster.refuseNext {
		r.cluster.refuseNext = false
		return true
	}
	share0 := r.world.Cluster.Refuse
	return share0 > 0 && share(r.draw("refuse "+j.spec.UID)) < share0
}

// holdNext notes what a decision that was written says is held for a job.
func (j *job) holdNext(d core.Decision) {
	switch d := d.(type) {
	case core.Admit:
		j.next = nil
	case core.Evict:
		j.next = d.Next
	case core.Refuse:
		j.next = d.Next
	case core.Replace:
	}
}

func (r *Run) admitted(j *job, d core.Admit) bool {
	a, stopped := &d.Admission, j.interruption == core.InterruptedStopped
	if j.deleting || d.Resumes != stopped || !stopped && (j.state != queued || j.admission != nil) {
		return false
	}
	if stopped {
		r.goesOn(j)
	}
	j.admission, j.evicting, j.reserved = a, false, r.clock().Truncate(time.Second)
	j.admitted++
	j.notBefore = time.Time{}
	r.nodeLife().joinNodes(j)
	if c := r.checkOf(a.Queue); c != nil {
		r.enter(j, checking)
		r.changed(j)
		r.at(j, doAnswer, r.span(c.Answer, j))
		return true
	}
	r.agreed(j)
	return true
}

func (r *Run) replaced(j *job, a *core.Admission) bool {
	waits := j.state == checking || j.state == starting || j.state == resetting ||
		(j.object != nil && j.state == stopping)
	if r.podLife().hasPods() && j.state == running {
		waits = true
	}
	if !waits || j.evicting || j.deleting {
		return false // its pods run: the engine was late
	}
	r.nodeLife().leaveNodes(j)
	j.admission = a
	r.nodeLife().joinNodes(j)
	r.faults().moved(j)
	switch {
	case r.podLife().hasPods():
		r.podLife().triesAll(j)
	case j.state == starting:
		j.gen++
		r.at(j, doReady, r.faults().start(j))
	}
	r.changed(j)
	return true
}

func (r *Run) evicted(j *job, d core.Evict) bool {
	if j.interruption != core.NotInterrupted && !d.Interrupts && !j.deleting {
		if d.Reason.Preempted() {
			j.preempted++
		}
		was := j.interruption
		j.interruption = core.NotInterrupted
		if was == core.InterruptedStopped {
			r.givesBack(j)
		}
		return true
	}
	if j.admission == nil || j.deleting || !j.state.holds() || j.state == stopping {
		return j.state == stopping
	}
	if d.Interrupts && r.world.Cluster.KeepNodes > 0 {
		j.interruption = core.InterruptedStopping
		j.keeps = r.now + int64(r.world.Cluster.KeepNodes)
	}
	if d.Reason.Preempted() {
		j.preempted++
	}
	if d.Reason == core.Relocated {
		j.relocated = r.clock()
	}
	r.sendBack(j)
	return true
}

// sendBack takes its quota from a job once its pods are gone.
func (r *Run) sendBack(j *job) {
	j.evicting = true
	j.evicted++
	r.stop(j, stopping)
	r.changed(j)
}

// stop has a job's pods go. What it did since the last checkpoint is lost.
func (r *Run) stop(j *job, s state) {
	if j.state == running {
		ran := r.faults().ran(j)
		kept := time.Duration(0)
		if c := j.spec.Checkpoint; c > 0 {
			kept = ran - ran%c
		}
		j.left -= min(j.left, j.progress(kept))
		j.lost += ran - kept
		r.meter.lost(j, ran-kept)
		j.restarted++
	}
	r.enter(j, s)
	switch {
	case !r.podLife().hasPods():
		r.at(j, doStopped, r.faults().end(j, s))
	case s == stopping:
		r.queue.push(item{at: r.now + r.span(r.world.Cluster.Write, j), kind: doHalt, job: j})
	}
}

// turn moves a job on when its time has come.
func (r *Run) turn(j *job, k kind) {
	switch k {
	case doReady:
		if r.nodeLife().homeless(j) || j.stuck() || r.refuses(j) {
			return // until the engine moves it, or the node is back
		}
		j.settled = j.settled[:0:0]
		for _, p := range j.admission.PodSets {
			j.settled = append(j.settled, core.PodSetPlaces{Name: p.Name, Places: p.Places})
		}
		if j.started < 0 {
			j.started = r.now
		}
		j.since = r.now
		r.enter(j, running)
		r.at(j, doFinish, int64(j.needs(j.left)))
		r.faults().begins(j)
		if j.early() > 0 {
			r.at(j, doEarly, int64(j.spec.EarlyAfter))
		}
		r.changed(j)
		r.workloads().enqueue(j)
	case doFinish:
		r.meter.finished(j)
		if r.podLife().hasPods() {
			r.podLife().finishes(j)
			return
		}
		r.end(j)
	case doAnswer:
		r.answer(j)
	case doEarly:
		r.endEarly(j)
	case doStopped:
		switch {
		case j.deleting:
			r.end(j)
		case j.state == resetting:
			j.settled = j.ended // what has succeeded stays where it was
			r.enter(j, starting)
			r.changed(j)
			r.at(j, doReady, r.faults().start(j))
		case j.object != nil:
			r.workloads().podsGone(j)
		case j.interruption != core.NotInterrupted && r.now < j.keeps:
			j.interruption, j.checked, j.settled = core.InterruptedStopped, false, nil
			r.changed(j)
			r.at(j, doStopped, j.keeps-r.now)
		default:
			r.givesBack(j)
		}
	default:
	}
}

// givesBack has a stopped job wait in its queue again.
func (r *Run) givesBack(j *job) {
	r.release(j)
	j.since = r.now
	r.enter(j, queued)
	r.changed(j)
}

// goesOn takes the places from a job that was interrupted and gets others.
func (r *Run) goesOn(j *job) {
	r.nodeLife().leaveNodes(j)
	j.mode = wholeGang
	j.admission, j.settled, j.interruption, j.empty = nil, nil, core.NotInterrupted, false
	j.since = r.now
}

// release takes the admission off a job whose pods are gone.
func (r *Run) release(j *job) {
	r.nodeLife().leaveNodes(j)
	j.mode = wholeGang
	j.past += endedPods(j.ended)
	j.admission, j.evicting, j.settled, j.reserved = nil, false, nil, time.Time{}
	j.checked, j.ended, j.interruption = false, nil, core.NotInterrupted
}

func (r *Run) end(j *job) {
	if r.podLife().hasPods() && j.holds() {
		r.fail(fmt.Errorf("P10: %s ends while its pods hold quota", j.spec.Key))
	}
	r.podLife().leaves(j)
	r.nodeLife().leaveNodes(j)
	j.admission, j.settled, j.ended = nil, nil, nil
	j.finished = r.now
	r.enter(j, done)
	r.changed(j)
}

// remove is the user deleting a job.
func (r *Run) remove(j *job) {
	switch {
	case j == nil || j.deleting || j.state == absent || j.state == done:
		return
	case r.podLife().hasPods():
		r.tenants().dooms(j, core.MakerState{Gone: true})
		return
	case j.state == queued:
		j.deleting = true
		r.end(j)
		return
	}
	j.deleting = true
	if j.state == checking || j.state == starting || j.state == running {
		r.stop(j, stopping)
	}
	r.changed(j)
}

// change is the user editing a job.
func (r *Run) change(c *JobEdit) {
	j := r.cluster.byKey[c.Key]
	if j == nil || j.state == absent || j.state == done {
		return
	}
	if j.object != nil {
		j.object.Edit(c, r.clock())
		r.workloads().follow(j)
		return
	}
	if c.Priority != nil {
		j.priority = *c.Priority
	}
	for _, edit := range []struct{ from, to *string }{{c.Held, &j.held}, {c.GatedBy, &j.gatedBy}, {c.PreemptionGate, &j.gate}} {
		if edit.from != nil {
			*edit.to = *edit.from
		}
	}
	r.changed(j)
}

// allObjects are the objects that the API has, for a process that starts. Where pods exist
// one by one, nodes and jobs are what the cache makes of them; without one they are
// left out.
func (r *Run) allObjects(p ObjectCache) []core.Event {
	e := &r.cluster
	out := slices.Clone(e.objects)
	if r.podLife().hasPods() {
		if p != nil {
			for _, x := range r.watches().watchEvents() {
				out = append(out, p.Show(x)...)
			}
		}
		return slices.DeleteFunc(out, func(ev core.Event) bool { return ev == nil })
	}
	for _, name := range sortedNames(e.nodes) {
		if n := e.nodes[name]; !n.gone {
			out = append(out, core.NodeSet{Node: n.spec})
		}
	}
	for _, j := range e.jobs {
		if j.state != absent && j.state != done {
			out = append(out, core.WorkloadSet{Workload: j.observed(e.start)})
		}
	}
	return slices.DeleteFunc(out, func(ev core.Event) bool { return ev == nil })
}
