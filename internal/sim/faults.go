package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/progress"
)

// What fails under jobs, how it is noticed, and how they go on. Faults are of jobs without a Workload object: what
// the controllers make of those is in package kuberules.

// FaultKind is what fails.
type FaultKind string

// The kinds of faults. All of them have processes of the jobs on a node end, but Hang, after which they live and take
// no steps any more.
const (
	FaultGPU      FaultKind = "GPU"      // a device, which checks of its node tell
	FaultNetwork  FaultKind = "Network"  // a card or a link, which checks of its node tell
	FaultHost     FaultKind = "Host"     // the machine, which falls silent
	FaultSoftware FaultKind = "Software" // a program, and nothing is wrong with its node
	FaultHang     FaultKind = "Hang"     // one rank stops, and nothing tells which but its steps
)

// Fault is something that fails on a node.
type Fault struct {
	Node string
	Kind FaultKind
	// Repair is how long it takes to mend the node, once it is out of service; 0 if nothing is wrong with it.
	Repair time.Duration
}

// Steps are those that a job tells.
type Steps struct {
	Rule progress.Rule
	// Takes is how long each one takes in truth.
	Takes time.Duration
	// Restarts is how often it is stopped for a hang at most; 0 is without limit.
	Restarts int
}

// Recovery is how faults are noticed and what becomes of jobs then.
type Recovery struct {
	// Whole stops a job as a whole, whatever failed, and has it queue again: all of its pods are made anew. Without,
	// pods on nodes that are out of service get others, and processes of the others begin again where they are.
	Whole bool
	// One stops a job as a whole that loses another node before all its pods run again.
	One bool
	// Signal is from a fault of a node until the node is out of service because of it, by kind. A kind that is not
	// there is never told.
	Signal map[FaultKind]Span
	// Notice is from the end of a process until its controller acts.
	Notice Span
	// Watchdog ends the processes of a job that has hung for so long; 0 for never.
	Watchdog time.Duration
	// BySteps has hangs found by the steps that jobs tell: what is known is kept for Evidence, then the job
	// is stopped as a whole.
	BySteps  bool
	Evidence Span
	// Suspect, if not zero, is for how long the node of a rank that was behind gets work only if nothing else fits. Tested
	// has a test at the end of that find the nodes that are bad.
	Suspect time.Duration
	Tested  bool
	// Halt is how long processes take to end in pods that stay, Pod how long the pods of one node take to
	// start on another, and Load how long all processes take from their start to the first step.
	Halt, Pod, Load Span
}

// mode is how the pods of a job come up.
type mode uint8

const (
	wholeGang mode = iota // all are made anew
	inPlace               // processes begin again in pods that are there
	partly                // some pods get other nodes
)

// faultState is what the cluster keeps of a job under which something may fail.
type faultState struct {
	mode mode
	// stalled is since when it does no work although its pods run; 0 if it does. hung says that it was found to hang.
	stalled int64
	hung    bool
	mark    progress.Mark
	at      *Fault // what it stalled by
	// down is how many of its nodes went out of service since all its pods ran.
	down int

	// For reports.
	resets, replaced int
	hangs            int           // stops because it hung
	unseen           time.Duration // between faults and their notice
}

// start is how long the pods of a job take to run.
func (r faults) start(j *job) int64 {
	c := r.world.Recovery
	if c == nil {
		return r.span(r.world.Cluster.Start, j)
	}
	load := r.span(c.Load, j)
	switch j.mode {
	case inPlace:
		return load
	case partly:
		return load + r.span(c.Pod, j)
	default:
		return load + r.span(r.world.Cluster.Start, j)
	}
}

// end is how long the pods of a job take until they are gone, or as far as they have to go.
func (r faults) end(j *job, s state) int64 {
	if c := r.world.Recovery; c != nil && s == resetting {
		return r.span(c.Halt, j)
	}
	return r.span(r.world.Cluster.Stop, j)
}

// ran is for how long a job that runs has worked.
func (r faults) ran(j *job) time.Duration {
	if j.stalled > 0 {
		return time.Duration(j.stalled - j.since)
	}
	return time.Duration(r.now - j.since)
}

