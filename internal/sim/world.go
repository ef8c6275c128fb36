package sim

import (
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// World is all that a run depends on.
type World struct {
	Name string
	// Seed decides everything that is left to chance.
	Seed uint64
	// Start is the moment that all times below count from.
	Start time.Time
	// Horizon ends the run; zero lets it go on until nothing can happen any more.
	Horizon time.Duration
	Engine  cycle.Options
	// Objects exist from the start: flavors, cohorts, queues, local queues,
	// namespaces and nodes.
	Objects []core.Event
	// Spares are how many nodes of flavors are kept for recovery, where pods exist one by one. Those say that it is so.
	Spares map[string]nodehealth.Spares
	// Jobs sorted by Submit.
	Jobs []Job
	// Script is what else happens, sorted by At.
	Script []Op
	Teams  []Team
	// Checks are the admission checks of queues; a queue without one runs its jobs
	// as soon as they have quota.
	Checks []Check
	// Lifecycle, if not nil, has the controllers' own rules decide what becomes of
	// jobs between their quota and their end, instead of the simple ones here.
	// Rules brings them.
	Lifecycle *Lifecycle
	Rules     Rules
	// Unit is the resource that is reported: core.GPU if empty.
	Unit    string
	Cluster ClusterModel
	Faults  Faults
	// Recovery, if not nil, is what becomes of jobs under which something fails (Op.Fault).
	Recovery *Recovery
}

// Team is a queue as reports show it.
type Team struct {
	Name  string
	Queue string // the ClusterQueue
	// Weight is the team's share in fair sharing; zero means its nominal quota.
	Weight float64
}

// Check is an admission check of a queue: once a job has quota, the check
// must agree before its pods are made.
type Check struct {
	Queue string // the ClusterQueue
	// Answer is how long it takes to answer.
	Answer Span
	// Retry and Reject are the shares of answers that send a job back to its queue
	// for Backoff, and for good.
	Retry, Reject float64
	Backoff       time.Duration
	// Revoke and Repeat are the shares of answers that are taken back later, and
	// that are given again later; only with Lifecycle.
	Revoke, Repeat float64
}

// Job is one job to come.
type Job struct {
	Key core.Key
	UID string
	// Queue is the LocalQueue in the job's namespace.
	Queue    string
	Priority int32
	PodSets  []core.PodSet
	Submit   time.Duration
	// Work is how long its pods run when all of them do and are left alone; with
	// fewer it takes as much longer.
	Work time.Duration
	// Checkpoint is how often progress is saved; zero: a stopped job starts over.
	Checkpoint time.Duration
	// GatedBy and PreemptionGate are closed gates; a Change opens them.
	GatedBy, PreemptionGate string
	// EarlyPods of the first pod set end EarlyAfter all pods began to run, and give
	// back what they held. One pod at least goes on.
	EarlyPods  int32
	EarlyAfter time.Duration
	// Stuck is how many times its pods start and never come up, and Limit how long
	// it may be admitted, 0 for ever; both only with Lifecycle.
	Stuck int
	Limit time.Duration
	// Refusing are nodes that take no more than so many pods of its first pod set, for
	// RefusingFor after it was submitted, which the engine is not told; only with Lifecycle, and not where
	// pods exist one by one.
	Refusing    []core.NodeRefusal
	RefusingFor time.Duration
	// Grace is how long its pods go on when they are deleted, and Eager says that
	// they are replaced at once and not when they have ended; both only where pods
	// exist one by one.
	Grace time.Duration
	Eager bool
	// Steps, if not nil, are the steps that it tells of; only in worlds with Recovery.
	Steps *Steps
}

// Op is one thing that happens to the world. Exactly one of the fields after At
// is set. An Op about something that does not exist does nothing, so that any
// subset of a script is a script.
type Op struct {
	At time.Duration
	// Object appears, changes or goes (any event but those of workloads).
	Object core.Event
	// Job is submitted.
	Job *Job
	// Delete is a job that its user deletes; its pods take a while to go.
	Delete *core.Key
	// Finish is a running job that ends now.
	Finish *core.Key
	// Change is a job whose user edits it.
	Change *JobEdit
	// Restart kills the process that decides and starts a new one.
	Restart bool
	// Refuse makes the API server reject the next write of a decision.
	Refuse bool
	// Act is a tenant at work.
	Act *Act
	// Fault is something that fails on a node; only in worlds with Recovery.
	Fault *Fault
}

// JobEdit is an edit of a job.
type JobEdit struct {
	Key      core.Key
	Priority *int32
	// Held says why the job must not be considered; "" lets it be.
	Held *string
	// GatedBy and PreemptionGate close a gate; "" opens it.
	GatedBy, PreemptionGate *string
}

// Span is a time drawn evenly from Min to Max for each use.
type Span struct{ Min, Max time.Duration }

// Always is a span that is always d.
func Always(d time.Duration) Span { return Span{d, d} }

// ClusterModel says how slow and unreliable everything around the engine is.
type ClusterModel struct {
	// Write is from a decision until the API server has it, Observe from any state
	// of the API until the engine is told.
	Write, Observe Span
	// Start is from an admission until all pods run, Stop from an order to stop
	// until all pods are gone.
	Start, Stop Span
	// Detect is from a node's failure until its pods are known to be lost.
	Detect Span
	// Refuse and Repeat are the shares of writes that are rejected, and of events
	// that are told twice.
	Refuse, Repeat float64
	// KeepNodes is for how long jobs whose nodes failed keep the others, if the engine lets them.
	KeepNodes time.Duration
}

// Faults happen by chance.
type Faults struct {
	// MTBF is a node's mean time between failures, 0 for never; MTTR the mean time
	// until it is repaired. Both are exponentially distributed.
	MTBF, MTTR time.Duration
	// Restarts is the mean time between restarts of the process, 0 for never.
	Restarts time.Duration
}

func (w *World) unit() string {
	if w.Unit == "" {
		return core.GPU
	}
	return w.Unit
}
