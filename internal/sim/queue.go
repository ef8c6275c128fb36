package sim

import "github.com/mlbatch/mlbatch/internal/core"

// kind is what an item in the queue does when its time comes.
type kind uint8

const (
	doSubmit      kind = iota // job arrives
	doOp                      // script entry n
	doWrite                   // a decision about job reaches the API server
	doReady                   // all pods of job run
	doFinish                  // job's work is done
	doStopped                 // all pods of job are gone
	doTell                    // the engine is told event
	doLost                    // a node's failure is noticed
	doFail                    // a node fails
	doRepair                  // a node is repaired
	doRestart                 // the process dies
	doWake                    // the engine asked to be woken
	doRetry                   // a job's back-off ends
	doAnswer                  // the admission check of job answers
	doEarly                   // some pods of job are done
	doReconcile               // the controllers write to the Workload of job
	doRequeue                 // the controllers wanted to look at the Workload of job
	doSay                     // an admission check says something of job; n is what, see words
	doShow                    // engine and controllers see watched
	doMake                    // the controller of job compares its pods with the pods that it wants
	doHalt                    // the controller of job sees that it is suspended
	doBind                    // the scheduler looks at pod
	doEnd                     // the grace of pod is over
	doShorten                 // the controllers see that pod was deleted
	doCollect                 // the garbage collector deletes the Workload of job
	doCollectPods             // and its pods
	doNotice                  // it is noticed that job was stopped by a fault
	doSignal                  // a fault of node shows
	doLook                    // the steps of job are looked at
	doTested                  // the time of a suspect node is over
)

// idle reports whether an item of this kind cannot by itself keep a run going:
// when only such items are left, nothing more happens that is waited for.
func (k kind) idle() bool { return k == doFail || k == doRestart || k == doWake }

// item is something to happen at a time.
type item struct {
	at   int64 // nanoseconds since the start
	seq  uint64
	kind kind
	// gen is the job's, the node's or the process's generation: the item lapses
	// when it has moved on.
	gen     uint32
	job     *job
	node    *node
	n       int
	event   core.Event
	order   core.Decision
	watched *WatchEvent
	pod     *pod
	fault   *Fault
}

// queue holds items in order of time, then of insertion.
type queue struct {
	items []item
	seq   uint64
	vital int // items that are not idle
}

func (q *queue) push(x item) {
	q.seq++
	x.seq = q.seq
	if !x.kind.idle() {
		q.vital++
	}
	q.items = append(q.items, x)
	i := len(q.items) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !before(&q.items[i], &q.items[up]) {
			break
		}
		q.items[i], q.items[up] = q.items[up], q.items[i]
		i = up
	}
}

func (q *queue) pop() item {
	x := q.items[0]
	last := len(q.items) - 1
	q.items[0] = q.items[last]
	q.items[last] = item{}
	q.items = q.items[:last]
	if !x.kind.idle() {
		q.vital--
	}
	for i := 0; ; {
		least := 2*i + 1
		if least >= last {
			break
		}
		if r := least + 1; r < last && before(&q.items[r], &q.items[least]) {
			least = r
		}
		if !before(&q.items[least], &q.items[i]) {
			break
		}
		q.items[i], q.items[least] = q.items[least], q.items[i]
		i = least
	}
	return x
}

func before(a, b *item) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	return a.seq < b.seq
}
