package core

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"
)

// Weight is how much of what is shared a queue, a cohort or a local queue may
// claim beside its siblings, in billionths, so that quantities down to 1n are
// exact. Where a weight is optional, nil means WeightOne. Weight 0 claims
// nothing: a queue that has it and borrows is ranked behind all others.
type Weight int64

// WeightOne is the weight of queues and cohorts that name none.
const WeightOne Weight = 1e9

// HeaviestWeight is the largest weight that can be told from others, about 9.2
// billion; larger ones are taken for it.
const HeaviestWeight Weight = math.MaxInt64

// WeightOr returns the weight that w points to, WeightOne if it is nil. Negative
// weights count as 0.
func WeightOr(w *Weight) Weight {
	if w == nil {
		return WeightOne
	}
	return max(0, *w)
}

// String prints the weight as a decimal number.
func (w Weight) String() string {
	s := strconv.FormatInt(int64(w/WeightOne), 10)
	rest := w % WeightOne
	if rest < 0 {
		rest = -rest
	}
	if rest == 0 {
		return s
	}
	digits := strconv.FormatInt(int64(WeightOne+rest), 10)[1:]
	return s + "." + strings.TrimRight(digits, "0")
}

// FairStrategy is a rule by which fair sharing lets a workload evict one of
// another queue: it compares how much of what is shared both sides would have.
type FairStrategy string

// The strategies.
const (
	// LessThanOrEqualToFinalShare evicts if the preemptor's side, with the
	// workload, has no more than the victim's side is left with.
	LessThanOrEqualToFinalShare FairStrategy = "LessThanOrEqualToFinalShare"
	// LessThanInitialShare evicts if the preemptor's side, with the workload, has
	// less than the victim's side has before.
	LessThanInitialShare FairStrategy = "LessThanInitialShare"
)

// FairSharing is how queues of a cohort share what none of them owns.
type FairSharing struct {
	// Strategies are tried in order; either one, or both in the order of their
	// declaration. None means both.
	Strategies []FairStrategy
	// NonBorrowingFirst lets workloads go first whose side of the tree stays
	// within its quota of what they ask for (gate FairSharingPrioritizeNonBorrowing).
	NonBorrowingFirst bool
	// ReclaimNominal lets a queue take back quota that it owns whatever the shares
	// are (gate FairSharingPreemptWithinNominal).
	ReclaimNominal bool
}

// DefaultFairSharing is fair sharing with both strategies and both rules on.
func DefaultFairSharing() *FairSharing {
	return &FairSharing{
		Strategies:        []FairStrategy{LessThanOrEqualToFinalShare, LessThanInitialShare},
		NonBorrowingFirst: true, ReclaimNominal: true,
	}
}

// AdmissionFairSharing is how past usage counts in queues that go by it. The
// zero value is complete: a queue that asks for it gets it.
type AdmissionFairSharing struct {
	// HalfLife is the time after which past usage counts half; 0 means 7 days.
	HalfLife time.Duration
	// Sampling is the time between two samples of usage; 0 means 5 minutes.
	Sampling time.Duration
	// Weights says how much a resource counts; WeightOne if it is not listed.
	Weights map[string]Weight
}

// UsageRank is how much a local queue used for its weight, in units of 2^-32
// thousandths: the queue that used less goes first. It is rounded to a grain of 2^-10
// thousandths, so that equal use is equal.
type UsageRank struct {
	Last   bool // weight 0: behind all others
	Hi, Lo uint64
}

// Compare is negative if s goes before o.
func (s UsageRank) Compare(o UsageRank) int {
	if s.Last != o.Last {
		if s.Last {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(s.Hi, o.Hi), cmp.Compare(s.Lo, o.Lo))
}
