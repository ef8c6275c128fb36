package cycle

import (
	"math"

	"github.com/mlbatch/mlbatch/internal/engine/order"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

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

// newTurns returns the order that the options ask for. parkIdle puts groups of a queue
// aside that would be refused again.
func newTurns(m *model, j *judge, parkIdle func(*queue) bool) turns {
	if m.opt.FairSharing == nil {
		return &byLevel{model: m, judge: j, borrowers: map[*quota.Node][]*queue{}}
	}
	return &byShare{model: m, judge: j, parkIdle: parkIdle, wanted: map[*place.Class]int32{}}
}

// reheadAll has all heads judged again.
func reheadAll(t turns) {
	for _, q := range t.ready() {
		t.rehead(q)
	}
}

// hasHead reports whether the first workload of a queue may be judged.
func (q *queue) hasHead() bool {
	return q.active.Len() > 0 && q.closed == nil && q.ahead() == nil && q.mayJudge()
}

// standBest lets the head of a queue stand as well as it could.
func (q *queue) standBest() {
	q.head, q.exact = order.Head{Key: q.first().turn()}, false
	if q.byUsage { // one behind it may have a higher priority; its turn corrects it
		q.head.Key = order.Key{Priority: math.MaxInt64, Time: math.MinInt64}
	}
}
