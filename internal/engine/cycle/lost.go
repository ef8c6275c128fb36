package cycle

import (
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// defaultObserve is how long an admission may stay unobserved.
const defaultObserve = 5 * time.Minute

// expect sets the time by which an admission decided here must be seen in the
// API. The edge reports what it could not write; this is for what it lost.
func (e *Engine) expect(w *workload) {
	e.unexpect(w)
	w.deadline = &timer{workload: w, at: e.now.Add(e.opt.Observe)}
	e.deadlines.Push(w.deadline)
}

func (e *Engine) unexpect(w *workload) {
	if w.deadline != nil {
		e.deadlines.Remove(w.deadline)
		w.deadline = nil
	}
}

// expire takes back admissions that were never seen, and says so: the workload is
// decided anew. If the admission is seen later after all, it counts as any other.
func (e *Engine) expire() {
	for e.deadlines.Len() > 0 && !e.deadlines.First().at.After(e.now) {
		w := e.deadlines.First().workload
		e.unexpect(w)
		if w.phase == running && w.assumed && w.seen == nil {
			why := &core.Reason{Code: core.PendingEvaluation, Cause: core.AdmissionLost, Queue: w.admission.Queue}
			e.release(w)
			e.say(w, why)
		}
	}
}
