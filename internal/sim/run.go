package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// Log is told everything that an engine is told and decides, in order.
type Log interface {
	// Began says that a fresh engine starts, at the beginning and after a restart.
	Began(cycle.Options)
	Event(core.Event)
	Decided(time.Time, core.Plan)
}

// Watch says what looks on while a world runs.
type Watch struct {
	// Check has the auditor look at everything after each decision. It costs many
	// times the run itself.
	Check bool
	// Advised, if not nil, counts the advice that the auditor followed.
	Advised Tally
	// Log, if not nil, is told what the engine is told.
	Log Log
	// Mishear, if not nil, is what the engine is told instead of an event, which the auditor is told as it is: rules of
	// the engine are broken with it on purpose.
	Mishear func(core.Event) core.Event
	// Look, if not nil, is shown the engine after each decision. It may ask and must not
	// change anything.
	Look func(*cycle.Engine, time.Time)
}

// Run is a world in progress.
type Run struct {
	world   World
	watch   Watch
	engine  *cycle.Engine
	audit   *Auditor
	now     int64
	queue   queue
	inbox   []core.Event
	spare   []core.Event // the inbox's other buffer
	nudged  bool         // there is reason to decide, without an event
	cluster clusterState
	meter   meter
	// woken is the back-off end that an item is queued for.
	woken int64
	// decides and events count calls, for reports.
	decides, events int
	seqs            map[string]uint64
	broken          error
	// cache is what the process knows of pods, if they exist one by one.
	cache ObjectCache
	// watchedSince is when the process began that looks at steps.
	watchedSince int64
}

// maxRounds bounds how often the engine may decide at one moment: in a cluster
// that answers at once, every round is an answer to the last.
const maxRounds = 10_000

// New prepares a world to run.
func New(w World, watch Watch) *Run {
	r := &Run{watch: watch, seqs: map[string]uint64{}}
	if watch.Check {
		r.audit = newAuditor(&w)
		r.audit.tally = watch.Advised
	}
	if len(w.Teams) == 0 {
		w.Teams = teamsOf(w.Objects)
	}
	r.world = w
	r.startEngine()
	if r.podLife().hasPods() {
		r.cache = w.Rules.NewObjectCache(&w)
	}
	r.meter.init(&w)
	r.cluster.init(&w)
	for _, ev := range w.Objects {
		r.nodeLife().object(ev)
	}
	for i := range w.Jobs {
		j := r.cluster.job(&w.Jobs[i])
		r.queue.push(item{at: int64(w.Jobs[i].Submit), kind: doSubmit, job: j})
	}
	for i := range w.Script {
		r.queue.push(item{at: int64(w.Script[i].At), kind: doOp, n: i})
	}
	if w.Faults.Restarts > 0 {
		r.planRestart()
	}
	return r
}

// Advance lets at most so many moments pass and reports whether there are more.
func (r *Run) Advance(moments int) bool {
	for range moments {
		if !r.step() {
			return false
		}
	}
	return true
}

// Finish runs the world to its end and returns what came of it. The error is the
// first invariant that broke.
func (r *Run) Finish() (*Result, error) {
	for r.step() {
	}
	return r.Result(), r.broken
}

// Err is the first invariant that broke; nil if none did.
func (r *Run) Err() error { return r.broken }

// Progress is how far a run is.
type Progress struct {
	Now time.Time
	// Done of Jobs have finished; Waiting and Active are submitted.
	Jobs, Done, Waiting, Active int
}

// Progress says how far the run is.
func (r *Run) Progress() Progress {
	e := &r.cluster
	return Progress{
		Now:     r.clock(),
		Jobs:    len(e.jobs),
		Done:    e.count[done],
		Waiting: e.count[queued],
		Active:  e.count[checking] + e.count[starting] + e.count[running] + e.count[stopping] + e.count[resetting],
	}
}

// step moves to the next moment at which something happens.
func (r *Run) step() bool {
	if r.broken != nil || (r.queue.vital == 0 && len(r.inbox) == 0) {
		return false
	}
	if len(r.inbox) == 0 && len(r.queue.items) > 0 {
		at := r.queue.items[0].at
		if h := int64(r.world.Horizon); h > 0 && at > h {
			r.advance(h)
			return false
		}
		r.advance(at)
	}
	// 1. everything that happens now, 2. tell and decide, 3. carry out; a
	// cluster that answers at once makes more happen now.
	for round := 0; ; round++ {
		for len(r.queue.items) > 0 && r.queue.items[0].at <= r.now {
			r.happen(r.queue.pop())
		}
		if len(r.inbox) == 0 && !r.nudged {
			break
		}
		if round == maxRounds {
			r.fail(fmt.Errorf("P5: at %s the engine still decides after %d rounds", r.clock(), round))
			break
		}
		r.decide()
	}
	if r.audit != nil && r.broken == nil {
		r.fail(r.audit.moment(r))
	}
	return r.broken == nil
}

