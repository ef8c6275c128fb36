package decision

import (
	"math"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
	"github.com/mlbatch/mlbatch/internal/kube/metrics"
)

// Queue returns how full a ClusterQueue is, false until all Workloads that
// exist have been counted.
func (l *Loop) Queue(name string) (core.Load, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.counted {
		return core.Load{}, false
	}
	load := l.engine.Load(name)
	if l.engine.Shares() {
		load.Share = new(shareOf(l.engine.ShareOf(name)))
	}
	return load, true
}

// Spares returns the nodes that are kept for recovery, which is not to be changed; false until all that exist are
// known.
func (l *Loop) Spares() (map[string]bool, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spares, l.counted
}

// CohortShare returns the share of a cohort; false while fair sharing is off, and
// until all Workloads that exist have been counted.
func (l *Loop) CohortShare(name string) (core.Share, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.counted || !l.engine.Shares() {
		return core.Share{}, false
	}
	return shareOf(l.engine.CohortShareOf(name)), true
}

func shareOf(s quota.DominantResourceShare) core.Share {
	out := core.Share{Rounded: s.Value(), Exact: math.NaN()}
	if exact := s.Exact(); exact != nil {
		out.Exact, _ = exact.Float64()
	}
	return out
}

// LocalQueue does the same for a LocalQueue.
func (l *Loop) LocalQueue(namespace, name string) (core.Load, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.counted {
		return core.Load{}, false
	}
	return l.engine.LocalLoad(namespace, name), true
}

// EachWaiting tells of every workload that waits, see metrics.Visit.
func (l *Loop) EachWaiting(tell metrics.Visit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.engine.EachWaiting(tell)
}

// EachAdmitted tells of every workload that is admitted.
func (l *Loop) EachAdmitted(tell func(queue string, key core.Key)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.engine.EachAdmitted(tell)
}

// Changed says that numbers may have changed.
func (l *Loop) Changed() <-chan struct{} { return l.changed }

// look gives a question the engine; false until all Workloads that exist have been
// counted, and for ever in a process that does not decide.
func (l *Loop) look(ask func(*cycle.Engine)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.counted {
		return false
	}
	ask(l.engine)
	return true
}

// Decides is closed when the loop has decided for the first time.
func (l *Loop) Decides() <-chan struct{} { return l.decides }
