package cycle

import (
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
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
	// BlockAdmission admits no workload while pods of an admitted workload are not ready
	// (waitForPodsReady.blockAdmission).
	BlockAdmission bool
	// AdmissionFairSharing is how past usage counts in queues with UsageBased.
	AdmissionFairSharing core.AdmissionFairSharing
	// Observe is how long an admission may stay unobserved before it is taken back;
	// 0 means 5 minutes.
	Observe time.Duration
	// StabilizationWindow is for how long nothing must have changed in a tree of queues before what was
	// changed there evicts anyone: what people change at once is written one object after the
	// other. 0 acts on every write.
	StabilizationWindow time.Duration
	// SlackQueue is the ClusterQueue, if any, whose lending limits follow the health of nodes. They are
	// acted on at once.
	SlackQueue string
	// KeepNodes lets a workload that loses nodes and has no others keep its quota and its other nodes while
	// it is interrupted.
	KeepNodes bool
	// Pack is the resource of which whole nodes are kept free; core.GPU if empty.
	Pack string
	// IgnoreUndeclared lets a workload ask for resources that its queue does not
	// cover: they count against nothing. Otherwise such a workload is refused.
	IgnoreUndeclared bool
}

// Engine is the picture of the world and the decisions on it. It is made of rooms, each
// the only one that changes its state, and each using only those above it:
//
//	model       what it was told, and by what that is known
//	draft       the plan being made
//	judge       what can be done for one workload: a verdict
//	turns       whose turn is next, by level or by share
//	pending     what waits, for what, and what wakes it
//	stabilizer    what changed just now, and is not acted on yet
//	history     what LocalQueues used in the past
//	admissions  what workloads were given or promised, and which have to leave
//	recovery    what becomes of workloads whose nodes failed
type Engine struct {
	*model
	draft      *draft
	judge      *judge
	turns      turns
	pending    *pending
	stabilizer *stabilizer
	history    *history
	admissions *admissions
	recovery   *recovery
}

// recovery is what becomes of workloads whose nodes failed.
type recovery struct {
	*model
	draft      *draft
	judge      *judge
	turns      turns
	pending    *pending
	admissions *admissions

	displaced []*workload // may have pods planned on nodes that take no work
	// interrupted are the workloads that keep what they had, and others that did; resumable says that one of them
	// may go on since it was looked at last, when pending.changes was resumedAt.
	interrupted []*workload
	resumable   bool
	resumedAt   uint64
	// yielded could go on, and were left to who may evict them, in this decision.
	yielded []*workload
}

// admissions is what workloads were given: from the reservation of a place for a workload, or its
// admission, until what it held is free again.
type admissions struct {
	*model
	draft   *draft
	judge   *judge
	turns   turns
	pending *pending
	history *history

	reservations []*reservation
	leaving      []*workload
	// deadlines are when admissions must have been seen.
	deadlines deadlines
	// drainAgain says that admissions were observed that were not decided here, or in queues
	// being drained.
	drainAgain bool
}

// pending is what waits: groups of equal workloads, what they are parked under, and what
// happened since that may wake them.
type pending struct {
	*model
	draft *draft
	judge *judge
	turns turns

	arrivals []*workload // waiting, not sorted in yet
	timers   order.Heap[*timer]
	// unreported are the groups with members whose reason was not reported.
	unreported []*group
	// unjudged are those of them that were not judged in the Decide that has ended, and so have no reason.
	unjudged []*group
	// onNodes are the parked groups that wait for nodes, onReady the groups that wait until pods of
	// other workloads are ready, blockedGroups the groups that head reservations block.
	onNodes, onReady, blockedGroups []*group

	// freed are trees in which quota came free, lent those in which a queue borrowed.
	freed, lent  []*quota.Node
	rechecks     rechecks
	nodesChanged nodesChanged
	// wakes counts how often all that changed was acted on.
	wakes uint64
	// changes counts what could end a head reservation or make room beside it;
	// blockedGroupsAt and onReadyAt are its value when these groups were looked at last.
	changes, blockedGroupsAt, onReadyAt uint64
}

