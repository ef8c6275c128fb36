package lifecycle

import (
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Policy are the fault-tolerance parameters of one job.
type Policy struct {
	// AdmissionGrace is how long fewer pods than expected may exist.
	AdmissionGrace time.Duration
	// WarmupGrace is how long pods that exist may take to run.
	WarmupGrace time.Duration
	// FailureGrace is how long a failed pod is left before a reset.
	FailureGrace time.Duration
	// RetryPause is the least time from the beginning of a reset to the restart. With PauseSaid, as the job's author did,
	// it is no longer after disruptions in a row.
	RetryPause time.Duration
	PauseSaid  bool
	// RetryLimit is how many resets for failures there are before it fails.
	RetryLimit int32
	// RetryRules say which failures are followed by another attempt, and Disruptions how many of these are: see
	// core.RetryPolicy.
	RetryRules  []core.RetryRule
	Disruptions int32
	// DeletionGrace is how long deletion may take before it is forced.
	DeletionGrace time.Duration
	// FailedGrace is how long the pods of a failed job are kept for
	// debugging, with their quota.
	FailedGrace time.Duration
	// SuccessTTL is how long the components of a succeeded one are kept.
	SuccessTTL time.Duration
	// GraceMaximum bounds every grace above.
	GraceMaximum time.Duration
	// DeletionMaximum bounds DeletionGrace: as long as it lasts, an evicted
	// job keeps what another one was promised.
	DeletionMaximum time.Duration
	// TerminalExitCodes forbid another attempt.
	TerminalExitCodes []int32
	// RetryableExitCodes, if any, are the only ones that allow another attempt.
	RetryableExitCodes []int32
}

// Defaults are the parameters of a job that sets none.
func Defaults() Policy {
	return Policy{
		AdmissionGrace: time.Minute,
		WarmupGrace:    5 * time.Minute,
		FailureGrace:   time.Minute,
		RetryPause:     90 * time.Second,
		RetryLimit:     3,
		DeletionGrace:  10 * time.Minute,
		SuccessTTL:     7 * 24 * time.Hour,
		GraceMaximum:   24 * time.Hour,

		DeletionMaximum: 15 * time.Minute,
	}
}

// retries is what the parameters say of retries.
func (p Policy) retries() *core.RetryPolicy {
	return &core.RetryPolicy{Rules: p.RetryRules, Limit: p.RetryLimit, Disruptions: p.Disruptions}
}

// Terminal reports whether a container that ended with code rules out another
// attempt.
func (p Policy) Terminal(code int32) bool {
	if code == 0 {
		return false
	}
	if slices.Contains(p.TerminalExitCodes, code) {
		return true
	}
	return len(p.RetryableExitCodes) > 0 && !slices.Contains(p.RetryableExitCodes, code)
}
