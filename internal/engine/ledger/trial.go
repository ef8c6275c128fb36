package ledger

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Trial is a question: what if some workloads were gone, or one used more.
// Whatever it changes is undone when it ends, and nothing else notices. Trials may be
// nested; the last one begun ends first.
type Trial struct {
	ledger *Ledger
	was    quota.Pretence
	scope  Scope
	gone   []*Allocation
	asker  *quota.Node
	asks   []quota.Use
	claims []claim
	part   []quota.Use // scratch of concerned
}

// Scope bounds what a trial books, where a question is about less than everything.
type Scope struct {
	// Account is core.Projected, unless the question is about this moment.
	Account core.Account
	// Of are the pairs of flavor and resource that matter; nil for all of them.
	Of []quota.Use
	// NoNodes says that it is about quota alone.
	NoNodes bool
	// Seen says that account quota.Seen matters too, and differs from core.Projected.
	Seen bool
}

// claim is quota that a trial thinks of as used.
type claim struct {
	queue *quota.Node
	pair  quota.FlavorResource
	v     core.Amount
}

// Try asks a question about an account of the tree of a queue and returns its answer.
func (l *Ledger) Try(account core.Account, of *quota.Node, ask func(*Trial) bool) bool {
	t := l.Begin(of, Scope{Account: account})
	defer t.End()
	return ask(t)
}

// Begin begins a trial about the tree of a queue; End ends it.
func (l *Ledger) Begin(of *quota.Node, s Scope) *Trial {
	if l.depth == len(l.trials) {
		l.trials = append(l.trials, &Trial{ledger: l})
	}
	t := l.trials[l.depth]
	l.depth++
	t.was, t.scope = l.Forest.Pretend(of), s
	return t
}

// End undoes whatever the trial changed.
func (t *Trial) End() {
	t.Unclaim()
	t.Restore()
	t.Unask()
	t.ledger.Forest.Undone(t.was)
	t.ledger.depth--
}

// Without takes off an allocation that is booked: the workload is gone.
func (t *Trial) Without(a *Allocation) {
	a.out = true
	if !a.tried {
		a.tried = true
		t.gone = append(t.gone, a)
	}
	l := t.ledger
	l.Forest.Remove(t.scope.Account, a.Queue, t.concerned(a))
	if t.scope.Seen {
		l.Forest.Remove(quota.Seen, a.Queue, a.Uses)
	}
	if !t.scope.NoNodes {
		t.place(a, -1)
	}
}

// With puts an allocation back that the trial has taken off.
func (t *Trial) With(a *Allocation) {
	a.out = false
	l := t.ledger
	l.Forest.Add(t.scope.Account, a.Queue, t.concerned(a))
	if t.scope.Seen {
		l.Forest.Add(quota.Seen, a.Queue, a.Uses)
	}
	if !t.scope.NoNodes {
		t.place(a, 1)
	}
}

// place books pods on their nodes, or takes them off.
func (t *Trial) place(a *Allocation, sign int) {
	t.ledger.Nodes.Imagine(t.scope.Account, a.Holds, int64(sign))
	if t.scope.Account == core.Projected {
		t.ledger.Nodes.Split(-sign)
	}
}

// Restore puts back all that the trial has taken off.
func (t *Trial) Restore() {
	for _, a := range t.gone {
		a.tried = false
		if a.out {
			t.With(a)
		}
	}
	clear(t.gone)
	t.gone = t.gone[:0]
}

// concerned is what an allocation uses of the pairs that matter.
func (t *Trial) concerned(a *Allocation) []quota.Use {
	if t.scope.Of == nil {
		return a.Uses
	}
	t.part = t.part[:0]
	for _, u := range a.Uses {
		if slices.ContainsFunc(t.scope.Of, func(r quota.Use) bool { return r.Pair == u.Pair }) {
			t.part = append(t.part, u)
		}
	}
	return t.part
}

// Ask books what the asker itself would use, so that shares are as they would be then.
// Unask takes it off again.
func (t *Trial) Ask(q *quota.Node, uses []quota.Use) {
	t.asker, t.asks = q, uses
	t.ledger.Forest.Add(core.Projected, q, uses)
}

// Unask undoes Ask.
func (t *Trial) Unask() {
	if t.asker != nil {
		t.ledger.Forest.Remove(core.Projected, t.asker, t.asks)
		t.asker, t.asks = nil, nil
	}
}

// ShareWithout is the share of a node by an account if an allocation below it were gone.
func (t *Trial) ShareWithout(account core.Account, n *quota.Node, a *Allocation) quota.DominantResourceShare {
	t.ledger.Forest.Remove(account, a.Queue, a.Uses)
	defer t.ledger.Forest.Add(account, a.Queue, a.Uses)
	return n.Share(account)
}

// Claim thinks of a queue as using so much more of a pair. Nothing else may be taken
// off or put back before Unclaim.
func (t *Trial) Claim(q *quota.Node, p quota.FlavorResource, v core.Amount) {
	t.ledger.Forest.Book(q, p, v)
	t.claims = append(t.claims, claim{q, p, v})
}

// Unclaim undoes all Claims.
func (t *Trial) Unclaim() {
	for _, c := range slices.Backward(t.claims) {
		t.ledger.Forest.Unbook(c.queue, c.pair, c.v)
	}
	t.claims = t.claims[:0]
}

// StillFits reports whether an allocation that is booked has room where it is planned, apart
// from itself.
func (l *Ledger) StillFits(account core.Account, a *Allocation) bool {
	t := l.Begin(a.Queue, Scope{Account: account})
	defer t.End()
	t.Without(a)
	return l.Fits(account, a)
}

// Suppose thinks of an allocation as in another state; undo takes that back, the last
// supposition first.
func (l *Ledger) Suppose(a *Allocation, is AllocationState) (undo func()) {
	from, seen, was := a.state, a.seen, l.Forest.Pretend(a.Queue)
	to := func(from, is AllocationState, seen bool) {
		for account := range core.Accounts {
			switch in := is.In(account); {
			case in == from.In(account):
			case in:
				l.Forest.Add(account, a.Queue, a.Uses)
				l.Nodes.Imagine(account, a.Holds, 1)
			default:
				l.Forest.Remove(account, a.Queue, a.Uses)
				l.Nodes.Imagine(account, a.Holds, -1)
			}
		}
		if seen && is != Held {
			l.Forest.Remove(quota.Seen, a.Queue, a.Uses)
		} else if seen && from != Held {
			l.Forest.Add(quota.Seen, a.Queue, a.Uses)
		}
		l.Nodes.Split(is.apart() - from.apart())
	}
	to(from, is, seen)
	return func() {
		to(is, from, seen)
		l.Forest.Undone(was)
	}
}