// judge finds out what can be done for one workload as things stand. It changes nothing
// that a later decision depends on.
type judge struct {
	*model
	// search finds victims among the running workloads, in the order in which they would be evicted.
	search preempt.Searcher
	// headReservers are the queues that may reserve for their heads, by tree.
	headReservers map[*quota.Node][]*queue
	// relocating are the queues whose workloads may be relocated, by tree, and in each by name.
	relocating map[*quota.Node][]*queue
	// asked are the plans that a question has made of groups, nil while a decision is made: with
	// one of them in the record of its group, the next Decide could take another way.
	asked map[*group]*compiled

	// The rest is scratch of one judgement; met are its obstacles so far.
	found    verdict
	oracle   oracle
	assigned quota.Assignment
	ranked   quota.Assignment
	met      obstacles
	tried    []uint64
	sets     []place.Set
}

// byShare is the order of heads with fair sharing.
type byShare struct {
	*model
	judge    *judge
	parkIdle func(*queue) bool
	// tournaments are the heads, by tree.
	tournaments order.Heap[*tournament]
	// wanted is, by kind of pod, the most that some judged head counts on.
	wanted map[*place.Class]int32
	// The rest is scratch of one walk over trees or heads.
	loosened    []*tournament
	readyQueues []*queue
	lifted      []quota.Use
}

// byLevel is the order of heads without fair sharing: the one that borrows least first, then
// priority and time.
//
// Levels are corrected lazily: a head starts at level 0 and learns its true one
// when it comes to the top. So does the head of a queue that goes by past usage
// with its priority and time: it starts as the best that could be behind it. That
// is exact as long as levels only get worse, which given sees to.
type byLevel struct {
	*model
	judge *judge
	heads order.Heap[*queue]
	// borrowers are the heads that would borrow, by tree: their level is looked at
	// again when another of the tree is admitted.
	borrowers   map[*quota.Node][]*queue
	readyQueues []*queue // what ready returned
}

// turns is whose turn is next: the order of the heads, the first workloads of queues
// that may be judged. byLevel is Kueue's order without fair sharing, byShare that with it.
//
// Both find out lazily how a head stands: it starts as well as it, or any behind it,
// could stand, and learns the truth when its turn comes.
type turns interface { //nolint:interfacebloat // one order of heads is one value
	// renew begins anew with the queues and trees as they are now.
	renew()
	// rehead puts a queue among the heads, as well as it could stand, or takes it off.
	rehead(q *queue)
	// next returns the queue whose head is next; nil if there is none.
	next() *queue
	// fallsBack corrects how a head stands by its verdict, and reports whether another
	// queue is next now.
	fallsBack(w *workload, v *verdict) bool
	// given has heads judged again that may stand otherwise since a workload got its quota
	// and nodes.
	given(w *workload)
	// resume begins another Decide: what may have changed about heads since is forgotten.
	resume()
	// ready returns the queues with a head in no particular order, until the next call.
	ready() []*queue

	// dump and load are of one queue with a head.
	dump(q *queue) *HeadState
	load(q *queue, s *HeadState)
}

// stabilizer keeps decisions back that a change could make in vain which is written
// one object after the other: a label on ten jobs, the quota of one queue and then that of
// another. A person changes one thing; decisions that fall between the writes evict
// workloads that nobody would evict at the end.
//
// So a tree in which something was changed that was there is left alone until nothing more was
// changed in it for Options.StabilizationWindow, or changes have gone on for mostWindows times as long.
// Until then
//   - none of it is judged at all, if it is what the tree gives that changed: queues, cohorts,
//     flavors, LocalQueues, namespaces; or which workloads stand in a queue, or which of a
//     StrictFIFO queue is the first, for whom others leave room;
//   - none evicts in it, and no workload that was itself changed is judged, nor any behind
//     it, if it is priorities alone that changed. All others start meanwhile as they ever do.
//
// What is new changes nothing that was there: workloads that are submitted, queues in no cohort.
type stabilizer struct {
	*model
	turns turns
	// began says that a Decide was made: before, there is nothing that could have changed.
	began bool
	// touched are the queues in whose trees something changed since the last Decide, walked
	// the trees of which all queues are listed.
	touched []*queue
	walked  map[*quota.Node]bool
	// cohorts are the cohorts that changed since, wherever in a tree each is now.
	cohorts []*quota.Node
	// shifted are the workloads that were changed themselves.
	shifted []*workload
	// until is when the first tree counts as settled, zero if all do.
	until time.Time
}

// history is what LocalQueues used in the past.
type history struct {
	*model
	pending *pending
	// metered are the local queues that go by past usage, sampled when that was counted.
	metered []*localQueue
	sampled time.Time
}
