// Package ledger is the only owner of what each workload holds: quota in the tree of
// queues and pods on nodes, now and once all that were evicted are gone.
//
// What one workload holds is an Allocation. It is in one of four states, and five
// verbs lead from one to the next:
//
//	         Promise
//	Free ───────────> Promised
//	 │ ^                 │
//	 │ └──── Release ────┘
//	 │ ^
//	 │ └──── Release ──────────────┐
//	 │                             │
//	 └── Hold ──> Held ── Leave ─> Leaving
//	                ^                │
//	                └ CancelEviction ┘
//
// A workload that was evicted holds quota and nodes until it is gone, but
// no plan counts on that any more: it is booked in core.Current and not in
// core.Projected. A plan that waits for it is booked in core.Projected and not in
// core.Current. So no third workload can take it, and what is free at this moment is
// what neither of the two accounts uses.
//
// A question that starts with "what if these were gone" is a Trial: whatever it
// books or takes off is undone when it ends.
//
// Invariants, checked by Check: both accounts, and that of what was seen, hold
// exactly what the states of all allocations say, on queues and on nodes.
package ledger

import (
	"iter"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// AllocationState is what an allocation is in.
type AllocationState uint8

// The states of an allocation.
const (
	// Free: nothing is held.
	Free AllocationState = iota
	// Promised: a plan that waits until others are gone.
	Promised
	// Held: quota and nodes are in use, or may be at any moment.
	Held
	// Leaving: it was evicted and still holds all of it.
	Leaving
)

// In reports whether an allocation of the state is booked in an account.
func (s AllocationState) In(account core.Account) bool {
	switch s {
	case Held:
		return true
	case Leaving:
		return account == core.Current
	case Promised:
		return account == core.Projected
	case Free:
	}
	return false
}

// apart is 1 for states that are booked in one of the two accounts only.
func (s AllocationState) apart() int {
	if s == Promised || s == Leaving {
		return 1
	}
	return 0
}

// Allocation is what one workload holds or is promised: quota of a queue, and pods
// on nodes. Queue, Uses and Holds may only be changed while it is Free.
type Allocation struct {
	// ID tells the owners of pods on a node apart.
	ID    int32
	Queue *quota.Node
	Uses  []quota.Use
	Holds []place.Hold
	// Unseen is true until the admission was seen in the API, or its write accepted.
	// It is set while the allocation is Free, and ends with Observe.
	Unseen bool

	state AllocationState
	// seen says that it is booked in account quota.Seen, unsettled that it is in
	// core.Projected and not there: both with fair sharing only.
	seen, unsettled bool
	// out says that a trial has taken it off, tried that one may have.
	out, tried bool
}

// State returns what the allocation is in.
func (a *Allocation) State() AllocationState { return a.state }

// Seen reports whether the allocation is booked in account quota.Seen.
func (a *Allocation) Seen() bool { return a.seen }

// Ledger books allocations on queues and nodes. The forest and the nodes are read by
// all of the engine; what is used of them changes here only.
type Ledger struct {
	Forest *quota.Forest
	Nodes  *place.Nodes
	// fair keeps account quota.Seen, too, by which fair sharing counts shares.
	fair      bool
	unsettled int
	// trials are the trials under way, and those to be used again.
	trials []*Trial
	depth  int
}

// New returns a ledger in which nothing is held. It keeps whole nodes of the
// resource pack free, and with fair an account of what was seen.
func New(pack string, fair bool) *Ledger { //nolint:revive // it is what the engine is asked to do
	l := &Ledger{Forest: quota.New(), Nodes: place.New(pack), fair: fair}
	if fair {
		l.Forest.Track()
	}
	return l
}

// Hold books what a workload is given now.
func (l *Ledger) Hold(a *Allocation) { l.move(a, Held) }

// Promise books a plan that is carried out once others are gone.
func (l *Ledger) Promise(a *Allocation) { l.move(a, Promised) }

// Leave notes that a workload was evicted: what it holds may be promised to others. It
// may have been evicted before the engine knew that it holds something.
func (l *Ledger) Leave(a *Allocation) { l.move(a, Leaving) }

// CancelEviction takes an eviction back.
func (l *Ledger) CancelEviction(a *Allocation) { l.move(a, Held) }

// Release takes off whatever is held or promised.
func (l *Ledger) Release(a *Allocation) {
	l.move(a, Free)
	a.Uses, a.Holds = nil, nil
}

// Observe notes that the admission of an allocation is a fact.
func (l *Ledger) Observe(a *Allocation) {
	a.Unseen = false
	l.trackSeen(a)
}

// Unsettled is how many allocations are booked in core.Projected and not in quota.Seen,
// with fair sharing. While there are none, the two accounts are the same.
func (l *Ledger) Unsettled() int { return l.unsettled }

// move is every change of state.
func (l *Ledger) move(a *Allocation, to AllocationState) {
	from := a.state
	a.state = to
	for account := range core.Accounts {
		switch is := to.In(account); {
		case is == from.In(account):
		case is:
			l.Forest.Add(account, a.Queue, a.Uses)
			l.Nodes.Take(account, a.Holds, a.ID)
		default:
			l.Forest.Remove(account, a.Queue, a.Uses)
			l.Nodes.Give(account, a.Holds, a.ID)
		}
	}
	l.Nodes.Split(to.apart() - from.apart())
	l.trackSeen(a)
}

// trackSeen keeps account quota.Seen, and how many are missing there.
func (l *Ledger) trackSeen(a *Allocation) {
	if !l.fair {
		return
	}
	if is := a.state == Held && !a.Unseen; is != a.seen {
		a.seen = is
		if is {
			l.Forest.Add(quota.Seen, a.Queue, a.Uses)
		} else {
			l.Forest.Remove(quota.Seen, a.Queue, a.Uses)
		}
	}
	if is := a.state.In(core.Projected) && !a.seen; is != a.unsettled {
		a.unsettled = is
		if is {
			l.unsettled++
		} else {
			l.unsettled--
		}
	}
}

// Fits reports whether an allocation that is not booked in an account has room there,
// where it is planned.
func (l *Ledger) Fits(account core.Account, a *Allocation) bool {
	for _, u := range a.Uses {
		if u.Amount > a.Queue.Room(account, u.Pair) {
			return false
		}
	}
	return l.Nodes.Holdable(account, a.Holds)
}

// Recount books the quota of all allocations anew: after a sum that overflowed, which
// cannot be undone.
func (l *Ledger) Recount(all iter.Seq[*Allocation]) {
	l.Forest.ClearUsage()
	for a := range all { // sums, so that order does not matter
		for account := range core.Accounts {
			if a.state.In(account) {
				l.Forest.Add(account, a.Queue, a.Uses)
			}
		}
		if a.seen {
			l.Forest.Add(quota.Seen, a.Queue, a.Uses)
		}
	}
}
