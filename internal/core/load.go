package core

import (
	"maps"
	"math"
	"slices"
	"time"
)

// Load is how full a queue is at one moment.
type Load struct {
	// Pending workloads are looked at, Inadmissible ones are parked until what they
	// wait for changes. A workload is in one of the two. Where it is not known who
	// is parked, all are Pending.
	Pending, Inadmissible int
	// Reserving workloads hold quota; Evicting ones of them are on their way out, and
	// Admitted ones of them may run.
	Reserving, Evicting, Admitted int
	// Reserved is what reserving workloads count against the quota; Used is what
	// admitted ones do. What is missing is 0.
	Reserved, Used map[FlavorResource]Amount
	// Cut is how much less than promised a ClusterQueue has for now, since nodes are lost. What is missing is 0.
	Cut map[FlavorResource]Amount
	// Consumed is what a LocalQueue used in the past, in thousandths of base units,
	// as of ConsumedAt; that is zero unless its queue goes by past usage.
	Consumed   Resources
	ConsumedAt time.Time
	// Share is the weighted share of a ClusterQueue; nil while fair sharing is off.
	Share *Share
}

// Waiting is how many workloads wait.
func (l Load) Waiting() int { return l.Pending + l.Inadmissible }

// Equal reports whether both say the same.
func (l Load) Equal(o Load) bool {
	return l.Pending == o.Pending && l.Inadmissible == o.Inadmissible &&
		l.Reserving == o.Reserving && l.Evicting == o.Evicting && l.Admitted == o.Admitted &&
		(l.Share == nil) == (o.Share == nil) && (l.Share == nil || l.Share.Equal(*o.Share)) &&
		l.ConsumedAt.Equal(
			o.ConsumedAt,
		) && slices.Equal(l.Consumed, o.Consumed) && maps.Equal(l.Reserved, o.Reserved) && maps.Equal(l.Used, o.Used) && maps.Equal(l.Cut, o.Cut)
}

// Share is a weighted share in thousandths.
type Share struct {
	// Rounded up, for the API: math.MaxInt64 of a weight of 0 that borrows.
	Rounded int64
	// Exact, for metrics: not a number of a weight of 0 that borrows.
	Exact float64
}

// Equal reports whether both are the same share.
func (s Share) Equal(o Share) bool {
	return s.Rounded == o.Rounded && (s.Exact == o.Exact || math.IsNaN(s.Exact) && math.IsNaN(o.Exact))
}
