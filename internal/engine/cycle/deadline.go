package cycle

import (
	"cmp"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// defaultObserve is how long an admission may stay unobserved.
const defaultObserve = 5 * time.Minute

// nextWake is the earliest time by which an admission must have been seen; zero if none
// is awaited.
func (ad *admissions) nextWake() time.Time {
	if t := ad.deadlines.first(); t != nil {
		return t.at
	}
	return time.Time{}
}

// deadlines are timers in the order of their times. They are set for the same span from now,
// so that a later one goes to the end, and most are taken back before: those are left where
// they are, and skipped when their turn comes.
type deadlines struct {
	timers []*timer
	// done counts those in front that are over, idle all that were taken back and are not.
	done, idle int
}

// first is the earliest, nil if there is none.
func (d *deadlines) first() *timer {
	for d.done < len(d.timers) && d.timers[d.done].workload == nil {
		d.timers[d.done] = nil
		d.done++
		d.idle--
	}
	if d.done < len(d.timers) {
		return d.timers[d.done]
	}
	return nil
}

// add sets a timer, behind those of the same time.
func (d *deadlines) add(t *timer) {
	if d.done+d.idle > 16+len(d.timers)/2 {
		d.timers = slices.DeleteFunc(d.timers, func(t *timer) bool { return t == nil || t.workload == nil })
		d.done, d.idle = 0, 0
	}
	d.timers = append(d.timers, t)
	for i := len(d.timers) - 1; i > d.done && d.timers[i-1].at.After(t.at); i-- { // the clock went back
		d.timers[i-1], d.timers[i] = t, d.timers[i-1]
	}
}

// cancel takes a timer back. Most are taken back in the order in which they were set: those
// that are over are passed here, one at a time, and not all in the next decision.
func (d *deadlines) cancel(t *timer) {
	t.workload = nil
	d.idle++
	d.first()
}

// due takes the workloads whose deadline is over off the list, in order of time and key.
func (d *deadlines) due(now time.Time) (out []*workload) {
	var over []timer
	for t := d.first(); t != nil && !t.at.After(now); t = d.first() {
		over = append(over, *t)
		d.cancel(t)
	}
	slices.SortFunc(over, func(a, b timer) int {
		return cmp.Or(a.at.Compare(b.at), a.workload.Key.Compare(b.workload.Key))
	})
	for _, t := range over {
		out = append(out, t.workload)
	}
	return out
}

// expect sets the time by which an admission decided here must be seen in the
// API. The controllers report what they could not write; this is for what it lost.
func (ad *admissions) expect(w *workload) {
	ad.unexpect(w)
	ad.expectBy(w, ad.now.Add(ad.opt.Observe))
}

func (ad *admissions) expectBy(w *workload, at time.Time) {
	w.deadline = &timer{workload: w, at: at}
	ad.deadlines.add(w.deadline)
}

func (ad *admissions) unexpect(w *workload) {
	if w.deadline != nil {
		ad.deadlines.cancel(w.deadline)
		w.deadline = nil
	}
}

// expire takes back admissions that were never seen, and says so: the workload is
// decided anew. If the admission is seen later after all, it counts as any other.
func (ad *admissions) expire() {
	for _, w := range ad.deadlines.due(ad.now) {
		w.deadline = nil
		if w.State() == running && w.neverSeen() {
			why := &core.Reason{Code: core.PendingEvaluation, Cause: core.AdmissionLost, Queue: w.admission.Queue}
			ad.release(w)
			ad.draft.report(w, why)
		}
	}
}
