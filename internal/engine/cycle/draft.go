package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// draft is the plan being made.
type draft struct {
	plan core.Plan
	// admitsReported says that a workload was admitted whose reason for waiting had been reported, perhaps
	// by the same plan.
	admitsReported bool
}

// begin begins an empty plan.
func (dr *draft) begin() { dr.plan = nil }

// decide adds decisions to the plan.
func (dr *draft) decide(d ...core.Decision) { dr.plan = append(dr.plan, d...) }

// admits notes that a workload is admitted whose reason for waiting may have been reported.
func (dr *draft) admits(w *workload) { dr.admitsReported = dr.admitsReported || w.reported != nil }

// report tells a workload why it waits, unless it knows.
func (dr *draft) report(w *workload, why *core.Reason) {
	if w.reported != nil && sameFacts(*w.reported, *why) {
		return
	}
	dr.tell(w, why)
}

// tell tells a workload why it waits, and what is held for it meanwhile.
func (dr *draft) tell(w *workload, why *core.Reason) {
	w.reported = why
	dr.plan = append(dr.plan, core.Refuse{Key: w.Key, Why: *why, Next: w.next()})
}

// withdrawReasons takes the reasons of workloads out of the plan that it admits after all: what
// these waited for came free within the decision. That an earlier admission was lost is reported
// all the same.
func (dr *draft) withdrawReasons() {
	if !dr.admitsReported {
		return
	}
	dr.admitsReported = false
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
