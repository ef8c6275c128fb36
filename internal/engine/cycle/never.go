package cycle

import (
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Never says why a workload that is not there could not start as it is, were it submitted now,
// even if nothing else ran or waited; impossible is false if it could, or if that is not known. It
// changes nothing: a copy of what the engine was told, without workloads, is told of this one.
// look and now are as for Explain.
func Never(look func(func(*Engine)) error, w core.Workload, now time.Time) (why core.Reason, impossible bool, err error) {
	s := &State{Version: StateVersion}
	var opt Options
	settled := false
	err = look(func(e *Engine) {
		if settled = !e.edited && !e.forest.Dirty(); settled {
			e.dumpModel(s)
			opt = e.opt
		}
	})
	if err != nil || !settled || len(s.Nodes) == 0 { // a cluster without nodes is only about to begin
		return core.Reason{}, false, err
	}
	opt.Budget, opt.StabilizationWindow = 0, 0
	e, err := Load(opt, s)
	if err != nil {
		return core.Reason{}, false, err
	}
	why, impossible = e.never(w, now)
	return why, impossible, nil
}

// never tells this engine, which is a copy without workloads, of one.
func (e *Engine) never(w core.Workload, now time.Time) (core.Reason, bool) {
	w.Created, w.QueueTime, w.Seq = now, now, 0
	w.GatedBy, w.PreemptionGate = "", "" // gates open
	e.Decide(now)
	e.Apply(core.WorkloadSet{Workload: w})
	for _, d := range e.Decide(now) {
		if a, is := d.(core.Admit); is && a.Key == w.Key {
			return core.Reason{}, false
		}
	}
	why, waits := e.Why(w.Key)
	return why, waits && forever(why)
}

// forever reports whether a workload that is refused for a reason is refused until it, its queue or
// the nodes are others: no other workload's end would help, nor a node that comes back.
func forever(why core.Reason) bool {
	switch why.Code { //nolint:exhaustive // the others pass
	case core.ExceedsMaxQuota, core.NoMatchingFlavor:
		return true
	case core.Misconfigured:
		return why.Cause == core.ResourceUncovered
	case core.TopologyPlacementFailed:
		switch why.Cause { //nolint:exhaustive // the others pass
		case core.PodTooLarge, core.NoSuchNode, core.FlavorEmpty, core.GangTooLarge, core.PodSetsTooLarge:
			return true
		}
	}
	return false
}
