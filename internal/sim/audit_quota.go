package sim

import (
	"fmt"

	"github.com/mlbatch/mlbatch/internal/core"
)

// pair is one counted thing.
type pair = core.FlavorResource

// member is a node of the quota tree: a queue or a cohort.
type member struct {
	name  string
	queue bool
}

// withinQuota checks that an admission fits into what its queue may use now, by
// Kueue's formulas, computed from the list of all workloads.
func (a *Auditor) withinQuota(adm *core.Admission) error {
	asks := map[pair]core.Amount{}
	for i := range adm.PodSets {
		for _, u := range adm.PodSets[i].Usage {
			k := pair{Flavor: adm.PodSets[i].FlavorOf(u.Resource), Resource: u.Resource}
			asks[k] = asks[k].Add(u.Amount)
		}
	}
	at := member{adm.Queue, true}
	if a.circular(at) {
		return fmt.Errorf("P2: the cohorts of %s form a circle", adm.Queue)
	}
	for k, need := range asks {
		if have := a.available(at, k); need > 0 && need > have {
			return fmt.Errorf(
				"P2: it takes %v of %s in flavor %s, and queue %s can use %v more",
				need,
				k.Resource,
				k.Flavor,
				adm.Queue,
				have,
			)
		}
	}
	return nil
}

func (a *Auditor) circular(m member) bool {
	for range len(a.cohorts) + 2 {
		p, ok := a.parent(m)
		if !ok {
			return false
		}
		m = p
	}
	return true
}

func (a *Auditor) parent(m member) (member, bool) {
	p := a.cohorts[m.name].Parent
	if m.queue {
		p = a.queues[m.name].Cohort
	}
	return member{name: p}, p != ""
}

func (a *Auditor) children(m member) (out []member) {
	if m.queue {
		return nil
	}
	for name, q := range a.queues { // sums are made of these, so order does not matter
		if q.Cohort == m.name {
			out = append(out, member{name, true})
		}
	}
	for name, c := range a.cohorts {
		if c.Parent == m.name {
			out = append(out, member{name, false})
		}
	}
	return out
}

func (a *Auditor) quota(m member, k pair) core.Quota {
	groups := a.cohorts[m.name].Groups
	if m.queue {
		groups = a.queues[m.name].Groups
	}
	for _, g := range groups {
		for _, f := range g.Flavors {
			for _, q := range f.Quotas {
				if f.Flavor == k.Flavor && q.Resource == k.Resource {
					return q
				}
			}
		}
	}
	return core.Quota{}
}

// subtree is all quota below and at a member that its parent may count on.
func (a *Auditor) subtree(m member, k pair) core.Amount {
	sum := a.quota(m, k).Nominal
	for _, c := range a.children(m) {
		sum = sum.Add(a.lent(c, k))
	}
	return sum
}

// lent is what others may use of what a member has, at most.
func (a *Auditor) lent(m member, k pair) core.Amount {
	all := a.subtree(m, k)
	if l := a.quota(m, k).Lending; l != nil {
		return min(all, *l)
	}
	return all
}

// guaranteed is what a member keeps for itself: all of it, if that is unlimited and
// not lent without a limit.
func (a *Auditor) guaranteed(m member, k pair) core.Amount {
	all, lent := a.subtree(m, k), a.lent(m, k)
	if _, has := a.parent(m); all == lent || !has {
		return 0
	}
	return all.Sub(lent)
}

// usage is what a member's workloads use beyond what its members keep.
func (a *Auditor) usage(m member, k pair) core.Amount {
	var sum core.Amount
	if m.queue {
		for _, w := range a.workloads {
			if w.held == nil || w.held.Queue != m.name {
				continue
			}
			for i := range w.held.PodSets {
				if p := &w.held.PodSets[i]; p.FlavorOf(k.Resource) == k.Flavor {
					sum = sum.Add(w.uses(i, k.Resource))
				}
			}
		}
		return sum
	}
	for _, c := range a.children(m) {
		sum = sum.Add(max(0, a.usage(c, k).Sub(a.guaranteed(c, k))))
	}
	return sum
}

// uses is what a pod set counts against quota: what it was given, for the pods that
// still have to run.
func (w *audited) uses(set int, resource string) core.Amount {
	p := &w.held.PodSets[set]
	left := p.Count
	if set < len(w.told.PodSets) {
		left = min(left, w.told.PodSets[set].Count)
	}
	if left == p.Count {
		return p.Usage.Of(resource)
	}
	return (p.Usage.Of(resource) / core.Amount(p.Count)).Mul(int64(left))
}

// available is what a member can use more.
func (a *Auditor) available(m member, k pair) core.Amount {
	p, has := a.parent(m)
	used := a.usage(m, k)
	if !has {
		return a.subtree(m, k).Sub(used)
	}
	kept := a.guaranteed(m, k)
	above := a.available(p, k)
	if b := a.quota(m, k).Borrowing; b != nil {
		above = min(above, a.lent(m, k).Sub(max(0, used.Sub(kept))).Add(*b))
	}
	return max(0, kept.Sub(used)).Add(above)
}