// begins is a job of which all pods run.
func (r faults) begins(j *job) {
	j.stalled, j.hung, j.at, j.down = 0, false, nil, 0
	if j.spec.Steps != nil && r.world.Recovery != nil && r.world.Recovery.BySteps {
		j.mark = progress.Mark{}
		r.look(j)
	}
}

// moved is a job that gets places for some of its pods.
func (faults) moved(j *job) {
	if j.mode == inPlace {
		j.mode = partly
	}
	j.replaced++
}

// fails is something that fails on a node.
func (r faults) fails(f *Fault) {
	n, c := r.cluster.nodes[f.Node], r.world.Recovery
	if c == nil || n == nil || n.gone || !n.spec.State.TakesWork() {
		return // nothing runs there
	}
	if s, told := c.Signal[f.Kind]; told {
		r.queue.push(
			item{at: r.now + int64(s.draw(r.nodeLife().nodeDraw(n))), kind: doSignal, node: n, fault: f},
		)
	}
	for _, j := range slices.Clone(n.jobs) {
		if j.object == nil && j.state == running && j.stalled == 0 && !j.deleting {
			r.stalls(j, f)
		}
	}
}

// stalls is a job whose work stops while its pods run, if only for a moment.
func (r faults) stalls(j *job, f *Fault) {
	c := r.world.Recovery
	j.gen++ // it does not finish
	j.stalled, j.at = max(r.now, 1), f
	switch {
	case f.Kind != FaultHang:
		r.at(j, doNotice, r.span(c.Notice, j))
	case c.BySteps && j.spec.Steps != nil:
		r.look(j)
	case c.Watchdog > 0:
		r.at(j, doNotice, int64(c.Watchdog)+r.span(c.Notice, j))
	}
}

func (r faults) happen(x item) {
	switch x.kind {
	case doSignal:
		r.signals(x.node, x.fault)
	case doTested:
		r.tested(x.node, x.fault, x.gen)
	case doNotice:
		if x.gen == x.job.gen && x.job.state == running {
			r.goesWrong(x.job)
		}
	case doLook:
		if x.gen == x.job.gen && x.job.state == running {
			r.look(x.job)
		}
	default:
	}
}

// signals is a node whose fault shows: it goes out of service, and is mended.
func (r faults) signals(n *node, f *Fault) {
	if n.gone || !n.spec.State.TakesWork() {
		return
	}
	r.meter.failures++
	r.close(n, f)
	for _, j := range slices.Clone(n.jobs) {
		j.down++
		switch c := r.world.Recovery; {
		case j.object != nil || j.deleting || j.evicting:
		case j.state == running:
			if j.stalled == 0 {
				r.stalls(j, f)
			}
			r.goesWrong(j)
		case c.One && j.down > 1 && j.mode != wholeGang && (j.state == resetting || j.state == starting):
			r.sendBack(j)
		}
	}
}

// close takes a node out of service until it is mended.
func (r faults) close(n *node, f *Fault) {
	spec := n.spec
	spec.State, spec.Why = core.NodeClosed, string(f.Kind)
	r.nodeLife().nodeSet(spec)
	r.queue.push(item{at: r.now + int64(max(f.Repair, time.Second)), kind: doRepair, node: n, gen: n.gen})
}

// goesWrong is a job whose controller notices that it does not go on.
func (r faults) goesWrong(j *job) {
	j.unseen += time.Duration(r.now - j.stalled)
	if c := r.world.Recovery; c.Whole || c.BySteps && j.hung {
		r.sendBack(j)
		return
	}
	j.mode = inPlace
	j.resets++
	r.stop(j, resetting)
	r.changed(j)
}

