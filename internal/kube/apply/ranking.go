package apply

import (
	"container/heap"

	"github.com/mlbatch/mlbatch/internal/core"
)

// ranking is the order in which workloads are written: by rank, the highest
// first, and in the order of arrival among equals. It implements
// workqueue.Queue, which serialises its calls.
type ranking struct {
	// rank may not call the work queue that this one belongs to.
	rank    func(core.Key) int64
	waiting ranked
	arrived uint64
}

type entry struct {
	key     core.Key
	rank    int64
	arrived uint64
}

// Push implements workqueue.Queue.
func (r *ranking) Push(k core.Key) {
	r.arrived++
	heap.Push(&r.waiting, entry{k, r.rank(k), r.arrived})
}

// Touch implements workqueue.Queue: k is added again while it waits, so its rank
// may have changed.
func (r *ranking) Touch(k core.Key) {
	rank := r.rank(k)
	for i := range r.waiting {
		if w := &r.waiting[i]; w.key == k && w.rank != rank {
			w.rank = rank
			heap.Fix(&r.waiting, i)
			return
		}
	}
}

// Len implements workqueue.Queue.
func (r *ranking) Len() int { return len(r.waiting) }

// Pop implements workqueue.Queue.
func (r *ranking) Pop() core.Key { return heap.Pop(&r.waiting).(entry).key } //nolint:forcetypeassert // it holds nothing else

type ranked []entry

// Len implements heap.Interface.
func (w *ranked) Len() int { return len(*w) }

// Less implements heap.Interface.
func (w *ranked) Less(i, j int) bool {
	a, b := &(*w)[i], &(*w)[j]
	if a.rank != b.rank {
		return a.rank > b.rank
	}
	return a.arrived < b.arrived
}

// Swap implements heap.Interface.
func (w *ranked) Swap(i, j int) { (*w)[i], (*w)[j] = (*w)[j], (*w)[i] }

// Push implements heap.Interface.
func (w *ranked) Push(x any) { *w = append(*w, x.(entry)) } //nolint:forcetypeassert // it holds nothing else

// Pop implements heap.Interface.
func (w *ranked) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}
