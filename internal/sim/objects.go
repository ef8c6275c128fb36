package sim

import (
	"fmt"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Rules are the controllers' rules for what is between the quota of a job and
// its end. They live above this package, which knows no Kubernetes.
type Rules interface {
	// NewWorkload is the Workload of a job that is submitted now.
	NewWorkload(w *World, j *Job, now time.Time) WorkloadObject
	// NewObjectCache is that of a process which starts now.
	NewObjectCache(w *World) ObjectCache
	// TakesPlace reports whether the scheduler counts a pod as one that holds a
	// place of its job.
	TakesPlace(core.PodState) bool
	// TimeToEnd is how much time a pod has left that was deleted a while ago and was given grace to
	// end, and whether the controllers tell it so, where pods have longest at most.
	TimeToEnd(grace, ago, longest time.Duration) (left time.Duration, shorten bool)
	// Wakes reports whether the controllers look at the Workload of a job because
	// of what they see, and before, what they saw of the same pod last; nil if
	// they did not know it.
	Wakes(x *WatchEvent, before *core.PodState) bool
}

// WorkloadObject is one job's Workload as the API has it. Every call is one write that
// the API server accepted, or none.
type WorkloadObject interface { //nolint:interfacebloat // all that happens to one object
	// Workload is what the engine is told of it, without Settled, Ended and Seq.
	Workload() core.Workload
	// Decide writes down a decision of the engine; false if it does not suit.
	Decide(core.Decision, Observation) bool
	// Reconcile is the next write of the controllers and reports whether there was
	// one. Otherwise again is when to look again at the latest; zero is never.
	Reconcile(Observation) (wrote bool, again time.Time)
	// Asked are the numbers, in World.Checks, of the checks that have to answer.
	Asked() []int
	// Answer is the word of such a check, whether it was asked or not. After a
	// Retry the job has to stay away for backoff.
	Answer(check int, a Answer, backoff time.Duration, now time.Time)
	// Snapshot is the object as it is now, for an ObjectCache.
	Snapshot() any
	// Delete deletes the object; it goes when the controllers let it, and is Gone.
	Delete(now time.Time)
	Gone() bool
	// Edit is the user's.
	Edit(c *JobEdit, now time.Time)
	// Stranded says what would never end, "" if nothing: a job that no controller
	// will look at again, and that can go neither on nor back.
	Stranded(Observation) string
}

// Answer is what an admission check says.
type Answer string

// The answers.
const (
	AnswerPending  Answer = "Pending"
	AnswerReady    Answer = "Ready"
	AnswerRetry    Answer = "Retry"
	AnswerRejected Answer = "Rejected"
)

// words is how many words a check has as items of the queue carry them, after the
// number of the check: what chance will say, and the answers.
const words = 5

// word is the answer that a number stands for.
func word(n int) Answer {
	return [words]Answer{"", AnswerPending, AnswerReady, AnswerRetry, AnswerRejected}[n]
}

// Lifecycle are the settings of the rules.
type Lifecycle struct {
	// Pods has pods exist one by one, so that tenants can act on them.
	Pods bool
	// LongestEnd is how long pods may go on that were deleted, whatever they were given; 0 is without
	// limit. Only with Pods.
	LongestEnd time.Duration
	// PodsReady, if not nil, makes jobs prove that their pods run.
	PodsReady *PodsReady
}

// PodsReady is how long pods may take to run, and what happens to jobs whose
// pods take longer: they go back, Limit times at most, each time for twice as
// long as before, and are given up then.
type PodsReady struct {
	// Timeout counts from the admission, Recovery from the loss of a pod that ran.
	Timeout, Recovery time.Duration
	// Base is the first pause, Max the longest.
	Base, Max time.Duration
	// Limit is without limit if it is nil.
	Limit *int32
	// Creation lets jobs that come back keep their place.
	Creation bool
}

// Observation is what the controllers see beside the Workload.
type Observation struct {
	Now time.Time
	// Live is true while pods exist or may come to exist, Ready while all of them
	// run; Pods is how many hold quota, Owned is true while the job exists and was
	// not deleted.
	Live, Ready bool
	Pods        int
	Owned       bool
	// Standing is how many of Pods were not deleted, Objects how many pods there
	// are, those among them that ended and are kept.
	Standing, Objects int
	// Rest is how many pods of the first pod set have still to run in all, Left of
	// the pods that it was given; Some says that any have ended.
	Rest, Left int32
	Some       bool
	// JobFirst has the job's controller be faster than the Workload's.
	JobFirst bool
	// Watched is true if the controllers are going to look again at some time.
	Watched bool
	// Queue and LocalQueue are the queues it waits in or has quota of; nil if there is
	// none. Checks are the numbers, in World.Checks, of the checks that Queue asks.
	Queue      *core.Queue
	LocalQueue *core.LocalQueue
	Checks     []int
	// Refused are nodes that refuse pods of its first pod set which are planned there.
	Refused []core.NodeRefusal
}

// workloadState is what the cluster keeps beside the Workload of a job.
type workloadState struct {
	object WorkloadObject
	// reconciling is true while a write of the controllers is under way, requeueAt is
	// when they wanted to look again, in nanoseconds since the start; 0 for never.
	reconciling bool
	requeueAt   int64
	// asked are the checks that think about their answer.
	asked map[int]bool
	// empty is true while a stopped job has no pods and its quota still.
	empty bool
	// tries counts the times that its pods came up, or did not.
	tries int
}

// fromObject is what the engine is told of a job with a Workload object.
func (j *job) fromObject() core.Workload {
	w := j.object.Workload()
	w.Settled, w.Seq = j.settled, j.seq
	if w.Admission != nil && w.PodSets[0].Count <= w.Admission.PodSets[0].Count-endedPods(j.ended) {
		w.Ended = j.ended // as far as the object says so
	}
	if j.deleting {
		w.Held, w.Evicting = "it is being deleted", w.Admission != nil
	}
	return w
}

// stuck reports whether a job's pods do not come up this time.
func (j *job) stuck() bool { return j.object != nil && j.tries <= j.spec.Stuck }

func (r workloads) observationOf(j *job) Observation {
	f := Observation{
		Now:     r.clock(),
		Watched: j.requeueAt > 0,
		Ready:   j.state == running,
		Live: j.state == starting || j.state == running || j.state == resetting ||
			(j.state == stopping && !j.empty),
		Rest: j.spec.PodSets[0].Count - j.past - endedPods(j.ended),
		Some: j.past+endedPods(j.ended) > 0,
	}
	f.Owned = true
	if j.state == starting || (j.state == stopping && j.evicting) {
		f.Refused = j.refused
	}
	if f.Live {
		f.Pods = 1
	}
	if r.podLife().hasPods() {
		// A controller that gives back quota reads the job from the API server before.
		f.Live, f.Owned = j.seen.holds() ||
			j.seen.makerSeq != j.makerSeq, !j.seen.maker.Gone &&
			!j.seen.maker.Deleting
		f.Pods, f.Standing, f.Objects = j.seen.count()
	}
	e := &r.cluster
	queue := e.localQueues[[2]string{j.spec.Key.Namespace, j.spec.Queue}]
	if j.admission != nil {
		f.Left = j.admission.PodSets[0].Count - endedPods(j.ended)
		queue = j.admission.Queue
	}
	if i, ok := e.index["door/"+j.spec.Key.Namespace+"/"+j.spec.Queue]; ok {
		d := e.objects[i].(core.LocalQueueSet).LocalQueue //nolint:forcetypeassert // of that name
		f.LocalQueue = &d
	}
	if i, ok := e.index["queue/"+queue]; ok {
		q := e.objects[i].(core.QueueSet).Queue //nolint:forcetypeassert // of that name
		f.Queue = &q
	}
	for i := range r.world.Checks {
		if r.world.Checks[i].Queue == queue {
			f.Checks = append(f.Checks, i)
		}
	}
	return f
}

// recorded writes a decision of the engine into the Workload.
func (r workloads) recorded(j *job, d core.Decision) bool {
	if j.deleting || j.doomed || j.state == done || j.state == absent {
		return false
	}
	if a, is := d.(core.Replace); is {
		// A job that runs with fewer pods than it was given has a place to move.
		if (j.state == running && !r.podLife().hasPods()) || !j.object.Decide(d, r.observationOf(j)) {
			return false // its pods run: the engine was late
		}
		return r.replaced(j, &a.Admission)
	}
	f := r.observationOf(j)
	if a, is := d.(core.Admit); is {
		f = r.observationIn(j, a.Admission.Queue)
	}
	was := j.evicting
	if !j.object.Decide(d, f) {
		return false
	}
	if e, is := d.(core.Evict); is && !was && e.Reason.Preempted() {
		j.preempted++
	}
	r.follow(j)
	return true
}

// observationIn is what is seen of an admission by a queue.
func (r workloads) observationIn(j *job, queue string) Observation {
	had := j.admission
	j.admission = &core.Admission{
		Queue:   queue,
		PodSets: []core.PodSetAdmission{{Count: j.spec.PodSets[0].Count - j.past}},
	}
	f := r.observationOf(j)
	j.admission = had
	return f
}

// follow has a job do what its Workload says now, and tells of it.
func (r workloads) follow(j *job) {
	if j.deleting {
		r.changed(j)
		return
	}
	if j.object.Gone() {
		r.end(j)
		return
	}
	w := j.object.Workload()
	switch {
	case j.admission != nil && w.Admission != nil && j.evicting && !w.Evicting && j.empty:
		r.goesOn(j)
		fallthrough
	case j.admission == nil && w.Admission != nil:
		j.admission = w.Admission
		j.admitted++
		r.nodeLife().joinNodes(j)
		r.enter(j, checking)
	case j.admission != nil && w.Admission == nil:
		if (r.podLife().hasPods() && j.holds()) || (!r.podLife().hasPods() && r.observationOf(j).Live) {
			r.fail(fmt.Errorf("P10: pods of %s exist and its reservation is gone", j.spec.Key))
		}
		r.release(j)
		j.since, j.empty = r.now, false
		r.enter(j, queued)
	}
	if w.Evicting && !j.evicting {
		j.evicted++
	}
	j.evicting, j.checked, j.reserved = w.Evicting, w.Admitted, w.Reserved
	may := w.Admission != nil && w.Admitted && !w.Evicting
	switch {
	case may && j.state == checking:
		j.tries++
		j.refused = nil // other pods than the refused ones
		r.enter(j, starting)
		if r.podLife().hasPods() {
			r.podLife().starts(j)
			break
		}
		r.at(j, doReady, r.faults().start(j))
	case !may && (j.state == starting || j.state == running || j.state == resetting):
		r.stop(j, stopping)
	}
	r.changed(j)
	r.ask(j)
	r.enqueue(j)
}

// podsGone is a stopped job without pods: it gives back its quota, or waits for
// a check that took its yes back.
func (r workloads) podsGone(j *job) {
	j.settled = j.ended
	if j.evicting {
		j.empty = true
	} else {
		r.enter(j, checking)
	}
	r.follow(j)
}

// emptied moves a job on whose pods are gone, as far as the controllers see, and
// reports whether that was all.
func (r workloads) emptied(j *job) bool {
	switch {
	case !r.podLife().hasPods() || j.seen.holds() || j.seen.makerSeq != j.makerSeq:
	case j.finishing && !j.doomed:
		r.end(j)
		return true
	case j.state == stopping && !j.empty && !j.doomed:
		r.podsGone(j)
	}
	return false
}

// enqueue has the controllers look at a job's Workload, in a while.
func (r workloads) enqueue(j *job) {
	if j.object == nil || j.reconciling || j.deleting || j.state == done {
		return
	}
	j.reconciling = true
	r.queue.push(
		item{at: r.now + r.span(r.world.Cluster.Write, j), kind: doReconcile, job: j, gen: r.cluster.process},
	)
}

// enqueueAll has the controllers look at all Workloads when a queue changes.
func (r workloads) enqueueAll(ev core.Event) {
	switch ev.(type) {
	case core.QueueSet, core.LocalQueueSet:
		for _, j := range r.cluster.jobs {
			if j.state != absent {
				r.enqueue(j)
			}
		}
	default:
	}
}

// reconcile is what the controllers do when they look at a job's Workload.
func (r workloads) reconcile(j *job, k kind) {
	if k == doRequeue {
		if j.requeueAt == r.now {
			j.requeueAt = 0
			r.enqueue(j)
		}
		return
	}
	j.reconciling = false
	if j.deleting || j.state == done {
		return
	}
	if bad := r.world.Cluster.Refuse; bad > 0 && share(r.draw("refuse step "+j.spec.UID)) < bad {
		r.enqueue(j)
		return
	}
	if r.emptied(j) {
		return
	}
	f := r.observationOf(j)
	f.JobFirst = r.luck("order "+j.spec.UID, 2) == 0
	wrote, again := j.object.Reconcile(f)
	if wrote {
		r.withdrawn(j, f)
		r.follow(j)
		return
	}
	j.requeueAt = 0
	if !again.IsZero() {
		j.requeueAt = int64(again.Sub(r.world.Start))
		if j.requeueAt <= r.now { // it may want to at once
			j.requeueAt = r.now + int64(time.Millisecond)
		}
		r.queue.push(item{at: j.requeueAt, kind: doRequeue, job: j, gen: r.cluster.process})
	}
}

// ask lets the checks think that have to answer.
func (r workloads) ask(j *job) {
	for _, n := range j.object.Asked() {
		if j.asked[n] {
			continue
		}
		if j.asked == nil {
			j.asked = map[int]bool{}
		}
		j.asked[n] = true
		r.say(j, n, 0)
	}
}

// say has a check say a word, in a while.
func (r workloads) say(j *job, check, what int) {
	after := r.span(r.world.Checks[check].Answer, j)
	r.queue.push(item{at: r.now + after, kind: doSay, job: j, n: check*words + what})
}

// says is a check that says something of a job. What it said may be said again,
// and a yes may be taken back, whatever became of the job meanwhile.
func (r workloads) says(j *job, n int) {
	check, what := n/words, n%words
	if j.deleting || j.state == done {
		return
	}
	c := &r.world.Checks[check]
	if what > 0 {
		j.object.Answer(check, word(what), c.Backoff, r.clock())
		r.follow(j)
		return
	}
	delete(j.asked, check)
	switch luck := share(r.draw("check " + j.spec.UID)); {
	case luck < c.Reject:
		what = 4
	case luck < c.Reject+c.Retry:
		what = 3
	default:
		what = 2
	}
	j.object.Answer(check, word(what), c.Backoff, r.clock())
	if share(r.draw("again "+j.spec.UID)) < c.Repeat {
		r.say(j, check, what)
	}
	if what == 2 && share(r.draw("revoke "+j.spec.UID)) < c.Revoke {
		r.say(j, check, 1)
	}
	r.follow(j)
}