// look judges a job by the steps that it told, and looks again when the rule wants to.
func (r faults) look(j *job) {
	s, c := j.spec.Steps, r.world.Recovery
	began, now := r.world.Start.Add(time.Duration(j.since)), r.clock()
	j.mark = progress.Advance(j.mark, began, now, r.told(j))
	v := progress.Judge(s.Rule, began, r.world.Start.Add(time.Duration(r.watchedSince)), j.mark, now)
	if v.Kind == progress.Hung && s.Restarts > 0 && j.hangs == s.Restarts {
		return // it is only observed
	}
	if v.Kind != progress.Hung {
		r.at(j, doLook, max(int64(v.Again.Sub(now)), 1))
		return
	}
	if r.audit != nil {
		r.fail(inTime(j, r.watchedSince, r.now))
	}
	if j.at != nil && c.Suspect > 0 {
		r.suspects(j.at)
	}
	j.hung = true
	j.hangs++
	if j.stalled == 0 {
		j.gen++ // what it does from now on counts for nothing
		j.stalled = max(r.now, 1)
	}
	r.at(j, doNotice, r.span(c.Evidence, j))
}

// told are the steps that a job has taken, as its slowest rank tells them: after each, when it was done.
func (r faults) told(j *job) []progress.Report {
	n := int64(r.faults().ran(j) / j.spec.Steps.Takes)
	if n == 0 {
		return nil
	}
	at := r.world.Start.Add(time.Duration(j.since) + time.Duration(n)*j.spec.Steps.Takes)
	return []progress.Report{{Step: n, At: at}}
}

// inTime says what is wrong if a job is stopped for a hang that takes its steps as often as it states.
func inTime(j *job, watched, now int64) error {
	s := j.spec.Steps
	if j.stalled == 0 && s.Takes <= s.Rule.Every && s.Takes <= s.Rule.First {
		return fmt.Errorf("%s takes its steps in time and is stopped because it hangs", j.spec.Key)
	}
	silent := time.Duration(now - max(j.stalled, watched))
	if j.stalled > 0 && silent > 2*max(s.Rule.Every, s.Rule.First) {
		return fmt.Errorf("%s hung for %s before that was found", j.spec.Key, silent)
	}
	return nil
}

// suspects has a node count as suspect for a while.
func (r faults) suspects(f *Fault) {
	n := r.cluster.nodes[f.Node]
	if n == nil || n.gone || n.spec.State != core.NodeReady {
		return
	}
	spec := n.spec
	spec.State, spec.Why = core.NodeWarned, "a job hung there"
	r.nodeLife().nodeSet(spec)
	r.queue.push(
		item{at: r.now + int64(r.world.Recovery.Suspect), kind: doTested, node: n, gen: n.gen, fault: f},
	)
}

// tested is a suspect node after its time, and perhaps its test.
func (r faults) tested(n *node, f *Fault, gen uint32) {
	switch {
	case n.gone || gen != n.gen:
	case f.Repair > 0 && r.world.Recovery.Tested:
		r.signals(n, f)
	default:
		r.nodeLife().nodeRepaired(n, gen)
	}
}

// Goodput is how well a job used its time.
type Goodput struct {
	// Wall is from its first start to its end, or to that of the run. Kept is for how long it worked and did not lose what
	// came of it, Lost for how long it worked in vain, and Unseen how long it did not work before that was noticed.
	Wall, Kept, Lost, Unseen time.Duration
	// Evictions are stops of the whole job, of them Hangs because it hung; Resets are others, and Replaced those after
	// which pods got other nodes.
	Evictions, Hangs, Resets, Replaced int
}

// ETTR is the part of its time in which a job did work that counts (effective training time ratio).
func (g *Goodput) ETTR() float64 {
	if g.Wall == 0 {
		return 0
	}
	return float64(g.Kept) / float64(g.Wall)
}

// Goodput says how well a job has used its time so far.
func (r *Run) Goodput(key core.Key) Goodput {
	j := r.cluster.byKey[key]
	if j == nil || j.started < 0 {
		return Goodput{}
	}
	end := r.now
	if j.finished >= 0 {
		end = j.finished
	}
	g := Goodput{
		Wall: time.Duration(end - j.started), Lost: j.lost, Unseen: j.unseen,
		Kept: j.spec.Work - j.left, Evictions: j.evicted, Hangs: j.hangs, Resets: j.resets, Replaced: j.replaced,
	}
	if j.state == running {
		g.Kept += r.faults().ran(j)
	}
	if j.state == done {
		g.Kept = j.spec.Work
	}
	return g
}
