package place

import (
	"fmt"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Apart returns how many holders are in one account only.
func (s *Nodes) Apart() int { return s.apart }

// Check compares every index and every node's sums with a fresh computation.
func (s *Nodes) Check() error {
	s.settle()
	for _, n := range s.byName {
		for l := range n.free {
			for i, f := range n.free[l] {
				want := int64(0)
				for _, q := range n.spec.Allocatable {
					if s.resources[q.Resource] == i {
						want += int64(q.Amount)
					}
				}
				for _, q := range n.spec.Foreign {
					if id, ok := s.resources[q.Resource]; ok && id == i {
						want -= int64(q.Amount)
					}
				}
				if i < len(n.held[l]) {
					want -= n.held[l][i]
				}
				if f != want {
					return fmt.Errorf(
						"node %s: account %d says %d of resource %d are free, it should be %d",
						n.Name(),
						l,
						f,
						i,
						want,
					)
				}
			}
		}
	}
	for _, c := range s.classes {
		for v := range views {
			if err := s.checkIndex(c, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Nodes) checkIndex(c *Class, v View) error {
	if !c.views[v].built {
		return nil
	}
	ix := s.index(c, v)
	if s.apart == 0 {
		v = Free
	}
	total := int64(0)
	for rank, n := range s.order {
		want := int32(0)
		if n.TakesWork() && s.admits(c, n.rank) {
			want = s.fits(c, v, n)
		}
		if ix.slots[rank] != want {
			return fmt.Errorf(
				"node %s: %d slots for %q in view %d, it should be %d",
				n.Name(),
				ix.slots[rank],
				c.key,
				v,
				want,
			)
		}
		total += int64(want)
	}
	if c.near != nil {
		if err := s.checkDomains(c, ix); err != nil {
			return err
		}
	}
	if total != ix.total {
		return fmt.Errorf("%d slots for %q in view %d, it should be %d", ix.total, c.key, v, total)
	}
	return nil
}

// checkDomains compares an index's room by domain with a fresh count.
func (s *Nodes) checkDomains(c *Class, ix *index) error {
	var want rooms
	for rank := range s.order {
		want.add(c.near, s.domainOf(c.near.tree, rank), int64(ix.slots[rank]))
	}
	for d := range c.near.tree.domains {
		d := int32(d)
		if got := ix.domains.of(c.near, d); got != want.of(c.near, d) {
			return fmt.Errorf(
				"domain %s: room for %d of %q, it should be %d",
				c.near.tree.domains[d].value,
				got,
				c.key,
				want.of(c.near, d),
			)
		}
	}
	if most := s.holding(c, &want).most(); ix.most >= 0 && ix.most != most {
		return fmt.Errorf("a gang of %q gets %d places, it should be %d", c.key, ix.most, most)
	}
	return nil
}

// CheckPods compares the pods held per node in an account with what is expected.
func (s *Nodes) CheckPods(l core.Account, want map[string]int64) error {
	pods := s.resource(core.Pods)
	for name, n := range s.byName {
		got := int64(0)
		if pods < len(n.held[l]) {
			got = n.held[l][pods]
		}
		if got != want[name] {
			return fmt.Errorf("node %s: %d pods are booked in account %d, workloads hold %d", name, got, l, want[name])
		}
	}
	return nil
}
