package cycle

import (
	"math"

	"github.com/mlbatch/mlbatch/internal/engine/order"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

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
