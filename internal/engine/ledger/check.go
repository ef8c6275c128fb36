package ledger

import (
	"fmt"
	"iter"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Check counts from scratch what all allocations hold and compares it with what is on
// the accounts of queues and nodes. An error names what is wrong.
func (l *Ledger) Check(all iter.Seq[*Allocation]) error {
	if err := l.Forest.Check(); err != nil {
		return err
	}
	if err := l.Nodes.Check(); err != nil {
		return err
	}
	if l.depth > 0 {
		return fmt.Errorf("%d trials were not ended", l.depth)
	}
	sums, err := l.count(all)
	if err != nil {
		return err
	}
	if err := l.compare(sums); err != nil {
		return err
	}
	if got := l.Nodes.Apart(); got != sums.apart {
		return fmt.Errorf("%d allocations are in one account only, %d are noted", sums.apart, got)
	}
	if l.unsettled != sums.unsettled {
		return fmt.Errorf(
			"%d allocations are promised or were not seen, %d are counted",
			sums.unsettled,
			l.unsettled,
		)
	}
	return nil
}

// accounts are those of quota: nodes have the first two.
const accounts = core.Accounts + 1

type cell struct {
	queue *quota.Node
	pair  quota.FlavorResource
}

// sums are what allocations come to, by account.
type sums struct {
	uses             [accounts]map[cell]core.Amount
	pods             [core.Accounts]map[string]int64
	apart, unsettled int
}

func (l *Ledger) count(all iter.Seq[*Allocation]) (*sums, error) {
	s := &sums{}
	for account := range accounts {
		s.uses[account] = map[cell]core.Amount{}
	}
	for account := range core.Accounts {
		s.pods[account] = map[string]int64{}
	}
	for a := range all {
		switch {
		case a.out:
			return nil, fmt.Errorf("allocation %d was left out by a trial", a.ID)
		case a.state == Free && (len(a.Uses) > 0 || len(a.Holds) > 0):
			return nil, fmt.Errorf(
				"allocation %d is free and has %d uses and %d holds",
				a.ID,
				len(a.Uses),
				len(a.Holds),
			)
		case a.state == Free:
			continue
		}
		s.apart += a.state.apart()
		seen := l.fair && a.state == Held && !a.Unseen
		if l.fair && a.state.In(core.Projected) && !seen {
			s.unsettled++
		}
		for account := range accounts {
			if account == quota.Seen && !seen || account != quota.Seen && !a.state.In(account) {
				continue
			}
			for _, u := range a.Uses {
				c := cell{a.Queue, u.Pair}
				s.uses[account][c] = s.uses[account][c].Add(u.Amount)
			}
		}
		for account := range core.Accounts {
			for _, h := range a.Holds {
				if a.state.In(account) {
					s.pods[account][h.Node.Name()] += int64(h.Count)
				}
			}
		}
	}
	return s, nil
}

func (l *Ledger) compare(s *sums) error {
	for n := range l.Forest.Queues() {
		for _, p := range l.Forest.PairsOf(n) {
			for account := range accounts {
				want := s.uses[account][cell{n, p}]
				if got := n.Usage(account, p); got != want && !l.Forest.Overflown() {
					return fmt.Errorf(
						"queue %s: account %d has %v of %v, allocations hold %v",
						n.Name,
						account,
						got,
						l.Forest.Name(p),
						want,
					)
				}
			}
		}
	}
	for account := range core.Accounts {
		if err := l.Nodes.CheckPods(account, s.pods[account]); err != nil {
			return err
		}
	}
	return nil
}
