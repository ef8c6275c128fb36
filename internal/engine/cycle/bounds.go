package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/preempt"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// rank assigns flavors by quota alone, to see how far a workload would have to
// borrow: which nodes are free changes no order. With one flavor for
// everything the assignment that was just judged says the same.
func (j *judge) rank(v *verdict) *quota.Assignment {
	p := v.plan
	if p.single {
		return v.assigned
	}
	j.oracle.quotaOnly = true
	j.forest.Assign(&p.CompiledRequests, nil, &j.oracle, &j.ranked)
	j.oracle.quotaOnly = false
	return &j.ranked
}

// nodesFor reports whether nodes surely hold the first of a queue still.
func (j *judge) nodesFor(q *queue) bool {
	g := q.active.First()
	return g.plan != nil && len(g.equivalence.podSets) == 1 && len(g.plan.Requests) > 0 && !j.nodesShort(g)
}

// roomFor reports whether quota surely suffices for the first of a queue still.
func (j *judge) roomFor(q *queue) bool {
	return !slices.ContainsFunc(q.counts, func(u quota.Use) bool { return j.leftFor(q, u) < 0 })
}

// leftFor is what a queue could use at least of a pair beyond a use, whatever
// others have reserved. An admission makes it smaller by no more than it uses itself.
func (j *judge) leftFor(q *queue, u quota.Use) core.Amount {
	return min(
		q.node.Room(core.Current, u.Pair),
		q.node.Room(core.Projected, u.Pair),
	).Sub(u.Amount).
		Sub(j.reservableByHeads(q, u))
}

// stuck reports whether a group that was refused before, for want of quota or
// nodes alone, would be refused again.
func (j *judge) stuck(g *group) bool {
	if len(g.blockedPairs) > 0 || g.plan == nil || !j.current(g.plan) {
		return false
	}
	switch code := g.why.Code; {
	case g.lacksNodes:
		return (code == core.TopologyPlacementFailed || code == core.WaitingForQuota && j.quotaShort(g)) &&
			!j.worthNodes(g)
	default:
		return code == core.WaitingForQuota && !j.worthQuota(g)
	}
}

// nodesShort reports whether some flavor's nodes do not hold some pod set now.
func (j *judge) nodesShort(g *group) bool {
	for i := range g.plan.Requests {
		for o := range g.plan.Requests[i].Options {
			if mode, _ := j.oracle.nodes(g, g.plan, i, o); mode != quota.Fit {
				return true
			}
		}
	}
	return false
}

// worthQuota is a bound that costs next to nothing: whether what a group found
// short has room now. Groups that could evict another are always worth a look,
// since what was freed together with victims may do.
func (j *judge) worthQuota(g *group) bool {
	if g.plan == nil || g.bound != g.plan || g.plan.revision != j.revision {
		return true
	}
	return !j.quotaShort(g) || j.mayEvict(g) || g.lacksNodes && j.mayRelocate(g.queue)
}

// quotaShort reports whether all that a group found short still is.
func (j *judge) quotaShort(g *group) bool {
	return !slices.ContainsFunc(
		g.shorts,
		func(s short) bool { return s.need <= g.queue.node.Room(core.Projected, s.pair) },
	)
}

// mayEvict is a bound that costs next to nothing: whether there may be a workload
// that a group could evict. Its plan must be of the current revision.
func (j *judge) mayEvict(g *group) bool {
	n, policy, priority := g.queue.node, g.queue.spec.Preemption, g.equivalence.priority
	if j.search.Infeasible(n, policy, priority, g.plan.pairs) {
		return false
	}
	fixed := j.least(g).fixed
	return !j.search.Outweighed(n, policy, priority, fixed) && !j.search.Toothless(n, policy, priority, fixed)
}

// worthNodes is the same bound for nodes: whether every pod set has some flavor with
// as many slots as it has pods, now or once the leaving workloads are gone.
func (j *judge) worthNodes(g *group) bool {
	if g.plan == nil || !j.current(g.plan) || j.mayEvict(g) || j.mayRelocate(g.queue) {
		return true
	}
	p := j.least(g)
	for i := range p.Requests {
		if p.placeless(p.Requests[i].Set) {
			continue
		}
		some := false
		for o := range p.Requests[i].Options {
			mode, _ := j.oracle.nodes(g, p, i, o)
			some = some || mode == quota.Fit || mode == quota.Await
		}
		if !some {
			return false
		}
	}
	return true
}

// mayPassReservations is a bound: whether some pair has room beside the
// reservations now, or need not be borrowed any more. Groups that may evict are
// always worth a look.
func (j *judge) mayPassReservations(g *group) bool {
	if !preempt.Forbids(g.queue.spec.Preemption) {
		return true
	}
	n := g.queue.node
	for _, c := range g.blockedPairs {
		if !n.BorrowsWith(core.Projected, c.pair, c.need) {
			return true
		}
		if room, _ := j.roomBesideReservations(g, c.pair, j.headReservers[n.Root()]); c.need <= room {
			return true
		}
	}
	return false
}

func addUse(uses []quota.Use, u quota.Use) []quota.Use {
	for i := range uses {
		if uses[i].Pair == u.Pair {
			uses[i].Amount = uses[i].Amount.Add(u.Amount)
			return uses
		}
	}
	return append(uses, u)
}
