package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// draft is the plan being made.
type draft struct {
	plan core.Plan
	// repeals says that a workload was admitted that had been told why it waits, perhaps
	// by the same plan.
	repeals bool
}

// begin begins an empty plan.
func (dr *draft) begin() { dr.plan = nil }

// decide adds decisions to the plan.
func (dr *draft) decide(d ...core.Decision) { dr.plan = append(dr.plan, d...) }

// repeal notes that a workload was admitted, which may have been told why it waits.
func (dr *draft) repeal(w *workload) { dr.repeals = dr.repeals || w.told != nil }

// say tells a workload why it waits, unless it knows.
func (dr *draft) say(w *workload, why *core.Reason) {
	if w.told != nil && sameFacts(*w.told, *why) {
		return
	}
	w.told = why
	dr.plan = append(dr.plan, core.Refuse{Key: w.Key, Why: *why})
}

// retract takes back what a plan tells those that it admits after all: what they
// waited for came free within the decision. That an earlier admission was lost is
// said all the same.
func (dr *draft) retract() {
	if !dr.repeals {
		return
	}
	dr.repeals = false
	admitted := map[core.Key]bool{}
	for _, d := range dr.plan {
		if a, ok := d.(core.Admit); ok {
			admitted[a.Key] = true
		}
	}
	dr.plan = slices.DeleteFunc(dr.plan, func(d core.Decision) bool {
		r, ok := d.(core.Refuse)
		return ok && admitted[r.Key] && r.Why.Cause != core.AdmissionLost
	})
}
