package queues

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/metrics"
)

// Numbers says how full the queues are. Its methods may be called from several
// goroutines at any time, and are quick.
type Numbers interface {
	// Queue returns the tally of a ClusterQueue, false as long as it is not
	// known: the queue was never heard of, or not all workloads that exist at
	// the start have been counted yet. The caller does not change the result.
	Queue(name string) (Tally, bool)
	// LocalQueue does the same for a LocalQueue.
	LocalQueue(namespace, name string) (Tally, bool)
	// CohortShare returns the weighted share of a cohort, false while it is not
	// known or fair sharing is off.
	CohortShare(name string) (Share, bool)
	// Changed returns a channel, always the same, on which a value arrives after
	// some tally changed. Several changes may share one value; none is lost.
	// There is one receiver.
	Changed() <-chan struct{}
}

// Share is a weighted share in thousandths.
type Share struct {
	// Rounded up, for the API: math.MaxInt64 of a weight of 0 that borrows.
	Rounded int64
	// Exact, for metrics: not a number of a weight of 0 that borrows.
	Exact float64
}

func (s Share) equal(o Share) bool {
	return s.Rounded == o.Rounded && (s.Exact == o.Exact || math.IsNaN(s.Exact) && math.IsNaN(o.Exact))
}

// Tally is how full one queue is.
type Tally struct {
	// Pending workloads that are looked at, and Inadmissible ones, which are
	// parked until what they wait for changes. A workload is in one of the two.
	Pending, Inadmissible int32
	// Reserving workloads hold quota, those that are being evicted included;
	// Admitted ones of them may run.
	Reserving, Admitted int32
	// Reserved is what reserving workloads count against the quota; Used is
	// what admitted ones do. What is missing is 0.
	Reserved, Used map[core.FlavorResource]core.Amount
	// Consumed is what a LocalQueue used in the past, in thousandths of base units,
	// as of ConsumedAt; that is zero unless its queue goes by past usage.
	Consumed   core.Resources
	ConsumedAt time.Time
	// Share is the weighted share of a ClusterQueue; nil while fair sharing is off.
	Share *Share
}

func (t Tally) equal(o Tally) bool {
	return t.Pending == o.Pending && t.Inadmissible == o.Inadmissible &&
		t.Reserving == o.Reserving && t.Admitted == o.Admitted &&
		(t.Share == nil) == (o.Share == nil) && (t.Share == nil || t.Share.equal(*o.Share)) &&
		t.ConsumedAt.Equal(o.ConsumedAt) && slices.Equal(t.Consumed, o.Consumed) && maps.Equal(t.Reserved, o.Reserved) && maps.Equal(t.Used, o.Used)
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
	SetQueue(q metrics.Queue)
	// ForgetQueue drops all that was shown of a ClusterQueue.
	ForgetQueue(name string)
	// SetLocalQueue and ForgetLocalQueue do the same for LocalQueues.
	SetLocalQueue(q metrics.LocalQueue)
	ForgetLocalQueue(namespace, name string)
}