func (r *Run) advance(at int64) {
	if at > r.now {
		r.meter.advance(r.now, at)
		r.now = at
	}
}

func (r *Run) clock() time.Time { return r.world.Start.Add(time.Duration(r.now)) }

// decide tells the engine what arrived, lets it decide, and has the plan carried
// out.
func (r *Run) decide() {
	told := r.inbox
	r.inbox, r.nudged = r.spare, false
	for _, ev := range told {
		heard := ev
		if r.watch.Mishear != nil {
			heard = r.watch.Mishear(ev)
		}
		r.engine.Apply(heard)
		if r.watch.Log != nil {
			r.watch.Log.Event(heard)
		}
		if r.audit != nil {
			r.fail(r.audit.told(r.engine, ev))
		}
	}
	r.events += len(told)
	r.spare = told[:0]
	now := r.clock()
	plan := r.engine.Decide(now)
	r.decides++
	if r.cache != nil {
		r.cache.Decided(plan)
		r.cache.Holds(r.engine.View().Held())
	}
	if r.watch.Log != nil {
		r.watch.Log.Decided(now, plan)
	}
	if r.audit != nil {
		r.fail(r.audit.decided(r.engine, plan, now))
	}
	if r.watch.Look != nil {
		r.watch.Look(r.engine, now)
	}
	for _, d := range plan { // what is held for a job is written before others are relocated for it
		if why, is := d.(core.Refuse); is && why.Next != nil {
			r.carryOut(d)
		}
	}
	for _, d := range plan {
		if why, is := d.(core.Refuse); !is || why.Next == nil {
			r.carryOut(d)
		}
	}
	r.wakeUp()
}

// wakeUp queues the moment at which the engine wants to decide without an event.
func (r *Run) wakeUp() {
	at := r.engine.NextWake()
	if at.IsZero() {
		return
	}
	if n := max(int64(at.Sub(r.world.Start)), r.now+1); r.woken <= r.now || n < r.woken {
		r.woken = n
		r.queue.push(item{at: n, kind: doWake})
	}
}

// happen does what an item says, unless it has lapsed.
func (r *Run) happen(x item) {
	switch x.kind {
	case doSubmit:
		r.submit(x.job)
	case doOp:
		r.op(&r.world.Script[x.n])
	case doWrite:
		r.write(x.job, x.order)
	case doReady, doFinish, doStopped, doAnswer, doEarly:
		if x.gen == x.job.gen {
			r.turn(x.job, x.kind)
		}
	case doTell:
		if x.gen == r.cluster.process {
			r.inbox = append(r.inbox, x.event)
		}
	case doLost:
		r.nodeLife().lost(x.node, x.gen)
	case doFail:
		r.nodeLife().nodeFails(x.node)
	case doRepair:
		r.nodeLife().nodeRepaired(x.node, x.gen)
	case doRestart:
		r.restart()
		r.planRestart()
	case doWake, doRetry:
		r.nudged = true
	case doReconcile, doRequeue:
		if x.gen == r.cluster.process {
			r.workloads().reconcile(x.job, x.kind)
		}
	case doSay:
		r.workloads().says(x.job, x.n)
	default:
		r.happenToPods(x)
	}
}

// happenToPods is what happens where pods exist one by one.
func (r *Run) happenToPods(x item) {
	switch x.kind {
	case doShow:
		if x.gen == r.cluster.process {
			r.watches().sees(x.job, x.watched)
		}
	case doMake:
		r.podLife().makes(x.job)
	case doHalt:
		r.podLife().halts(x.job)
	case doBind:
		r.podLife().binds(x.job, x.pod)
	case doEnd:
		if x.at >= x.pod.ends {
			r.podLife().ends(x.job, x.pod)
		}
	case doShorten:
		r.podLife().shortens(x.job, x.pod)
	case doCollect:
		r.tenants().collects(x.job)
	case doCollectPods:
		r.tenants().collectsPods(x.job)
	case doNotice, doSignal, doLook, doTested:
		r.faults().happen(x)
	default:
	}
}

