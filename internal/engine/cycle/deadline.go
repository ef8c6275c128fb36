package cycle

import (
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// defaultObserve is how long an admission may stay unobserved.
const defaultObserve = 5 * time.Minute

// nextWake is the earliest time by which an admission must have been seen; zero if none
// is awaited.
func (ad *admissions) nextWake() time.Time {
	if ad.deadlines.Len() == 0 {
		return time.Time{}
	}
	return ad.deadlines.First().at
}

// expect sets the time by which an admission decided here must be seen in the
// API. The controllers report what they could not write; this is for what it lost.
func (ad *admissions) expect(w *workload) {
	ad.unexpect(w)
	ad.expectBy(w, ad.now.Add(ad.opt.Observe))
}

func (ad *admissions) expectBy(w *workload, at time.Time) {
	w.deadline = &timer{workload: w, at: at}
	ad.deadlines.Push(w.deadline)
}

func (ad *admissions) unexpect(w *workload) {
	if w.deadline != nil {
		ad.deadlines.Remove(w.deadline)
		w.deadline = nil
	}
}

// expire takes back admissions that were never seen, and says so: the workload is
// decided anew. If the admission is seen later after all, it counts as any other.
func (ad *admissions) expire() {
	for ad.deadlines.Len() > 0 && !ad.deadlines.First().at.After(ad.now) {
		w := ad.deadlines.First().workload
		ad.unexpect(w)
		if w.State() == running && w.assumed && w.seen == nil {
			why := &core.Reason{Code: core.PendingEvaluation, Cause: core.AdmissionLost, Queue: w.admission.Queue}
			ad.release(w)
			ad.draft.say(w, why)
		}
	}
}
