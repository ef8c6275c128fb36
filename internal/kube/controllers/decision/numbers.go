package decision

import (
	"math"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
	"github.com/mlbatch/mlbatch/internal/facts"
	"github.com/mlbatch/mlbatch/internal/kube/metrics"
)

// Queue returns how full a ClusterQueue is, false until all Workloads that
// exist have been counted.
func (l *Loop) Queue(name string) (facts.Load, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.counted {
		return facts.Load{}, false
	}
	load := loadOf(l.engine.Counts(name), l.engine.Usage(name))
	if l.engine.Shares() {
		load.Share = new(shareOf(l.engine.ShareOf(name)))
	}
	return load, true
}

// CohortShare returns the share of a cohort; false while fair sharing is off, and
// until all Workloads that exist have been counted.
func (l *Loop) CohortShare(name string) (facts.Share, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.counted || !l.engine.Shares() {
		return facts.Share{}, false
	}
	return shareOf(l.engine.CohortShareOf(name)), true
}

func shareOf(s quota.DominantResourceShare) facts.Share {
	out := facts.Share{Rounded: s.Value(), Exact: math.NaN()}
	if exact := s.Exact(); exact != nil {
		out.Exact, _ = exact.Float64()
	}
	return out
}

// LocalQueue does the same for a LocalQueue.
func (l *Loop) LocalQueue(namespace, name string) (facts.Load, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.counted {
		return facts.Load{}, false
	}
	load := loadOf(l.engine.LocalCounts(namespace, name), l.engine.LocalUsage(namespace, name))
	load.Consumed, load.ConsumedAt, _ = l.engine.Consumed(namespace, name)
	return load, true
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

func loadOf(c cycle.Counts, usage []cycle.Usage) facts.Load {
	out := facts.Load{
		Pending:      clip(c.Active),
		Inadmissible: clip(c.Inadmissible),
		Reserving:    clip(c.Reserving),
		Admitted:     clip(c.Admitted),
		Reserved:     map[core.FlavorResource]core.Amount{},
		Used:         map[core.FlavorResource]core.Amount{},
	}
	for _, u := range usage {
		out.Reserved[u.FlavorResource] = u.Total
		out.Used[u.FlavorResource] = u.Admitted
	}
	return out
}

func clip(n int) int32 { return int32(min(n, 1<<31-1)) } //nolint:gosec // bounded on this line

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