// teamsOf takes every queue for a team.
func teamsOf(objects []core.Event) []Team {
	var teams []Team
	for _, ev := range objects {
		if q, ok := ev.(core.QueueSet); ok {
			teams = append(teams, Team{Name: q.Queue.Name, Queue: q.Queue.Name})
		}
	}
	return teams
}

// op carries out an entry of the script.
func (r *Run) op(o *Op) {
	switch {
	case o.Object != nil:
		r.nodeLife().object(o.Object)
	case o.Job != nil:
		if r.cluster.byKey[o.Job.Key] == nil {
			r.submit(r.cluster.job(o.Job))
		}
	case o.Delete != nil:
		r.remove(r.cluster.byKey[*o.Delete])
	case o.Finish != nil:
		if j := r.cluster.byKey[*o.Finish]; j != nil && j.state == running {
			r.turn(j, doFinish)
		}
	case o.Change != nil:
		r.change(o.Change)
	case o.Restart:
		r.restart()
	case o.Refuse:
		r.cluster.refuseNext = true
	case o.Act != nil:
		r.tenants().acts(o.Act)
	case o.Fault != nil:
		r.faults().fails(o.Fault)
	}
}

// startEngine begins with an engine that knows nothing.
func (r *Run) startEngine() {
	r.engine = cycle.New(r.world.Engine)
	if r.watch.Log != nil {
		r.watch.Log.Began(r.world.Engine)
	}
}

// restart kills the process that decides. Writes under way arrive or are lost,
// what it had in memory is gone, and the new one reads all objects, in any order.
func (r *Run) restart() {
	e := &r.cluster
	r.keepUsage()
	var under []item
	for i := range r.queue.items {
		if x := &r.queue.items[i]; x.kind == doWrite {
			under = append(under, *x)
			x.order = nil // it arrives now or never
		}
	}
	slices.SortFunc(
		under,
		func(a, b item) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) },
	)
	for _, x := range under {
		if r.luck("restart", 2) == 0 {
			r.write(x.job, x.order)
		}
	}
	e.process++ // what the old one was about to be told is lost
	r.inbox = r.inbox[:0]
	r.startEngine()
	r.watchedSince = r.now
	if r.audit != nil {
		r.audit.restarted()
	}
	if r.podLife().hasPods() {
		r.watches().relist()
	}
	facts := r.allObjects(nil)
	for _, j := range e.jobs {
		j.told, j.deaf = max(j.told, r.now), 0
		j.reconciling, j.requeueAt = false, 0
		r.workloads().enqueue(j)
	}
	shuffle(r, facts)
	r.inbox = append(r.inbox, facts...)
	if r.cache != nil {
		watched := r.watches().watchEvents()
		shuffle(r, watched)
		for _, x := range watched {
			r.inbox = append(r.inbox, r.cache.Show(x)...)
		}
	}
}

// shuffle puts a list into any order.
func shuffle[T any](r *Run, list []T) {
	for i := len(list) - 1; i > 0; i-- {
		k := int(r.luck("shuffle", uint64(i+1))) //nolint:gosec // below i
		list[i], list[k] = list[k], list[i]
	}
}

func (r *Run) planRestart() {
	d := exponential(r.world.Faults.Restarts, r.draw("restarts"))
	r.queue.push(item{at: r.now + int64(d), kind: doRestart})
}

// draw is the next number of a named sequence; luck is one below n.
func (r *Run) draw(name string) uint64 {
	n := r.seqs[name]
	r.seqs[name] = n + 1
	return chance(r.world.Seed, name, n)
}

func (r *Run) luck(name string, n uint64) uint64 { return r.draw(name) % n }

func (r *Run) fail(err error) {
	if err != nil && r.broken == nil {
		r.broken = fmt.Errorf(
			"at %s (%s after the start): %w",
			r.clock().UTC().Format(time.RFC3339Nano),
			time.Duration(r.now),
			err,
		)
	}
}

// Waiting lists the jobs that wait now, in order of their keys.
func (r *Run) Waiting() []core.Key {
	var keys []core.Key
	for _, j := range r.cluster.jobs {
		if j.state == queued {
			keys = append(keys, j.spec.Key)
		}
	}
	slices.SortFunc(keys, core.Key.Compare)
	return keys
}
