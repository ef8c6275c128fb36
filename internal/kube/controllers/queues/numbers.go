package queues

import (
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Numbers says how full the queues are. Its methods may be called from several
// goroutines at any time, and are quick.
type Numbers interface {
	// Queue returns how full a ClusterQueue is, false as long as it is not
	// known: the queue was never heard of, or not all workloads that exist at
	// the start have been counted yet. The caller does not change the result.
	Queue(name string) (core.Load, bool)
	// LocalQueue does the same for a LocalQueue.
	LocalQueue(namespace, name string) (core.Load, bool)
	// CohortShare returns the weighted share of a cohort, false while it is not
	// known or fair sharing is off.
	CohortShare(name string) (core.Share, bool)
	// Changed returns a channel, always the same, on which a value arrives after
	// some of it changed. Several changes may share one value; none is lost.
	// There is one receiver.
	Changed() <-chan struct{}
}

// CohortGauges shows the state of cohorts outside the API.
type CohortGauges interface {
	// SetCohortShare shows the weighted share of a cohort, ForgetCohort drops it.
	SetCohortShare(name string, share float64)
	ForgetCohort(name string)
}

// Gauges shows the state of queues outside the API; *metrics.Metrics does.
type Gauges interface {
	CohortGauges
	// SetQueue shows the state of a ClusterQueue instead of what was shown.
	SetQueue(q view.ClusterQueue)
	// ForgetQueue drops all that was shown of a ClusterQueue.
	ForgetQueue(name string)
	// SetLocalQueue and ForgetLocalQueue do the same for LocalQueues.
	SetLocalQueue(q view.LocalQueue)
	ForgetLocalQueue(namespace, name string)
}
