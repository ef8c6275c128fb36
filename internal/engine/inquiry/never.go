package inquiry

import (
	"errors"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// Never says why a workload that is not there could not start as it is, were it submitted now,
// even if nothing else ran or waited; impossible is false if it could, or if that is not known: a
// copy of what the engine was told, without workloads, is told of this one. look and now are as for
// Explain.
func Never(look Look, w core.Workload, now time.Time) (why core.Reason, impossible bool, err error) {
	var x *cycle.Excerpt
	err = look.ask(func(v cycle.View) (err error) {
		x, err = v.Surroundings()
		return err
	})
	if errors.Is(err, cycle.ErrUnsettled) {
		return core.Reason{}, false, nil
	}
	if err != nil {
		return core.Reason{}, false, err
	}
	if _, _, nodes := x.Size(); nodes == 0 { // a cluster without nodes is only about to begin
		return core.Reason{}, false, nil
	}
	t, err := begin(x, w.Key, now)
	if err != nil {
		return core.Reason{}, false, err
	}
	why, impossible = t.never(w)
	return why, impossible, nil
}

// never tells the copy, which has no workloads, of one.
func (t *trial) never(w core.Workload) (core.Reason, bool) {
	w.Created, w.QueueTime, w.Seq = t.at, t.at, 0
	w.GatedBy, w.PreemptionGate = "", "" // gates open
	t.engine.Decide(t.at)
	t.observe(w)
	for _, d := range t.engine.Decide(t.at) {
		if a, is := d.(core.Admit); is && a.Key == w.Key {
			return core.Reason{}, false
		}
	}
	why, waits := t.engine.Why(w.Key)
	return why, waits && forever(why)
}

// forever reports whether a workload that is refused for a reason is refused until it, its queue or
// the nodes are others: no other workload's end would help, nor a node that comes back. While quotas are cut, or nodes
// are kept for recovery, it could be for that alone.
func forever(why core.Reason) bool {
	if why.TreeCut > 0 || why.NodesKept > 0 {
		return false
	}
	switch why.Code { //nolint:exhaustive // the others pass
	case core.ExceedsMaxQuota, core.NoMatchingFlavor:
		return true
	case core.Misconfigured:
		return why.Cause == core.ResourceUncovered
	case core.TopologyPlacementFailed:
		switch why.Cause { //nolint:exhaustive // the others pass
		case core.PodTooLarge, core.NoSuchNode, core.FlavorEmpty, core.GangTooLarge, core.DomainTooSmall,
			core.PodSetsTooLarge:
			return true
		}
	}
	return false
}
